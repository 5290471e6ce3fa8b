#include "server/stream_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"
#include "server/call_gate.h"
#include "server/memory_plan.h"
#include "server/read_producer.h"

namespace tilekv {
namespace {

using Kind = StreamSlots::Kind;

class StreamSlotsTest : public testing::Test {
 protected:
  StreamSlotsTest()
      : slots_({.slots = 2, .max_waiting_puts = 1, .max_waiting_reads = 3, .clock = &clock_}) {}

  uint64_t Enter(Kind kind, const std::string& peer = "peer") {
    uint64_t ticket = slots_.NewTicket();
    slots_.Enter(
        ticket, {kind, peer},
        [this, ticket](const absl::Status& why) {
          EXPECT_EQ(GetReason(why), Reason::kOverloaded);
          EXPECT_GT(GetRetryHint(why).after_ms, 0);
          ended_.push_back(ticket);
        },
        [this, ticket](absl::Status status) {
          EXPECT_EQ(answers_.count(ticket), 0u) << "answered twice";
          answers_[ticket] = status;
        });
    return ticket;
  }
  bool Served(uint64_t ticket) { return answers_.count(ticket) == 1 && answers_[ticket].ok(); }
  bool Waits(uint64_t ticket) { return answers_.count(ticket) == 0; }
  void AdvanceSeconds(int64_t seconds) {
    clock_.Advance(seconds * 1'000'000);
    slots_.Tick();
  }

