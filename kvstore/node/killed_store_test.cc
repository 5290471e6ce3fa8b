// What a process that was killed leaves of its logs, and a loss of power or damage of their ends.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/node/store_damage_test_util.h"

namespace tilekv {
namespace {

// The store is closed, and its index, or its catalog, is as a process leaves it that is killed.
class KilledStoreTest : public StoreDamageTest {
 protected:
  // Returns the path of the newest log.
  std::string CloseAsKilled(const std::string& database = "index") {
    const std::string path = directory_ / database;
    std::filesystem::copy(path, killed_.path(), std::filesystem::copy_options::recursive);
    Close();
    std::filesystem::remove_all(path);
    std::filesystem::copy(killed_.path(), path, std::filesystem::copy_options::recursive);
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".log") newest = std::max(newest, entry.path().string());
    }
    return newest;
  }
  // The last bytes become zeros: as a loss of power leaves them, or damage.
  void TearInDoubt(const std::string& log, uint64_t bytes = 5) {
    auto size = std::filesystem::file_size(log);
    std::filesystem::resize_file(log, size - bytes);
    std::filesystem::resize_file(log, size);
  }
  // The last transaction of the catalog, up to its end, the revision.
  void TearCatalogInDoubt() {
    TearInDoubt(CloseAsKilled("catalog"), sizeof(uint64_t));
    Open();
    clock_.Advance(48 * 3'600 * int64_t{1'000'000});
  }
  bool IsThere(const ObjectRef& ref) { return engine_->Stat(kDefaultDomain, ref.id)->has_value(); }
  absl::StatusOr<v1::CollectResponse> Confirm(const std::string& round) {
    v1::CollectRequest request;
    request.set_confirm(round);
    return node_->Collect(request);
  }
  // The name that the error of a held round gives it.
  static std::string RoundOf(const absl::StatusOr<v1::CollectResponse>& held) {
    EXPECT_EQ(GetReason(held.status()), Reason::kDataLoss) << held.status();
    std::string text(held.status().message()), round;
    size_t at = text.rfind("--confirm ");
    bool decoded = at != std::string::npos && HexDecode(text.substr(at + 10), round);
    EXPECT_TRUE(decoded) << text;
    return round;
  }

  TestDirectory killed_;
};

TEST_F(KilledStoreTest, ABitThatTurnedInTheLastRecordOfTheIndexIsNoTornWrite) {
  ObjectRef ref = PutValue("big", std::string(kInFile, 'b'));
  std::string payload = FileOf(ref);
  std::string log = CloseAsKilled();
  FlipBitInFile(log, std::filesystem::file_size(log) - 5);
  LocalEngineOptions options;
  options.directory = directory_.path();
  EXPECT_EQ(GetReason(LocalEngine::Open(options).status()), Reason::kDataLoss);
  EXPECT_TRUE(std::filesystem::exists(payload));
  EXPECT_EQ(RebuildNow().rows, 1u);
  Open();
  EXPECT_TRUE(Read(ref).ok());
}

TEST_F(KilledStoreTest, WhereTheEndOfTheLogIsInDoubtNoFileGoesUntilARebuildHasTakenThemIn) {
  ObjectRef ref = PutValue("big", std::string(kInFile, 'b'));
  std::string payload = FileOf(ref);
  TearInDoubt(CloseAsKilled());
  Open();
  EXPECT_FALSE(Read(ref).ok());
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u);
  for (bool content : {false, true}) {
    v1::FsckResponse found = Fsck(/*repair=*/true, content);
    ASSERT_EQ(found.problem_count(), 3u) << found.DebugString();
    EXPECT_EQ(found.problems(0).kind(), "log");
    EXPECT_EQ(found.problems(1).kind(), "orphan-file");
    EXPECT_FALSE(found.problems(1).repaired());
    EXPECT_TRUE(found.problems(2).lost());
  }
  Open();
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u) << "nor after another opening";
  Close();
  RebuildNow();
  Open();
  EXPECT_TRUE(Read(ref).ok());
  EXPECT_EQ(Fsck().problem_count(), 0u);
}

