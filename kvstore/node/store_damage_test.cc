// Damage in a store's directory, as its users and fsck meet it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/node/scrubber.h"
#include "kvstore/node/store_damage_test_util.h"
#include "kvstore/object/index_test_util.h"

namespace tilekv {
namespace {

TEST_F(StoreDamageTest, AReadThatMeetsDamageMarksTheRowAndStoringAgainHeals) {
  std::string content(kInFile, 'c');
  ObjectRef ref = PutValue("k", content);
  FlipBitInFile(FileOf(ref), kPayloadHeaderBytes + 100'000);
  EXPECT_EQ(GetReason(Read(ref)), Reason::kDataLoss);
  EXPECT_EQ(StateOf(ref), RowState::kSuspect);
  PutValue("k", content);
  EXPECT_TRUE(Read(ref).ok());
  EXPECT_EQ(StateOf(ref), RowState::kGood);
  EXPECT_EQ(Fsck(false, true).problem_count(), 0u);
}

TEST_F(StoreDamageTest, AReportFromOutsideCountsOnlyAfterTheNodeHasReadItsOwnDisk) {
  ObjectRef good = PutValue("good", std::string(kInFile, 'g'));
  ObjectRef bad = PutValue("bad", std::string(kInFile, 'b'));
  FlipBitInFile(FileOf(bad), kPayloadHeaderBytes + 100'000);
  v1::ReportDamageRequest report;
  ObjectRefToWire(good, report.add_refs());
  ObjectRefToWire(bad, report.add_refs());
  auto response = node_->ReportDamage(report);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->good(0));
  EXPECT_FALSE(response->good(1));
  EXPECT_EQ(StateOf(good), RowState::kGood) << "whoever reported it was wrong";
  EXPECT_EQ(StateOf(bad), RowState::kQuarantined);
}

TEST_F(StoreDamageTest, APutOfWhatWasNotVerifiedForLongReadsTheOldPayloadAndReplacesABadOne) {
  std::string content(kInFile, 'c');
  ObjectRef ref = PutValue("k", content);
  FlipBitInFile(FileOf(ref), kPayloadHeaderBytes + 100'000);
  PutValue("other", content);
  EXPECT_EQ(GetReason(Read(ref)), Reason::kDataLoss) << "it was checked a moment ago";
  ASSERT_TRUE(engine_->Verify(kDefaultDomain, ref.id).ok());
  PutValue("k", content);
  ASSERT_TRUE(Read(ref).ok());

  FlipBitInFile(FileOf(ref), kPayloadHeaderBytes + 100'000);
  clock_.Advance((kVerifiedFor_s + 1) * 1'000'000);
  PutValue("other", content);
  EXPECT_TRUE(Read(ref).ok());
  EXPECT_EQ(StateOf(ref), RowState::kGood);
}

TEST_F(StoreDamageTest, FsckNamesWhatNeedsAPayloadThatIsGoneOrShort) {
  ObjectRef gone = PutValue("gone", std::string(kInFile, 'g'));
  ObjectRef cut = PutValue("cut", std::string(kInFile, 'c'));
  PutValue("sound", std::string(kInFile, 's'));
  std::filesystem::remove(FileOf(gone));
  std::filesystem::resize_file(FileOf(cut), 100'000);
  v1::FsckResponse found = Fsck();
  ASSERT_EQ(found.problem_count(), 2u) << found.DebugString();
  EXPECT_EQ(found.lost_count(), 2u);
  EXPECT_EQ(found.problems(0).where(), "key 'cut'");
  EXPECT_EQ(found.problems(0).kind(), "payload");
  EXPECT_EQ(found.problems(1).where(), "key 'gone'");
  EXPECT_EQ(found.problems(1).kind(), "no-payload");
  EXPECT_EQ(StateOf(cut), RowState::kSuspect) << "looking condemns nothing";
  EXPECT_EQ(StateOf(gone), RowState::kSuspect);

  Fsck(true);
  EXPECT_EQ(StateOf(gone), RowState::kSuspect) << "it may come back";
  EXPECT_EQ(StateOf(cut), RowState::kQuarantined);
  EXPECT_TRUE(std::filesystem::exists(FileOf(cut))) << "it may be all there is";
  PutValue("gone", std::string(kInFile, 'g'));
  PutValue("cut", std::string(kInFile, 'c'));
  EXPECT_EQ(Fsck(false, true).problem_count(), 0u) << "storing again heals";
}

TEST_F(StoreDamageTest, APayloadThatComesBackIsTakenAgainByRepair) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  std::string file = FileOf(ref);
  std::filesystem::rename(file, file + ".away");
  EXPECT_EQ(Fsck(true).lost_count(), 1u);
  std::filesystem::rename(file + ".away", file);
  v1::FsckResponse repaired = Fsck(true);
  EXPECT_EQ(repaired.lost_count(), 0u);
  EXPECT_EQ(repaired.repaired_count(), 1u) << repaired.DebugString();
  EXPECT_TRUE(Read(ref).ok());
  EXPECT_EQ(Fsck().problem_count(), 0u);
}

TEST_F(StoreDamageTest, WhatFsckHasFoundIsHealedByLinkingAndStoringAgain) {
  ObjectRef gone = PutValue("gone", std::string(kInFile, 'g'));
  ASSERT_TRUE(Linked(gone));
  std::filesystem::remove(FileOf(gone));
  Fsck();
  EXPECT_FALSE(Linked(gone));
}

TEST_F(StoreDamageTest, ADiskThatFailsForAWhileLosesNothing) {
  std::string content(kInFile, 'c');
  ObjectRef read = PutValue("read", content);
  ObjectRef checked = PutValue("checked", std::string(kInFile, 'd'));
  std::filesystem::path payload = directory_ / "payload";
  for (bool away : {true, false}) {
    SCOPED_TRACE(away);
    if (away) {
      std::filesystem::rename(payload, directory_ / "away");
    } else {
      fs_.hook = [](const std::string& call, const std::string& path) {
        bool here = call == "read" && path.find("/payload/") != std::string::npos;
        return here ? MakeError(Reason::kInternal, "input/output error") : absl::OkStatus();
      };
    }
    EXPECT_EQ(GetReason(Read(read)), Reason::kDataLoss);
    EXPECT_FALSE(*engine_->Verify(kDefaultDomain, checked.id));
    EXPECT_EQ(Fsck().lost_count(), 2u);
    EXPECT_FALSE(Linked(read)) << "what is stored again is looked at";
    for (const ObjectRef& ref : {read, checked}) EXPECT_EQ(StateOf(ref), RowState::kSuspect);
    if (away) {
      std::filesystem::rename(directory_ / "away", payload);
    } else {
      fs_.hook = nullptr;
    }
    EXPECT_TRUE(Read(read).ok()) << "at once";
    Scrubber scrubber(*engine_, kDefaultDomain, clock_);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(scrubber.Step().ok());
    for (const ObjectRef& ref : {read, checked}) EXPECT_EQ(StateOf(ref), RowState::kGood);
    EXPECT_TRUE(Linked(read));
  }
}

TEST_F(StoreDamageTest, WhatCannotBeReadIsTriedOnceAnHourByTheScrubber) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  std::filesystem::rename(directory_ / "payload", directory_ / "away");
  EXPECT_FALSE(*engine_->Verify(kDefaultDomain, ref.id));
  Scrubber scrubber(*engine_, kDefaultDomain, clock_);
  for (int64_t until = clock_.WallMicros() + 10 * 3'600'000'000; clock_.WallMicros() < until;) {
    clock_.Advance(*scrubber.Step());
  }
  EXPECT_GE(scrubber.stats().damaged, 9u);
  EXPECT_LE(scrubber.stats().damaged, 11u);
}

TEST_F(StoreDamageTest, ACopyThatCannotBeReadIsReplacedWhenItsObjectIsStoredAgain) {
  std::string content(kInFile, 'c');
  ObjectRef ref = PutValue("k", content);
  std::string file = FileOf(ref);
  fs_.hook = [&file](const std::string& call, const std::string& path) {
    bool here = call == "read" && path == file;
    return here ? MakeError(Reason::kInternal, "input/output error") : absl::OkStatus();
  };
  EXPECT_FALSE(Read(ref).ok());
  PutValue("k", content);
  EXPECT_NE(FileOf(ref), file);
  EXPECT_TRUE(Read(ref).ok());
  fs_.hook = nullptr;
}

TEST_F(StoreDamageTest, ALinkDoesNotCountOnACopyThatWasNotCheckedForLong) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  EXPECT_TRUE(Linked(ref));
  clock_.Advance((kVerifiedFor_s + 1) * 1'000'000);
  EXPECT_FALSE(Linked(ref));
  EXPECT_TRUE(*engine_->Verify(kDefaultDomain, ref.id));
  EXPECT_TRUE(Linked(ref));
}

TEST_F(StoreDamageTest, TheScrubberFindsDamageInATableThatIsServedFromMemory) {
  for (int i = 0; i < 400; ++i)
    PutValue("k" + std::to_string(i), std::string(50'000, 'a' + i % 26) + std::to_string(i));
  TableFiles* tables = engine_->tables();
  std::optional<TableFile> table = tables->After(0);
  ASSERT_TRUE(table.has_value()) << "20 MB are more than a memtable";
  EXPECT_TRUE(tables->Check(*table).ok());
  FlipBitInFile(table->path, table->bytes / 2);
  absl::Status found = tables->Check(*table);
  EXPECT_EQ(GetReason(found), Reason::kDataLoss) << found;
  std::filesystem::remove(table->path);
  EXPECT_EQ(GetReason(tables->Check(*table)), Reason::kNotFound);
  ASSERT_NE(catalog_->tables(), nullptr);
}

TEST_F(StoreDamageTest, FilesThatNoRowNamesAreFoundAndRemovedOnlyByRepair) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  std::string orphan = std::filesystem::path(FileOf(ref)).parent_path() / "200";
  std::ofstream(orphan) << "half a payload";
  EXPECT_EQ(Fsck().problem_count(), 0u) << "it may be of a put in progress";
  Open();
  v1::FsckResponse found = Fsck();
  ASSERT_EQ(found.problem_count(), 1u) << found.DebugString();
  EXPECT_EQ(found.problems(0).kind(), "orphan-file");
  EXPECT_EQ(found.lost_count(), 0u);
  EXPECT_TRUE(std::filesystem::exists(orphan));
  EXPECT_EQ(Fsck(true).repaired_count(), 1u);
  EXPECT_FALSE(std::filesystem::exists(orphan));
  EXPECT_EQ(Fsck().problem_count(), 0u);
  EXPECT_TRUE(Read(ref).ok());
}

TEST_F(StoreDamageTest, ALostIndexIsMadeAnewFromThePayloadsAndNamesTheSmallValuesLostWithIt) {
  ObjectRef first = PutValue("large 1", std::string(kInFile, '1'));
  ObjectRef second = PutValue("large 2", std::string(kInFile, '2'));
  ObjectRef bad = PutValue("bad", std::string(kInFile, 'b'));
  PutValue("small", std::string(5'000, 's'));
  PutValue("inline", "in the catalog");
  FlipBitInFile(FileOf(bad), kPayloadHeaderBytes + 100'000);
  uint64_t number = (*engine_->Stat(kDefaultDomain, second.id))->file_number;
  Close();
  std::filesystem::remove_all(directory_ / "index");

  IndexRebuildReport report = RebuildNow();
  EXPECT_EQ(report.rows, 3u);
  EXPECT_EQ(report.damaged, 1u);
  EXPECT_EQ(report.small_contents, 0u);
  Open();
  EXPECT_TRUE(Read(first).ok());
  EXPECT_TRUE(Read(second).ok());
  EXPECT_EQ(StateOf(bad), RowState::kQuarantined);
  v1::FsckResponse found = Fsck();
  ASSERT_EQ(found.problem_count(), 2u) << found.DebugString();
  EXPECT_EQ(found.lost_count(), 2u);
  EXPECT_EQ(found.problems(0).where(), "key 'bad'");
  EXPECT_EQ(found.problems(1).where(), "key 'small'");
  EXPECT_GT(
      (*engine_->Stat(kDefaultDomain, PutValue("new", std::string(kInFile, 'n')).id))->file_number,
      number)
      << "numbers are not used twice";
  EXPECT_TRUE(node_->Collect({}).ok());
  EXPECT_TRUE(Read(first).ok());
}

TEST_F(StoreDamageTest, RowsMadeAnewWithoutACatalogAreKeptForOneFromABackupAndSettleWithIt) {
  ObjectRef named = PutValue("named", std::string(kInFile, 'n'));
  ObjectRef garbage = PutValue("k", std::string(kInFile, 'g'));
  PutValue("k", "something else");
  Close();
  std::filesystem::rename(directory_ / "catalog", directory_ / "backup");
  std::filesystem::remove_all(directory_ / "index");
  EXPECT_EQ(RebuildNow().rows, 2u);
  std::filesystem::rename(directory_ / "backup", directory_ / "catalog");
  Open();
  for (const ObjectRef& ref : {named, garbage}) {
    EXPECT_LE((*engine_->Stat(kDefaultDomain, ref.id))->touched_rev, *catalog_->CurrentRevision());
  }
  // What was put after the rows were settled keeps its own.
  PutValue("k", "something else again");
  v1::CollectRequest collect;
  clock_.Advance(48 * 3'600 * int64_t{1'000'000});
  ASSERT_TRUE(node_->Collect(collect).ok());
  ASSERT_TRUE(node_->Collect(collect).ok());
  EXPECT_TRUE(Read(named).ok());
  EXPECT_FALSE(engine_->Stat(kDefaultDomain, garbage.id)->has_value());
}

TEST_F(StoreDamageTest, ARebuildTakesOverWhatTheOldIndexStillGivesAndKeepsIt) {
  ObjectRef large = PutValue("large", std::string(kInFile, 'l'));
  ObjectRef small = PutValue("small", std::string(5'000, 's'));
  Close();
  IndexRebuildReport report = RebuildNow();
  EXPECT_EQ(report.rows, 2u);
  EXPECT_EQ(report.small_contents, 1u);
  EXPECT_EQ(report.old_index, directory_ / "index.old");
  EXPECT_EQ(report.old_index_error, "");
  Open();
  EXPECT_TRUE(Read(large).ok());
  EXPECT_TRUE(Read(small).ok());
  EXPECT_EQ(Fsck(false, true).problem_count(), 0u);
}

TEST_F(StoreDamageTest, ARebuildThatEndedBetweenItsTwoRenamesIsDoneAgain) {
  ObjectRef small = PutValue("small", std::string(5'000, 's'));
  Close();
  std::filesystem::rename(directory_ / "index", directory_ / "index.old");
  std::filesystem::create_directory(directory_ / "index.new");
  EXPECT_EQ(RebuildNow().small_contents, 1u);
  Open();
  EXPECT_TRUE(Read(small).ok());
}

TEST_F(StoreDamageTest, ARebuildKeepsFilesWhoseHeaderCannotBeReadAndLeavesUnfinishedOnes) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  std::string file = FileOf(ref);
  uint64_t file_bytes = std::filesystem::file_size(file);
  Close();
  FlipBitInFile(file, 100);
  std::string unfinished = std::filesystem::path(file).parent_path() / "9";
  std::ofstream(unfinished) << std::string(kPayloadHeaderBytes + 10, '\0');
  IndexRebuildReport report = RebuildNow();
  EXPECT_EQ(report.rows, 0u);
  EXPECT_EQ(report.set_aside, 1u);
  EXPECT_EQ(report.unfinished, 1u);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(std::filesystem::file_size(directory_ / "damaged/1"), file_bytes);
  Open();
  v1::FsckResponse found = Fsck();
  EXPECT_EQ(found.lost_count(), 1u);
  EXPECT_EQ(found.problem_count(), 2u) << "and the unfinished file, whose number was used";
}

TEST_F(StoreDamageTest, AnotherRebuildUsesNoNumberTwiceAndOverwritesNothingThatWasSetAside) {
  std::string file = FileOf(PutValue("k", std::string(kInFile, 'c')));
  Close();
  FlipBitInFile(file, 100);
  EXPECT_EQ(RebuildNow().set_aside, 1u);
  std::filesystem::copy_file(directory_ / "damaged/1", file);
  std::filesystem::remove_all(directory_ / "index.old");
  std::filesystem::remove_all(directory_ / "index");
  EXPECT_EQ(RebuildNow().set_aside, 1u);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "damaged/1"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "damaged/1.2"));
  std::filesystem::remove_all(directory_ / "index");
  RebuildNow();
  Open();
  ObjectRef next = PutValue("k", std::string(kInFile, 'd'));
  EXPECT_GT((*engine_->Stat(kDefaultDomain, next.id))->file_number, 1u);
}

// Of an index whose tables are damaged.
class DamagedTableTest : public StoreDamageTest {
 protected:
  static constexpr int kValues = 200;

  // Many small values, and one whose payload is gone.
  void Fill() {
    for (int i = 0; i < kValues; ++i) {
      PutValue(fmt::format("small {}", i), fmt::format("{}{}", i, std::string(6'000, 's')));
    }
    std::string gone = FileOf(PutValue("gone", std::string(kInFile, 'g')));
    Close();
    std::filesystem::remove(gone);
    MoveIntoTables(directory_ / "index");
  }
  static int Lost(const v1::FsckResponse& found) {
    int lost = 0;
    for (const v1::FsckProblem& problem : found.problems()) lost += problem.lost();
    return lost;
  }
};

TEST_F(DamagedTableTest, FsckGoesOnBehindRowsThatCannotBeRead) {
  Fill();
  std::string rows = FilesOfIndex(directory_ / "index", ".sst").at(1);
  FlipBitInFile(rows, std::filesystem::file_size(rows) / 3);
  Open();
  for (bool content : {false, true}) {
    v1::FsckResponse found = Fsck(false, content);
    ASSERT_GT(found.problems_size(), 0);
    EXPECT_EQ(found.problems(0).kind(), "index") << found.problems(0).DebugString();
    // A block of rows, by the names that need them; and what is behind it.
    EXPECT_GT(Lost(found), 5);
    EXPECT_LT(Lost(found), kValues / 2);
    EXPECT_EQ(found.values(), kValues + 1u);
    bool told = false;
    for (const v1::FsckProblem& problem : found.problems()) {
      EXPECT_NE(problem.kind(), "counts");
      told |= problem.where() == "key 'gone'" && problem.kind() == "no-payload";
    }
    EXPECT_TRUE(told) << found.DebugString();
  }
}

TEST_F(DamagedTableTest, FsckNamesTheOneContentThatCannotBeRead) {
  Fill();
  std::string contents = FilesOfIndex(directory_ / "index", ".sst").at(0);
  FlipBitInFile(contents, std::filesystem::file_size(contents) / 3);
  Open();
  for (bool repair : {false, true}) {
    v1::FsckResponse found = Fsck(repair);
    EXPECT_LE(Lost(found), 4) << found.DebugString();
    EXPECT_GE(Lost(found), 2) << "one or two of a block, and the payload that is gone";
    for (const v1::FsckProblem& problem : found.problems()) EXPECT_FALSE(problem.repaired());
  }
}

TEST_F(StoreDamageTest, AStoreThatIsOpenIsNotRebuilt) {
  LocalEngineOptions options;
  options.directory = directory_.path();
  EXPECT_EQ(GetReason(RebuildStoreIndex(options).status()), Reason::kStoreLocked);
}

TEST_F(StoreDamageTest, ListsOfRoundsGoWithTheIndexThatTheyWereMadeFor) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  Close();
  const std::filesystem::path rounds = std::filesystem::path(directory_.path()) / kRoundsFolder;
  std::filesystem::create_directory(rounds);
  std::ofstream(rounds / "part") << "a list";
  LocalEngineOptions options;
  options.directory = directory_.path();
  ASSERT_TRUE(RebuildStoreIndex(options).ok());
  EXPECT_TRUE(std::filesystem::is_empty(rounds));
  Open();
  EXPECT_TRUE(Read(ref).ok());
}

TEST_F(StoreDamageTest, ScrubbingReadsPastThePageCache) {
  ObjectRef ref = PutValue("k", std::string(kInFile, 'c'));
  bool direct = false;
  fs_.on_open = [&](const std::string& path, FileSystem::OpenMode mode) {
    direct |= path == FileOf(ref) && mode == FileSystem::OpenMode::kReadDirect;
  };
  EXPECT_TRUE(*engine_->Verify(kDefaultDomain, ref.id));
  EXPECT_TRUE(direct);
  fs_.on_open = nullptr;
}

}  // namespace
}  // namespace tilekv
