// Schedules of names from seeds; the variables are those of simulation_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/simulation/names_schedule.h"

namespace tilekv::simulation {
namespace {

constexpr uint64_t kSchedules = 2'000;
constexpr uint64_t kSchedulesForABug = 5'000;

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string TextOf(const NamesSchedule& schedule) {
  std::string text;
  for (const std::string& line : schedule.trace()) text += line + "\n";
  return text;
}

TEST(SimulationOfNames, VersionsStayAndGarbageGoes) {
  const uint64_t first = NumberOf("TILEKV_SIMULATION_SEED", 1);
  const uint64_t schedules = NumberOf("TILEKV_SIMULATION_SCHEDULES", kSchedules);
  uint64_t commits = 0, deleted = 0;
  for (uint64_t seed = first; seed < first + schedules; ++seed) {
    NamesSchedule schedule(seed, NamesBug::kNone);
    const std::string violation = schedule.Run();
    ASSERT_EQ(violation, "") << "seed " << seed << "\n" << TextOf(schedule);
    commits += schedule.commits();
    deleted += schedule.deleted_objects();
  }
  printf("%llu schedules of names: %llu commits, %llu objects collected\n",
         static_cast<unsigned long long>(schedules), static_cast<unsigned long long>(commits),
         static_cast<unsigned long long>(deleted));
  EXPECT_GT(commits, schedules);
  EXPECT_GT(deleted, schedules);
}

class PlantedNamesBug : public testing::TestWithParam<NamesBug> {};

TEST_P(PlantedNamesBug, IsFoundAndItsSeedPassesWithoutIt) {
  for (uint64_t seed = 1; seed <= kSchedulesForABug; ++seed) {
    NamesSchedule schedule(seed, GetParam());
    const std::string violation = schedule.Run();
    if (violation.empty()) continue;
    printf("%s: seed %llu: %s\n", std::string(NameOf(GetParam())).c_str(),
           static_cast<unsigned long long>(seed), violation.c_str());
    NamesSchedule sound(seed, NamesBug::kNone);
    EXPECT_EQ(sound.Run(), "") << TextOf(sound);
    return;
  }
  FAIL() << NameOf(GetParam()) << " is not found";
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedNamesBug,
                         testing::Values(NamesBug::kCommitComparesSessionAndBase,
                                         NamesBug::kFenceMissesSession),
                         [](const auto& bug) { return std::string(NameOf(bug.param)); });

}  // namespace
}  // namespace tilekv::simulation
