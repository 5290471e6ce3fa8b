// A loss of power takes everything that was not synced. Whatever was acknowledged before survives
// it, wherever it strikes; and each sync is there for a reason: without it something is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/power_loss_scenario.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

using Loss = SimulatedDisk::Loss;
using MakeScenario = std::unique_ptr<PowerLossScenario> (*)(uint64_t seed);

constexpr uint64_t kSeed = 1;

// Where each case takes long, TILEKV_TEST_SHARE=n leaves one in n.
uint64_t Share() {
  const char* share = std::getenv("TILEKV_TEST_SHARE");
  return share == nullptr ? 1 : std::strtoull(share, nullptr, 10);
}

// One case in so many is tried: in two, and all where there is time (TILEKV_TEST_LONG).
uint64_t OneIn() { return std::getenv("TILEKV_TEST_LONG") == nullptr ? 2 * Share() : 1; }

bool IsLog(const std::string& path) {
  constexpr std::string_view kLog = ".log";
  return path.size() > kLog.size() && path.substr(path.size() - kLog.size()) == kLog;
}

// Puts what is synced into words.
class SyncNames {
 public:
  // Empty for what RocksDB does on its own account.
  std::string Of(const std::string& call, const std::string& path) {
    std::string name = call == "sync" ? OfFile(path) : OfDirectory(path);
    before_ = path;
    return name;
  }

 private:
  static bool Begins(const std::string& path, std::string_view with) {
    return path.compare(0, with.size(), with) == 0;
  }
  static std::string OfFile(const std::string& path) {
    if (path == "/store/SUPERBLOCK.tmp") return "superblock";
    if (Begins(path, "/store/payload/")) return "payload file";
    if (!IsLog(path)) return "";
    if (Begins(path, "/store/index.new/")) return "new index log";
    return Begins(path, "/store/index/") ? "index log" : "catalog log";
  }
  std::string OfDirectory(const std::string& path) const {
    if (path == "/") return "parent directory";
    if (path == "/store/") return "store's directory, for the catalog";
    if (path == "/store/payload") return "directory of payload folders";
    if (Begins(path, "/store/payload/")) return "payload folder";
    if (path == "/store/damaged") return "directory of what is set aside";
    if (path != "/store") return "";
    bool superblock = before_ == "/store/SUPERBLOCK.tmp";
    return superblock ? "store's directory, for the superblock" : "store's directory";
  }

  std::string before_;
};

// What can be seen after each step, and how many changes of the disk all of them make.
struct Clean {
  std::vector<std::string> states;
  uint64_t changes = 0;
};

Clean RunClean(MakeScenario make) {
  Clean clean;
  size_t count = make(kSeed)->steps().size();
  for (size_t last = 0; last < count; ++last) {
    std::unique_ptr<PowerLossScenario> life = make(kSeed);
    for (size_t step = 0; step <= last; ++step) {
      absl::Status done = life->Do(step);
      EXPECT_TRUE(done.ok()) << life->steps()[step] << ": " << done;
    }
    clean.changes = life->disk.changes();
    clean.states.push_back(life->State());
  }
  return clean;
}

void LosePower(PowerLossScenario& life, Loss loss) {
  life.disk.PowerOff();
  life.Close();
  life.disk.PowerOn(loss);
}

// Steps from this one up to `end`, until one fails or the power goes; the first that was not
// acknowledged.
size_t DoFrom(PowerLossScenario& life, size_t step, size_t end) {
  while (step < end && life.Do(step).ok() && !life.disk.is_off()) ++step;
  return step;
}

class PowerLoss : public testing::TestWithParam<MakeScenario> {
 protected:
  const MakeScenario make_ = GetParam();
  const Clean clean_ = RunClean(make_);

  std::string StateAfter(size_t steps) const {
    return steps == 0 ? kNoStore : clean_.states[steps - 1];
  }
};

