#include "kvstore/base/rocksdb_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/simulated_rocksdb_env.h"
#include "rocksdb/db.h"

namespace tilekv {
namespace {

// The log of a database after these writes, and one of `last`, as RocksDB itself makes it.
std::string LogOf(std::initializer_list<size_t> value_bytes, const std::string& last = "") {
  SimulatedDisk disk(1);
  SimulatedRocksDbEnv env(&disk);
  rocksdb::Options options;
  options.env = &env;
  options.create_if_missing = true;
  options.info_log = std::make_shared<RocksDbNullLogger>();
  rocksdb::DB* opened = nullptr;
  EXPECT_TRUE(rocksdb::DB::Open(options, "/db", &opened).ok());
  std::unique_ptr<rocksdb::DB> db(opened);
  for (size_t bytes : value_bytes) {
    EXPECT_TRUE(db->Put({}, "key", std::string(bytes, 'v')).ok());
  }
  if (!last.empty()) {
    EXPECT_TRUE(db->Put({}, "key", last).ok());
  }
  std::vector<std::string> names = *disk.file_system()->List("/db");
  for (const std::string& name : names) {
    if (name.find(".log") == std::string::npos) continue;
    auto content = ReadFile(*disk.file_system(), "/db/" + name, uint64_t{1} << 20);
    return content.ok() ? *content : "";
  }
  return "";
}

LogDamage DamageOf(std::string_view log) { return ReadLogState(AsBytes(log)).damage; }

bool IsInDoubt(std::string_view log) { return ReadLogState(AsBytes(log)).in_doubt; }

TEST(RocksDbLog, IsWholeAsRocksDbWritesIt) {
  EXPECT_EQ(DamageOf(""), LogDamage::kNone);
  EXPECT_EQ(DamageOf(LogOf({1})), LogDamage::kNone);
  // Over several blocks, also with a rest of one that takes no header.
  EXPECT_EQ(DamageOf(LogOf({100, 100'000, 5, 32'768, 7})), LogDamage::kNone);
  for (size_t last = 32'700; last < 32'768; ++last) {
    ASSERT_EQ(DamageOf(LogOf({last, 10})), LogDamage::kNone) << last;
  }
}

TEST(RocksDbLog, TellsATornLastRecordFromDamageBeforeAnother) {
  std::string log = LogOf({2'000, 100'000, 3'000});
  size_t last = log.size() - 3'000;
  for (size_t at : {size_t{3}, size_t{1'000}, size_t{50'000}, size_t{90'000}, last - 200}) {
    std::string damaged = log;
    damaged[at] ^= 1;
    EXPECT_EQ(DamageOf(damaged), LogDamage::kDamaged) << at;
  }
  for (size_t left : {size_t{1}, size_t{100}, size_t{2'983}}) {
    std::string torn = log;
    torn.replace(last + left, std::string::npos, std::string(3'000 - left, '\0'));
    EXPECT_EQ(DamageOf(torn), LogDamage::kTornEnd) << left;
    EXPECT_EQ(DamageOf(log.substr(0, last + left)), LogDamage::kTornEnd) << left;
    EXPECT_FALSE(IsInDoubt(log.substr(0, last + left))) << left;
  }
}

TEST(RocksDbLog, IsTornBeyondDoubtWhereItsZerosBeginWithASectorOrWithTheRecord) {
  const std::string before = LogOf({2'000});
  const std::string log = LogOf({2'000, 3'000});
  for (size_t left = before.size(); left + 1 < log.size(); ++left) {
    bool missing = left == before.size() || left % 512 == 0;
    if (log[left - 1] == 0) continue;  // they begin earlier
    std::string torn = log;
    torn.replace(left, std::string::npos, std::string(log.size() - left, '\0'));
    ASSERT_EQ(DamageOf(torn), LogDamage::kTornEnd) << left;
    ASSERT_EQ(IsInDoubt(torn), !missing || log.size() - left < 16) << left;
  }
}

TEST(RocksDbLog, TakesNoBitThatTurnedInTheLastRecordForATornOne) {
  std::string before = LogOf({2'000});
  std::string log = LogOf({2'000, 300});
  for (size_t at = before.size(); at < log.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = log;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ASSERT_EQ(DamageOf(damaged), LogDamage::kDamaged) << at << " " << bit;
      ASSERT_EQ(ReadLogState(AsBytes(damaged)).turned_byte, at) << bit;
    }
  }
  // Nor where the record ends in zeros, as numbers do.
  std::string value = "value" + std::string(6, '\0');
  std::string zeros = LogOf({2'000}, value);
  for (size_t at = before.size(); at < zeros.size() - 6; ++at) {
    std::string damaged = zeros;
    damaged[at] ^= 8;
    ASSERT_EQ(DamageOf(damaged), LogDamage::kDamaged) << at;
  }
}

TEST(RocksDbLog, IsInDoubtWhereMoreThanABitMayHaveTurned) {
  std::string zeros = LogOf({2'000}, "value" + std::string(6, '\0'));
  zeros[zeros.size() - 8] ^= 3;
  zeros[zeros.size() - 9] ^= 3;
  EXPECT_EQ(DamageOf(zeros), LogDamage::kTornEnd);
  EXPECT_TRUE(ReadLogState(AsBytes(zeros)).in_doubt);
  // Without a zero nothing is missing.
  std::string log = LogOf({2'000, 300});
  log[log.size() - 8] ^= 3;
  log[log.size() - 9] ^= 3;
  EXPECT_EQ(DamageOf(log), LogDamage::kDamaged);
}

// As the batches of an index do, whose last part is a content.
TEST(RocksDbLog, IsInDoubtHoweverManyZerosTheLastRecordEndsIn) {
  for (size_t zeros : {16, 100, 3'000}) {
    std::string log = LogOf({2'000}, "value" + std::string(zeros, '\0'));
    ASSERT_NE((log.size() - zeros) % 512, 0u);
    log[log.size() - zeros - 2] ^= 3;
    log[log.size() - zeros - 3] ^= 3;
    EXPECT_EQ(DamageOf(log), LogDamage::kTornEnd) << zeros;
    EXPECT_TRUE(IsInDoubt(log)) << zeros;
  }
}

TEST(RocksDbLog, IsDamagedWhereItIsWholeButForBitsOfItsLength) {
  const size_t at = LogOf({2'000}).size();
  for (size_t zeros : {0, 6, 100}) {
    std::string log = LogOf({2'000}, std::string(300, 'v') + std::string(zeros, '\0'));
    log[at + 5] ^= 0x24;  // and so it seems cut short
    EXPECT_EQ(DamageOf(log), LogDamage::kDamaged) << zeros;
    log[at + 4] ^= 0x41;
    EXPECT_EQ(DamageOf(log), LogDamage::kDamaged) << zeros;
    log[at + 5] ^= 0x80;  // beyond the block
    EXPECT_EQ(DamageOf(log), LogDamage::kDamaged) << zeros;
    // One that is cut short has no such length.
    log.pop_back();
    log[at + 5] ^= 0x80;
    EXPECT_EQ(DamageOf(log), LogDamage::kTornEnd) << zeros;
  }
}

TEST(RocksDbLog, IsTornWhereARecordEndsAfterOneOfItsPieces) {
  std::string log = LogOf({100'000}).substr(0, 32'768);
  EXPECT_EQ(DamageOf(log), LogDamage::kTornEnd);
}

TEST(RocksDbLog, SaysWhereTheLastWholeRecordEnds) {
  std::string two = LogOf({2'000, 100'000});
  std::string three = LogOf({2'000, 100'000, 70'000});
  ASSERT_EQ(three.substr(0, two.size()), two);
  for (size_t left : {size_t{1}, size_t{10}, size_t{40'000}, size_t{69'999}}) {
    std::string torn = three;
    torn.replace(two.size() + left, std::string::npos, std::string(70'000 - left, '\0'));
    EXPECT_EQ(ReadLogState(AsBytes(torn)).whole_bytes, two.size()) << left;
  }
  EXPECT_EQ(ReadLogState(AsBytes(two)).whole_bytes, two.size());
  EXPECT_EQ(ReadLogState(AsBytes(std::string(100, '\0'))).whole_bytes, 0u);
}

TEST(RocksDbLog, TakesPiecesOfATornRecordForNoOther) {
  // The first block is missing, the others are there.
  std::string log = LogOf({100'000});
  log.replace(0, 32'768, std::string(32'768, '\0'));
  EXPECT_EQ(DamageOf(log), LogDamage::kTornEnd);
}

}  // namespace
}  // namespace tilekv
