#include "kvstore/object/object_store_conformance.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/tree.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};
const uint64_t kSizes[] = {0,
                           1,
                           1000,
                           4096,
                           kLeafBytes - 1,
                           kLeafBytes,
                           kLeafBytes + 1,
                           4 * kLeafBytes - 1,
                           4 * kLeafBytes,
                           4 * kLeafBytes + 1,
                           700'003};

TEST_P(ObjectStoreConformance, ReturnsWhatWasPutInEverySizeEncodingAndSplit) {
  uint64_t seed = 0;
  for (uint64_t size : kSizes) {
    for (uint64_t piece : {uint64_t{0}, uint64_t{777}, uint64_t{65'536}, uint64_t{300'001}}) {
      for (bool declare : {true, false}) {
        std::string content = TestContent(size, ++seed);
        auto put = PutContent(store(), content, {.declare = declare, .piece_bytes = piece});
        ASSERT_TRUE(put.ok()) << put.status() << size;
        EXPECT_EQ(put->ref, RefOf(0, AsBytes(content)));
        EXPECT_EQ(*GetContent(store(), put->ref.id), content);
      }
    }
    std::string content = TestContent(size, ++seed);
    auto put = PutContent(store(), content, {.encoding = kZstd});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(*GetContent(store(), put->ref.id), content);
    if (size < 2000) continue;
    auto row = *store().Stat(kDefaultDomain, put->ref.id);
    EXPECT_EQ(row->encoding, kZstd);
    EXPECT_LT(row->stored_length, size);
  }
}

TEST_P(ObjectStoreConformance, ReadsAnyRangeVerified) {
  SeededRandom random(7);
  auto pool = BufferPool::Create(kMiB);
  for (Encoding encoding : {Encoding{}, kZstd}) {
    for (uint64_t size : {uint64_t{50'000}, uint64_t{700'003}, 8 * kLeafBytes}) {
      std::string content = TestContent(size, size);
      auto put = PutContent(store(), content, {.encoding = encoding, .domain = encoding == kZstd});
      ASSERT_TRUE(put.ok()) << put.status();
      auto reader = *store().Open(encoding == kZstd, put->ref.id);
      for (int i = 0; i < 60; ++i) {
        uint64_t from = random.Below(size + 1);
        uint64_t length = random.Below(size - from + 1);
        // Edges of leaves and blocks are where mistakes are.
        if (i % 3 == 0) from = from / kLeafBytes * kLeafBytes;
        if (i % 4 == 0) length = size - from;
        std::string out(length, 'x');
        absl::Status read =
            ReadContent(*reader, from, {reinterpret_cast<uint8_t*>(out.data()), length}, *pool);
        ASSERT_TRUE(read.ok()) << read;
        ASSERT_EQ(out, content.substr(from, length)) << from << " " << length;
      }
      std::string beyond(2, 'x');
      EXPECT_EQ(GetReason(ReadContent(*reader, size - 1,
                                      {reinterpret_cast<uint8_t*>(beyond.data()), 2}, *pool)),
                Reason::kInvalidArgument);
    }
  }
}

TEST_P(ObjectStoreConformance, TakesTheLimitExactlyAndNotOneByteMore) {
  std::string most = TestContent(kLimit, 1);
  EXPECT_TRUE(PutContent(store(), most).ok());
  EXPECT_TRUE(PutContent(store(), TestContent(kLimit, 2), {.declare = false}).ok());
  std::string more = most + "x";
  EXPECT_EQ(GetReason(PutContent(store(), more).status()), Reason::kObjectTooLarge);
  EXPECT_EQ(GetReason(PutContent(store(), more, {.declare = false}).status()),
            Reason::kObjectTooLarge);
  EXPECT_EQ(GetReason(store().NewWriter({.length = kLimit + 1}).status()), Reason::kObjectTooLarge);
  // Of unknown length: at the first byte beyond, not at the end.
  auto writer = *store().NewWriter({});
  EXPECT_TRUE(writer->Append(AsBytes(most)).ok());
  EXPECT_EQ(GetReason(writer->Append(AsBytes("x"))), Reason::kObjectTooLarge);
  EXPECT_FALSE(writer->Finish().ok());
}

TEST_P(ObjectStoreConformance, RefusesABlockThatIsLongerThanAnyBlock) {
  SeededRandom random(5);
  // One block that is larger than its content, in two ways; the others are as they should be.
  std::string content = random.Bytes(kBlockBytes) + std::string(kBlockBytes, 'a');
  CodedContent coded = *EncodeContent(kZstd, AsBytes(content));
  std::string frame = coded.stored.substr(kBlockBytes);
  std::string skipped =
      std::string("\x50\x2a\x4d\x18\x00\x00\x04\x00", 8) + content.substr(kBlockBytes);
  ObjectRef ref = RefOf(0, AsBytes(content));
  for (bool first : {true, false}) {
    std::string bad = first ? skipped + frame : frame + skipped;
    auto writer = *store().NewWriter({.expected = ref, .encoding = kZstd});
    std::vector<uint32_t> table = {coded.table[0], static_cast<uint32_t>(bad.size())};
    absl::Status status = writer->Append(AsBytes(coded.stored.substr(0, kBlockBytes) + bad), table);
    EXPECT_EQ(GetReason(status), Reason::kInvalidArgument) << status;
    EXPECT_FALSE(writer->Finish().ok());
    EXPECT_FALSE(store().Stat(kDefaultDomain, ref.id)->has_value());
  }
}

TEST_P(ObjectStoreConformance, SaysHowLargeAnObjectIsAndHowLargeItMayBe) {
  absl::Status status = store().NewWriter({.length = 324'000'000}).status();
  EXPECT_EQ(ErrorText(status),
            "OBJECT_TOO_LARGE: object of 324,000,000 bytes (309.0 MiB); this store takes objects "
            "up to 1,048,576 bytes (1 MiB)");
}

TEST_P(ObjectStoreConformance, RefusesContentThatIsNotWhatWasAnnounced) {
  for (uint64_t size : {uint64_t{100}, uint64_t{200'000}}) {
    std::string content = TestContent(size, 3);
    std::string other = content;
    other[size / 2] ^= 1;
    ObjectRef ref = RefOf(0, AsBytes(content));
    auto put = [&](std::string_view bytes) {
      auto writer = *store().NewWriter({.expected = ref});
      absl::Status status = writer->Append(AsBytes(bytes));
      return status.ok() ? writer->Finish().status() : status;
    };
    EXPECT_EQ(GetReason(put(other)), Reason::kDataLoss);
    EXPECT_EQ(GetReason(put(content + "x")), Reason::kInvalidArgument);
    EXPECT_EQ(GetReason(put(std::string_view(content).substr(1))), Reason::kInvalidArgument);
    EXPECT_FALSE(store().Stat(kDefaultDomain, ref.id)->has_value());
    EXPECT_FALSE(store().Stat(kDefaultDomain, IdOf(0, AsBytes(other)))->has_value());
  }
  EXPECT_EQ(store().Usage()->objects, 0u);
}

TEST_P(ObjectStoreConformance, RefusesCodedBlocksThatLie) {
  std::string content = TestContent(600'000, 4);
  CodedContent coded = *EncodeContent(kZstd, AsBytes(content));
  PutSpec spec{.expected = RefOf(0, AsBytes(content)), .encoding = kZstd};
  auto put = [&](std::string stored, std::vector<uint32_t> table, PutSpec how) {
    auto writer = store().NewWriter(how);
    if (!writer.ok()) return writer.status();
    absl::Status status = (*writer)->Append(AsBytes(stored), table);
    return status.ok() ? (*writer)->Finish().status() : status;
  };
  std::string flipped = coded.stored;
  flipped[flipped.size() / 2] ^= 4;
  EXPECT_EQ(GetReason(put(flipped, coded.table, spec)), Reason::kDataLoss);
  // The first two blocks in each other's place of length: the last is shorter.
  PutSpec shorter{.length = 500'000, .encoding = kZstd};
  EXPECT_EQ(GetReason(put(coded.stored, coded.table, shorter)), Reason::kDataLoss);
  std::vector<uint32_t> cut = coded.table;
  cut.back() += 1;
  EXPECT_EQ(GetReason(put(coded.stored, cut, spec)), Reason::kInvalidArgument);
  std::vector<uint32_t> more = coded.table;
  more.push_back(coded.table.back());
  EXPECT_EQ(
      GetReason(put(coded.stored + coded.stored.substr(coded.stored.size() - coded.table.back()),
                    more, spec)),
      Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(store().NewWriter({.encoding = kZstd}).status()), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(put(coded.stored, {}, {})), Reason::kNone);  // plain bytes are just bytes
  EXPECT_TRUE(put(coded.stored, coded.table, spec).ok());
}

TEST_P(ObjectStoreConformance, ChecksThatATreeIsOne) {
  Tree tree{.level = 1, .children = {RefOf(0, AsBytes("a")), RefOf(0, AsBytes("b"))}};
  tree.opaque = TestContent(300'000, 5);
  std::string content = EncodeTree(tree);
  auto put = PutContent(store(), content, {.level = 1, .piece_bytes = 50});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->ref.level, 1);
  EXPECT_EQ(GetReason(PutContent(store(), content, {.level = 2}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(PutContent(store(), content + "x", {.level = 1}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(PutContent(store(), "no tree", {.level = 1}).status()),
            Reason::kInvalidArgument);
  // As a blob the same bytes are another object.
  auto blob = PutContent(store(), content);
  ASSERT_TRUE(blob.ok());
  EXPECT_NE(blob->ref.id, put->ref.id);
}

TEST_P(ObjectStoreConformance, StoresTheSameContentOnceAndRaisesItsRevision) {
  for (uint64_t size : {uint64_t{10}, uint64_t{100'000}}) {
    for (bool declare : {true, false}) {
      std::string content = TestContent(size, 6 + declare);
      auto first = PutContent(store(), content, {.touched_rev = {5}, .declare = declare});
      auto second = PutContent(store(), content, {.touched_rev = {9}, .declare = declare});
      auto third = PutContent(store(), content, {.touched_rev = {7}, .declare = declare});
      ASSERT_TRUE(third.ok()) << third.status();
      EXPECT_TRUE(first->stored);
      EXPECT_FALSE(second->stored);
      EXPECT_FALSE(third->stored);
      EXPECT_EQ((*store().Stat(kDefaultDomain, first->ref.id))->touched_rev, Revision{9});
    }
  }
  EXPECT_EQ(store().Usage()->objects, 4u);
}

TEST_P(ObjectStoreConformance, StoresSmallContentsTogether) {
  std::string there = TestContent(3'000, 1);
  ASSERT_TRUE(PutContent(store(), there, {.touched_rev = {9}}).ok());
  std::string raised = TestContent(20, 2);
  ASSERT_TRUE(PutContent(store(), raised, {.touched_rev = {2}}).ok());
  std::string most = TestContent(kInlineContentBytes - 1, 3);
  std::string one = TestContent(700, 4);
  const Bytes contents[] = {AsBytes(one), AsBytes(there),  AsBytes(most),
                            AsBytes(one), AsBytes(raised), Bytes()};
  auto puts = store().PutSmall(kDefaultDomain, contents, {5});
  ASSERT_TRUE(puts.ok()) << puts.status();
  ASSERT_EQ(puts->size(), std::size(contents));
  const bool was_there[] = {false, true, false, false, true, false};
  for (size_t i = 0; i < puts->size(); ++i) {
    const PutOutcome& put = (*puts)[i];
    EXPECT_EQ(put.ref, RefOf(0, contents[i])) << i;
    bool repeats = i == 3;  // which of two that are the same was stored is nobody's matter
    EXPECT_TRUE(repeats || put.stored == !was_there[i]) << i;
    auto row = *store().Stat(kDefaultDomain, put.ref.id);
    EXPECT_EQ(row->touched_rev, Revision{i == 1 ? 9u : 5u}) << i;
    EXPECT_EQ(*GetContent(store(), put.ref.id), AsText(contents[i])) << i;
  }
  EXPECT_EQ(store().Usage()->objects, 5u);
}

TEST_P(ObjectStoreConformance, LinksWhatIsPresentAndRaisesIt) {
  ObjectRef small = PutContent(store(), "small", {.touched_rev = {3}})->ref;
  ObjectRef large = PutContent(store(), TestContent(99'999, 8), {.touched_rev = {30}})->ref;
  ObjectRef absent = RefOf(0, AsBytes("absent"));
  ObjectRef wrong_length = small;
  wrong_length.length += 1;
  ObjectRef wrong_level = small;
  wrong_level.level = 1;
  std::vector<ObjectRef> refs = {large, absent, small, wrong_length, wrong_level, small};
  auto linked = store().Link(kDefaultDomain, refs, {10});
  ASSERT_TRUE(linked.ok()) << linked.status();
  std::vector<bool> present;
  for (const LinkResult& result : *linked) present.push_back(result.present);
  EXPECT_EQ(present, (std::vector<bool>{true, false, true, false, false, true}));
  EXPECT_EQ((*store().Stat(kDefaultDomain, small.id))->touched_rev, Revision{10});
  EXPECT_EQ((*store().Stat(kDefaultDomain, large.id))->touched_rev, Revision{30});
  EXPECT_TRUE(store().Link(kDefaultDomain, {}, {10})->empty());
}

TEST_P(ObjectStoreConformance, LinksEachToARevisionOfItsOwn) {
  ObjectRef small = PutContent(store(), "small", {.touched_rev = {3}})->ref;
  ObjectRef large = PutContent(store(), TestContent(99'999, 8), {.touched_rev = {30}})->ref;
  ObjectRef suspect = PutContent(store(), "suspect", {.touched_rev = {3}})->ref;
  ASSERT_TRUE(store().MarkSuspect(kDefaultDomain, suspect.id).ok());
  ObjectRef absent = RefOf(0, AsBytes("absent"));
  const TouchedRef refs[] = {{large, {29}}, {absent, {9}}, {suspect, {9}}, {small, {7}}};
  auto linked = store().LinkEach(kDefaultDomain, refs);
  ASSERT_TRUE(linked.ok()) << linked.status();
  std::vector<bool> present;
  for (const LinkResult& result : *linked) present.push_back(result.present);
  EXPECT_EQ(present, (std::vector<bool>{true, false, false, true}));
  harness_->Reopen();
  EXPECT_EQ((*store().Stat(kDefaultDomain, small.id))->touched_rev, Revision{7});
  EXPECT_EQ((*store().Stat(kDefaultDomain, large.id))->touched_rev, Revision{30});
  EXPECT_EQ((*store().Stat(kDefaultDomain, suspect.id))->touched_rev, Revision{3});
}

TEST_P(ObjectStoreConformance, DropsOnlyWhatIsUnchangedAndAllowed) {
  ObjectRef same = PutContent(store(), TestContent(100'000, 1), {.touched_rev = {5}})->ref;
  ObjectRef small = PutContent(store(), "small", {.touched_rev = {5}})->ref;
  ObjectRef raised = PutContent(store(), "raised", {.touched_rev = {6}})->ref;
  ObjectRef bad = PutContent(store(), "bad", {.touched_rev = {5}})->ref;
  ASSERT_TRUE(store().MarkSuspect(kDefaultDomain, bad.id).ok());
  ObjectRef absent = RefOf(0, AsBytes("absent"));
  ObjectRef other = PutContent(store(), "other", {.touched_rev = {5}})->ref;
  ObjectRef other_level = other;
  other_level.level = 1;
  std::vector<TouchedRef> seen;
  for (const ObjectRef& ref : {same, small, raised, bad, absent, other_level}) {
    seen.push_back({ref, {5}});
  }
  auto refused = store().DropUnchanged(kDefaultDomain, seen, [] { return false; });
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(*refused, std::vector<bool>(seen.size()));
  EXPECT_EQ(store().Usage()->objects, 5u);

  int asked = 0;
  auto dropped = store().DropUnchanged(kDefaultDomain, seen, [&asked] { return ++asked == 1; });
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(*dropped, std::vector<bool>({true, true, false, true, false, false}));
  harness_->Reopen();
  EXPECT_EQ(store().Usage()->objects, 2u);
  EXPECT_FALSE(store().Open(kDefaultDomain, same.id).ok());
  EXPECT_TRUE(store().Open(kDefaultDomain, raised.id).ok());
  EXPECT_TRUE(store().Open(kDefaultDomain, other.id).ok());
}

TEST_P(ObjectStoreConformance, DeletesOnlyBelowTheFence) {
  for (uint64_t size : {uint64_t{10}, uint64_t{100'000}}) {
    ObjectId id = PutContent(store(), TestContent(size, 9), {.touched_rev = {5}})->ref.id;
    EXPECT_FALSE(*store().DeleteBelow(kDefaultDomain, id, {5}));
    EXPECT_TRUE(store().Open(kDefaultDomain, id).ok());
    EXPECT_TRUE(*store().DeleteBelow(kDefaultDomain, id, {6}));
    EXPECT_EQ(GetReason(store().Open(kDefaultDomain, id).status()), Reason::kNotFound);
    EXPECT_FALSE(*store().DeleteBelow(kDefaultDomain, id, {6}));
  }
  EXPECT_EQ(store().Usage()->objects, 0u);
  EXPECT_EQ(store().Usage()->stored_bytes, 0u);
}

TEST_P(ObjectStoreConformance, DeletesThoseOfABatchThatAreBelowTheFence) {
  std::vector<ObjectId> ids;
  for (uint64_t i = 0; i < 6; ++i) {
    std::string content = TestContent(i % 2 == 0 ? 10 : 100'000, 20 + i);
    ids.push_back(PutContent(store(), content, {.touched_rev = {i < 4 ? i : 9}})->ref.id);
  }
  ids.insert(ids.begin() + 2, IdOf(0, AsBytes("never put")));
  auto deleted = store().DeleteAllBelow(kDefaultDomain, ids, {9});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(*deleted, std::vector<bool>({true, true, false, true, true, false, false}));
  EXPECT_EQ(store().Usage()->objects, 2u);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(store().Open(kDefaultDomain, ids[i]).ok(), i >= 5) << i;
  }
  EXPECT_TRUE(store().DeleteAllBelow(kDefaultDomain, {}, {9})->empty());
}

TEST_P(ObjectStoreConformance, KeepsAnOpenCopyReadableAfterItsDelete) {
  for (uint64_t size : {uint64_t{10}, uint64_t{500'000}}) {
    std::string content = TestContent(size, 10);
    ObjectId id = PutContent(store(), content)->ref.id;
    auto reader = *store().Open(kDefaultDomain, id);
    ASSERT_TRUE(*store().DeleteBelow(kDefaultDomain, id, {2}));
    EXPECT_EQ(*ReadWholeContent(*reader, *BufferPool::Create(kMiB)), content);
  }
}

TEST_P(ObjectStoreConformance, ScansInOrderAndResumes) {
  std::vector<ObjectId> ids;
  for (int i = 0; i < 50; ++i) {
    ids.push_back(PutContent(store(), TestContent(i, 11))->ref.id);
  }
  ASSERT_TRUE(PutContent(store(), "elsewhere", {.domain = 1}).ok());
  std::sort(ids.begin(), ids.end());
  std::vector<ObjectId> seen;
  std::optional<ObjectId> after;
  while (true) {
    size_t before = seen.size();
    ASSERT_TRUE(store()
                    .Scan(kDefaultDomain, after,
                          [&](const ObjectRow& row) {
                            seen.push_back(row.ref.id);
                            return seen.size() % 7 != 0;
                          })
                    .ok());
    if (seen.size() == before) break;
    after = seen.back();
  }
  EXPECT_EQ(seen, ids);
}

TEST_P(ObjectStoreConformance, KeepsDomainsApart) {
  ObjectRef ref = PutContent(store(), "shared", {.domain = 0})->ref;
  EXPECT_EQ(GetReason(store().Open(1, ref.id).status()), Reason::kNotFound);
  EXPECT_FALSE((*store().Link(1, {&ref, 1}, {9}))[0].present);
  EXPECT_FALSE(*store().DeleteBelow(1, ref.id, {9}));
  EXPECT_TRUE(PutContent(store(), "shared", {.domain = 1})->stored);
  EXPECT_TRUE(*store().DeleteBelow(1, ref.id, {9}));
  EXPECT_EQ(*GetContent(store(), ref.id), "shared");
}

TEST_P(ObjectStoreConformance, ReadsASuspectCopyButDoesNotCountIt) {
  std::string content = TestContent(70'000, 12);
  ObjectRef ref = PutContent(store(), content)->ref;
  ASSERT_TRUE(store().MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_TRUE(store().MarkSuspect(kDefaultDomain, IdOf(0, AsBytes("absent"))).ok());
  EXPECT_EQ((*store().Stat(kDefaultDomain, ref.id))->state, RowState::kSuspect);
  EXPECT_FALSE((*store().Link(kDefaultDomain, {&ref, 1}, {9}))[0].present);
  EXPECT_EQ(*GetContent(store(), ref.id), content);
  EXPECT_TRUE(*store().Verify(kDefaultDomain, ref.id));
  EXPECT_TRUE((*store().Link(kDefaultDomain, {&ref, 1}, {9}))[0].present);
  EXPECT_EQ(GetReason(store().Verify(kDefaultDomain, IdOf(0, AsBytes("absent"))).status()),
            Reason::kNotFound);
}

TEST_P(ObjectStoreConformance, NoticesAFlippedBitQuarantinesTheCopyAndHealsWithNewBytes) {
  int seed = 20;
  for (Encoding encoding : {Encoding{}, kZstd}) {
    for (uint64_t size : {uint64_t{5'000}, uint64_t{400'000}}) {
      std::string content = TestContent(size, ++seed);
      ObjectRef ref = PutContent(store(), content, {.encoding = encoding})->ref;
      harness_->FlipBit(ref.id, (*store().Stat(kDefaultDomain, ref.id))->stored_length / 2);
      EXPECT_EQ(GetReason(GetContent(store(), ref.id).status()), Reason::kDataLoss);
      EXPECT_NE((*store().Stat(kDefaultDomain, ref.id))->state, RowState::kGood);
      EXPECT_FALSE(*store().Verify(kDefaultDomain, ref.id));
      EXPECT_EQ((*store().Stat(kDefaultDomain, ref.id))->state, RowState::kQuarantined);
      EXPECT_EQ(store().Usage()->quarantined_objects, 1u);
      EXPECT_EQ(GetReason(store().Open(kDefaultDomain, ref.id).status()), Reason::kNotFound);
      EXPECT_FALSE((*store().Link(kDefaultDomain, {&ref, 1}, {9}))[0].present);
      // A report cannot make it better than it is.
      ASSERT_TRUE(store().MarkSuspect(kDefaultDomain, ref.id).ok());
      EXPECT_EQ((*store().Stat(kDefaultDomain, ref.id))->state, RowState::kQuarantined);

      auto healed = PutContent(store(), content, {.touched_rev = {0}});
      ASSERT_TRUE(healed.ok()) << healed.status();
      EXPECT_TRUE(healed->stored);
      EXPECT_EQ(*GetContent(store(), ref.id), content);
      EXPECT_EQ((*store().Stat(kDefaultDomain, ref.id))->touched_rev, Revision{1});
      EXPECT_EQ(store().Usage()->quarantined_objects, 0u);
      EXPECT_TRUE(*store().Verify(kDefaultDomain, ref.id));
      ASSERT_TRUE(*store().DeleteBelow(kDefaultDomain, ref.id, {2}));
    }
  }
}

TEST_P(ObjectStoreConformance, LeavesNothingOfAnAbandonedPut) {
  std::string content = TestContent(300'000, 30);
  {
    auto writer = *store().NewWriter({.expected = RefOf(0, AsBytes(content))});
    ASSERT_TRUE(writer->Append(AsBytes(content)).ok());
  }
  EXPECT_FALSE(store().Stat(kDefaultDomain, IdOf(0, AsBytes(content)))->has_value());
  EXPECT_EQ(store().Usage()->objects, 0u);
}

TEST_P(ObjectStoreConformance, StoresOneCopyWhenManyPutTheSame) {
  std::vector<std::string> contents;
  for (int i = 0; i < 6; ++i)
    contents.push_back(TestContent(i % 2 == 0 ? 1000 : 90'000 + i, 40 + i));
  constexpr uint64_t kThreads = 8;
  std::vector<std::thread> threads;
  std::vector<absl::Status> failures(kThreads);
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < contents.size(); ++i) {
        auto put =
            PutContent(store(), contents[i], {.touched_rev = {t + 1}, .declare = t % 2 == 0});
        if (!put.ok()) failures[t] = put.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : failures) EXPECT_TRUE(status.ok()) << status;
  for (const std::string& content : contents) {
    ObjectId id = IdOf(0, AsBytes(content));
    EXPECT_EQ(*GetContent(store(), id), content);
    EXPECT_EQ((*store().Stat(kDefaultDomain, id))->touched_rev, Revision{kThreads});
  }
  EXPECT_EQ(store().Usage()->objects, contents.size());
}

TEST_P(ObjectStoreConformance, RefusesLevelsAndEncodingsThatDoNotExist) {
  EXPECT_EQ(GetReason(store().NewWriter({.level = kMaxLevel + 1}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(
      GetReason(store()
                    .NewWriter({.length = 10, .encoding = {.kind = static_cast<EncodingKind>(9)}})
                    .status()),
      Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(store().NewWriter({.level = 1, .expected = RefOf(0, AsBytes("a"))}).status()),
            Reason::kInvalidArgument);
}

// --- against a plain map ---

struct Model {
  std::string content;
  uint8_t level = 0;
  Revision touched_rev;
};

class RandomRun {
 public:
  RandomRun(StoreHarness& harness, uint64_t seed) : harness_(harness), random_(seed) {
    // A small universe, so that the same objects come again.
    const uint64_t sizes[] = {0, 1, 5'000, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1, 300'000};
    for (uint64_t size : sizes) {
      for (uint64_t i = 0; i < 3; ++i) contents_.push_back(TestContent(size, seed * 100 + i));
    }
  }

  void Step() {
    switch (random_.Below(8)) {
      case 0:
      case 1:
      case 2:
        return Put();
      case 3:
        return Link();
      case 4:
        return Delete();
      case 5:
      case 6:
        return Read();
      default:
        if (random_.Below(6) == 0) Check();
        if (random_.Below(12) == 0 && harness_.Reopen()) Check();
    }
  }

  // The whole store is what the map says.
  void Check() {
    std::map<ObjectId, Revision> seen;
    ASSERT_TRUE(store()
                    .Scan(kDefaultDomain, std::nullopt,
                          [&](const ObjectRow& row) {
                            seen[row.ref.id] = row.touched_rev;
                            return true;
                          })
                    .ok());
    ASSERT_EQ(seen.size(), model_.size());
    uint64_t bytes = 0;
    for (const auto& [id, object] : model_) {
      ASSERT_EQ(seen[id], object.touched_rev);
      auto content = GetContent(store(), id);
      ASSERT_TRUE(content.ok()) << content.status();
      ASSERT_EQ(*content, object.content);
      bytes += object.content.size();
    }
    auto usage = store().Usage();
    ASSERT_TRUE(usage.ok());
    EXPECT_EQ(usage->objects, model_.size());
    EXPECT_EQ(usage->content_bytes, bytes);
  }

 private:
  ObjectStore& store() { return harness_.store(); }
  const std::string& Any() { return contents_[random_.Below(contents_.size())]; }

  void Put() {
    const std::string& content = Any();
    PutPieces how{.touched_rev = {random_.Below(100)},
                  .declare = random_.Below(2) == 0,
                  .piece_bytes = random_.Below(3) == 0 ? 0 : 1 + random_.Below(100'000)};
    if (how.declare && random_.Below(2) == 0) how.encoding = kZstd;
    auto put = PutContent(store(), content, how);
    ASSERT_TRUE(put.ok()) << put.status();
    ObjectId id = IdOf(0, AsBytes(content));
    EXPECT_EQ(put->stored, model_.count(id) == 0);
    Model& object = model_[id];
    object.content = content;
    object.touched_rev = std::max(object.touched_rev, how.touched_rev);
  }

  void Link() {
    std::vector<ObjectRef> refs;
    for (uint64_t i = random_.Below(6); i > 0; --i) refs.push_back(RefOf(0, AsBytes(Any())));
    Revision rev{random_.Below(100)};
    auto linked = store().Link(kDefaultDomain, refs, rev);
    ASSERT_TRUE(linked.ok()) << linked.status();
    for (size_t i = 0; i < refs.size(); ++i) {
      auto found = model_.find(refs[i].id);
      ASSERT_EQ((*linked)[i].present, found != model_.end());
      if (found != model_.end()) {
        found->second.touched_rev = std::max(found->second.touched_rev, rev);
      }
    }
  }

  void Delete() {
    ObjectId id = IdOf(0, AsBytes(Any()));
    Revision fence{random_.Below(120)};
    auto deleted = store().DeleteBelow(kDefaultDomain, id, fence);
    ASSERT_TRUE(deleted.ok()) << deleted.status();
    auto found = model_.find(id);
    bool expected = found != model_.end() && found->second.touched_rev < fence;
    ASSERT_EQ(*deleted, expected);
    if (expected) model_.erase(found);
  }

  void Read() {
    const std::string& content = Any();
    ObjectId id = IdOf(0, AsBytes(content));
    auto reader = store().Open(kDefaultDomain, id);
    if (model_.count(id) == 0) {
      ASSERT_EQ(GetReason(reader.status()), Reason::kNotFound);
      return;
    }
    ASSERT_TRUE(reader.ok()) << reader.status();
    uint64_t from = random_.Below(content.size() + 1);
    std::string out(random_.Below(content.size() - from + 1), 'x');
    ASSERT_TRUE(
        ReadContent(**reader, from, {reinterpret_cast<uint8_t*>(out.data()), out.size()}, *pool_)
            .ok());
    ASSERT_EQ(out, content.substr(from, out.size()));
  }

  StoreHarness& harness_;
  SeededRandom random_;
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(kMiB);
  std::vector<std::string> contents_;
  std::map<ObjectId, Model> model_;
};

TEST_P(ObjectStoreConformance, BehavesLikeAPlainMap) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    harness_ = GetParam().make(kLimit);
    RandomRun run(*harness_, seed);
    for (int i = 0; i < 250 && !HasFatalFailure(); ++i) run.Step();
    run.Check();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tilekv