  ManualClock clock_;
  std::map<uint64_t, absl::Status> answers_;
  std::vector<uint64_t> ended_;
  StreamSlots slots_;
};

TEST_F(StreamSlotsTest, WhoComesToABusyNodeWaitsInOrder) {
  uint64_t first = Enter(Kind::kRead);
  uint64_t second = Enter(Kind::kPut);
  uint64_t third = Enter(Kind::kPut);
  uint64_t fourth = Enter(Kind::kRead);
  EXPECT_TRUE(Served(first) && Served(second) && Waits(third) && Waits(fourth));
  slots_.Leave(first);
  EXPECT_TRUE(Served(third) && Waits(fourth));
  slots_.Leave(second);
  EXPECT_TRUE(Served(fourth));
  slots_.Leave(third);
  slots_.Leave(fourth);
  EXPECT_EQ(slots_.held(), 0u);
}

TEST_F(StreamSlotsTest, BeyondTheBoundsOfTheQueueACallIsRefusedAndToldWhenToCome) {
  for (int i = 0; i < 2; ++i) Enter(Kind::kRead);
  EXPECT_TRUE(Waits(Enter(Kind::kPut)));
  absl::Status refused = answers_[Enter(Kind::kPut)];
  EXPECT_EQ(GetReason(refused), Reason::kOverloaded);
  EXPECT_EQ(GetRetryHint(refused).after_ms, kOverloadedRetry_s * 1'000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Waits(Enter(Kind::kRead)));
  EXPECT_EQ(GetReason(answers_[Enter(Kind::kRead)]), Reason::kOverloaded);
}

TEST_F(StreamSlotsTest, WhoWaitsTooLongIsRefused) {
  for (int i = 0; i < 2; ++i) Enter(Kind::kRead);
  uint64_t late = Enter(Kind::kRead);
  AdvanceSeconds(kTransferQueue_s - 1);
  uint64_t later = Enter(Kind::kRead);
  AdvanceSeconds(1);
  EXPECT_EQ(GetReason(answers_[late]), Reason::kOverloaded);
  EXPECT_TRUE(Waits(later));
  EXPECT_EQ(slots_.waiting(), 1u);
}

TEST_F(StreamSlotsTest, WhoGoesWhileItWaitsIsForgotten) {
  uint64_t first = Enter(Kind::kRead);
  Enter(Kind::kRead);
  uint64_t gone = Enter(Kind::kPut);
  EXPECT_TRUE(slots_.Cancel(gone));
  EXPECT_FALSE(slots_.Cancel(gone));
  EXPECT_FALSE(slots_.Cancel(first)) << "it was granted";
  EXPECT_TRUE(Waits(Enter(Kind::kPut))) << "its place in the queue is free again";
  slots_.Leave(gone);
  slots_.Leave(first);
  EXPECT_TRUE(Waits(gone));
  EXPECT_EQ(slots_.held(), 2u);
}

TEST_F(StreamSlotsTest, OneWhoseClientStandsStillIsEndedOnlyWhenOthersWait) {
  uint64_t still = Enter(Kind::kPut);
  uint64_t working = Enter(Kind::kPut);
  slots_.WaitsForClient(still, true);
  slots_.WaitsForClient(working, true);
  AdvanceSeconds(kStalledTransfer_s);
  EXPECT_TRUE(ended_.empty()) << "nobody wants its place";
  slots_.WaitsForClient(working, false, kLeastTransferBytes);
  uint64_t next = Enter(Kind::kRead);
  slots_.Tick();
  EXPECT_EQ(ended_, std::vector<uint64_t>{still});
  slots_.Tick();
  EXPECT_EQ(ended_.size(), 1u) << "once";
  EXPECT_TRUE(Waits(next));
  slots_.Leave(still);
  EXPECT_TRUE(Served(next));
}

TEST_F(StreamSlotsTest, AClientThatIsSlowLosesItsPlaceAsOneThatStandsStill) {
  uint64_t slow = Enter(Kind::kRead);
  uint64_t fast = Enter(Kind::kRead);
  for (int64_t second = 0; second < kStalledTransfer_s; ++second) {
    slots_.WaitsForClient(slow, true);
    slots_.WaitsForClient(fast, true);
    AdvanceSeconds(1);
    slots_.WaitsForClient(slow, false, kLeastTransferBytes / kStalledTransfer_s - 1);
    slots_.WaitsForClient(fast, false, kLeastTransferBytes / kStalledTransfer_s + 1);
  }
  EXPECT_TRUE(ended_.empty()) << "nobody wants a place";
  Enter(Kind::kRead);
  Enter(Kind::kRead);
  slots_.Tick();
  EXPECT_EQ(ended_, std::vector<uint64_t>{slow});
}

TEST_F(StreamSlotsTest, TheTimeThatTheNodeItselfTakesCountsForNobody) {
  uint64_t held = Enter(Kind::kRead);
  Enter(Kind::kPut);
  slots_.WaitsForClient(held, true);
  AdvanceSeconds(kStalledTransfer_s - 1);
  slots_.WaitsForClient(held, false, 1);
  AdvanceSeconds(10 * kStalledTransfer_s);  // on the disk
  Enter(Kind::kRead);
  slots_.Tick();
  EXPECT_TRUE(ended_.empty());
  slots_.WaitsForClient(held, true);
  AdvanceSeconds(1);
  EXPECT_EQ(ended_, std::vector<uint64_t>{held});
}

TEST_F(StreamSlotsTest, AsManyAreEndedAsWaitAndTheSlowestFirst) {
  uint64_t second = Enter(Kind::kPut);
  uint64_t first = Enter(Kind::kPut);
  slots_.WaitsForClient(first, true);
  AdvanceSeconds(1);
  slots_.WaitsForClient(second, true);
  AdvanceSeconds(kStalledTransfer_s);
  Enter(Kind::kRead);
  slots_.Tick();
  slots_.Tick();
  EXPECT_EQ(ended_, std::vector<uint64_t>{first}) << "its place comes back in a moment";
  Enter(Kind::kRead);
  slots_.Tick();
  EXPECT_EQ(ended_, (std::vector<uint64_t>{first, second}));
}

TEST_F(StreamSlotsTest, WhoLostAPlaceWaitsBehindAllOthersForAWhile) {
  uint64_t slow = Enter(Kind::kPut, "slow");
  uint64_t other = Enter(Kind::kRead, "other");
  slots_.WaitsForClient(slow, true);
  AdvanceSeconds(kStalledTransfer_s);
  uint64_t third = Enter(Kind::kRead, "third");
  slots_.Tick();
  slots_.Leave(slow);
  EXPECT_TRUE(Served(third));
  uint64_t again = Enter(Kind::kPut, "slow");
  uint64_t later = Enter(Kind::kRead, "other");
  slots_.Leave(other);
  EXPECT_TRUE(Served(later) && Waits(again));
  // Nor does it keep others from waiting.
  uint64_t put = Enter(Kind::kPut, "other");
  EXPECT_TRUE(Waits(put));
  EXPECT_EQ(GetReason(answers_[again]), Reason::kOverloaded);
  EXPECT_EQ(GetReason(answers_[Enter(Kind::kPut, "slow")]), Reason::kOverloaded);
  EXPECT_TRUE(slots_.Cancel(put));
  // It is forgotten.
  AdvanceSeconds(kSlowClientWaits_s);
  again = Enter(Kind::kPut, "slow");
  Enter(Kind::kRead, "other");
  slots_.Leave(third);
  EXPECT_TRUE(Served(again));
}

TEST(CallGate, BoundsCallsByNumberAndByBytes) {
  CallGate few(2, 10 * kMiB);
  auto first = few.Enter(1);
  {
    auto second = few.Enter(1);
    ASSERT_TRUE(first.ok() && second.ok());
    absl::Status refused = few.Enter(1).status();
    EXPECT_EQ(GetReason(refused), Reason::kOverloaded);
    EXPECT_GT(GetRetryHint(refused).after_ms, 0);
  }
  EXPECT_TRUE(few.Enter(1).ok()) << "a pass was given back";

  CallGate small(100, 6 * kMiB);
  auto large = small.Enter(4 * kMiB);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(GetReason(small.Enter(4 * kMiB).status()), Reason::kOverloaded);
  EXPECT_TRUE(small.Enter(kMiB).ok());
}

TEST(MemoryPlan, ItsPartsAreWithinTheWhole) {
  for (uint64_t memory : {kLeastMemoryBytes, kDefaultServerMemoryBytes, 16 * kGiB}) {
    MemoryPlan plan = PlanMemory(memory);
    // A stream that is served may hold two chunks in the carrier, one that waits to put, one.
    uint64_t streams = (2 * plan.max_streams + plan.max_waiting_puts) * kTransferChunkBytes;
    uint64_t small_puts = plan.max_small_puts * (kSmallValueBytes + 16 * kKiB) +
                          plan.max_waiting_small_puts * 16 * kKiB;
    EXPECT_LE(plan.client_stream_bytes + plan.client_read_bytes + plan.short_read_bytes +
                  plan.call_bytes + streams + small_puts,
              memory - 32 * kMiB);
    EXPECT_LE(plan.max_short_reads * kShortAnswerBytes, plan.short_read_bytes)
        << "a short read would wait for the memory of others";
    EXPECT_GE(plan.max_short_reads, 2u);
    // Reads that stand still hold a chunk that is sent, and the next.
    EXPECT_GE(plan.client_read_bytes, 2 * plan.max_streams * kTransferChunkBytes);
    EXPECT_GE(plan.client_stream_bytes, plan.max_streams * kTransferChunkBytes);
    EXPECT_GE(plan.max_small_puts, 8u);
    EXPECT_GE(plan.max_streams, 4u);
  }
}

TEST(MemoryPlan, OfAClustersNodeHalfIsForTheOthers) {
  for (uint64_t memory : {kDefaultServerMemoryBytes, 16 * kGiB}) {
    const MemoryPlan alone = PlanMemory(memory);
    const MemoryPlan plan = PlanMemory(memory, true);
    EXPECT_LE(2 * plan.max_streams, alone.max_streams);
    EXPECT_LE(2 * plan.client_read_bytes, alone.client_read_bytes);
    // A copy that is received may hold two chunks in the carrier, one that waits, one.
    uint64_t copies = (2 * plan.max_copies + plan.max_waiting_copies) * kTransferChunkBytes;
    uint64_t small = plan.max_small_copies * (kSmallValueBytes + 2 * 16 * kKiB);
    EXPECT_LE(plan.replica_write_bytes + plan.serve_bytes + plan.copy_ahead_bytes +
                  plan.read_ahead_bytes + copies + small,
              (memory - 32 * kMiB) / 2);
    EXPECT_GE(plan.replica_write_bytes, plan.max_copies * kTransferChunkBytes)
        << "a copy that has its place would wait for memory";
    // With three copies of everything: all uploads of a node's two neighbours, some of them
    // waiting.
    EXPECT_GE(plan.max_copies + plan.max_waiting_copies, 2 * plan.max_streams);
  }
}

}  // namespace
}  // namespace tilekv
