#include "kvstore/catalog/local_catalog.h"

#include <cstdlib>
#include <filesystem>

#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/base/test_process.h"
#include "kvstore/base/test_rocksdb_env.h"
#include "kvstore/catalog/catalog_conformance.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

// A directory of its own, gone at the end.
class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = testing::TempDir() + "/catalogXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct CatalogInDirectory {
  TempDirectory directory;
  std::unique_ptr<LocalCatalog> catalog;
};

std::unique_ptr<LocalCatalog> OpenIn(const std::string& path, Clock* clock = Clock::System(),
                                     bool read_only = false) {
  LocalCatalogOptions options;
  options.directory = path;
  options.create_if_missing = true;
  options.read_only = read_only;
  options.clock = clock;
  auto catalog = LocalCatalog::Open(options);
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return catalog.ok() ? *std::move(catalog) : nullptr;
}

CatalogTxn PutTxn(std::string key, std::string value, LeaseId lease = 0) {
  return {.compares = {}, .writes = {CatalogWrite::Put(std::move(key), std::move(value), lease)}};
}

TEST(LocalCatalog, KeepsEntriesAndRevisionsOverAReopening) {
  TempDirectory directory;
  Revision written, line;
  {
    auto catalog = OpenIn(directory.path());
    written = catalog->Txn(PutTxn("a", "1"))->revision;
    line = (*catalog->Get(kLineKey))->mod_revision;
  }
  auto catalog = OpenIn(directory.path());
  EXPECT_EQ(*catalog->CurrentRevision(), written);
  EXPECT_EQ((*catalog->Get("a"))->mod_revision, written);
  EXPECT_EQ((*catalog->Get(kLineKey))->mod_revision, line);
  EXPECT_EQ(catalog->Txn(PutTxn("a", "2"))->revision, written.Next());
}

TEST(LocalCatalog, OpeningAsWriterEndsLeasesOfEarlierProcesses) {
  TempDirectory directory;
  LeaseId lease = 0;
  Revision written;
  {
    auto catalog = OpenIn(directory.path());
    lease = *catalog->Grant(1000);
    catalog->Txn(PutTxn("s/1", "x", lease)).IgnoreError();
    written = catalog->Txn(PutTxn("a", "x"))->revision;
  }
  auto catalog = OpenIn(directory.path());
  EXPECT_FALSE((*catalog->Get("s/1")).has_value());
  EXPECT_TRUE((*catalog->Get("a")).has_value());
  EXPECT_FALSE(*catalog->KeepAlive(lease, 1000));
  EXPECT_GT(*catalog->CurrentRevision(), written) << "a revision is never used twice";
}

constexpr char kChildDirectory[] = "TILEKV_TEST_DIRECTORY";

// What the other process does; the test runs this program again with the variable set.
TEST(LocalCatalogChild, WritesTwice) {
  const char* directory = std::getenv(kChildDirectory);
  if (directory == nullptr) GTEST_SKIP() << "runs as a process of another test";
  auto catalog = OpenIn(directory);
  ASSERT_TRUE(catalog->Txn(PutTxn("a", "1")).ok());
  ArmCrashPoint("catalog.before_write", 1);
  ASSERT_TRUE(catalog->Txn(PutTxn("b", "1")).ok());
}

TEST(LocalCatalog, AnAcknowledgedTransactionSurvivesTheEndOfTheProcess) {
  TempDirectory directory;
  ASSERT_EQ(RunTestProcess("LocalCatalogChild.*",
                           {std::string(kChildDirectory) + "=" + directory.path()}),
            137);
  auto catalog = OpenIn(directory.path());
  EXPECT_TRUE((*catalog->Get("a")).has_value());
  EXPECT_FALSE((*catalog->Get("b")).has_value());
}

TEST(LocalCatalog, AReaderSeesWhatTheWriterDidAndWritesNothing) {
  TempDirectory directory;
  auto writer = OpenIn(directory.path());
  writer->Txn(PutTxn("a", "1")).IgnoreError();
  auto reader = OpenIn(directory.path(), Clock::System(), true);
  EXPECT_EQ((*reader->Get("a"))->value, "1");
  {
    auto snapshot = reader->Snapshot();
    ASSERT_TRUE(snapshot.ok());
    writer->Txn(PutTxn("a", "2")).IgnoreError();
    EXPECT_EQ((*reader->Get("a"))->value, "1") << "a snapshot holds the reader where it is";
    EXPECT_EQ((*(*snapshot)->Get("a"))->value, "1");
  }
  EXPECT_EQ((*reader->Get("a"))->value, "2");
  EXPECT_EQ(*reader->CurrentRevision(), *writer->CurrentRevision());
  EXPECT_EQ(GetReason(reader->Txn(PutTxn("a", "3")).status()), Reason::kPermissionDenied);
  EXPECT_EQ(GetReason(reader->Grant(1).status()), Reason::kPermissionDenied);
}

