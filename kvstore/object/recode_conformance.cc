// Another encoding for what is here: the part of the conformance suite that is about RecodeObject.
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/recode.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};

// bf16 in name: a byte of noise, and one of few values.
std::string Weights(uint64_t length) {
  SeededRandom random(9);
  std::string content = random.Bytes(length);
  for (uint64_t i = 1; i < length; i += 2) {
    content[i] = static_cast<char>(0x3c + (content[i] & 3));
  }
  return content;
}

BufferPool& Pool() {
  static const std::shared_ptr<BufferPool>* const pool =
      new std::shared_ptr<BufferPool>(BufferPool::Create(kMiB));
  return **pool;
}

absl::StatusOr<RecodeOutcome> Recode(ObjectStore& store, const ObjectId& id, Codec codec,
                                     bool dry_run = false) {
  return RecodeObject(store, Pool(), kDefaultDomain, id, codec, dry_run);
}

ObjectRow Row(ObjectStore& store, const ObjectId& id) { return **store.Stat(kDefaultDomain, id); }

}  // namespace

TEST_P(ObjectStoreConformance, RecodingChangesTheCopyAndNothingElse) {
  std::string content = Weights(700'001);
  ObjectId id = PutContent(store(), content, {.touched_rev = {4}})->ref.id;
  auto before = store().Open(kDefaultDomain, id);
  for (Codec codec : {Codec::kZstd, Codec::kAuto, Codec::kNone, Codec::kPlanes}) {
    auto outcome = Recode(store(), id, codec);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ObjectRow row = Row(store(), id);
    EXPECT_TRUE(outcome->changed) << CodecName(codec);
    EXPECT_EQ(outcome->stored_after, row.stored_length);
    EXPECT_EQ(row.touched_rev, Revision{4});
    EXPECT_EQ(row.ref.id, id);
    EXPECT_EQ(*GetContent(store(), id), content) << CodecName(codec);
    EXPECT_EQ(store().Usage()->stored_bytes, row.stored_length);
    EXPECT_EQ(store().Usage()->objects, 1u);
    EXPECT_FALSE(Recode(store(), id, codec)->changed) << "twice: " << CodecName(codec);
  }
  EXPECT_EQ(Row(store(), id).encoding, (Encoding{EncodingKind::kPlanes, 2}));
  // A reader from before still reads the copy that it opened.
  EXPECT_EQ(*ReadWholeContent(**before, Pool()), content);
  if (harness_->Reopen()) {
    EXPECT_EQ(*GetContent(store(), id), content);
  }
}

TEST_P(ObjectStoreConformance, RecodingTellsWhatItWouldDoAndDoesNothingWhenDry) {
  ObjectId id = PutContent(store(), Weights(300'000))->ref.id;
  RecodeOutcome dry = *Recode(store(), id, Codec::kAuto, true);
  EXPECT_TRUE(dry.changed);
  EXPECT_EQ(dry.stored_before, 300'000u);
  EXPECT_LT(dry.stored_after, 220'000u);
  EXPECT_EQ(Row(store(), id).encoding, Encoding{});
  EXPECT_EQ(Recode(store(), id, Codec::kAuto)->stored_after, dry.stored_after);
}

TEST_P(ObjectStoreConformance, RecodingLeavesAloneWhatGainsNothingAndStoresItPlainWhereItWasCoded) {
  SeededRandom random(2);
  ObjectId noise = PutContent(store(), random.Bytes(200'000))->ref.id;
  for (Codec codec : {Codec::kZstd, Codec::kPlanes, Codec::kAuto}) {
    EXPECT_FALSE(Recode(store(), noise, codec)->changed) << CodecName(codec);
  }
  // Gains by zstd, but not by planes.
  std::string rows = random.Bytes(100'000);
  rows += rows;
  ObjectId coded = PutContent(store(), rows, {.encoding = kZstd})->ref.id;
  EXPECT_EQ(Row(store(), coded).encoding, kZstd);
  EXPECT_TRUE(Recode(store(), coded, Codec::kPlanes)->changed);
  EXPECT_EQ(Row(store(), coded).encoding, Encoding{});
  EXPECT_EQ(*GetContent(store(), coded), rows);
}

TEST_P(ObjectStoreConformance, RecodingNeverReplacesACopyThatItHasNotRead) {
  std::string content = Weights(300'000);
  ObjectRef ref = PutContent(store(), content)->ref;
  PutSpec spec{.expected = ref};
  ObjectRow seen = Row(store(), ref.id);
  auto replace = [&] {
    auto writer = store().NewReplacement(spec, seen);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Append(AsBytes(content)).ok());
    return writer;
  };
  // Replaced meanwhile.
  auto writer = replace();
  ASSERT_TRUE(Recode(store(), ref.id, Codec::kPlanes)->changed);
  EXPECT_FALSE((*writer)->Finish()->stored);
  EXPECT_EQ(Row(store(), ref.id).encoding.kind, EncodingKind::kPlanes);
  // Reported meanwhile.
  seen = Row(store(), ref.id);
  writer = replace();
  ASSERT_TRUE(store().MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_FALSE((*writer)->Finish()->stored);
  EXPECT_EQ(Row(store(), ref.id).state, RowState::kSuspect);
  EXPECT_EQ(GetReason(Recode(store(), ref.id, Codec::kNone).status()), Reason::kNotFound);
  // Deleted meanwhile.
  ASSERT_TRUE(*store().Verify(kDefaultDomain, ref.id));
  seen = Row(store(), ref.id);
  writer = replace();
  ASSERT_TRUE(*store().DeleteBelow(kDefaultDomain, ref.id, {100}));
  EXPECT_FALSE((*writer)->Finish()->stored);
  EXPECT_FALSE(store().Stat(kDefaultDomain, ref.id)->has_value());
  EXPECT_EQ(GetReason(Recode(store(), ref.id, Codec::kNone).status()), Reason::kNotFound);
}

TEST_P(ObjectStoreConformance, RecodingKeepsADamagedCopyAndSaysSo) {
  ObjectId id = PutContent(store(), Weights(300'000))->ref.id;
  harness_->FlipBit(id, 150'000);
  EXPECT_EQ(GetReason(Recode(store(), id, Codec::kPlanes).status()), Reason::kDataLoss);
  EXPECT_EQ(Row(store(), id).state, RowState::kSuspect);
  EXPECT_EQ(Row(store(), id).encoding, Encoding{});
}

}  // namespace tilekv
