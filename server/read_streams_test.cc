#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "client/range_assembler.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/wire/object_messages.h"
#include "server/read_pipeline.h"
#include "server/read_producer.h"
#include "server/receiver_test_util.h"
#include "server/stream_budget.h"

namespace tilekv {
namespace {

std::string Pattern(uint64_t bytes, uint32_t seed, bool compressible) {
  std::string text(bytes, '\0');
  std::mt19937 random(seed);
  for (char& c : text) c = static_cast<char>(compressible ? random() % 3 : random());
  return text;
}

// A store with objects of awkward lengths, raw and coded.
class ReadStreams : public testing::Test {
 protected:
  ObjectRef Add(const std::string& content, EncodingKind kind = EncodingKind::kNone) {
    PutSpec spec;
    spec.expected = RefOf(0, AsBytes(content));
    CodedContent coded;
    if (kind != EncodingKind::kNone) coded = *EncodeContent({kind, 0}, AsBytes(content));
    spec.encoding = coded.encoding;
    auto writer = *store_.NewWriter(spec);
    bool raw = coded.encoding.kind == EncodingKind::kNone;
    EXPECT_TRUE(writer->Append(AsBytes(raw ? content : coded.stored), coded.table).ok());
    EXPECT_TRUE(writer->Finish().ok());
    contents_.push_back(content);
    refs_.push_back(*spec.expected);
    return *spec.expected;
  }

  static v1::ReadObjectsRequest Request(const std::vector<ObjectRead>& reads, bool accept_zstd) {
    v1::ReadObjectsRequest request;
    for (const ObjectRead& read : reads) {
      v1::ObjectRange* range = request.add_ranges();
      ObjectRefToWire(read.ref, range->mutable_ref());
      range->set_offset(read.offset);
      range->set_length(read.length());
    }
    if (accept_zstd) EncodingToWire({EncodingKind::kZstd, 0}, request.add_accept());
    return request;
  }

  // Sends what the producer makes to the assembler, each message in pieces of `piece_bytes`.
  absl::Status Transfer(const std::vector<ObjectRead>& reads, bool accept_zstd,
                        uint64_t piece_bytes) {
    auto producer = *ReadProducer::Create(store_, pool_, Request(reads, accept_zstd));
    RangeAssembler assembler(reads, "n");
    while (!producer->done()) {
      uint64_t bytes = producer->NextBytes();
      auto messages = producer->Produce(*budget_.Acquire(bytes));
      if (!messages.ok()) return messages.status();
      EXPECT_FALSE(messages->empty());
      EXPECT_LE(budget_.used_bytes(), bytes);
      for (const ReadMessage& message : *messages) {
        EXPECT_LE(message.data.size(), kTransferChunkBytes);
        std::vector<Bytes> pieces = {AsBytes(message.head)};
        for (Bytes rest = message.data; !rest.empty();) {
          Bytes piece = rest.first(std::min<uint64_t>(rest.size(), piece_bytes));
          pieces.push_back(piece);
          rest = rest.subspan(piece.size());
        }
        TILEKV_RETURN_IF_ERROR(assembler.Take(pieces));
      }
    }
    return assembler.Finish();
  }

