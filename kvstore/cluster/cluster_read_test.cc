// Reads in a cluster: which copies are asked, and how a read goes on when one fails.
#include "kvstore/cluster/cluster_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLength = 3 * kMiB + 77;
constexpr Encoding kZstd{EncodingKind::kZstd, 0};
const std::vector<std::string> kFive = {"a", "b", "c", "d", "e"};

// Owned by b, then c, then a node that holds nothing.
std::string ContentOfBThenC(MemoryCluster& cluster) {
  return cluster.ContentFor(kLength,
                            [](const auto& order) { return order[0] == "b" && order[1] == "c"; });
}

absl::StatusOr<std::string> Get(MemoryCluster& cluster, const ObjectId& id) {
  return GetContent(cluster.objects(), id);
}

TEST(ClusterRead, TakesItsOwnGoodCopyAndAsksNobody) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 1);
  ObjectRef ref;
  for (const char* id : {"a", "b", "c"}) ref = cluster.PutAt(id, content);
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.opens + cluster.node("c").log.opens, 0);
}

TEST(ClusterRead, ReadsTheOwnersCopyWhereItHasNone) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  const ObjectRef ref = cluster.PutAt("b", content);
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("c").log.opens, 0);
  EXPECT_EQ(cluster.node("d").log.opens, 0);
}

TEST(ClusterRead, ReadsAnyRangeOfAnotherNodesCopyInEveryEncoding) {
  MemoryCluster cluster;
  const auto pool = BufferPool::Create(kMiB);
  for (const Encoding& encoding : {Encoding{}, kZstd}) {
    const std::string content = TestContent(kLength, 2 + static_cast<uint64_t>(encoding.kind));
    const ObjectRef ref = cluster.PutAt("c", content, {1}, encoding);
    auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
    ASSERT_EQ(reader->row().encoding, encoding);
    auto plain = *cluster.node("c").store->Open(kDefaultDomain, ref.id);
    SeededRandom random(3);
    for (int i = 0; i < 100; ++i) {
      const uint64_t length = random.Below(reader->row().stored_length + 1);
      const uint64_t offset = random.Below(reader->row().stored_length - length + 1);
      std::string got(length, 0), expected(length, 1);
      const auto into = [](std::string& text) {
        return MutableBytes(reinterpret_cast<uint8_t*>(text.data()), text.size());
      };
      ASSERT_TRUE(reader->ReadStored(offset, into(got)).ok());
      ASSERT_TRUE(plain->ReadStored(offset, into(expected)).ok());
      ASSERT_EQ(got, expected) << offset << " " << length;
    }
    uint8_t byte = 0;
    EXPECT_FALSE(reader->ReadStored(reader->row().stored_length, {&byte, 1}).ok());
    EXPECT_EQ(*ReadWholeContent(*reader, *pool), content);
  }
}

// As a server sends them: in pieces that end anywhere.
TEST(ClusterRead, TakesEachUnitOnceAndInOrderHoweverItsReadsAreCut) {
  for (const Encoding& encoding : {Encoding{}, kZstd}) {
    MemoryCluster cluster;
    const std::string content = TestContent(kLength, 12);
    const ObjectRef ref = cluster.PutAt("c", content, {1}, encoding);
    auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
    const uint64_t stored = reader->row().stored_length;
    std::string got(stored, 0), expected(stored, 1);
    MutableBytes out{reinterpret_cast<uint8_t*>(got.data()), stored};
    for (uint64_t at = 0; at < stored;) {
      const uint64_t n = std::min<uint64_t>(stored - at, 700'001);
      ASSERT_TRUE(reader->ReadStored(at, out.subspan(at, n)).ok());
      at += n;
    }
    auto plain = *cluster.node("c").store->Open(kDefaultDomain, ref.id);
    ASSERT_TRUE(plain->ReadStored(0, {reinterpret_cast<uint8_t*>(expected.data()), stored}).ok());
    EXPECT_EQ(got, expected);
    EXPECT_EQ(cluster.node("c").log.read_bytes, stored);
    EXPECT_EQ(cluster.node("c").log.jumps, 0);
  }
}

TEST(ClusterRead, SaysNotFoundOnlyWhenEveryNodeHasAnswered) {
  MemoryCluster cluster({.nodes = kFive});
  const ObjectId id = IdOf(0, AsBytes("nowhere"));
  EXPECT_EQ(GetReason(Get(cluster, id).status()), Reason::kNotFound);
  for (const char* silent : {"b", "c", "d", "e"}) {
    cluster.node(silent).faults.down = true;
    const absl::Status status = Get(cluster, id).status();
    EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable);
    EXPECT_THAT(ErrorText(status), HasSubstr(std::string("node ") + silent + ": "));
    cluster.node(silent).faults.down = false;
    cluster.node(silent).faults.no_address = true;
    EXPECT_EQ(GetReason(Get(cluster, id).status()), Reason::kNodeUnavailable);
    cluster.node(silent).faults.no_address = false;
  }
}