TEST_F(KilledStoreTest, TheDoubtEndsWhereAllThatNamesNeedWasReadAndIsThere) {
  ObjectRef kept = PutValue("kept", std::string(kInFile, 'k'));
  PutValue("big", std::string(kInFile, 'b'));
  TearInDoubt(CloseAsKilled());
  Open();
  v1::DeleteValueRequest remove;
  remove.set_key("big");
  remove.set_request_id(std::string(16, 'd'));
  ASSERT_TRUE(node_->DeleteValue(remove).ok());
  EXPECT_EQ(Fsck(false, false).problem_count(), 2u);
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u);
  EXPECT_EQ(Fsck(false, true).lost_count(), 0u);
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 1u);
  EXPECT_EQ(Fsck().problem_count(), 0u);
  EXPECT_TRUE(Read(kept).ok());
}

TEST_F(KilledStoreTest, WhereTheEndOfTheCatalogsLogIsInDoubtNothingIsCollectedUntilItIsConfirmed) {
  ObjectRef kept = PutValue("kept", std::string(kInFile, 'k'));
  ObjectRef unnamed = PutValue("big", std::string(kInFile, 'b'));
  TearCatalogInDoubt();
  std::string round;
  for (bool opened_again : {false, true}) {
    SCOPED_TRACE(opened_again);
    if (opened_again) Open();
    std::string name = RoundOf(node_->Collect({}));
    EXPECT_TRUE(round.empty() || name == round) << "it keeps its name";
    round = name;
    EXPECT_TRUE(node_->collection_held());
    EXPECT_TRUE(IsThere(unnamed));
    v1::FsckResponse found = Fsck(/*repair=*/true, /*content=*/true);
    ASSERT_EQ(found.problem_count(), 1u) << found.DebugString();
    EXPECT_EQ(found.problems(0).kind(), "log");
    EXPECT_EQ(found.problems(0).where(), "catalog");
  }
  EXPECT_EQ(GetReason(Confirm("another").status()), Reason::kInvalidArgument);
  v1::CollectRequest dry;
  dry.set_dry_run(true);
  auto would = node_->Collect(dry);
  ASSERT_TRUE(would.ok()) << would.status();
  EXPECT_TRUE(would->held());
  EXPECT_EQ(would->deleted_objects(), 1u);
  EXPECT_TRUE(IsThere(unnamed));

  auto confirmed = Confirm(round);
  ASSERT_TRUE(confirmed.ok()) << confirmed.status();
  EXPECT_FALSE(confirmed->held());
  EXPECT_FALSE(IsThere(unnamed));
  EXPECT_TRUE(Read(kept).ok());
  EXPECT_EQ(Fsck().problem_count(), 0u);
  EXPECT_FALSE(node_->collection_held());
  EXPECT_TRUE(node_->Collect({}).ok());
}

TEST_F(KilledStoreTest, AConfirmationIsForTheDoubtThereWasWhenTheNameWasGiven) {
  ObjectRef unnamed = PutValue("big", std::string(kInFile, 'b'));
  TearCatalogInDoubt();
  std::string first = RoundOf(node_->Collect({}));
  // What another opening leaves out is of a later log.
  std::ofstream(directory_ / "catalog/DROPPED-1000000") << "a record";
  std::string second = RoundOf(Confirm(first));
  EXPECT_NE(second, first);
  EXPECT_TRUE(IsThere(unnamed));
  EXPECT_TRUE(Confirm(second).ok());
  EXPECT_FALSE(IsThere(unnamed));
}

TEST_F(KilledStoreTest, TheIndexStaysInDoubtWhereNamesMayBeMissing) {
  PutValue("big", std::string(kInFile, 'b'));
  TearInDoubt(CloseAsKilled());
  std::ofstream(directory_ / "catalog/DROPPED-1000000") << "the name";
  Open();
  v1::DeleteValueRequest remove;
  remove.set_key("big");
  remove.set_request_id(std::string(16, 'd'));
  ASSERT_TRUE(node_->DeleteValue(remove).ok());
  EXPECT_EQ(Fsck(false, true).lost_count(), 0u);
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u);
}

}  // namespace
}  // namespace tilekv
