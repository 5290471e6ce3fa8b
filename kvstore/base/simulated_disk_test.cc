#include "kvstore/base/simulated_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/simulated_rocksdb_env.h"
#include "kvstore/base/status.h"
#include "rocksdb/db.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Loss = SimulatedDisk::Loss;
using OpenMode = FileSystem::OpenMode;

std::string ContentOf(FileSystem& fs, const std::string& path) {
  auto content = ReadFile(fs, path, uint64_t{1} << 20);
  return content.ok() ? *content : ErrorText(content.status());
}

void Write(FileSystem& fs, const std::string& path, const std::string& content, bool sync) {
  auto file = *fs.Open(path, OpenMode::kReadWrite);
  ASSERT_TRUE(file->Write(0, AsBytes(content)).ok());
  if (sync) {
    ASSERT_TRUE(file->Sync().ok());
  }
}

void LosePower(SimulatedDisk& disk, Loss loss) {
  disk.PowerOff();
  disk.PowerOn(loss);
}

TEST(SimulatedDisk, KeepsSyncedBytesUnderSyncedEntriesOnly) {
  SimulatedDisk disk(1);
  FileSystem& fs = *disk.file_system();
  Write(fs, "/whole", "bytes", true);
  Write(fs, "/entry", "bytes", false);
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  Write(fs, "/bytes", "bytes", true);
  Write(fs, "/whole", "BYTES", false);
  EXPECT_EQ(ContentOf(fs, "/whole"), "BYTES");
  LosePower(disk, Loss::kEverything);
  EXPECT_THAT(*fs.List("/"), ElementsAre("entry", "whole"));
  EXPECT_EQ(ContentOf(fs, "/whole"), "bytes");
  EXPECT_EQ(ContentOf(fs, "/entry"), "");
}

TEST(SimulatedDisk, UndoesUnsyncedRenamesAndRemovals) {
  SimulatedDisk disk(1);
  FileSystem& fs = *disk.file_system();
  for (const char* path : {"/a", "/b", "/c"}) Write(fs, path, path, true);
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(fs.Rename("/a", "/b").ok());
  ASSERT_TRUE(fs.Unlink("/c").ok());
  EXPECT_THAT(*fs.List("/"), ElementsAre("b"));
  LosePower(disk, Loss::kEverything);
  EXPECT_THAT(*fs.List("/"), ElementsAre("a", "b", "c"));
  EXPECT_EQ(ContentOf(fs, "/b"), "/b");
  ASSERT_TRUE(fs.Rename("/a", "/b").ok());
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  LosePower(disk, Loss::kEverything);
  EXPECT_THAT(*fs.List("/"), ElementsAre("b", "c"));
  EXPECT_EQ(ContentOf(fs, "/b"), "/a");
}

TEST(SimulatedDisk, ARenameIntoAnotherDirectoryHappensAsAWhole) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedDisk disk(seed);
    FileSystem& fs = *disk.file_system();
    for (const char* path : {"/a", "/b"}) ASSERT_TRUE(fs.CreateDirectory(path).ok());
    Write(fs, "/a/x", "bytes", true);
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    ASSERT_TRUE(fs.SyncDirectory("/a").ok());
    ASSERT_TRUE(fs.Rename("/a/x", "/b/y").ok());
    EXPECT_THAT(*fs.List("/a"), IsEmpty());
    EXPECT_EQ(ContentOf(fs, "/b/y"), "bytes");
    LosePower(disk, Loss::kPrefix);
    ASSERT_EQ(fs.List("/a")->size() + fs.List("/b")->size(), 1u);
    if (fs.List("/b")->empty()) {
      ASSERT_TRUE(fs.Rename("/a/x", "/b/y").ok());
      LosePower(disk, Loss::kEverything);
      EXPECT_THAT(*fs.List("/a"), ElementsAre("x"));
      ASSERT_TRUE(fs.Rename("/a/x", "/b/y").ok());
      ASSERT_TRUE(fs.SyncDirectory(seed % 2 == 0 ? "/a" : "/b").ok());
      LosePower(disk, Loss::kEverything);
      EXPECT_THAT(*fs.List("/a"), IsEmpty());
    }
    EXPECT_EQ(ContentOf(fs, "/b/y"), "bytes");
  }
}

TEST(SimulatedDisk, KeepsSomePrefixOfTheUnsynced) {
  std::set<std::string> left;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedDisk disk(seed);
    FileSystem& fs = *disk.file_system();
    Write(fs, "/f", "", false);
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    auto file = *fs.Open("/f", OpenMode::kReadWrite);
    ASSERT_TRUE(file->Write(0, AsBytes(std::string("abc"))).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Write(3, AsBytes(std::string("de"))).ok());
    ASSERT_TRUE(file->Write(5, AsBytes(std::string("f"))).ok());
    LosePower(disk, Loss::kPrefix);
    left.insert(ContentOf(fs, "/f"));
  }
  EXPECT_THAT(left, ElementsAre("abc", "abcd", "abcde", "abcdef"));
}