TEST(ClusterRead, AsksNodesThatAreDrainingOrOutOrNotLikelyToAnswer) {
  for (const char* holder : {"b", "c", "d", "e"}) {
    MemoryCluster cluster(
        {.nodes = kFive, .states = {{"d", NodeState::kDraining}, {"e", NodeState::kOut}}});
    cluster.node("c").faults.unlikely = true;
    cluster.node("e").faults.unlikely = true;
    const std::string content = TestContent(kLength, 4);
    const ObjectRef ref = cluster.PutAt(holder, content);
    EXPECT_EQ(*Get(cluster, ref.id), content) << holder;
  }
}

TEST(ClusterRead, AsksThoseLastThatAreNotLikelyToAnswer) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  cluster.node("b").faults.unlikely = true;
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.opens, 0);
}

TEST(ClusterRead, GoesOnAtTheNextCopyWhereOneBreaksOffInTheMiddle) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  cluster.node("b").faults.cut_after_bytes = kMiB;
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.opens, 1);
  EXPECT_EQ(cluster.node("c").log.opens, 1);
  EXPECT_EQ(cluster.objects().counters().left_copies, 1u);
}

TEST(ClusterRead, GoesOnAtACodedCopyWhereAnUncodedOneBreaksOff) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content, {1}, kZstd);
  cluster.node("b").faults.cut_after_bytes = kMiB;
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_GT(cluster.node("c").log.opens, 0);
}

TEST(ClusterRead, AsksToBeOpenedAgainWhereTheOtherCopiesAreCodedOtherwise) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content, {1}, kZstd);
  const ObjectRef ref = cluster.PutAt("c", content);
  auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
  cluster.node("b").faults.down = true;
  const auto pool = BufferPool::Create(kMiB);
  EXPECT_EQ(GetReason(ReadWholeContent(*reader, *pool).status()), Reason::kNodeUnavailable);
  EXPECT_EQ(*Get(cluster, ref.id), content);
}

TEST(ClusterRead, LeavesADamagedCopyOfAnotherNodeAndReportsIt) {
  for (const Encoding& encoding : {Encoding{}, kZstd}) {
    MemoryCluster cluster({.nodes = kFive});
    const std::string content = ContentOfBThenC(cluster);
    cluster.PutAt("b", content, {1}, encoding);
    const ObjectRef ref = cluster.PutAt("c", content, {1}, encoding);
    const uint64_t stored = (*cluster.node("b").store->Stat(kDefaultDomain, ref.id))->stored_length;
    cluster.node("b").store->FlipBit(kDefaultDomain, ref.id, stored - 1);
    auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
    // Not even who reads without verifying gets a wrong byte.
    const auto pool = BufferPool::Create(kMiB);
    std::string got(kLength, 0);
    ASSERT_TRUE(
        ReadContent(*reader, 0, {reinterpret_cast<uint8_t*>(got.data()), kLength}, *pool, false)
            .ok());
    EXPECT_EQ(got, content);
    EXPECT_EQ(cluster.node("b").log.damages, 1);
    EXPECT_EQ(cluster.Holders(ref.id), "c");
    EXPECT_EQ(cluster.objects().counters().damaged_copies, 1u);
  }
}

