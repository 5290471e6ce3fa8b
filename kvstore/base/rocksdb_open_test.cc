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

// On a disk that is nearly full the log that was cut is needed on.
std::set<std::string> LoseAfterATornLog(bool leave_out_cut) {
  std::set<std::string> wrong;
  bool whole = false;
  for (uint64_t change = 1; !whole; ++change) {
    Database database(change);
    EXPECT_TRUE(database.Open().ok() && database.Put("acknowledged", true));
    EXPECT_TRUE(database.Put("in progress", true));
    database.End(Loss::kNothing);
    const std::string log = database.PathOfLog();
    database.Tear(log, 3'000);
    database.disk.space.available_bytes = 1'000'000;
    int syncs = 0;  // the first is of what is found
    database.disk.leave_out = [&](const std::string& call, const std::string& path) {
      return leave_out_cut && call == "sync" && path == log && ++syncs == 2;
    };
    database.disk.PowerOffAtChange(change);
    const bool acknowledged = database.Open().ok() && database.Put("after it", true);
    whole = !database.disk.is_off();
    database.End(Loss::kEverything);
    database.disk.leave_out = nullptr;
    rocksdb::Status opened = database.Open();
    if (!opened.ok()) {
      wrong.insert(opened.ToString());
    } else if (!database.Has("acknowledged") || (acknowledged && !database.Has("after it"))) {
      wrong.insert("what was acknowledged is gone");
    }
  }
  return wrong;
}

TEST(RocksDbOpen, WithoutTheSyncOfTheCutADatabaseOnAFullDiskMayStayShut) {
  EXPECT_THAT(LoseAfterATornLog(false), testing::IsEmpty());
  EXPECT_THAT(LoseAfterATornLog(true), testing::Contains(testing::HasSubstr("Corruption")));
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
  // Bytes of the end that are zeros: they begin with a sector, or where damage may have been.
  for (uint64_t zeros : {uint64_t{0}, uint64_t{4}, uint64_t{1'000}}) {
    SCOPED_TRACE(zeros);
    const bool in_doubt = zeros != 0;
    Database database(1);
    ASSERT_TRUE(database.Open().ok());
    EXPECT_EQ(database.dropped, "");
    ASSERT_TRUE(database.Put("acknowledged", true));
    uint64_t before = database.Content(database.PathOfLog()).size();
    ASSERT_TRUE(database.Put("in progress", true));
    database.End(Loss::kNothing);
    uint64_t last_sector = database.Content(database.PathOfLog()).size() % 512;
    database.Tear(database.PathOfLog(), in_doubt ? zeros : 512 + last_sector);
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

// The power goes before each change of an opening that cuts off what may be damage, and everything
// that was not synced is gone: what is wrong after the next opening.
std::set<std::string> LoseWhereADoubtIsKept(const LeaveOut& leave_out) {
  std::set<std::string> wrong;
  bool whole = false;
  uint64_t change = 1;
  for (; !whole; ++change) {
    Database database(change);
    EXPECT_TRUE(database.Open().ok() && database.Put("acknowledged", true));
    const uint64_t before = database.Content(database.PathOfLog()).size();
    EXPECT_TRUE(database.Put("in progress", true));
    database.End(Loss::kNothing);
    const std::string log = database.PathOfLog();
    database.Tear(log, 4);
    const std::string torn = database.Content(log).substr(before);
    database.disk.leave_out = leave_out;
    database.disk.PowerOffAtChange(change);
    database.Open().PermitUncheckedError();
    whole = !database.disk.is_off();
    database.End(Loss::kEverything);
    database.disk.leave_out = nullptr;

    const std::string kept =
        std::string("/db/") + kDroppedPrefix + std::to_string(std::stoi(log.substr(4)));
    if (!database.Open().ok() || !database.Has("acknowledged")) {
      wrong.insert("what was acknowledged is gone");
    } else if (!database.env.FileExists(kept).ok()) {
      wrong.insert("nothing tells of a doubt");
    } else if (database.Content(kept) != torn) {
      wrong.insert("what is in doubt is not kept");
    }
  }
  EXPECT_GT(change, 10u) << "hardly anything was tried";
  return wrong;
}

bool IsDropped(const std::string& path) {
  return path.rfind(std::string("/db/") + kDroppedPrefix, 0) == 0;
}

TEST(RocksDbOpen, WhatMayBeDamageIsKeptWhereverThePowerGoes) {
  EXPECT_THAT(LoseWhereADoubtIsKept(nullptr), testing::IsEmpty());
}

TEST(RocksDbOpen, WithoutTheSyncOfWhatIsKeptItMayBeGone) {
  auto leave_out = [](const std::string& call, const std::string& path) {
    return call == "sync" && IsDropped(path);
  };
  EXPECT_THAT(LoseWhereADoubtIsKept(leave_out), testing::Contains("what is in doubt is not kept"));
}

TEST(RocksDbOpen, WithoutTheSyncOfItsDirectoryNothingMayTellOfADoubt) {
  // Later ones are RocksDB's own, for other files.
  bool next = false;
  auto leave_out = [&next](const std::string& call, const std::string& path) {
    const bool here = next && call == "sync_directory" && path == "/db";
    next = call == "sync" && IsDropped(path);
    return here;
  };
  EXPECT_THAT(LoseWhereADoubtIsKept(leave_out), testing::Contains("nothing tells of a doubt"));
}

// A process is killed at a sync of the manifest, the next one goes on with what it finds, and the
// power goes before each change of that: what is wrong then. `leave_out_sync`: of the manifest that
// was found.
std::set<std::string> LoseAfterAManifestThatWasNotSynced(Loss loss, bool leave_out_sync) {
  std::set<std::string> wrong;
  bool killed = true;
  size_t tried = 0, left_out = 0;
  for (size_t n = 1; killed; ++n) {
    bool whole = false;
    for (uint64_t change = 1; killed && !whole; ++change) {
      Database database(change);
      EXPECT_TRUE(database.Open().ok() && database.Put("acknowledged", true));
      database.End(Loss::kNothing);
      // The opening of this one makes a table of the log, which the manifest tells.
      size_t left = n;
      database.disk.hook = [&left](const std::string& call, const std::string& path) {
        const bool here =
            left > 0 && call == "sync" && path.find("MANIFEST") != std::string::npos && --left == 0;
        return here ? absl::UnavailableError("killed") : absl::OkStatus();
      };
      database.Open().PermitUncheckedError();
      killed = left == 0;
      database.disk.hook = nullptr;
      database.End(Loss::kNothing);
      if (!killed) break;
      const std::string manifest = database.PathOfManifest();
      bool seen = false;
      database.disk.leave_out = [&](const std::string& call, const std::string& path) {
        const bool here = leave_out_sync && !seen && call == "sync" && path == manifest;
        seen |= here;
        return here;
      };
      database.disk.PowerOffAtChange(change);
      bool acknowledged = database.Open().ok() && database.Put("after it", true);
      whole = !database.disk.is_off();
      database.End(loss);
      database.disk.leave_out = nullptr;
      ++tried;
      left_out += seen;
      rocksdb::Status opened = database.Open();
      if (!opened.ok()) {
        wrong.insert(opened.ToString());
      } else if (!database.Has("acknowledged")) {
        wrong.insert("what was acknowledged before is gone");
      } else if (acknowledged && !database.Has("after it")) {
        wrong.insert("what was acknowledged after it is gone");
      }
    }
  }
  EXPECT_GT(tried, 30u) << "hardly anything was tried";
  EXPECT_EQ(left_out > 30u, leave_out_sync);
  return wrong;
}

TEST(RocksDbOpen, AManifestThatWasNotSyncedIsNeverBuiltOn) {
  for (Loss loss : {Loss::kEverything, Loss::kPrefix, Loss::kTornEnd}) {
    for (bool leave_out_sync : {false, true}) {
      SCOPED_TRACE(fmt::format("loss {}, left out {}", static_cast<int>(loss), leave_out_sync));
      EXPECT_THAT(LoseAfterAManifestThatWasNotSynced(loss, leave_out_sync), testing::IsEmpty());
    }
  }
}

// Nor without the sync of the cut: the next opening finds the same and cuts it again.
TEST(RocksDbOpen, ATornManifestIsCutWhereverThePowerGoes) {
  for (bool leave_out_sync : {false, true}) {
    SCOPED_TRACE(leave_out_sync);
    bool whole = false;
    uint64_t change = 1;
    bool left_out = false;
    for (; !whole; ++change) {
      Database database(change);
      ASSERT_TRUE(database.Open().ok() && database.Put("key", true));
      std::string record = database.Content(database.PathOfLog());
      database.End(Loss::kNothing);
      std::fill(record.end() - 150, record.end(), '\0');
      const std::string manifest = database.PathOfManifest();
      database.SetContent(manifest, database.Content(manifest) + record);
      int syncs = 0;  // the first is of what is found
      database.disk.leave_out = [&](const std::string& call, const std::string& path) {
        const bool here = leave_out_sync && call == "sync" && path == manifest && ++syncs == 2;
        left_out |= here;
        return here;
      };
      database.disk.PowerOffAtChange(change);
      const bool acknowledged = database.Open().ok() && database.Put("after it", true);
      whole = !database.disk.is_off();
      database.End(Loss::kEverything);
      database.disk.leave_out = nullptr;
      ASSERT_TRUE(database.Open().ok()) << change;
      EXPECT_TRUE(database.Has("key")) << change;
      EXPECT_TRUE(!acknowledged || database.Has("after it")) << change;
    }
    EXPECT_GT(change, 10u) << "hardly anything was tried";
    EXPECT_EQ(left_out, leave_out_sync);
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