TEST_P(PowerLoss, AnywhereTakesNothingThatWasAcknowledged) {
  // Two kinds at each change, usually.
  const Loss kLosses[] = {Loss::kNothing, Loss::kEverything, Loss::kPrefix, Loss::kTornEnd};
  const size_t step = OneIn();
  for (uint64_t change = 1; change <= clean_.changes; ++change) {
    for (size_t kind = change % step; kind < std::size(kLosses); kind += step) {
      Loss loss = kLosses[kind];
      SCOPED_TRACE(fmt::format("change {}, loss {}", change, static_cast<int>(loss)));
      std::unique_ptr<PowerLossScenario> life = make_(change);
      life->disk.PowerOffAtChange(change);
      size_t done = DoFrom(*life, 0, clean_.states.size());
      if (!life->disk.is_off()) continue;  // with another seed there were less
      LosePower(*life, loss);
      ASSERT_THAT(life->State(), testing::AnyOf(StateAfter(done), StateAfter(done + 1)))
          << "during '" << life->steps()[done] << "'";
      ASSERT_EQ(DoFrom(*life, done, clean_.states.size()), clean_.states.size());
      ASSERT_EQ(life->State(), clean_.states.back());
    }
  }
}

// What a process has written that is killed before a sync is there and not durable, and the next
// one builds on it.
TEST_P(PowerLoss, AfterAKilledProcessTakesNothingThatWasAcknowledged) {
  constexpr uint64_t kChangesOfAnOpening = 25;
  const uint64_t step = OneIn();
  bool killed = true;
  for (size_t n = 1; killed; ++n) {
    for (uint64_t change = 1 + n % step; change <= kChangesOfAnOpening; change += step) {
      SCOPED_TRACE(fmt::format("killed at sync {} of a log, power lost before change {} after it",
                               n, change));
      size_t left = n;  // outlives the disk, whose last calls count it down
      std::unique_ptr<PowerLossScenario> life = make_(change);
      life->disk.hook = [&left](const std::string& call, const std::string& path) {
        bool here = left > 0 && call == "sync" && IsLog(path) && --left == 0;
        return here ? MakeError(Reason::kInternal, "killed") : absl::OkStatus();
      };
      size_t done = DoFrom(*life, 0, clean_.states.size());
      killed = left == 0;
      if (!killed) break;
      LosePower(*life, Loss::kNothing);
      life->disk.PowerOffAtChange(change);
      done = DoFrom(*life, done, clean_.states.size());
      LosePower(*life, Loss::kTornEnd);
      // What was in progress then may have happened.
      size_t next = std::min(done + 1, clean_.states.size());
      ASSERT_THAT(life->State(), testing::AnyOf(StateAfter(done), StateAfter(next)));
      ASSERT_EQ(DoFrom(*life, done, clean_.states.size()), clean_.states.size());
      ASSERT_EQ(life->State(), clean_.states.back());
    }
    EXPECT_TRUE(killed || n > 5) << "hardly anything was tried";
  }
}

// A sync that is left out: the n-th (from 0) of those that have a name.
struct LeftOut {
  size_t step = 0;   // in which it is
  std::string sync;  // its name; empty: there are not so many
  uint64_t change = 0;
  bool loses = false;
};

void LeaveOutNth(PowerLossScenario& life, size_t n, LeftOut& left_out) {
  auto names = std::make_shared<SyncNames>();
  auto seen = std::make_shared<size_t>(0);
  life.disk.leave_out = [names, seen, n, &left_out](const std::string& call,
                                                    const std::string& path) {
    std::string name = names->Of(call, path);
    if (name.empty() || (*seen)++ != n) return false;
    left_out.sync = name;
    return true;
  };
}

class SyncsLeftOut : public PowerLoss {
 protected:
  // The power goes right after the step with the n-th sync was acknowledged.
  LeftOut LoseAfterStep(size_t n) {
    std::unique_ptr<PowerLossScenario> life = make_(kSeed);
    LeftOut left_out;
    LeaveOutNth(*life, n, left_out);
    size_t step = 0;
    for (; step < life->steps().size() && left_out.sync.empty(); ++step) {
      EXPECT_EQ(DoFrom(*life, step, step + 1), step + 1);
    }
    life->disk.leave_out = nullptr;
    if (left_out.sync.empty()) return left_out;
    left_out.step = step - 1;
    left_out.change = life->disk.changes();
    LosePower(*life, Loss::kEverything);
    left_out.loses = life->State() != StateAfter(step) || !GoesOn(*life, step);
    return left_out;
  }

