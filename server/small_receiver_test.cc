#include "server/small_receiver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/status.h"
#include "server/receiver_test_util.h"

namespace tilekv {
namespace {

class SmallReceiverTest : public testing::Test {
 protected:
  SmallReceiverTest() {
    auto sink = std::make_unique<FakeSink>(&seen_);
    sink_ = sink.get();
    receiver_ = std::make_shared<SmallReceiver>(&carrier_, std::move(sink), &executor_);
  }
  void Send(const std::string& data, bool last = false) {
    sink_->next_last = last;
    std::vector<Bytes> pieces = {AsBytes(data)};
    receiver_->Received(pieces);
  }
  void TearDown() override {
    receiver_.reset();
    executor_.RunAll();
  }

  QueueExecutor executor_;
  FakeCarrier carrier_;
  Seen seen_;
  FakeSink* sink_ = nullptr;
  std::shared_ptr<SmallReceiver> receiver_;
};

TEST_F(SmallReceiverTest, WorksOnEachMessageBeforeItAsksForTheNext) {
  std::string first = "he", second = "llo";
  Send(first);
  EXPECT_FALSE(carrier_.asked);
  EXPECT_EQ(seen_.begun, 0) << "worked in the carrier's thread";
  executor_.RunAll();
  EXPECT_TRUE(carrier_.asked);
  EXPECT_EQ(seen_.content, "he");
  Send(second, true);
  executor_.RunAll();
  EXPECT_EQ(seen_.content, "hello");
  EXPECT_EQ(seen_.begun, 1);
  EXPECT_TRUE(seen_.complete);
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_TRUE(carrier_.finished[0].ok());
}

TEST_F(SmallReceiverTest, AStreamThatEndsEarlyIsNotComplete) {
  std::string data = "he";
  Send(data);
  executor_.RunAll();
  receiver_->Ended();
  executor_.RunAll();
  EXPECT_EQ(seen_.ended, 1);
  EXPECT_FALSE(seen_.complete);
  EXPECT_EQ(carrier_.finished.size(), 1u);
}

TEST_F(SmallReceiverTest, AFailedWriteEndsTheCallAndNothingFollows) {
  sink_->append_result = MakeError(Reason::kStoreFull, "full");
  std::string data = "he";
  Send(data, true);
  executor_.RunAll();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kStoreFull);
  EXPECT_EQ(seen_.ended, 0);
  receiver_->Ended();
  receiver_->Cancel();
  executor_.RunAll();
  EXPECT_EQ(carrier_.finished.size(), 1u);
}

TEST_F(SmallReceiverTest, CancelBetweenMessagesEndsTheCallAtOnce) {
  std::string data = "he";
  Send(data);
  executor_.RunAll();
  receiver_->Cancel();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kCancelled);
  receiver_->Ended();
  executor_.RunAll();
  EXPECT_EQ(seen_.ended, 0);
}

TEST_F(SmallReceiverTest, ACancelDuringTheWorkEndsTheCallAfterIt) {
  std::string data = "he";
  Send(data);
  receiver_->Cancel();
  EXPECT_TRUE(carrier_.finished.empty()) << "the work still uses the carrier's memory";
  executor_.RunAll();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_EQ(GetReason(carrier_.finished[0]), Reason::kCancelled);
  EXPECT_FALSE(carrier_.asked);
}

TEST_F(SmallReceiverTest, ACancelThatComesAfterTheWriteDoesNotDenyIt) {
  std::string data = "hello";
  Send(data, true);
  receiver_->Cancel();
  executor_.RunAll();
  EXPECT_TRUE(seen_.complete);
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_TRUE(carrier_.finished[0].ok());
}

TEST_F(SmallReceiverTest, AnAnswerKnownAtOnceEndsTheCallWithoutTheRest) {
  sink_->wanted = false;
  std::string data;
  Send(data);
  executor_.RunAll();
  ASSERT_EQ(carrier_.finished.size(), 1u);
  EXPECT_TRUE(carrier_.finished[0].ok());
  EXPECT_EQ(seen_.ended, 0);
}

}  // namespace
}  // namespace tilekv
