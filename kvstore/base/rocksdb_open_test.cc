// A database whose process is killed, whose machine loses its power, and both, one after the other.
#include "kvstore/base/rocksdb_open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/simulated_rocksdb_env.h"
#include "rocksdb/db.h"

namespace tilekv {
namespace {

using Loss = SimulatedDisk::Loss;

class Database {
 public:
  explicit Database(uint64_t seed) : disk(seed), env(&disk) {
    // RocksDB makes the directory, and leaves the sync of its entry to others.
    EXPECT_TRUE(disk.file_system()->CreateDirectory("/db").ok());
    EXPECT_TRUE(disk.file_system()->SyncDirectory("/").ok());
    options_.env = &env;
    options_.create_if_missing = true;
    options_.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    options_.info_log = std::make_shared<RocksDbNullLogger>();
  }

  rocksdb::Status Open() {
    dropped.clear();
    auto open = [this](const rocksdb::Options& how) {
      rocksdb::DB* opened = nullptr;
      rocksdb::Status status = rocksdb::DB::Open(how, "/db", &opened);
      db_.reset(opened);
      return status;
    };
    return OpenRocksDbToWrite(options_, "/db", open, dropped);
  }
  // `then` happens after the first attempt.
  rocksdb::Status OpenReader(std::function<void()> then = nullptr) {
    auto open = [this, &then](const rocksdb::Options& how) {
      rocksdb::DB* opened = nullptr;
      rocksdb::Status status = rocksdb::DB::OpenAsSecondary(how, "/db", "/db.secondary", &opened);
      reader_.reset(opened);
      if (then != nullptr) std::exchange(then, nullptr)();
      return status;
    };
    rocksdb::Options options = options_;
    options.max_open_files = -1;
    return OpenRocksDbToRead(options, "/db", open, view_);
  }