TEST(ClusterRead, LeavesItsOwnDamagedCopyInTheMiddleOfARead) {
  for (const Encoding& encoding : {Encoding{}, kZstd}) {
    MemoryCluster cluster;
    const std::string content = TestContent(kLength, 5);
    cluster.PutAt("c", content, {1}, encoding);
    const ObjectRef ref = cluster.PutAt("a", content, {1}, encoding);
    const uint64_t stored = (*cluster.self().store->Stat(kDefaultDomain, ref.id))->stored_length;
    cluster.self().store->FlipBit(kDefaultDomain, ref.id, stored - 1);
    EXPECT_EQ(*Get(cluster, ref.id), content);
    EXPECT_EQ(cluster.Holders(ref.id), "c");
  }
}

TEST(ClusterRead, SaysDataLossWhereItsOwnDamagedCopyIsTheOnlyOne) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 6);
  const ObjectRef ref = cluster.PutAt("a", content);
  cluster.self().store->FlipBit(kDefaultDomain, ref.id, 9);
  EXPECT_EQ(GetReason(Get(cluster, ref.id).status()), Reason::kDataLoss);
  // And where another node has one that is damaged too.
  cluster.PutAt("b", content);
  cluster.node("b").store->FlipBit(kDefaultDomain, ref.id, 9);
  EXPECT_EQ(GetReason(Get(cluster, ref.id).status()), Reason::kDataLoss);
}

TEST(ClusterRead, ReadsElsewhereWhatItsOwnDiskDoesNotGive) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 7);
  const ObjectRef ref = cluster.PutAt("a", content);
  cluster.self().store->unreadable = true;
  EXPECT_EQ(GetReason(Get(cluster, ref.id).status()), Reason::kDataLoss);
  cluster.PutAt("b", content);
  EXPECT_EQ(*Get(cluster, ref.id), content);
}

TEST(ClusterRead, ReadsSuspectCopiesWhereThereIsNoOther) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 8);
  const ObjectRef ref = cluster.PutAt("b", content);
  ASSERT_TRUE(cluster.node("b").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.damages, 0);
  // A good one is preferred to any, the node's own too.
  cluster.PutAt("a", content);
  ASSERT_TRUE(cluster.self().store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_EQ(*Get(cluster, ref.id), content);
  cluster.PutAt("c", content);
  const auto reads = cluster.node("c").log.opens.load();
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("c").log.opens, reads + 1);
}

TEST(ClusterRead, ReadsNoSuspectCopyWhereThereIsAGoodOne) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  ASSERT_TRUE(cluster.node("b").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.read_bytes, 0u);
}

TEST(ClusterRead, ReadsItsOwnSuspectCopyLastOfAll) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 9);
  const ObjectRef ref = cluster.PutAt("a", content);
  ASSERT_TRUE(cluster.self().store->MarkSuspect(kDefaultDomain, ref.id).ok());
  cluster.node("b").faults.down = true;
  EXPECT_EQ(*Get(cluster, ref.id), content);
}

// With one thread, which is held up too: then the caller reads by itself.
TEST(ClusterRead, AsksASecondNodeWhereNothingComesFromTheFirst) {
  for (int threads : {1, 2}) {
    for (bool opens : {false, true}) {
      Gate gate;
      auto pool = std::make_unique<ThreadPool>("read", threads);
      MemoryCluster cluster({.nodes = kFive, .executor = pool.get(), .hedge_after_ms = 1});
      const std::string content = ContentOfBThenC(cluster);
      cluster.PutAt("b", content);
      const ObjectRef ref = cluster.PutAt("c", content);
      NodeFaults& faults = cluster.node("b").faults;
      (opens ? faults.before_open : faults.before_read) = [&gate] { gate.Pass(); };
      EXPECT_EQ(*Get(cluster, ref.id), content);
      EXPECT_GE(cluster.objects().counters().hedged_reads, 1u);
      gate.Open();
      pool.reset();  // before what its work reads from
    }
  }
}

