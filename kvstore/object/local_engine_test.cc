#include "kvstore/object/local_engine.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/index_test_util.h"
#include "kvstore/object/local_engine_test_fixture.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/payload_file.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

TEST_F(LocalEngineTest, WritesAlignedAndUnalignedSpansToTheSameFile) {
  Open();
  auto pool = BufferPool::Create(16 * kMiB);
  uint64_t length = 3 * kMiB + 12'345;
  std::string content = TestContent(length, 1);
  Buffer aligned = pool->Get(length);
  std::memcpy(aligned.data(), content.data(), length);
  ObjectRef ref = RefOf(0, AsBytes(content));
  std::vector<std::string> payloads;
  for (uint64_t piece : {length, uint64_t{999}, kMiB, kMiB + 4096}) {
    auto writer = *engine_->NewWriter({.expected = ref, .touched_rev = {1}});
    for (uint64_t at = 0; at < length; at += piece) {
      Bytes bytes = aligned.span().subspan(at, std::min(piece, length - at));
      ASSERT_TRUE(writer->Append(bytes).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
    std::string payload = *ReadFile(fs_, PayloadOf(ref.id), 8 * kMiB);
    PayloadHeader header = *DecodePayloadHeader(AsBytes(payload).first(kPayloadHeaderBytes));
    EXPECT_EQ(header.ref, ref);
    EXPECT_EQ(header.store_uuid, engine_->store_uuid());
    EXPECT_EQ(header.number, RowOf(ref.id).file_number);
    EXPECT_EQ(payload.size(), LayoutOf(length, length, {}).file_length);
    EXPECT_EQ(payload.compare(kPayloadHeaderBytes, length, content), 0);
    payloads.push_back(payload.substr(kPayloadHeaderBytes));
    ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, ref.id, {2}));
  }
  for (const std::string& payload : payloads) EXPECT_EQ(payload, payloads[0]);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 0u);
}

TEST_F(LocalEngineTest, KeepsSmallContentsInTheIndexAndLargeOnesInFiles) {
  Open();
  ObjectId small = Put(TestContent(kInlineContentBytes - 1, 1))->ref.id;
  ObjectId large = Put(TestContent(kInlineContentBytes, 2))->ref.id;
  EXPECT_EQ(RowOf(small).file_number, 0u);
  EXPECT_NE(RowOf(large).file_number, 0u);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 1u);
}