  // Long, so that a torn end of a file lies within the last one.
  bool Put(const std::string& key, bool sync) {
    rocksdb::WriteOptions options;
    options.sync = sync;
    return db_->Put(options, key, key + std::string(6'000, 'v')).ok() && !disk.is_off();
  }
  bool Has(const std::string& key) { return Has(*db_, key); }
  bool ReaderHas(const std::string& key) { return Has(*reader_, key); }
  rocksdb::Status RefreshReader() { return reader_->TryCatchUpWithPrimary(); }

  void End(Loss loss) {
    disk.PowerOff();
    db_.reset();
    disk.PowerOn(loss);
  }

  std::string PathOfManifest() {
    std::string name;
    EXPECT_TRUE(rocksdb::ReadFileToString(&env, "/db/CURRENT", &name).ok());
    return "/db/" + name.substr(0, name.size() - 1);
  }
  // The newest.
  std::string PathOfLog() {
    std::string newest;
    std::vector<std::string> names = *disk.file_system()->List("/db");
    for (const std::string& name : names) {
      if (name.find(".log") != std::string::npos) newest = std::max(newest, name);
    }
    return "/db/" + newest;
  }
  std::string Content(const std::string& path) {
    std::string content;
    EXPECT_TRUE(rocksdb::ReadFileToString(&env, path, &content).ok());
    return content;
  }
  void SetContent(const std::string& path, const std::string& content) {
    EXPECT_TRUE(rocksdb::WriteStringToFile(&env, content, path, true).ok());
  }
  // As a loss of power does it: the size is there, and the bytes are not.
  void Tear(const std::string& path, uint64_t bytes) {
    std::string content = Content(path);
    std::fill(content.end() - static_cast<ptrdiff_t>(bytes), content.end(), '\0');
    SetContent(path, content);
  }

  SimulatedDisk disk;
  SimulatedRocksDbEnv env;
  std::string dropped;  // by the last opening

 private:
  static bool Has(rocksdb::DB& db, const std::string& key) {
    std::string value;
    return db.Get({}, key, &value).ok() && value == key + std::string(6'000, 'v');
  }

  rocksdb::Options options_;
  std::unique_ptr<rocksdb::Env> view_;
  std::unique_ptr<rocksdb::DB> db_, reader_;
};

using LeaveOut = std::function<bool(const std::string& call, const std::string& path)>;

// An end in the middle of a write, another before the n-th change of the next opening and a write,
// a third opening: what is wrong then with what was acknowledged or seen. `whole`: there were less
// changes.
std::string LiveThrough(Loss first, Loss second, uint64_t change, const LeaveOut& leave_out,
                        bool& whole) {
  Database database(change);
  EXPECT_TRUE(database.Open().ok());
  EXPECT_TRUE(database.Put("acknowledged", true));
  EXPECT_TRUE(database.Put("in progress", false));
  database.End(first);

  database.disk.leave_out = leave_out;
  database.disk.PowerOffAtChange(change);
  bool seen = false, acknowledged = false;
  if (database.Open().ok() && !database.disk.is_off()) {
    seen = database.Has("in progress");
    acknowledged = database.Put("after it", true);
  }
  whole = !database.disk.is_off();
  database.End(second);

  rocksdb::Status opened = database.Open();
  if (!opened.ok()) return opened.ToString();
  if (!database.Has("acknowledged")) return "what was acknowledged before is gone";
  if (seen && !database.Has("in progress")) return "what was seen is gone";
  return acknowledged && !database.Has("after it") ? "what was acknowledged after it is gone" : "";
}

// With the second end before each change: what was wrong.
std::set<std::string> LiveThroughAll(Loss first, Loss second, const LeaveOut& leave_out = nullptr) {
  std::set<std::string> wrong;
  uint64_t change = 1;
  for (bool whole = false; !whole; ++change) {
    std::string problem = LiveThrough(first, second, change, leave_out, whole);
    if (!problem.empty()) wrong.insert(fmt::format("before change {}: {}", change, problem));
  }
  EXPECT_GT(change, 10u) << "hardly anything was tried";
  return wrong;
}

TEST(RocksDbOpen, AfterAKilledProcessALossOfPowerLeavesWhatWasFound) {
  for (Loss loss : {Loss::kEverything, Loss::kPrefix, Loss::kTornEnd}) {
    EXPECT_THAT(LiveThroughAll(Loss::kNothing, loss), testing::IsEmpty()) << static_cast<int>(loss);
  }
}

TEST(RocksDbOpen, AfterALossOfPowerAnotherInTheNextOpeningTakesNothingMore) {
  for (Loss loss : {Loss::kNothing, Loss::kEverything, Loss::kPrefix, Loss::kTornEnd}) {
    EXPECT_THAT(LiveThroughAll(Loss::kTornEnd, loss), testing::IsEmpty()) << static_cast<int>(loss);
  }
}

// The log of the process that was killed is the one of the first opening.
TEST(RocksDbOpen, WithoutTheSyncOfTheLogThatIsFoundADatabaseMayStayShut) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  std::string log = database.PathOfLog();
  auto leave_out = [&log](const std::string& call, const std::string& path) {
    return call == "sync" && path == log;
  };
  EXPECT_THAT(LiveThroughAll(Loss::kNothing, Loss::kTornEnd, leave_out),
              testing::Contains(testing::HasSubstr("Corruption")));
}

TEST(RocksDbOpen, ATornRecordIsCutOffForGood) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("acknowledged", true));
  uint64_t whole = database.Content(database.PathOfLog()).size();
  ASSERT_TRUE(database.Put("in progress", true));
  database.End(Loss::kNothing);
  std::string log = database.PathOfLog();
  database.Tear(log, 3'000);
  // Where the file may not be removed, it can be seen afterwards.
  database.disk.hook = [&log](const std::string& call, const std::string& path) {
    return call == "unlink" && path == log ? absl::UnavailableError("kept") : absl::OkStatus();
  };
  ASSERT_TRUE(database.Open().ok());
  EXPECT_TRUE(database.Has("acknowledged"));
  EXPECT_FALSE(database.Has("in progress"));
  database.End(Loss::kEverything);
  EXPECT_EQ(database.Content(log).size(), whole);
}

TEST(RocksDbOpen, AReaderOfATornLogSeesAllThatIsWholeAndChangesNothing) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("acknowledged", true));
  ASSERT_TRUE(database.Put("in progress", true));
  database.End(Loss::kNothing);
  database.Tear(database.PathOfLog(), 3'000);

  uint64_t changes = database.disk.changes();
  rocksdb::Status opened = database.OpenReader();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_TRUE(database.ReaderHas("acknowledged"));
  EXPECT_FALSE(database.ReaderHas("in progress"));
  ASSERT_TRUE(database.RefreshReader().ok());
  EXPECT_TRUE(database.ReaderHas("acknowledged"));
  EXPECT_EQ(database.disk.changes(), changes);

  // It follows the writer that comes later.
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("after it", true));
  rocksdb::Status refreshed = database.RefreshReader();
  ASSERT_TRUE(refreshed.ok()) << refreshed.ToString();
  EXPECT_TRUE(database.ReaderHas("acknowledged"));
  EXPECT_FALSE(database.ReaderHas("in progress"));
  EXPECT_TRUE(database.ReaderHas("after it"));
}

TEST(RocksDbOpen, AReaderOpensWhileAWriterMendsTheLog) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("acknowledged", true));
  ASSERT_TRUE(database.Put("in progress", true));
  database.End(Loss::kNothing);
  database.Tear(database.PathOfLog(), 3'000);
  rocksdb::Status opened = database.OpenReader([&database] {
    ASSERT_TRUE(database.Open().ok());
    ASSERT_TRUE(database.Put("after it", true));
  });
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_TRUE(database.ReaderHas("acknowledged"));
  EXPECT_TRUE(database.ReaderHas("after it"));
}

