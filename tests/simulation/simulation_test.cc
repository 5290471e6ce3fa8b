// Schedules from seeds: TILEKV_SIMULATION_SCHEDULES says how many, TILEKV_SIMULATION_SEED where
// they begin, TILEKV_SIMULATION_BUG what is broken (run.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/simulation/schedule.h"

namespace tilekv::simulation {
namespace {

constexpr uint64_t kSchedules = 2'000;
constexpr uint64_t kSchedulesForABug = 20'000;

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

uint64_t FirstSeed() { return NumberOf("TILEKV_SIMULATION_SEED", 1); }

struct Found {
  uint64_t seed = 0;
  std::string violation;
  std::string trace;
};

std::string TextOf(const Schedule& schedule) {
  std::string text;
  for (const std::string& line : schedule.trace()) text += line + "\n";
  return text;
}

std::optional<Found> Find(Bug bug, uint64_t schedules) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + schedules; ++seed) {
    Schedule schedule(seed, bug);
    const std::string violation = schedule.Run();
    if (!violation.empty()) return Found{seed, violation, TextOf(schedule)};
  }
  return std::nullopt;
}

Bug AskedBug() {
  const char* name = std::getenv("TILEKV_SIMULATION_BUG");
  if (name == nullptr) return Bug::kNone;
  const std::optional<Bug> bug = BugOf(name);
  if (bug.has_value()) return *bug;
  ADD_FAILURE() << "there is no bug " << name;
  return Bug::kNone;
}

TEST(Simulation, NothingThatWasAcknowledgedIsLost) {
  const Bug bug = AskedBug();
  uint64_t dropped = 0, commits = 0, collected = 0;
  const uint64_t schedules = NumberOf("TILEKV_SIMULATION_SCHEDULES", kSchedules);
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + schedules; ++seed) {
    Schedule schedule(seed, bug);
    const std::string violation = schedule.Run();
    ASSERT_EQ(violation, "") << "seed " << seed << "\n" << TextOf(schedule);
    dropped += schedule.dropped_objects();
    commits += schedule.commits();
    collected += schedule.collected_objects();
  }
  printf("%llu schedules from seed %llu: %llu commits, %llu drops, %llu collected\n",
         static_cast<unsigned long long>(schedules), static_cast<unsigned long long>(FirstSeed()),
         static_cast<unsigned long long>(commits), static_cast<unsigned long long>(dropped),
         static_cast<unsigned long long>(collected));
  // It was a life.
  EXPECT_GT(dropped, schedules / 4);
  EXPECT_GT(commits, schedules);
  EXPECT_GT(collected, schedules / 4);
}

TEST(Simulation, ASeedReplaysItsSchedule) {
  Schedule first(FirstSeed(), Bug::kNone), again(FirstSeed(), Bug::kNone);
  EXPECT_EQ(first.Run(), again.Run());
  EXPECT_EQ(TextOf(first), TextOf(again));
}

class PlantedBug : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsFoundAndItsSeedPassesWithoutIt) {
  const std::optional<Found> found = Find(GetParam(), kSchedulesForABug);
  ASSERT_TRUE(found.has_value()) << NameOf(GetParam());
  printf("%s: seed %llu: %s\n", std::string(NameOf(GetParam())).c_str(),
         static_cast<unsigned long long>(found->seed), found->violation.c_str());
  EXPECT_NE(found->trace.find("VIOLATED"), std::string::npos);
  Schedule schedule(found->seed, Bug::kNone);
  EXPECT_EQ(schedule.Run(), "") << TextOf(schedule);
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedBug, testing::ValuesIn(AllBugs()),
                         [](const auto& bug) { return std::string(NameOf(bug.param)); });

}  // namespace
}  // namespace tilekv::simulation
