// Random operations on a whole store against a plain map (store_life.h).
//
// The seed is printed when something is wrong: TILEKV_TEST_SEED=seed runs that life again.
// TILEKV_TEST_LONG=seconds makes the test run longer; TILEKV_TEST_SHARE=n leaves one in n of the
// usual lives, where each takes long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/random.h"
#include "kvstore/store_life.h"

namespace tilekv {
namespace {

// Each lies on the way of what happens here, and each may be where the power goes.
const std::vector<std::string> kPoints = {"catalog.before_write",
                                          "catalog.after_write",
                                          "collector.before_purge",
                                          "collector.purged",
                                          "collector.began",
                                          "collector.live_found",
                                          "collector.fence_stored",
                                          "collector.before_delete",
                                          "collector.swept",
                                          "collector.freed_removed",
                                          "commit.linked",
                                          "commit.tree_stored",
                                          "commit.before_transaction",
                                          "commit.after_transaction",
                                          "delete.before_row",
                                          "delete.row",
                                          "delete.unlinked",
                                          "link.before_row",
                                          "link.row",
                                          "model.before_transaction",
                                          "model.after_transaction",
                                          "move.before_transaction",
                                          "move.after_transaction",
                                          "open.directory",
                                          "open.superblock",
                                          "open.folders",
                                          "open.index",
                                          "open.counted",
                                          "open.catalog",
                                          "open.before_leases_end",
                                          "put.created",
                                          "put.written",
                                          "put.header",
                                          "put.synced",
                                          "put.entry_synced",
                                          "put.before_row",
                                          "put.row",
                                          "recode.before_row",
                                          "recode.row",
                                          "recode.unlinked",
                                          "state.before_row",
                                          "state.row",
                                          "unnamed.before_unlink",
                                          "value.before_transaction",
                                          "value.after_transaction",
                                          "value.before_delete",
                                          "value.after_delete"};

constexpr int kOperations = 60;
constexpr uint64_t kLives = 200;  // of the short run

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(KvStoreModel, RandomOperationsAndLossesOfPowerAgreeWithAMap) {
  bool one = std::getenv("TILEKV_TEST_SEED") != nullptr;
  // The short run takes the same lives every time; the long one others.
  bool long_run = std::getenv("TILEKV_TEST_LONG") != nullptr;
  uint64_t first =
      FromEnvironment("TILEKV_TEST_SEED", long_run ? Random::System()->Next() >> 16 : 1);
  auto end = std::chrono::steady_clock::now() +
             std::chrono::seconds(FromEnvironment("TILEKV_TEST_LONG", 0));
  const uint64_t share = FromEnvironment("TILEKV_TEST_SHARE", 1);
  const uint64_t lives = kLives / share;
  std::set<std::string> points;
  int ends = 0;
  int looks = 0;
  uint64_t seed = first;
  do {
    StoreLife life(seed);
    ASSERT_TRUE(life.Run(kOperations)) << "TILEKV_TEST_SEED=" << seed << "\n"
                                       << life.problem() << "\n"
                                       << life.trace();
    points.insert(life.points().begin(), life.points().end());
    ends += life.ends();
    looks += life.looks();
    ++seed;
  } while (!one && (long_run ? std::chrono::steady_clock::now() < end : seed - first < lives));
  std::cout << fmt::format("{} lives from seed {}, {} ends, {} looks of readers\n", seed - first,
                           first, ends, looks);
  if (one) return;
  EXPECT_GT(looks, 0);
  // A few lives do not pass everywhere.
  if (share > 1) return;
  EXPECT_THAT(points, testing::IsSupersetOf(kPoints));
}

// It sees what it is there to see.
TEST(KvStoreModel, FindsTheLossWhereAKindOfSyncIsLeftOut) {
  const std::map<std::string, std::pair<std::string, std::string>> kKinds = {
      {"payload files", {"sync", "/store/payload/"}},
      {"payload folders", {"sync_directory", "/store/payload/"}},
      {"directory of payload folders", {"sync_directory", "/store/payload"}},
      {"index", {"sync", "/store/index/"}},
      {"index directory", {"sync_directory", "/store/index"}},
      {"catalog", {"sync", "/store/catalog/"}},
      {"catalog directory", {"sync_directory", "/store/catalog"}},
      {"superblock", {"sync", "/store/SUPERBLOCK"}}};
  for (const auto& [kind, of] : kKinds) {
    bool found = false;
    for (uint64_t seed = 0; seed < 50 && !found; ++seed) {
      {
        StoreLife life(seed);
        life.LeaveOut([&of = of](const std::string& call, const std::string& path) {
          bool whole = of.second.back() != '/' && of.first == "sync_directory";
          return call == of.first && (whole ? path == of.second : path.rfind(of.second, 0) == 0);
        });
        found = !life.Run(kOperations);
      }
      if (!found) continue;
      StoreLife with(seed);
      EXPECT_TRUE(with.Run(kOperations)) << "it is not for lack of the sync: " << with.problem();
    }
    EXPECT_TRUE(found) << kind;
  }
}

TEST(KvStoreModel, ASeedRepeatsItselfExactly) {
  std::vector<std::string> traces;
  for (int i = 0; i < 2; ++i) {
    StoreLife life(7);
    EXPECT_TRUE(life.Run(kOperations)) << life.problem();
    EXPECT_GT(life.ends(), 0);
    traces.push_back(life.trace());
  }
  EXPECT_EQ(traces[0], traces[1]);
}

}  // namespace
}  // namespace tilekv