TEST(RocksDbOpen, DamageBeforeAWholeRecordIsLeftAsItIs) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("acknowledged", true));
  ASSERT_TRUE(database.Put("this too", true));
  database.End(Loss::kNothing);
  database.disk.FlipBit(database.PathOfLog(), 1'000);
  std::string damaged = database.Content(database.PathOfLog());
  EXPECT_TRUE(database.Open().IsCorruption());
  EXPECT_TRUE(database.OpenReader().IsCorruption());
  EXPECT_EQ(database.Content(database.PathOfLog()), damaged);
}

TEST(RocksDbOpen, DamageOfTheLastRecordIsLeftAsItIs) {
  Database database(1);
  ASSERT_TRUE(database.Open().ok());
  ASSERT_TRUE(database.Put("acknowledged", true));
  uint64_t before = database.Content(database.PathOfLog()).size();
  ASSERT_TRUE(database.Put("this too", true));
  database.End(Loss::kNothing);
  const std::string log = database.PathOfLog();
  const std::string whole = database.Content(log);
  // Its length too, with which it seems cut short.
  for (uint64_t at : {before + 5, before + 3'000, uint64_t{whole.size() - 5}}) {
    SCOPED_TRACE(at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    database.SetContent(log, damaged);
    EXPECT_TRUE(database.Open().IsCorruption());
    EXPECT_EQ(database.Content(log), damaged);
  }
}

TEST(RocksDbOpen, WhatIsLeftOutIsToldAndKeptWhereItMayBeDamage) {
  for (bool in_doubt : {false, true}) {
    SCOPED_TRACE(in_doubt);
    Database database(1);
    ASSERT_TRUE(database.Open().ok());
    EXPECT_EQ(database.dropped, "");
    ASSERT_TRUE(database.Put("acknowledged", true));
    uint64_t before = database.Content(database.PathOfLog()).size();
    ASSERT_TRUE(database.Put("in progress", true));
    database.End(Loss::kNothing);
    database.Tear(database.PathOfLog(), in_doubt ? 4 : 400);
    std::string torn = database.Content(database.PathOfLog()).substr(before);
    std::string kept = database.PathOfLog();
    kept = std::string("/db/") + kDroppedPrefix + std::to_string(std::stoi(kept.substr(4)));
    ASSERT_TRUE(database.Open().ok());
    EXPECT_THAT(database.dropped, testing::HasSubstr("never acknowledged"));
    EXPECT_EQ(database.env.FileExists(kept).ok(), in_doubt);
    if (in_doubt) {
      EXPECT_EQ(database.Content(kept), torn);
    }
  }
}

TEST(RocksDbOpen, AManifestWhoseEndWasNeverWrittenIsCutAndOneThatIsDamagedIsNot) {
  for (bool torn : {true, false}) {
    SCOPED_TRACE(torn);
    Database database(1);
    ASSERT_TRUE(database.Open().ok());
    ASSERT_TRUE(database.Put("key", true));
    std::string record = database.Content(database.PathOfLog());
    database.End(Loss::kNothing);
    if (torn) {
      std::fill(record.end() - 150, record.end(), '\0');
    } else {
      record[100] ^= 1;
    }
    std::string manifest = database.PathOfManifest();
    database.SetContent(manifest, database.Content(manifest) + record);
    EXPECT_EQ(database.OpenReader().ok(), torn);
    EXPECT_EQ(database.Open().ok(), torn);
    if (!torn) continue;
    EXPECT_TRUE(database.ReaderHas("key"));
    EXPECT_TRUE(database.Has("key"));
  }
}

}  // namespace
}  // namespace tilekv
