#include "kvstore/cluster/round_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr char kLine[] = "LINELINELINELINE";
constexpr uint64_t kEnd = ~uint64_t{0};

RoundName Round(uint64_t snapshot, uint64_t fence, char id = 'r') {
  return {.id = std::string(16, id), .line_id = kLine, .snapshot = {snapshot}, .fence = {fence}};
}

ObjectId IdWith(uint64_t prefix) {
  std::string text;
  AppendBe64(text, prefix);
  ObjectId id;
  std::copy(text.begin(), text.end(), id.bytes.begin());
  return id;
}

class RoundStoreTest : public testing::Test {
 protected:
  RoundStoreTest() { Open(); }
  void Open() {
    store_ = nullptr;
    auto store = RoundStore::Open(*disk_.file_system(), "/rounds",
                                  [this](const std::string& text) { notices_.push_back(text); });
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::Status Add(const RoundName& round, std::vector<PrefixRange> ranges,
                   std::vector<uint64_t> prefixes) {
    return store_->Add({.domain = kDefaultDomain,
                        .round = round,
                        .ranges = std::move(ranges),
                        .prefixes = std::move(prefixes)});
  }
  // S of the round by which it is refused; 0: it is not.
  uint64_t Refused(uint64_t prefix, uint64_t touched_rev, Domain domain = kDefaultDomain) {
    auto by = store_->RefusedBy(kLine, domain, IdWith(prefix), {touched_rev});
    EXPECT_TRUE(by.ok()) << by.status();
    return by.ok() && by->has_value() ? (*by)->snapshot.value : 0;
  }
  std::vector<std::string> Files() { return *disk_.file_system()->List("/rounds"); }

  SimulatedDisk disk_{1};
  std::vector<std::string> notices_;
  std::unique_ptr<RoundStore> store_;
};

TEST_F(RoundStoreTest, OnlyWhatAListLeavesOutAndNobodyTouchedSinceIsRefused) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}, {30, 39}}, {12, 35}).ok());
  EXPECT_EQ(Refused(11, 39), 50u);
  EXPECT_EQ(Refused(11, 40), 0u) << "touched since";
  EXPECT_EQ(Refused(12, 39), 0u) << "in use";
  EXPECT_EQ(Refused(36, 39), 50u);
  EXPECT_EQ(Refused(35, 39), 0u);
  for (uint64_t uncovered : {0, 9, 20, 29, 40}) EXPECT_EQ(Refused(uncovered, 1), 0u) << uncovered;
  EXPECT_EQ(Refused(11, 39, 1), 0u) << "of another domain";
  EXPECT_EQ(store_->fence(), Revision{40});
}

TEST_F(RoundStoreTest, ARoundOfAnotherLineRefusesNothing) {
  ASSERT_TRUE(Add(Round(50, 40), {{0, kEnd}}, {}).ok());
  EXPECT_FALSE(store_->RefusedBy("ANOTHER-ANOTHER-", kDefaultDomain, IdWith(1), {1})->has_value());
}

TEST_F(RoundStoreTest, EverythingIsThereAfterARestartAndTheEndOfPower) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}}, {12}).ok());
  ASSERT_TRUE(Add(Round(50, 40), {{20, 29}}, {}).ok());
  disk_.PowerOn(SimulatedDisk::Loss::kEverything);
  Open();
  EXPECT_EQ(store_->fence(), Revision{40});
  EXPECT_EQ(Refused(11, 1), 50u);
  EXPECT_EQ(Refused(12, 1), 0u);
  EXPECT_EQ(Refused(25, 1), 50u);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(RoundStoreTest, ARoundWithASmallerSnapshotIsIgnored) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}}, {}).ok());
  EXPECT_EQ(GetReason(Add(Round(49, 45, 'q'), {{10, 19}}, {11})), Reason::kVersionConflict);
  EXPECT_EQ(Refused(11, 1), 50u);
  Open();
  EXPECT_EQ(GetReason(Add(Round(49, 45, 'q'), {{10, 19}}, {11})), Reason::kVersionConflict);
}