  MemoryObjectStore store_{kDefaultMaxObjectBytes};
  std::shared_ptr<BufferPool> pool_ = BufferPool::Create(4 * kMiB);
  ByteBudget budget_{64 * kMiB};
  std::vector<std::string> contents_;
  std::vector<ObjectRef> refs_;
};

TEST_F(ReadStreams, AReadIsShortByWhatIsAskedForAndByWhatAnswersIt) {
  Add(Pattern(kLeafBytes, 1, false));
  Add(Pattern(4 * kMiB, 2, false));
  auto is_short = [&](size_t object, uint64_t bytes, size_t times) {
    std::string out(bytes, '?');
    std::vector<ObjectRead> reads(
        times, ObjectRead{refs_[object], 0, {reinterpret_cast<uint8_t*>(out.data()), bytes}});
    auto producer = *ReadProducer::Create(store_, pool_, Request(reads, true));
    EXPECT_TRUE(!producer->is_short() || producer->NextBytes() <= kShortAnswerBytes);
    return producer->is_short();
  };
  EXPECT_TRUE(is_short(0, kShortReadBytes, 1));
  EXPECT_FALSE(is_short(0, kShortReadBytes, 2));
  EXPECT_TRUE(is_short(1, kShortReadBytes, 1));
  EXPECT_FALSE(is_short(1, kShortReadBytes + 1, 1));
  EXPECT_FALSE(is_short(1, 1, 2)) << "each of them may take whole blocks";
}

TEST_F(ReadStreams, EveryRangeArrivesAsItIsWhateverTheEncoding) {
  Add("");
  Add("x");
  Add(Pattern(kLeafBytes, 1, false));
  Add(Pattern(3 * kMiB + 12'345, 2, false));
  Add(Pattern(3 * kMiB + 12'345, 3, true), EncodingKind::kZstd);
  Add(Pattern(kBlockBytes + 1, 4, true), EncodingKind::kZstd);
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> outs;
    std::vector<ObjectRead> reads;
    std::vector<std::pair<size_t, uint64_t>> where;
    int count = 1 + static_cast<int>(random() % 100);
    outs.reserve(count);
    size_t object = random() % refs_.size();
    for (int i = 0; i < count; ++i) {
      if (random() % 2 == 0) object = random() % refs_.size();
      uint64_t length = refs_[object].length;
      uint64_t offset = random() % (length + 1);
      uint64_t n = random() % (length - offset + 1);
      if (random() % 3 == 0) n = std::min<uint64_t>(n, 100);
      if (random() % 8 == 0) offset = 0, n = length;
      outs.emplace_back(n, '?');
      std::string& out = outs.back();
      ObjectRead read{refs_[object], offset, {reinterpret_cast<uint8_t*>(out.data()), n}};
      if (random() % 2 == 0) {
        read.out = {};
        read.placed_bytes = n;
        read.place = [&out, next = uint64_t{0}](uint64_t at, Bytes piece) mutable {
          EXPECT_EQ(at, next) << "in order, each byte once";
          next = at + piece.size();
          out.replace(at, piece.size(), AsText(piece));
        };
      }
      read.verify = random() % 4 > 0;
      reads.push_back(std::move(read));
      where.emplace_back(object, offset);
    }
    absl::Status status = Transfer(reads, round % 2 == 0, 1 + random() % 9'000);
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(outs[i], contents_[where[i].first].substr(where[i].second, outs[i].size()))
          << "round " << round << ", read " << i;
    }
    EXPECT_EQ(budget_.used_bytes(), 0u);
  }
}

TEST_F(ReadStreams, AnObjectThatIsNotThereOrHasAnotherLengthIsNotFound) {
  ObjectRef ref = Add(Pattern(100, 1, false));
  uint8_t out[10];
  ObjectRef longer = ref;
  longer.length = 200;
  EXPECT_EQ(GetReason(Transfer({{longer, 0, out}}, true, 100)), Reason::kNotFound);
  ObjectRef other = RefOf(0, AsBytes("not stored"));
  EXPECT_EQ(GetReason(Transfer({{ref, 0, out}, {other, 0, out}}, true, 100)), Reason::kNotFound);
}

TEST_F(ReadStreams, ARangeOutsideOfItsObjectIsRefusedBeforeAnythingIsRead) {
  v1::ReadObjectsRequest request;
  ObjectRefToWire(Add("abc"), request.add_ranges()->mutable_ref());
  request.mutable_ranges(0)->set_offset(2);
  request.mutable_ranges(0)->set_length(~uint64_t{0});
  EXPECT_EQ(GetReason(ReadProducer::Create(store_, pool_, request).status()),
            Reason::kInvalidArgument);
}

// Any single byte that differs is DATA_LOSS or a wrong answer, never content.
TEST_F(ReadStreams, DamageOnTheWayIsNeverTakenForContent) {
  std::mt19937 random(3);
  for (EncodingKind kind : {EncodingKind::kNone, EncodingKind::kZstd}) {
    std::string content = Pattern(kBlockBytes + 5'000, kind == EncodingKind::kNone ? 5 : 6, true);
    ObjectRef ref = Add(content, kind);
    std::string out(content.size(), '?');
    std::vector<ObjectRead> reads = {
        {ref, 0, {reinterpret_cast<uint8_t*>(out.data()), out.size()}}};
    auto producer = *ReadProducer::Create(store_, pool_, Request(reads, true));
    auto messages = *producer->Produce(*budget_.Acquire(producer->NextBytes()));
    ASSERT_EQ(messages.size(), 1u);
    std::string whole = messages[0].head + std::string(AsText(messages[0].data));
    for (int round = 0; round < 300; ++round) {
      std::string damaged = whole;
      damaged[random() % (round % 2 == 0 ? messages[0].head.size() : whole.size())] ^=
          static_cast<char>(1 << random() % 8);
      RangeAssembler assembler(reads, "n");
      std::fill(out.begin(), out.end(), '?');
      std::vector<Bytes> pieces = {AsBytes(damaged)};
      absl::Status status = assembler.Take(pieces);
      if (status.ok()) status = assembler.Finish();
      if (status.ok()) {
        EXPECT_EQ(out, content);  // a bit that means nothing: an unknown field
      } else {
        EXPECT_TRUE(GetReason(status) == Reason::kDataLoss ||
                    GetReason(status) == Reason::kInternal)
            << status;
      }
    }
  }
}

TEST_F(ReadStreams, ATableThatWasNotCheckedIsCheckedForTheNextReadThatAsks) {
  std::string content = Pattern(kLeafBytes + 100, 9, false);
  ObjectRef ref = Add(content);
  uint8_t first[10], second[10];
  std::vector<ObjectRead> reads{{ref, 0, first}, {ref, 20, second}};
  reads[0].verify = false;
  auto producer = *ReadProducer::Create(store_, pool_, Request(reads, true));
  auto messages = *producer->Produce(*budget_.Acquire(producer->NextBytes()));
  ASSERT_EQ(messages.size(), 2u);
  // A bit of the second leaf's hash: no byte of content that is read depends on it.
  std::string table = LeavesToWire((*store_.Open(kDefaultDomain, ref.id))->leaves());
  size_t at = messages[0].head.find(table);
  ASSERT_NE(at, std::string::npos);
  messages[0].head[at + table.size() - 1] ^= 1;
  RangeAssembler assembler(reads, "n");
  std::vector<Bytes> pieces{AsBytes(messages[0].head), messages[0].data};
  EXPECT_TRUE(assembler.Take(pieces).ok());
  pieces = {AsBytes(messages[1].head), messages[1].data};
  EXPECT_EQ(GetReason(assembler.Take(pieces)), Reason::kDataLoss);
}

// Sends nothing on until it is told to.
class HeldCarrier : public ReadCarrier {
 public:
  void Send(ReadMessage message, bool) override { sent.push_back(std::move(message)); }
  void FinishCall(const absl::Status& status) override { finished.push_back(status); }
  void BreakOff() override {}
  std::vector<ReadMessage> sent;
  std::vector<absl::Status> finished;
};

class ReadPipelineTest : public ReadStreams {
 protected:
  std::shared_ptr<ReadPipeline> StartRead(ReadCarrier* carrier, const ObjectRef& ref) {
    v1::ReadObjectsRequest request;
    ObjectRefToWire(ref, request.add_ranges()->mutable_ref());
    request.mutable_ranges(0)->set_length(ref.length);
    auto pipeline = std::make_shared<ReadPipeline>(carrier, &reads_, &executor_);
    pipeline->Start(*ReadProducer::Create(store_, pool_, request));
    return pipeline;
  }
  QueueExecutor executor_;
  StreamBudget reads_{"client_read", 3 * kMiB, [](int64_t) {}};
};

TEST_F(ReadPipelineTest, ASlowReaderHoldsOneChunkBeingSentAndOneAhead) {
  ObjectRef ref = Add(Pattern(10 * kMiB, 1, false));
  HeldCarrier carrier;
  auto pipeline = StartRead(&carrier, ref);
  executor_.RunAll();
  EXPECT_EQ(carrier.sent.size(), 1u);
  EXPECT_LE(reads_.budget().used_bytes(), 2 * kTransferChunkBytes + 64 * kKiB);
  uint64_t data_bytes = 0;
  while (carrier.finished.empty()) {
    ASSERT_EQ(carrier.sent.size(), 1u);
    data_bytes += carrier.sent[0].data.size();
    carrier.sent.clear();
    pipeline->Sent(true);
    executor_.RunAll();
  }
  EXPECT_TRUE(carrier.finished[0].ok());
  EXPECT_EQ(data_bytes, ref.length);
  EXPECT_EQ(reads_.budget().used_bytes(), 0u);
}

TEST_F(ReadPipelineTest, CancelGivesEverythingBackAtAnyPoint) {
  ObjectRef ref = Add(Pattern(5 * kMiB, 1, false));
  for (int steps = 0; steps < 8; ++steps) {
    HeldCarrier carrier;
    auto pipeline = StartRead(&carrier, ref);
    for (int i = 0; i < steps; ++i) {
      if (!executor_.queue.empty()) {
        auto work = std::move(executor_.queue.front());
        executor_.queue.pop_front();
        work();
      } else if (!carrier.sent.empty()) {
        carrier.sent.clear();
        pipeline->Sent(true);
      }
    }
    pipeline->Cancel();
    bool sending = !carrier.sent.empty();
    carrier.sent.clear();
    if (sending) pipeline->Sent(false);
    executor_.RunAll();
    ASSERT_EQ(carrier.finished.size(), 1u) << "after " << steps;
    EXPECT_EQ(GetReason(carrier.finished[0]), Reason::kCancelled);
    EXPECT_EQ(reads_.budget().used_bytes(), 0u) << "after " << steps;
  }
}

// Never ends by itself; tells when it goes.
class EndlessSource : public MessageSource {
 public:
  explicit EndlessSource(bool* gone) : gone_(gone) {}
  ~EndlessSource() override { *gone_ = true; }
  bool done() const override { return false; }
  uint64_t NextBytes() const override { return 1; }
  absl::StatusOr<std::vector<ReadMessage>> Produce(Reservation) override {
    return std::vector<ReadMessage>(1);
  }

 private:
  bool* const gone_;
};

TEST_F(ReadPipelineTest, WhoLetsGoOfItDoesNotEndWhatItReadsFrom) {
  HeldCarrier carrier;
  bool gone = false;
  auto pipeline = std::make_shared<ReadPipeline>(&carrier, &reads_, &executor_);
  pipeline->Start(std::make_unique<EndlessSource>(&gone));
  executor_.RunAll();
  pipeline->Cancel();
  pipeline->Sent(false);
  executor_.RunAll();
  ASSERT_EQ(carrier.finished.size(), 1u);
  pipeline.reset();
  EXPECT_FALSE(gone) << "the carrier's thread would wait for it";
  executor_.RunAll();
  EXPECT_TRUE(gone);
}

TEST_F(ReadPipelineTest, CancelWhileItWaitsForMemoryDoesNotWaitForIt) {
  ObjectRef ref = Add(Pattern(2 * kMiB, 1, false));
  Reservation all = *reads_.TryReserve(3 * kMiB);
  HeldCarrier carrier;
  auto pipeline = StartRead(&carrier, ref);
  executor_.RunAll();
  EXPECT_TRUE(carrier.sent.empty());
  pipeline->Cancel();
  EXPECT_EQ(carrier.finished.size(), 1u);
}

}  // namespace
}  // namespace tilekv
