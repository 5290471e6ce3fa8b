// Reports of damage that are not taken before their rows are marked.
#include "kvstore/object/damage_reports.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "kvstore/object/index_test_util.h"
#include "kvstore/object/local_engine_test_fixture.h"

namespace tilekv {
namespace {

class DamageReportsTest : public LocalEngineTest {
 protected:
  void SetUp() override {
    Open();
    id_ = Put(TestContent(100'000, 1))->ref.id;
  }
  void Report() { LeaveDamageReport(fs_, directory_.path(), {.id = id_}); }
  bool IsReported() { return !std::filesystem::is_empty(directory_ / "suspect"); }
  void TakeReports() { ASSERT_TRUE(PutContent(*engine_, "small").ok()); }
  RowState State() { return RowOf(id_).state; }

  ObjectId id_;
};

TEST_F(DamageReportsTest, AReportGoesAfterItsRowWasMarked) {
  std::optional<RowState> state_at_removal;
  fs_.hook = [&](const std::string& operation, const std::string& path) {
    bool removal = operation == "unlink" && path.find("/suspect/") != std::string::npos;
    if (removal && !state_at_removal.has_value()) state_at_removal = State();
    return absl::OkStatus();
  };
  Report();
  TakeReports();
  EXPECT_EQ(state_at_removal, RowState::kSuspect);
  EXPECT_FALSE(IsReported());
}

TEST_F(DamageReportsTest, OneOfAnObjectThatIsGoneOrKnownToBeBadIsRemoved) {
  ASSERT_TRUE(engine_->MarkSuspect(kDefaultDomain, id_).ok());
  Report();
  TakeReports();
  EXPECT_FALSE(IsReported());
  ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, id_, {10}));
  Report();
  TakeReports();
  EXPECT_FALSE(IsReported());
}

TEST_F(DamageReportsTest, AFailingWriteLeavesItForTheNextOpening) {
  options_.rocksdb_env = &env_;
  Open();
  Report();
  env_.fail_log_sync = true;
  EXPECT_FALSE(Put("small").ok());
  EXPECT_TRUE(IsReported());
  {
    MutexLock lock(mutex_);
    notices_.clear();
  }
  ASSERT_TRUE(
      engine_->Scan(kDefaultDomain, std::nullopt, [](const ObjectRow&) { return true; }).ok());
  EXPECT_EQ(Notices(), "") << "said once";
  env_.fail_log_sync = false;
  Open();
  EXPECT_EQ(State(), RowState::kSuspect);
  EXPECT_FALSE(IsReported());
}

TEST_F(DamageReportsTest, AFailingReadLeavesItForTheNextTime) {
  // So that its row is in no block that an opening reads.
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Put(std::to_string(i)).ok());
  engine_.reset();
  MoveIntoTables(directory_ / "index");
  options_.rocksdb_env = &env_;
  Open();
  Report();
  env_.reads_left = 0;
  Put("small").status().IgnoreError();
  EXPECT_LT(env_.reads_left.exchange(std::numeric_limits<int>::max()), 0);
  EXPECT_TRUE(IsReported());
  TakeReports();
  EXPECT_EQ(State(), RowState::kSuspect);
  EXPECT_FALSE(IsReported());
}

TEST_F(DamageReportsTest, OneThatCannotBeRemovedMarksItsRowOnce) {
  fs_.hook = [](const std::string& operation, const std::string& path) {
    bool removal = operation == "unlink" && path.find("/suspect/") != std::string::npos;
    return removal ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  };
  Report();
  TakeReports();
  EXPECT_EQ(State(), RowState::kSuspect);
  EXPECT_THAT(Notices(), testing::HasSubstr("not yours"));
  ASSERT_TRUE(*engine_->Verify(kDefaultDomain, id_));
  TakeReports();
  EXPECT_EQ(State(), RowState::kGood);
}

}  // namespace
}  // namespace tilekv