TEST_F(RoundStoreTest, ALaterRoundTakesThePlaceOfTheListsThatItHas) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 39}}, {}).ok());
  ASSERT_TRUE(Add(Round(60, 55, 'q'), {{10, 19}}, {11}).ok());
  EXPECT_EQ(Refused(11, 1), 0u) << "in use now";
  EXPECT_EQ(Refused(12, 50), 60u);
  EXPECT_EQ(Refused(25, 1), 50u) << "the later one has no list of it";
  EXPECT_EQ(GetReason(Add(Round(50, 40), {{50, 59}}, {})), Reason::kVersionConflict);
  ASSERT_TRUE(Add(Round(70, 65, 'p'), {{10, 19}}, {}).ok());
  EXPECT_EQ(Refused(25, 1), 0u) << "of two rounds ago";
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(RoundStoreTest, ThePartThatComesAgainIsOneAndWhatOverlapsIsNone) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}}, {12}).ok());
  EXPECT_TRUE(Add(Round(50, 40), {{10, 19}}, {12}).ok());
  EXPECT_EQ(Files().size(), 1u);
  for (PrefixRange overlap : {PrefixRange{5, 10}, PrefixRange{10, 12}, PrefixRange{19, 25}}) {
    EXPECT_EQ(GetReason(Add(Round(50, 40), {overlap}, {})), Reason::kInvalidArgument);
  }
  EXPECT_EQ(GetReason(Add(Round(50, 40), {{40, 49}}, {50})), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(Add(Round(50, 40), {{40, 49}}, {45, 44})), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(Add(Round(50, 40), {{40, 49}, {49, 59}}, {})), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(Add(Round(50, 40), {}, {})), Reason::kInvalidArgument);
}

TEST_F(RoundStoreTest, ADamagedListRefusesNothing) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}}, {12}).ok());
  ASSERT_TRUE(Add(Round(50, 40), {{20, 29}}, {}).ok());
  ASSERT_EQ(Refused(25, 1), 50u);
  const std::string path = "/rounds/" + Files()[0];
  for (bool restarted : {false, true}) {
    std::string content = *ReadFile(*disk_.file_system(), path, 1 << 20);
    content[content.size() - 40] ^= 1;  // of the prefix
    auto file = *disk_.file_system()->Open(path, FileSystem::OpenMode::kReadWrite);
    ASSERT_TRUE(file->Write(0, AsBytes(content)).ok());
    if (restarted) Open();
    notices_.clear();
    if (restarted) {
      ASSERT_EQ(Files().size(), 1u) << "it is gone";
    }
    EXPECT_EQ(Refused(13, 1), 0u);
    EXPECT_EQ(Refused(25, 1), 50u) << "the other part is whole";
    if (restarted) break;
    EXPECT_EQ(notices_.size(), 1u);
    // Whole again, to be damaged before the next opening.
    content[content.size() - 40] ^= 1;
    ASSERT_TRUE(file->Write(0, AsBytes(content)).ok());
  }
}

TEST_F(RoundStoreTest, PartsAreFoundInOrder) {
  ASSERT_TRUE(Add(Round(50, 40), {{10, 19}}, {12}).ok());
  ASSERT_TRUE(Add(Round(50, 40), {{30, kEnd}}, {}).ok());
  const auto begin = [&](uint64_t prefix, const RoundName& round) {
    auto part = store_->PartFrom(kDefaultDomain, round, prefix);
    EXPECT_TRUE(part.ok());
    return *part == nullptr ? 0 : (*part)->ranges.front().first;
  };
  EXPECT_EQ(begin(0, Round(50, 40)), 10u);
  EXPECT_EQ(begin(19, Round(50, 40)), 10u);
  EXPECT_EQ(begin(20, Round(50, 40)), 30u);
  EXPECT_EQ(begin(kEnd, Round(50, 40)), 30u);
  EXPECT_EQ(begin(0, Round(51, 40)), 0u) << "of no other round";
}

}  // namespace
}  // namespace tilekv