TEST_F(LocalEngineTest, MapsOrReadsIntoPiecesTheSameBytesAsAreRead) {
  Open();
  std::string content;
  for (int i = 0; content.size() < 300'000; ++i) content += std::to_string(i);
  auto reader = engine_->Open(kDefaultDomain, Put(content)->ref.id);
  ASSERT_TRUE(reader.ok()) << reader.status();
  absl::StatusOr<SharedBytes> mapped = (*reader)->MapStored(70'001, 200'000);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_TRUE(AsText(mapped->bytes) == content.substr(70'001, 200'000));

  std::string got(200'000, '\0');
  auto* memory = reinterpret_cast<uint8_t*>(got.data());
  std::vector<MutableBytes> pieces = {{memory + 150'000, 50'000}, {memory, 150'000}};
  ASSERT_TRUE((*reader)->ReadStoredPieces(5, pieces).ok());
  EXPECT_TRUE(got == content.substr(50'005, 150'000) + content.substr(5, 50'000));

  const uint64_t end = content.size();
  EXPECT_EQ(GetReason((*reader)->MapStored(end - 9, 10).status()), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason((*reader)->ReadStoredPieces(end - 199'999, pieces)),
            Reason::kInvalidArgument);
  auto small = engine_->Open(kDefaultDomain, Put("small")->ref.id);
  EXPECT_TRUE(absl::IsUnimplemented((*small)->MapStored(0, 5).status()));
  // A disk that fails is told by who reads.
  fs_.hook = [](const std::string& operation, const std::string&) {
    return operation == "read" ? MakeError(Reason::kInternal, "read: no") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnimplemented((*reader)->MapStored(0, 10).status()));
  EXPECT_EQ(GetReason((*reader)->ReadStoredPieces(0, pieces)), Reason::kDataLoss);
}

TEST_F(LocalEngineTest, NeverUsesANumberTwice) {
  Open();
  ObjectId id = Put(TestContent(100'000, 1))->ref.id;
  uint64_t first = RowOf(id).file_number;
  ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, id, {2}));
  Open();
  ASSERT_TRUE(Put(TestContent(100'000, 1)).ok());
  EXPECT_GT(RowOf(id).file_number, first);
}

TEST_F(LocalEngineTest, QuarantinesAPayloadThatIsCutShortAndSuspectsOneThatIsGone) {
  Open();
  for (int kind = 0; kind < 3; ++kind) {
    std::string content = TestContent(200'000, kind);
    ObjectId id = Put(content)->ref.id;
    if (kind == 0) std::filesystem::resize_file(PayloadOf(id), 100'000);
    if (kind == 1) std::filesystem::remove(PayloadOf(id));
    if (kind == 2) FlipBitInFile(PayloadOf(id), 50);  // the header
    EXPECT_EQ(GetReason(engine_->Open(kDefaultDomain, id).status()), Reason::kDataLoss) << kind;
    EXPECT_EQ(RowOf(id).state, kind == 1 ? RowState::kSuspect : RowState::kQuarantined);
    EXPECT_EQ(GetReason(engine_->Open(kDefaultDomain, id).status()),
              kind == 1 ? Reason::kDataLoss : Reason::kNotFound);
    ASSERT_TRUE(Put(content).ok());
    EXPECT_EQ(*GetContent(*engine_, id), content);
  }
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 3u);
}

TEST_F(LocalEngineTest, CountsThatOthersChangeWhileTheyAreCheckedAreLeftAlone) {
  Open();
  ASSERT_TRUE(Put(TestContent(100'000, 1)).ok());
  int counts = 0;
  auto count = [&](const CopyProblem& problem) { counts += problem.kind == "counts"; };
  // Found in the middle of the walk: a put and a delete of equal size.
  std::string gone = TestContent(100'000, 2), more = TestContent(100'000, 3);
  ObjectId gone_id = Put(gone)->ref.id;
  std::filesystem::remove(PayloadOf(gone_id));
  auto change = [&](const CopyProblem& problem) {
    if (problem.id != gone_id) return count(problem);
    ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, gone_id, {2}));
    ASSERT_TRUE(Put(more).ok());
  };
  ASSERT_TRUE(engine_->CheckCopies(kDefaultDomain, true, change, {}).ok());
  EXPECT_EQ(counts, 0);
  EXPECT_EQ(engine_->Usage()->objects, 2u);
  ASSERT_TRUE(engine_->CheckCopies(kDefaultDomain, true, count, {}).ok());
  EXPECT_EQ(counts, 0);
}

TEST_F(LocalEngineTest, ChecksAnOldCopyWhenItsBytesComeAgain) {
  Open();
  std::string content = TestContent(300'000, 1);
  ObjectId id = Put(content)->ref.id;
  uint64_t number = RowOf(id).file_number;
  // Trusted for now: nothing is looked at.
  FlipBitInFile(PayloadOf(id), kPayloadHeaderBytes + 1000);
  EXPECT_FALSE(Put(content)->stored);
  clock_.Advance((kVerifiedFor_s + 1) * 1'000'000);
  auto healed = Put(content);
  ASSERT_TRUE(healed.ok()) << healed.status();
  EXPECT_TRUE(healed->stored);
  EXPECT_NE(RowOf(id).file_number, number);
  EXPECT_EQ(*GetContent(*engine_, id), content);
  // And a good one is only looked at.
  number = RowOf(id).file_number;
  clock_.Advance((kVerifiedFor_s + 1) * 1'000'000);
  EXPECT_FALSE(Put(content)->stored);
  EXPECT_EQ(RowOf(id).file_number, number);
  EXPECT_EQ(RowOf(id).verified_at_micros, clock_.WallMicros());
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 1u);
}

TEST_F(LocalEngineTest, EndsWritingAtTheFirstFailedSync) {
  for (std::string operation : {"sync", "sync_directory"}) {
    std::filesystem::remove_all(directory_.path());
    fs_.hook = nullptr;
    Open();
    std::string before = TestContent(100'000, 1);
    ObjectRef ref = Put(before)->ref;
    std::atomic<bool> fail{true};
    fs_.hook = [&](const std::string& call, const std::string& path) {
      bool here = fail && call == operation && path.find("/payload/") != std::string::npos;
      return here ? MakeError(Reason::kInternal, "input/output error") : absl::OkStatus();
    };
    std::string content = TestContent(100'000, 2);
    EXPECT_EQ(GetReason(Put(content).status()), Reason::kStoreFailed) << operation;
    fail = false;
    // Also what would work now, and whatever is small.
    EXPECT_EQ(GetReason(Put(content).status()), Reason::kStoreFailed);
    EXPECT_EQ(GetReason(Put("small").status()), Reason::kStoreFailed);
    EXPECT_EQ(GetReason(engine_->DeleteBelow(kDefaultDomain, ref.id, {9}).status()),
              Reason::kStoreFailed);
    EXPECT_EQ(GetReason(engine_->CheckWritable(0)), Reason::kStoreFailed);
    EXPECT_FALSE((*engine_->Link(kDefaultDomain, {&ref, 1}, {1}))[0].present);
    EXPECT_EQ(*GetContent(*engine_, ref.id), before);
    EXPECT_THAT(Notices(), HasSubstr("input/output error"));
    fs_.hook = nullptr;
    Open();
    EXPECT_EQ(*GetContent(*engine_, ref.id), before);
    EXPECT_FALSE(engine_->Stat(kDefaultDomain, IdOf(0, AsBytes(content)))->has_value());
    engine_.reset();
  }
}

TEST_F(LocalEngineTest, GoesOnAfterADirectorySyncThatCouldNotBegin) {
  Open();
  std::atomic<int> refused{0};
  fs_.hook = [&](const std::string& call, const std::string& path) {
    bool here = call == "sync_directory" && path.find("/payload") != std::string::npos &&
                refused.fetch_add(1) < 2;
    return here ? MakeError(Reason::kOverloaded, "too many open files") : absl::OkStatus();
  };
  std::string content = TestContent(100'000, 1);
  // Of the folder's entry, then of the file's.
  EXPECT_EQ(GetReason(Put(content).status()), Reason::kOverloaded);
  EXPECT_EQ(GetReason(Put(content).status()), Reason::kOverloaded);
  auto put = Put(content);
  EXPECT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 1u);
  engine_.reset();
  fs_.hook = nullptr;
}

TEST_F(LocalEngineTest, KeepsOldAndNewFileWhereTheSyncOfARowFailed) {
  options_.rocksdb_env = &env_;
  Open();
  std::string fresh = TestContent(100'000, 1);
  std::string healed = TestContent(100'000, 2);
  ObjectId id = Put(healed)->ref.id;
  int seed = 3;
  for (const std::string& content : {fresh, healed}) {
    if (content == healed) {
      FlipBitInFile(PayloadOf(id), kPayloadHeaderBytes);
      ASSERT_FALSE(*engine_->Verify(kDefaultDomain, id));
    }
    // So that the next put takes no range of numbers first.
    ASSERT_TRUE(Put(TestContent(100'000, seed++)).ok());
    size_t files = CountPayloadFiles(directory_.path());
    env_.fail_log_sync = true;
    EXPECT_EQ(GetReason(Put(content).status()), Reason::kStoreFailed);
    EXPECT_EQ(CountPayloadFiles(directory_.path()), files + 1);
    env_.fail_log_sync = false;
    // The row was in the log all the same.
    Open();
    auto got = GetContent(*engine_, IdOf(0, AsBytes(content)));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, content);
  }
}

TEST_F(LocalEngineTest, TakesAFullDiskForTheEndOfOnePutOnly) {
  Open();
  std::atomic<bool> full{true};
  fs_.hook = [&](const std::string& call, const std::string& path) {
    bool here = full && call == "write" && path.find("/payload/") != std::string::npos;
    return here ? MakeError(Reason::kStoreFull, "no space left") : absl::OkStatus();
  };
  std::string content = TestContent(2 * kMiB, 1);
  EXPECT_EQ(GetReason(Put(content).status()), Reason::kStoreFull);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 0u);
  full = false;
  EXPECT_TRUE(Put(content).ok());
}

TEST_F(LocalEngineTest, KeepsTheReserveFreeCountingPutsInFlight) {
  Open();
  ObjectId old = Put(TestContent(100'000, 1))->ref.id;
  // A disk of 1 GiB keeps 64 MiB.
  engine_.reset();
  fs_.space = DiskSpace{.total_bytes = kGiB, .available_bytes = 64 * kMiB + 3 * kMiB};
  Open();
  auto first = engine_->NewWriter({.length = 2 * kMiB});
  ASSERT_TRUE(first.ok()) << first.status();
  absl::Status second = engine_->NewWriter({.length = 2 * kMiB}).status();
  EXPECT_EQ(GetReason(second), Reason::kStoreFull);
  EXPECT_THAT(ErrorText(second), HasSubstr("67.0 MiB free"));
  EXPECT_EQ(GetReason(engine_->CheckWritable(2 * kMiB)), Reason::kStoreFull);
  EXPECT_TRUE(engine_->CheckWritable(kMiB / 2).ok());
  first->reset();
  EXPECT_TRUE(engine_->NewWriter({.length = 2 * kMiB}).ok());
  // A small content whose length is not known takes no more than a small one.
  EXPECT_TRUE(PutContent(*engine_, "small", {.declare = false}).ok());
  absl::Status large = PutContent(*engine_, TestContent(kMiB, 2), {.declare = false}).status();
  EXPECT_EQ(GetReason(large), Reason::kStoreFull);
  EXPECT_THAT(ErrorText(large), HasSubstr("17.0 MiB more on it would leave less than the reserve"));
  fs_.space->available_bytes = kMiB;
  EXPECT_EQ(GetReason(Put("another small").status()), Reason::kStoreFull);
  EXPECT_EQ(GetReason(engine_->CheckWritable(1)), Reason::kStoreFull);
  EXPECT_TRUE(engine_->CheckWritable(0).ok());
  ObjectRef ref = RowOf(old).ref;
  EXPECT_TRUE((*engine_->Link(kDefaultDomain, {&ref, 1}, {5}))[0].present);
  EXPECT_TRUE(*engine_->DeleteBelow(kDefaultDomain, old, {6}));
}

TEST_F(LocalEngineTest, GivesUpItsBallastWhenANameIsToBeRemoved) {
  fs_.space = DiskSpace{.total_bytes = 20 * kGiB, .available_bytes = 10 * kGiB};
  Open();
  engine_->MakeRoomForDelete();
  EXPECT_TRUE(std::filesystem::exists(directory_ / "BALLAST"));
  fs_.space->available_bytes = kMiB;
  engine_->MakeRoomForDelete();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "BALLAST"));
}

TEST_F(LocalEngineTest, DeletesABatchWithOneSync) {
  options_.rocksdb_env = &env_;
  Open();
  std::vector<ObjectId> ids;
  for (uint64_t i = 0; i < 20; ++i) ids.push_back(Put(TestContent(70'000, i))->ref.id);
  int before = env_.log_syncs;
  EXPECT_EQ(*engine_->DeleteAllBelow(kDefaultDomain, ids, {2}), std::vector<bool>(20, true));
  EXPECT_EQ(env_.log_syncs, before + 1);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 0u);
}

TEST_F(LocalEngineTest, GivesUpItsBallastWhenADeleteNeedsRoom) {
  fs_.space = DiskSpace{.total_bytes = 20 * kGiB, .available_bytes = 10 * kGiB};
  Open();
  std::string ballast = directory_ / "BALLAST";
  ASSERT_TRUE(std::filesystem::exists(ballast));
  EXPECT_EQ(std::filesystem::file_size(ballast), kBallastBytes);
  ObjectId id = Put("content")->ref.id;
  fs_.space->available_bytes = kMiB;
  EXPECT_TRUE(*engine_->DeleteBelow(kDefaultDomain, id, {9}));
  EXPECT_FALSE(std::filesystem::exists(ballast));
  // A small disk has none.
  fs_.space = DiskSpace{.total_bytes = 8 * kGiB, .available_bytes = 6 * kGiB};
  Open();
  EXPECT_FALSE(std::filesystem::exists(ballast));
}

TEST_F(LocalEngineTest, WritesBufferedWhereDirectIoIsRefusedAndSaysSoOnce) {
  fs_.refuse_direct = true;
  Open();
  for (int i = 0; i < 2; ++i) {
    std::string content = TestContent(3 * kMiB + 1, i);
    EXPECT_EQ(*GetContent(*engine_, Put(content)->ref.id), content);
  }
  std::string notices = Notices();
  size_t first = notices.find("direct I/O");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(notices.find("direct I/O", first + 1), std::string::npos);
}

TEST_F(LocalEngineTest, RemovesUnnamedFilesOnlyOfBeforeThisOpening) {
  Open();
  ObjectId kept = Put(TestContent(100'000, 1))->ref.id;
  ObjectId lost = Put(TestContent(100'000, 2))->ref.id;
  // A file whose delete was cut off after the row.
  std::string leftover = PayloadOf(lost);
  std::filesystem::copy(leftover, leftover + "-");
  ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, lost, {2}));
  std::filesystem::rename(leftover + "-", leftover);
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u);
  ObjectId later = Put(TestContent(100'000, 3))->ref.id;
  Open();
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 1u);
  EXPECT_FALSE(std::filesystem::exists(leftover));
  EXPECT_TRUE(GetContent(*engine_, kept).ok());
  EXPECT_TRUE(GetContent(*engine_, later).ok());
}

TEST_F(LocalEngineTest, RemovesTheFileOfAReplacedCopyWhoseUnlinkWasCutOff) {
  Open();
  std::string content = TestContent(100'000, 1);
  ObjectId id = Put(content)->ref.id;
  std::string replaced = PayloadOf(id);
  FlipBitInFile(replaced, kPayloadHeaderBytes);
  ASSERT_FALSE(*engine_->Verify(kDefaultDomain, id));
  fs_.hook = [&](const std::string& call, const std::string& path) {
    return call == "unlink" && path == replaced ? MakeError(Reason::kInternal, "cut off")
                                                : absl::OkStatus();
  };
  ASSERT_TRUE(Put(content)->stored);
  fs_.hook = nullptr;
  ASSERT_TRUE(std::filesystem::exists(replaced));
  Open();
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 1u);
  EXPECT_FALSE(std::filesystem::exists(replaced));
  EXPECT_EQ(*GetContent(*engine_, id), content);
}

TEST_F(LocalEngineTest, GoesOnWhereAnUnnamedFileIsRemovedUnderItsHands) {
  Open();
  for (uint64_t seed : {1, 2}) {
    ObjectId id = Put(TestContent(100'000, seed))->ref.id;
    std::string leftover = PayloadOf(id);
    std::filesystem::copy(leftover, leftover + "-");
    ASSERT_TRUE(*engine_->DeleteBelow(kDefaultDomain, id, {2}));
    std::filesystem::rename(leftover + "-", leftover);
  }
  Open();
  std::atomic<int> unlinks{0};
  fs_.hook = [&](const std::string& call, const std::string& path) {
    if (call == "unlink" && ++unlinks == 1) std::filesystem::remove(path);
    return absl::OkStatus();
  };
  auto removed = engine_->RemoveUnnamedFiles();
  fs_.hook = nullptr;
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, 1u);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 0u);
}

TEST_F(LocalEngineTest, LeavesThePutsInProgressAloneWhenItRemovesUnnamedFiles) {
  Open();
  Open();
  std::string content = TestContent(2 * kMiB, 1);
  auto writer = *engine_->NewWriter({.expected = RefOf(0, AsBytes(content))});
  ASSERT_TRUE(writer->Append(AsBytes(content)).ok());
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 0u);
  auto put = writer->Finish();
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(*GetContent(*engine_, put->ref.id), content);
}

TEST_F(LocalEngineTest, CountsUsageOverReopeningsCleanOrNot) {
  Open();
  ASSERT_TRUE(Put(TestContent(100'000, 1)).ok());
  ASSERT_TRUE(Put("small").ok());
  for (int i = 0; i < 2; ++i) {
    Open();
    StoreUsage usage = *engine_->Usage();
    EXPECT_EQ(usage.objects, 2u);
    EXPECT_EQ(usage.content_bytes, 100'005u);
    EXPECT_GT(usage.disk_total_bytes, 0u);
    // The second time without the counts that a clean end leaves: a failed store saves none.
    fs_.hook = [](const std::string& call, const std::string& path) {
      bool here = call == "sync" && path.find("/payload/") != std::string::npos;
      return here ? MakeError(Reason::kInternal, "broken") : absl::OkStatus();
    };
    EXPECT_FALSE(Put(TestContent(100'000, 2)).ok());
    fs_.hook = nullptr;
  }
}

// The newest write-ahead log of the index.
std::string NewestLog(const std::string& directory) {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/index")) {
    if (entry.path().extension() == ".log") newest = std::max(newest, entry.path().string());
  }
  return newest;
}

TEST_F(LocalEngineTest, RefusesADamagedLogRatherThanLosingRows) {
  Open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(TestContent(2'000 + i, i)).ok());
  engine_.reset();
  std::string log = NewestLog(directory_.path());
  FlipBitInFile(log, std::filesystem::file_size(log) / 2);
  EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kDataLoss);
  FlipBitInFile(log, std::filesystem::file_size(log) / 2);
  Open();
  EXPECT_EQ(engine_->Usage()->objects, 100u);
}

TEST_F(LocalEngineTest, TakesATornEndOfTheLogForWhatWasNeverAcknowledged) {
  Open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(TestContent(2'000 + i, i)).ok());
  engine_.reset();
  std::string log = NewestLog(directory_.path());
  // The last record is the counts of a clean end, the one before it the last put.
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 60);
  Open();
  EXPECT_GE(engine_->Usage()->objects, 99u);
}

TEST_F(LocalEngineTest, ChecksTablesAlsoWhereTheFileSystemHasNoDirectReads) {
  Open();
  ASSERT_TRUE(Put(TestContent(2'000, 1)).ok());
  engine_.reset();
  MoveIntoTables(directory_ / "index");
  options_.rocksdb_env = &env_;
  env_.refuse_direct_reads = true;
  Open();
  std::optional<TableFile> table = engine_->tables()->After(0);
  ASSERT_TRUE(table.has_value());
  absl::Status checked = engine_->tables()->Check(*table);
  EXPECT_TRUE(checked.ok()) << checked;
  FlipBitInFile(table->path, table->bytes / 3);
  checked = engine_->tables()->Check(*table);
  EXPECT_EQ(GetReason(checked), Reason::kDataLoss) << checked;
}

TEST_F(LocalEngineTest, HealsUnderConcurrentReadersAndWriters) {
  Open();
  std::string content = TestContent(400'000, 1);
  ObjectId id = Put(content)->ref.id;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!stop) {
      auto got = GetContent(*engine_, id);
      // Damage and absence are answers; other bytes are not.
      if (got.ok() && *got != content) ++wrong;
    }
  });
  for (int i = 0; i < 20; ++i) {
    FlipBitInFile(PayloadOf(id), kPayloadHeaderBytes + 300'000);
    EXPECT_FALSE(*engine_->Verify(kDefaultDomain, id));
    EXPECT_TRUE(Put(content)->stored);
    EXPECT_TRUE(*engine_->Verify(kDefaultDomain, id));
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 1u);
}

}  // namespace
}  // namespace tilekv