// A catalog whose log can be made to fail after the bytes are in it.
class FailingCatalog : public testing::Test {
 protected:
  FailingCatalog() { Open(); }
  void Open() {
    catalog_.reset();
    env_.fail_log_sync = false;
    LocalCatalogOptions options;
    options.directory = directory_.path();
    options.create_if_missing = true;
    options.rocksdb_env = &env_;
    options.clock = &clock_;
    catalog_ = *LocalCatalog::Open(options);
  }

  TempDirectory directory_;
  TestRocksDbEnv env_;
  ManualClock clock_;
  std::unique_ptr<LocalCatalog> catalog_;
};

TEST_F(FailingCatalog, SaysThatAWriteWhichFailedMayBeThere) {
  ASSERT_TRUE(catalog_->Txn(PutTxn("a", "1")).ok());
  EXPECT_TRUE(catalog_->CheckWritable().ok());
  env_.fail_log_sync = true;
  EXPECT_EQ(GetReason(catalog_->Txn(PutTxn("a", "2")).status()), Reason::kOutcomeUnknown);
  env_.fail_log_sync = false;
  // What comes later certainly is not, also what would work now.
  EXPECT_EQ(GetReason(catalog_->Txn(PutTxn("b", "1")).status()), Reason::kStoreFailed);
  EXPECT_EQ(GetReason(catalog_->CheckWritable()), Reason::kStoreFailed);
  EXPECT_EQ((*catalog_->Get("a"))->value, "1");
  Open();
  EXPECT_EQ((*catalog_->Get("a"))->value, "2");
  EXPECT_FALSE((*catalog_->Get("b")).has_value());
}

TEST_F(FailingCatalog, EndsNoLeaseWhoseEndCouldNotBeWrittenAndReadsOn) {
  LeaseId revoked = *catalog_->Grant(1000);
  LeaseId due = *catalog_->Grant(10);
  ASSERT_TRUE(catalog_->Txn(PutTxn("s/1", "x", revoked)).ok());
  ASSERT_TRUE(catalog_->Txn(PutTxn("s/2", "x", due)).ok());
  env_.fail_log_sync = true;
  EXPECT_EQ(GetReason(catalog_->Revoke(revoked)), Reason::kOutcomeUnknown);
  EXPECT_TRUE(*catalog_->KeepAlive(revoked, 1000));
  clock_.Advance(20 * 1'000'000);
  auto entry = catalog_->Get("s/2");
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_TRUE(entry->has_value());
}

TEST_F(FailingCatalog, ReadsOnWhereTheEndOfALeaseIsTheFirstWriteThatFails) {
  LeaseId due = *catalog_->Grant(10);
  ASSERT_TRUE(catalog_->Txn(PutTxn("s/1", "x", due)).ok());
  env_.fail_log_sync = true;
  clock_.Advance(20 * 1'000'000);
  EXPECT_TRUE(catalog_->Get("s/1").ok());
  EXPECT_TRUE(catalog_->Get("s/1").ok());
  EXPECT_EQ(GetReason(catalog_->CheckWritable()), Reason::kStoreFailed);
}

TEST_F(FailingCatalog, MakesTheEntryOfItsDirectoryDurable) {
  EXPECT_TRUE(env_.WasSynced(directory_.path() + "/"));
}

TEST(LocalCatalog, AReaderLeavesNothingAnywhere) {
  TempDirectory directory, temporary;
  auto writer = OpenIn(directory.path());
  const char* before = std::getenv("TMPDIR");
  std::string restore = before == nullptr ? "" : before;
  setenv("TMPDIR", temporary.path().c_str(), 1);
  auto reader = OpenIn(directory.path(), Clock::System(), true);
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE((*reader->Get(kLineKey)).has_value());
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", restore.c_str(), 1);
  // While it is open: it may be killed.
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/catalog.secondary"));
}

TEST(LocalCatalog, ReadingNeverCreates) {
  TempDirectory directory;
  LocalCatalogOptions options;
  options.directory = directory.path();
  options.read_only = true;
  EXPECT_EQ(GetReason(LocalCatalog::Open(options).status()), Reason::kNotFound);
  options.read_only = false;
  EXPECT_EQ(GetReason(LocalCatalog::Open(options).status()), Reason::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Local, CatalogConformance,
                         testing::Values(CatalogMaker{
                             "local", [](Clock* clock, Random*) -> std::shared_ptr<Catalog> {
                               auto held = std::make_shared<CatalogInDirectory>();
                               held->catalog = OpenIn(held->directory.path(), clock);
                               return std::shared_ptr<Catalog>(held, held->catalog.get());
                             }}));

}  // namespace tilekv
