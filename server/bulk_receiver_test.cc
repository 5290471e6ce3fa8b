#include "server/bulk_receiver.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "server/receiver_test_util.h"

namespace tilekv {
namespace {

class BulkReceiverTest : public testing::Test {
 protected:
  void Start(uint64_t budget_bytes = 8 * kMiB) {
    budget_ = std::make_unique<StreamBudget>("client_stream", budget_bytes, [](int64_t) {});
    auto sink = std::make_unique<FakeSink>(&seen_);
    sink_ = sink.get();
    receiver_ = std::make_shared<BulkReceiver>(&carrier_, std::move(sink), budget_.get(), pool_,
                                               &executor_);
    receiver_->Start();
  }
  void Send(const std::string& data) {
    ASSERT_TRUE(std::exchange(carrier_.asked, false)) << "sent without being asked";
    std::vector<Bytes> pieces = {AsBytes(data)};
    receiver_->Received(pieces);
  }
  void TearDown() override {
    receiver_.reset();
    executor_.RunAll();
    if (budget_ == nullptr) return;
    EXPECT_EQ(budget_->budget().used_bytes(), 0u);
  }

  QueueExecutor executor_;
  FakeCarrier carrier_;
  Seen seen_;
  FakeSink* sink_ = nullptr;
  std::unique_ptr<StreamBudget> budget_;
  std::shared_ptr<BufferPool> pool_ = BufferPool::Create(4 * kMiB);
  std::shared_ptr<BulkReceiver> receiver_;
};

TEST_F(BulkReceiverTest, AsksForNothingBeforeItHasMemory) {
  Start(kTransferChunkBytes);
  EXPECT_TRUE(carrier_.asked);
  auto other = std::make_shared<BulkReceiver>(&carrier_, std::make_unique<FakeSink>(&seen_),
                                              budget_.get(), pool_, &executor_);
  carrier_.asked = false;
  other->Start();
  executor_.RunAll();
  EXPECT_FALSE(carrier_.asked) << "the first stream has all of the memory";
  other->Cancel();
  EXPECT_EQ(carrier_.finished.size(), 1u);
}

TEST_F(BulkReceiverTest, SmallMessagesBecomeWholeChunks) {
  Start();
  executor_.RunAll();
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    std::string piece(10'000, static_cast<char>('a' + i % 26));
    expected += piece;
    Send(piece);
    executor_.RunAll();
  }
  receiver_->Ended();
  executor_.RunAll();
  EXPECT_EQ(seen_.content, expected);
  EXPECT_EQ(seen_.appends.size(), 3u);
  EXPECT_EQ(seen_.begun, 1);
  EXPECT_EQ(seen_.ended, 1);
  EXPECT_FALSE(seen_.complete);
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_TRUE(carrier_.finished[0].ok());
}

TEST_F(BulkReceiverTest, BlocksGoOnWithTheirTableMessageByMessage) {
  Start();
  executor_.RunAll();
  sink_->next_table = {3};
  Send("abc");
  sink_->next_table = {2};
  sink_->next_last = true;
  Send("de");
  executor_.RunAll();
  EXPECT_EQ(seen_.appends, (std::vector<uint64_t>{3, 2}));
  EXPECT_EQ(seen_.table, (std::vector<uint32_t>{3, 2}));
  EXPECT_TRUE(seen_.complete);
}

TEST_F(BulkReceiverTest, StopsAskingWhileTheDiskIsBehind) {
  Start(2 * kTransferChunkBytes);
  executor_.RunAll();
  std::string chunk(kTransferChunkBytes, 'x');
  Send(chunk);
  Send(chunk);
  EXPECT_FALSE(carrier_.asked) << "both chunks wait for the disk";
  EXPECT_EQ(budget_->budget().used_bytes(), 2 * kTransferChunkBytes);
  executor_.RunAll();
  EXPECT_TRUE(carrier_.asked);
  EXPECT_EQ(seen_.content.size(), 2 * kTransferChunkBytes);
  EXPECT_EQ(budget_->budget().peak_bytes(), 2 * kTransferChunkBytes);
}

TEST_F(BulkReceiverTest, OneChunkIsEnoughToGetOn) {
  Start(kTransferChunkBytes);
  executor_.RunAll();
  std::string chunk(kTransferChunkBytes - 7, 'x');  // never quite full: each next one must wait
  for (int i = 0; i < 5; ++i) {
    Send(chunk);
    executor_.RunAll();
  }
  receiver_->Ended();
  executor_.RunAll();
  EXPECT_EQ(seen_.content.size(), 5 * chunk.size());
  EXPECT_EQ(seen_.ended, 1);
}

TEST_F(BulkReceiverTest, AnAnswerKnownAtOnceEndsTheCallWithoutTheRest) {
  Start();
  executor_.RunAll();
  sink_->wanted = false;
  Send("");
  executor_.RunAll();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_TRUE(carrier_.finished[0].ok());
  EXPECT_EQ(seen_.ended, 0);
}

TEST_F(BulkReceiverTest, AFailedWriteEndsTheCallAndNothingFollows) {
  Start();
  executor_.RunAll();
  sink_->append_result = MakeError(Reason::kStoreFull, "full");
  std::string chunk(kTransferChunkBytes, 'x');
  Send(chunk);
  Send(chunk);
  executor_.RunAll();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kStoreFull);
  EXPECT_EQ(seen_.appends.size(), 1u);
  receiver_->Ended();
  receiver_->Cancel();
  executor_.RunAll();
  EXPECT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(seen_.ended, 0);
}

TEST_F(BulkReceiverTest, ARefusedMessageIsNotBuffered) {
  Start();
  executor_.RunAll();
  sink_->refuse = MakeError(Reason::kObjectTooLarge, "too large");
  Send(std::string(kTransferChunkBytes, 'x'));
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kObjectTooLarge);
  EXPECT_EQ(pool_->idle_bytes(), 0u) << "a buffer was taken";
}

TEST_F(BulkReceiverTest, AMessageOfMoreThanAChunkIsRefused) {
  Start();
  executor_.RunAll();
  Send(std::string(kTransferChunkBytes + 1, 'x'));
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kInvalidArgument);
}

TEST_F(BulkReceiverTest, WhatHasComeWholeIsGivenToTheSinkThoughTheCallerIsGone) {
  Start();
  executor_.RunAll();
  sink_->next_last = true;
  Send("all of it");
  receiver_->Cancel();
  executor_.RunAll();
  EXPECT_EQ(seen_.content, "all of it");
  EXPECT_EQ(seen_.ended, 1);
  EXPECT_TRUE(seen_.complete);
  EXPECT_EQ(carrier_.finished.size(), 1u);
}

TEST_F(BulkReceiverTest, CancelBetweenMessagesEndsTheCallAtOnce) {
  Start();
  executor_.RunAll();
  Send("abc");
  executor_.RunAll();
  receiver_->Cancel();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kCancelled);
  receiver_->Ended();
  executor_.RunAll();
  EXPECT_EQ(seen_.ended, 0);
}

}  // namespace
}  // namespace tilekv
