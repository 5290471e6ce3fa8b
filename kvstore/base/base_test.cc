#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/open_file_limit.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

TEST(Sizes, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseSize("64MiB"), 64 * kMiB);
  EXPECT_EQ(*ParseSize("5GB"), 5'000'000'000u);
  EXPECT_EQ(*ParseSize("1.5 GiB"), 3 * kGiB / 2);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("18446744073709551615"), UINT64_MAX);
  for (const char* bad :
       {"", "MiB", "12QB", "-1", "1..2MiB", "18446744073709551616", "99999999TiB", "1e3"}) {
    EXPECT_EQ(GetReason(ParseSize(bad).status()), Reason::kInvalidArgument) << bad;
  }
}

TEST(Sizes, FormatsAsThePromisedErrorReads) {
  EXPECT_EQ(FormatSize(324'000'000), "309.0 MiB");
  EXPECT_EQ(FormatSizeShort(268'435'456), "256 MiB");
  EXPECT_EQ(FormatCount(324'000'000), "324,000,000");
  EXPECT_EQ(FormatCount(12), "12");
  EXPECT_EQ(FormatSize(kMiB - 1), "1.0 MiB");
}

TEST(Status, KeepsItsReasonThroughContext) {
  absl::Status status = WithContext(MakeError(Reason::kDataLoss, "tile 3"), "tensor 'w'");
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  EXPECT_EQ(ErrorText(status), "DATA_LOSS: tensor 'w': tile 3");
  EXPECT_EQ(ReasonFromName("DATA_LOSS"), Reason::kDataLoss);
}