// The reader that lost the race is gone when its attempt comes to its end.
TEST(ClusterRead, LeavesAnAttemptThatComesTooLateToItself) {
  Gate gate;
  auto pool = std::make_unique<ThreadPool>("read", 2);
  MemoryCluster cluster({.nodes = kFive, .executor = pool.get(), .hedge_after_ms = 1});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  cluster.node("b").faults.before_read = [&gate] { gate.Pass(); };
  {
    auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
    uint8_t byte = 0;
    ASSERT_TRUE(reader->ReadStored(5, {&byte, 1}).ok());
    EXPECT_EQ(byte, static_cast<uint8_t>(content[5]));
  }
  gate.Open();
  pool.reset();
}

// A thread of the network's may let a reader or a writer go, and be needed by what would be waited
// for.
TEST(ClusterRead, LetsOtherNodesCopiesGoInTheExecutorOnly) {
  auto pool = std::make_unique<ThreadPool>("read", 2);
  MemoryCluster cluster({.executor = pool.get()});
  const ObjectRef ref = cluster.PutAt("b", TestContent(kLength, 13));
  const std::string other = TestContent(kLength, 14);
  auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
  uint8_t byte = 0;
  ASSERT_TRUE(reader->ReadStored(5, {&byte, 1}).ok());
  auto writer = *cluster.objects().NewWriter({.expected = RefOf(0, AsBytes(other))});
  for (const char* id : {"b", "c"}) cluster.node(id).log.watched = std::this_thread::get_id();
  reader.reset();
  writer.reset();
  pool.reset();
  EXPECT_EQ(cluster.node("b").log.let_go_there, 0);
  EXPECT_EQ(cluster.node("c").log.let_go_there, 0);
}

TEST(ClusterRead, ReadsWithManyThreadsThroughOneReaderWhileCopiesFail) {
  auto pool = std::make_unique<ThreadPool>("read", 3);
  MemoryCluster cluster({.nodes = kFive, .executor = pool.get()});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("a", content);
  cluster.PutAt("b", content, {1}, kZstd);
  const ObjectRef ref = cluster.PutAt("c", content);
  auto reader = *cluster.objects().Open(kDefaultDomain, ref.id);
  cluster.self().store->FlipBit(kDefaultDomain, ref.id, kLength / 2);
  cluster.node("b").faults.cut_after_bytes = kMiB;
  auto damaged = *cluster.objects().Open(kDefaultDomain, ref.id);
  const auto buffers = BufferPool::Create(kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (ObjectReader* each : {reader.get(), damaged.get()}) {
        const auto got = ReadWholeContent(*each, *buffers);
        right += got.ok() && *got == content;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  reader.reset();
  damaged.reset();
  pool.reset();  // before the nodes that its work may touch
}

TEST(ClusterRead, AsksANodeThatWasLateLastForAWhile) {
  Gate gate;
  auto pool = std::make_unique<ThreadPool>("read", 3);
  MemoryCluster cluster({.nodes = kFive, .executor = pool.get(), .hedge_after_ms = 30});
  const std::string content =
      cluster.ContentFor(1'000, [](const auto& order) { return order[0] == "b"; });
  ObjectRef ref;
  for (const char* id : {"b", "c", "d", "e"}) ref = cluster.PutAt(id, content);
  cluster.node("b").faults.before_open = [&gate] { gate.Pass(); };
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.opens, 1);
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.node("b").log.opens, 1);
  gate.Open();
  pool.reset();
}

TEST(ClusterRead, WaitsForAnAnswerThatComesInTime) {
  auto pool = std::make_unique<ThreadPool>("read", 2);
  MemoryCluster cluster({.nodes = kFive, .executor = pool.get()});
  const std::string content = ContentOfBThenC(cluster);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  EXPECT_EQ(*Get(cluster, ref.id), content);
  EXPECT_EQ(cluster.objects().counters().hedged_reads, 0u);
  EXPECT_EQ(cluster.node("c").log.opens, 0);
  pool.reset();  // before the nodes that its work may touch
}

}  // namespace
}  // namespace tilekv