TEST(SimulatedDisk, TearsTheLastFourKibibytesAndNoSyncedByte) {
  bool shorter = false, zeros = false;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedDisk disk(seed);
    FileSystem& fs = *disk.file_system();
    auto file = *fs.Open("/f", OpenMode::kCreateNew);
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    ASSERT_TRUE(file->Write(0, AsBytes(std::string(6'000, 's'))).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Write(6'000, AsBytes(std::string(3'000, 'u'))).ok());
    LosePower(disk, Loss::kTornEnd);
    std::string left = ContentOf(fs, "/f");
    size_t whole = left.find_first_not_of('u', 6'000);
    EXPECT_EQ(left.substr(0, 6'000), std::string(6'000, 's'));
    shorter |= left.size() < 9'000;
    zeros |= left.size() == 9'000 && whole != std::string::npos && left[whole] == '\0';
  }
  EXPECT_TRUE(shorter);
  EXPECT_TRUE(zeros);
}

TEST(SimulatedDisk, ACutLeavesTheBytesBeforeIt) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedDisk disk(seed);
    FileSystem& fs = *disk.file_system();
    Write(fs, "/f", std::string(9'000, 's'), true);
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    ASSERT_TRUE((*fs.Open("/f", OpenMode::kReadWrite))->Truncate(6'000).ok());
    LosePower(disk, Loss::kTornEnd);
    EXPECT_EQ(ContentOf(fs, "/f"), std::string(6'000, 's'));
  }
}

TEST(SimulatedDisk, IsOffFromTheChangeThatWasNamed) {
  SimulatedDisk disk(1);
  FileSystem& fs = *disk.file_system();
  Write(fs, "/f", "before", true);
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  auto file = *fs.Open("/f", OpenMode::kReadWrite);
  disk.PowerOffAtChange(2);
  EXPECT_TRUE(file->Write(0, AsBytes(std::string("during"))).ok());
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(file->Size().ok() && file->Write(0, AsBytes(std::string("x"))).ok());
  EXPECT_TRUE(disk.is_off());
  disk.PowerOn(Loss::kEverything);
  EXPECT_FALSE(file->Write(0, AsBytes(std::string("x"))).ok()) << "open before the loss";
  EXPECT_EQ(ContentOf(fs, "/f"), "before");
}

TEST(SimulatedDisk, LeavesOutSyncsWithoutAWord) {
  SimulatedDisk disk(1);
  FileSystem& fs = *disk.file_system();
  std::vector<std::string> calls;
  disk.leave_out = [&](const std::string& call, const std::string& path) {
    calls.push_back(call + " " + path);
    return call == "sync_directory";
  };
  Write(fs, "/f", "bytes", true);
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  LosePower(disk, Loss::kEverything);
  EXPECT_THAT(calls, ElementsAre("sync /f", "sync_directory /"));
  EXPECT_THAT(*fs.List("/"), IsEmpty());
}

std::unique_ptr<rocksdb::DB> OpenRocksDb(SimulatedRocksDbEnv& env) {
  rocksdb::Options options;
  options.env = &env;
  options.create_if_missing = true;
  options.info_log = std::make_shared<RocksDbNullLogger>();
  rocksdb::DB* db = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, "/db", &db);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::unique_ptr<rocksdb::DB>(db);
}

TEST(SimulatedRocksDbEnv, LosesWhatRocksDbDidNotSync) {
  SimulatedDisk disk(1);
  SimulatedRocksDbEnv env(&disk);
  auto db = OpenRocksDb(env);
  ASSERT_TRUE(disk.file_system()->SyncDirectory("/").ok());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  ASSERT_TRUE(db->Put(synced, "synced", "1").ok());
  ASSERT_TRUE(db->Put({}, "unsynced", "1").ok());
  disk.PowerOff();
  db.reset();
  disk.PowerOn(Loss::kEverything);
  db = OpenRocksDb(env);
  std::string value;
  EXPECT_TRUE(db->Get({}, "synced", &value).ok());
  EXPECT_TRUE(db->Get({}, "unsynced", &value).IsNotFound());
}

TEST(SimulatedRocksDbEnv, CompactsWhenTold) {
  SimulatedDisk disk(1);
  SimulatedRocksDbEnv env(&disk);
  std::string files;
  // Each opening writes what the log held to a file of its own.
  for (int i = 0; i < 6; ++i) {
    auto db = OpenRocksDb(env);
    ASSERT_TRUE(db->Put({}, "key", "value").ok());
    if (i < 5) continue;
    EXPECT_TRUE(db->GetProperty("rocksdb.num-files-at-level0", &files));
    EXPECT_EQ(files, "5");
    env.RunJobs();
    EXPECT_TRUE(db->GetProperty("rocksdb.num-files-at-level0", &files));
    EXPECT_EQ(files, "0");
  }
}

}  // namespace
}  // namespace tilekv