TEST(Status, EscapesAndCutsNames) {
  EXPECT_EQ(Printable("a\nb'\xff"), "a\\x0ab\\'\\xff");
  EXPECT_EQ(Printable("\xc3\xa9"), "\xc3\xa9");
  EXPECT_LE(Printable(std::string(10'000, 'x')).size(), kMaxNameInMessageBytes);
  EXPECT_LE(MakeError(Reason::kInternal, std::string(10'000, 'x')).message().size(),
            kMaxMessageBytes);
}

TEST(Utf8, RefusesSurrogatesAndOverlongForms) {
  EXPECT_TRUE(IsValidUtf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82"}) {
    EXPECT_FALSE(IsValidUtf8(bad));
  }
}

TEST(BufferPool, ReusesMemoryAndBoundsWhatIsIdle) {
  auto pool = BufferPool::Create(4 * kMiB);
  uint8_t* first = nullptr;
  {
    Buffer buffer = pool->Get(kMiB);
    first = buffer.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kDirectIoAlignBytes, 0u);
  }
  EXPECT_EQ(pool->Get(kMiB).data(), first);
  {
    std::vector<Buffer> many;
    for (int i = 0; i < 16; ++i) many.push_back(pool->Get(kMiB));
  }
  EXPECT_LE(pool->idle_bytes(), 4 * kMiB);
  { Buffer large = pool->Get(16 * kMiB); }
  EXPECT_LE(pool->idle_bytes(), 4 * kMiB);
}

TEST(ByteBudget, AnItemLargerThanTheBudgetGoesAlone) {
  ByteBudget budget(100);
  auto small = budget.TryAcquire(10);
  ASSERT_TRUE(small.has_value());
  EXPECT_FALSE(budget.TryAcquire(1000).has_value());
  small->Release();
  auto large = budget.TryAcquire(1000);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(budget.TryAcquire(1).has_value());
}

TEST(ByteBudget, WaitersAreServedInOrderAndCanCancel) {
  ByteBudget budget(100);
  auto held = budget.TryAcquire(100);
  std::vector<int> order;
  std::vector<Reservation> kept;
  budget.AcquireAsync(60, [&](Reservation r) { order.push_back(1), kept.push_back(std::move(r)); });
  uint64_t ticket = budget.AcquireAsync(60, [&](Reservation) { order.push_back(2); });
  budget.AcquireAsync(10, [&](Reservation r) { order.push_back(3), kept.push_back(std::move(r)); });
  held->Release();
  EXPECT_EQ(order, std::vector<int>({1}));  // the third must not pass the second
  EXPECT_TRUE(budget.CancelAsync(ticket));
  EXPECT_EQ(order, std::vector<int>({1, 3}));
  EXPECT_FALSE(budget.CancelAsync(ticket));
}

TEST(ByteBudget, ABlockedCallerLeavesWhenItsCallIsCancelled) {
  ByteBudget budget(10);
  auto held = budget.TryAcquire(10);
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  context.cancel->Cancel();
  EXPECT_EQ(GetReason(budget.Acquire(1, context).status()), Reason::kCancelled);
}

TEST(CrashPoint, RunsTheHandlerOnlyWhenSet) {
  int reached = 0;
  TILEKV_CRASH_POINT("test.a");
  SetCrashHandler([&](std::string_view name) { reached += name == "test.a"; });
  TILEKV_CRASH_POINT("test.a");
  TILEKV_CRASH_POINT("test.b");
  SetCrashHandler(nullptr);
  TILEKV_CRASH_POINT("test.a");
  EXPECT_EQ(reached, 1);
}

TEST(ThreadPool, RunsAllThatWasPostedBeforeItEnds) {
  std::atomic<int> done{0};
  {
    ThreadPool pool("test", 3);
    for (int i = 0; i < 100; ++i) pool.Post([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(PosixFileSystem, SaysThatNothingWasDoneWhereNoDescriptorIsLeft) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 1;
  FileSystem& fs = *FileSystem::Posix();
  // The undefined-behaviour sanitizer looks at an object's type with descriptors of its own, once.
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_FALSE(fs.Open("/no such file", FileSystem::OpenMode::kRead).ok());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  absl::Status synced = fs.SyncDirectory("/");
  absl::Status opened = fs.Open("/etc/passwd", FileSystem::OpenMode::kRead).status();
  RaiseOpenFileLimit();
  struct rlimit raised {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(GetReason(synced), Reason::kOverloaded) << synced;
  EXPECT_EQ(GetReason(opened), Reason::kOverloaded) << opened;
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
}

TEST(PosixFileSystem, ReadsIntoAnyNumberOfPiecesAndStopsAtTheEnd) {
  std::string path = testing::TempDir() + "/tilekv_pieces_" + std::to_string(getpid());
  FileSystem& fs = *FileSystem::Posix();
  std::string content;
  for (int i = 0; content.size() < 10'000; ++i) content += std::to_string(i);
  {
    absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path, FileSystem::OpenMode::kCreateNew);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(0, AsBytes(content)).ok());
    // More than one call takes, some of them empty, the last ones past the end.
    std::string got(12'000, '?');
    std::vector<MutableBytes> pieces;
    for (uint64_t at = 0, i = 0; at < got.size(); ++i) {
      uint64_t bytes = std::min<uint64_t>(i % 7 * 10, got.size() - at);
      pieces.push_back({reinterpret_cast<uint8_t*>(got.data()) + at, bytes});
      at += bytes;
    }
    ASSERT_GT(pieces.size(), 300u);
    absl::StatusOr<uint64_t> read = (*file)->ReadPieces(100, pieces);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, content.size() - 100);
    EXPECT_EQ(got, content.substr(100) + std::string(got.size() - *read, '?'));
    EXPECT_EQ(*(*file)->ReadPieces(0, {}), 0u);
    EXPECT_EQ(*(*file)->ReadPieces(content.size(), pieces), 0u);
    std::array<MutableBytes, 2> empty;
    EXPECT_EQ(*(*file)->ReadPieces(0, empty), 0u);
  }
  ASSERT_TRUE(fs.Unlink(path).ok());
}

TEST(PosixFileSystem, MapsWhatIsThereAndNothingElse) {
  std::string path = testing::TempDir() + "/tilekv_mapped_" + std::to_string(getpid());
  FileSystem& fs = *FileSystem::Posix();
  std::string content;
  for (int i = 0; content.size() < 20'000; ++i) content += std::to_string(i);
  SharedBytes kept;
  {
    absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path, FileSystem::OpenMode::kCreateNew);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(0, AsBytes(content)).ok());
    for (uint64_t offset : {0, 1, 4095, 4096, 8191}) {
      absl::StatusOr<SharedBytes> mapped = (*file)->Map(offset, content.size() - offset - 3);
      ASSERT_TRUE(mapped.ok()) << mapped.status();
      EXPECT_EQ(AsText(mapped->bytes), content.substr(offset, content.size() - offset - 3));
      kept = *std::move(mapped);
    }
    EXPECT_TRUE((*file)->Map(5, 0)->bytes.empty());
    EXPECT_TRUE(absl::IsUnimplemented((*file)->Map(0, 100'000).status()));
    EXPECT_TRUE(absl::IsUnimplemented((*file)->Map(100'000, 1).status()));
  }
  ASSERT_TRUE(fs.Unlink(path).ok());
  EXPECT_EQ(AsText(kept.bytes), content.substr(8191, content.size() - 8191 - 3))
      << "stays when the file is closed and gone";
}

TEST(PosixFileSystem, LocksNameTheirOwner) {
  std::string dir = testing::TempDir() + "/tilekv_base_" + std::to_string(getpid());
  FileSystem& fs = *FileSystem::Posix();
  ASSERT_TRUE(fs.CreateDirectory(dir).ok());
  {
    auto lock = fs.Lock(dir + "/LOCK", "pid 42");
    ASSERT_TRUE(lock.ok());
    absl::Status second = fs.Lock(dir + "/LOCK", "pid 43").status();
    EXPECT_EQ(GetReason(second), Reason::kStoreLocked);
    EXPECT_NE(second.message().find("pid 42"), absl::string_view::npos);
  }
  EXPECT_TRUE(fs.Lock(dir + "/LOCK", "pid 44").ok());
  ASSERT_TRUE(WriteFileAtomically(fs, dir + "/a", "hello").ok());
  EXPECT_EQ(*ReadFile(fs, dir + "/a", 100), "hello");
  EXPECT_EQ(GetReason(ReadFile(fs, dir + "/a", 4).status()), Reason::kInvalidFile);
  EXPECT_EQ(GetReason(fs.Open(dir + "/none", FileSystem::OpenMode::kRead).status()),
            Reason::kNotFound);
  EXPECT_EQ(*fs.List(dir), std::vector<std::string>({"LOCK", "a"}));
  for (const char* name : {"LOCK", "a"}) EXPECT_TRUE(fs.Unlink(dir + "/" + name).ok());
  EXPECT_TRUE(fs.RemoveDirectory(dir).ok());
}

}  // namespace
}  // namespace tilekv