  // Whether the steps from this one on end as they should.
  bool GoesOn(PowerLossScenario& life, size_t step) {
    size_t count = clean_.states.size();
    return DoFrom(life, step, count) == count && life.State() == clean_.states.back();
  }

  // The power goes during that step or the next one, when the n-th sync was left out.
  bool LosesOnTheWay(size_t n, const LeftOut& left_out) {
    for (uint64_t change = left_out.change < 20 ? 5 : left_out.change - 15;
         change < left_out.change + 10; ++change) {
      for (Loss loss : {Loss::kEverything, Loss::kTornEnd}) {
        std::unique_ptr<PowerLossScenario> life = make_(kSeed);
        LeftOut again;
        LeaveOutNth(*life, n, again);
        life->disk.PowerOffAtChange(change - life->disk.changes());
        size_t done = DoFrom(*life, 0, life->steps().size());
        life->disk.leave_out = nullptr;
        if (again.sync.empty() || !life->disk.is_off()) continue;
        LosePower(*life, loss);
        std::string state = life->State();
        if (state != StateAfter(done) && state != StateAfter(done + 1)) return true;
      }
    }
    return false;
  }

  // The process ended while it made the store, and the next went on: names of syncs of directories
  // whose lack loses something then.
  std::set<std::string> LoseAfterAnInterruptedMaking() {
    std::set<std::string> losing;
    for (uint64_t change = 1;; change += 2) {
      for (size_t n = 0;; ++n) {
        std::unique_ptr<PowerLossScenario> life = make_(kSeed);
        life->disk.PowerOffAtChange(change);
        if (DoFrom(*life, 0, 1) == 1) return losing;
        LosePower(*life, Loss::kNothing);
        LeftOut left_out;
        LeaveOutNth(*life, n, left_out);
        EXPECT_EQ(DoFrom(*life, 0, 2), 2u);
        life->disk.leave_out = nullptr;
        if (left_out.sync.empty()) break;
        LosePower(*life, Loss::kEverything);
        bool directory = left_out.sync.find(" log") == std::string::npos;
        if (directory && life->State() != StateAfter(2)) losing.insert(left_out.sync);
      }
    }
  }

  // One line for each sync of the scenario, or for one in `stride`.
  std::string Table(uint64_t stride) {
    std::set<std::string> losing_later = LoseAfterAnInterruptedMaking();
    std::string table;
    for (size_t n = 0;; n += stride) {
      LeftOut row = LoseAfterStep(n);
      if (row.sync.empty()) return table;
      std::string loses = row.loses                          ? "once it was acknowledged"
                          : LosesOnTheWay(n, row)            ? "on the way"
                          : losing_later.count(row.sync) > 0 ? "after a making that was interrupted"
                                                             : "nothing";
      table += fmt::format("| {} | {} | {} |\n", make_(kSeed)->steps()[row.step], row.sync, loses);
    }
  }
};

// Each sync of engine and catalog, left out one at a time; docs/durability.md shows what that
// loses, and why some lose nothing.
TEST_P(SyncsLeftOut, AreFoundAsTheDocumentSays) {
  std::ifstream file(TILEKV_DURABILITY_MD);
  std::stringstream text;
  text << file.rdbuf();
  if (Share() > 1) {
    std::istringstream rows(Table(Share()));
    for (std::string row; std::getline(rows, row);) EXPECT_THAT(text.str(), HasSubstr(row + "\n"));
    return;
  }
  // The whole table, nothing less: no row of the document is of a sync that is not there.
  const std::string table = Table(1), document = text.str();
  ASSERT_NE(table, "");
  size_t begin = document.find(table.substr(0, table.find('\n') + 1));
  ASSERT_NE(begin, std::string::npos) << table;
  EXPECT_EQ(document.substr(begin, document.find("\n\n", begin) + 1 - begin), table);
}

std::string NameOf(const testing::TestParamInfo<MakeScenario>& info) {
  return info.index == 0 ? "Engine" : "Catalog";
}

INSTANTIATE_TEST_SUITE_P(Of, PowerLoss, testing::Values(&NewEngineScenario, &NewCatalogScenario),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Of, SyncsLeftOut, testing::Values(&NewEngineScenario, &NewCatalogScenario),
                         NameOf);

}  // namespace
}  // namespace tilekv
