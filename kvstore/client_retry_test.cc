// Retries of a client whose node loses requests and replies.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node_store.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

absl::Status Lost() { return MakeError(Reason::kNodeUnavailable, "the connection broke"); }

// A node behind a connection that breaks as told.
class FlakyNode : public RetryingNode {
 public:
  explicit FlakyNode(std::shared_ptr<NodeService> node)
      : RetryingNode(node, {.retry_for_ms = 0}), node_(std::move(node)) {}

  int lose_requests = 0;            // so many calls do not reach the node
  int lose_replies = 0;             // so many that follow do, but their reply is lost
  absl::Status refuse;              // once
  std::function<void()> meanwhile;  // runs once after a reply was lost
  absl::Status keeper_status;
  std::atomic<int> calls = 0;
  std::atomic<int> batches = 0;
  std::function<bool()> before_reply;   // true: this one is lost
  std::function<void()> after_compare;  // between the exchanges of a put

  absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header, ByteSource* source,
                                               const CompareFixed& fixed,
                                               const CallContext& context) override {
    auto heard = [&](Revision compare) {
      fixed(compare);
      if (after_compare) after_compare();
    };
    return Call([&] { return node_->PutValue(header, source, heard, context); });
  }
  absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                const ComparesFixed& fixed,
                                                const CallContext& context) override {
    ++batches;
    auto heard = [&](const std::vector<uint64_t>& compares) {
      absl::Status status = fixed(compares);
      if (after_compare) after_compare();
      return status;
    };
    return Call([&] { return node_->BatchPut(request, heard, context); });
  }
  absl::StatusOr<v1::DeleteValueResponse> DeleteValue(const v1::DeleteValueRequest& request,
                                                      const CallContext& context) override {
    return Call([&] { return node_->DeleteValue(request, context); });
  }
  absl::StatusOr<v1::CommitResponse> Commit(const v1::CommitRequest& request,
                                            const CallContext& context) override {
    return Call([&] { return node_->Commit(request, context); });
  }
  absl::StatusOr<std::unique_ptr<SessionKeeper>> KeepSession(const std::string&,
                                                             const CallContext&) override {
    class Keeper : public SessionKeeper {
     public:
      explicit Keeper(const absl::Status& status) : status_(status) {}
      absl::Status status() override { return status_; }

     private:
      const absl::Status& status_;
    };
    return std::make_unique<Keeper>(keeper_status);
  }
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                           const CallContext& context) override {
    return Call([&] { return node_->ReadObjects(reads, stats, context); });
  }
  absl::StatusOr<v1::SetTagResponse> SetTag(const v1::SetTagRequest& request,
                                            const CallContext& context) override {
    return Call([&] { return node_->SetTag(request, context); });
  }

 private:
  template <typename F>
  auto Call(F call) -> decltype(call()) {
    ++calls;
    if (!refuse.ok()) return std::exchange(refuse, absl::OkStatus());
    if (lose_requests > 0) {
      --lose_requests;
      return Lost();
    }
    auto result = call();
    if (before_reply && before_reply()) return Lost();
    if (lose_replies == 0) return result;
    --lose_replies;
    if (auto then = std::exchange(meanwhile, nullptr)) then();
    return Lost();
  }

  const std::shared_ptr<NodeService> node_;
};

class ClientRetry : public testing::Test {
 protected:
  ClientRetry() {
    node_ = *LocalNode::Create(objects_, catalog_);
    std::shared_ptr<NodeService> local(node_.get(), [](NodeService*) {});
    flaky_ = std::make_shared<FlakyNode>(local);
    NodeStoreOptions options;
    options.retry.clock = &clock_;
    options.retry.waiting = [this](const absl::Status&) { ++told_; };
    options.retry.sleep = [this](int64_t ms) {
      waits_.push_back(ms);
      auto& [cancel, after] = cancel_after_waits_;
      if (cancel != nullptr && waits_.size() == after) cancel->Cancel();
      clock_.Advance(ms * 1'000);
    };
    store_ = NewNodeStore(flaky_, options);
    direct_ = NewNodeStore(local, {});
  }

  ManualClock clock_;
  MemoryObjectStore objects_;
  MemoryCatalog catalog_;
  std::unique_ptr<LocalNode> node_;
  std::shared_ptr<FlakyNode> flaky_;
  std::unique_ptr<KvStore> store_;   // over the flaky connection
  std::unique_ptr<KvStore> direct_;  // over a good one
  std::vector<int64_t> waits_;
  int told_ = 0;
  std::pair<std::shared_ptr<CancelToken>, size_t> cancel_after_waits_;
};

TEST_F(ClientRetry, APutWhoseReplyIsLostIsDoneOnce) {
  flaky_->lose_requests = 1;
  flaky_->lose_replies = 1;
  auto put = store_->Put("k", std::string(1000, 'x'), {.condition = WriteCondition::Absent()});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->applied);
  EXPECT_EQ((*direct_->Stat("k"))->version, put->version);
  EXPECT_EQ(flaky_->calls, 3);
  EXPECT_EQ(waits_.size(), 2u);
}

TEST_F(ClientRetry, AReadCountsItsRetriesAndAsksOnce) {
  auto session = *direct_->BeginSession("test");
  const std::string content(1000, 'x');
  const ObjectRef ref = RefOf(0, AsBytes(content));
  ASSERT_TRUE(session->Put(ref, AsBytes(content)).ok());
  flaky_->lose_requests = 1;
  flaky_->lose_replies = 2;
  std::vector<uint8_t> out(content.size());
  ObjectRead read{.ref = ref, .offset = 0, .out = out};
  ReadStats stats;
  ASSERT_TRUE(store_->ReadObjects({&read, 1}, &stats).ok());
  EXPECT_EQ(stats.retries, 3u);
  EXPECT_EQ(stats.asked_bytes, content.size());
  EXPECT_EQ(stats.received_bytes, 3 * content.size()) << "what came twice was moved twice";
}

TEST_F(ClientRetry, AReadThatMetADamagedCopyIsMadeOnceMore) {
  auto session = *direct_->BeginSession("test");
  const std::string content(1000, 'x');
  const ObjectRef ref = RefOf(0, AsBytes(content));
  ASSERT_TRUE(session->Put(ref, AsBytes(content)).ok());
  std::vector<uint8_t> out(content.size());
  ObjectRead read{.ref = ref, .offset = 0, .out = out};
  flaky_->refuse = MakeError(Reason::kDataLoss, "a bit has turned");
  EXPECT_TRUE(store_->ReadObjects({&read, 1}, nullptr).ok());
  EXPECT_EQ(flaky_->calls, 2);
  EXPECT_TRUE(waits_.empty());
  // Where that does not help, the damage is the error.
  read.ref = RefOf(0, AsBytes("not there"));
  read.out = std::span(out).first(read.ref.length);
  flaky_->refuse = MakeError(Reason::kDataLoss, "a bit has turned");
  const absl::Status status = store_->ReadObjects({&read, 1}, nullptr);
  EXPECT_EQ(GetReason(status), Reason::kDataLoss) << status;
}

TEST_F(ClientRetry, APutOverwrittenBeforeItsRetryIsUnknown) {
  flaky_->lose_replies = 1;
  flaky_->meanwhile = [this] { EXPECT_TRUE(direct_->Put("k", "theirs").ok()); };
  auto put = store_->Put("k", "mine");
  EXPECT_EQ(GetReason(put.status()), Reason::kOutcomeUnknown);
  EXPECT_EQ((*direct_->Get("k"))->content, "theirs");
}

TEST_F(ClientRetry, APutThatNeverGetsAnAnswerIsUnknown) {
  flaky_->lose_replies = 100;
  EXPECT_EQ(GetReason(store_->Put("k", "mine").status()), Reason::kOutcomeUnknown);
  flaky_->lose_replies = 0;
  flaky_->lose_requests = 100;
  EXPECT_EQ(GetReason(store_->Put("k2", "mine").status()), Reason::kNodeUnavailable)
      << "nothing was sent";
}

TEST_F(ClientRetry, WaitsGrowAreJitteredAndLastAsLongAsDocumented) {
  flaky_->lose_requests = 1'000;
  EXPECT_FALSE(store_->Put("k", "x").ok());
  ASSERT_GT(waits_.size(), 10u);
  int64_t all_ms = 0;
  for (size_t i = 0; i < waits_.size(); ++i) {
    int64_t most_ms = std::min<int64_t>(i < 10 ? 50 << i : 2'000, 2'000);
    all_ms += waits_[i];
    EXPECT_LE(waits_[i], most_ms);
    if (i + 1 < waits_.size()) {
      EXPECT_GE(waits_[i], most_ms / 2);
    }
  }
  EXPECT_EQ(all_ms, kRetryFor_s * 1'000);
  EXPECT_EQ(told_, 1) << "of the waiting, once";
}

TEST_F(ClientRetry, ANodeThatIsRestartedIsWaitedFor) {
  ASSERT_TRUE(direct_->Put("k", "x").ok());
  flaky_->lose_requests = 12;  // ten seconds or so
  auto put = store_->Put("k", "y");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_GT(clock_.MonotonicNanos(), int64_t{5'000'000'000});
  EXPECT_EQ((*direct_->Get("k"))->content, "y");
}

TEST_F(ClientRetry, AWaitIsNeverShorterThanTheNodeAsksFor) {
  flaky_->refuse = WithRetryAfter(MakeError(Reason::kOverloaded, "later"), 1'000);
  ASSERT_TRUE(store_->Put("k", "x").ok());
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_GE(waits_[0], 1'000);
  EXPECT_LE(waits_[0], 1'500);
}

TEST_F(ClientRetry, ANodeThatHangsIsNotWaitedForTwice) {
  flaky_->refuse = WithoutRetry(Lost());
  EXPECT_EQ(GetReason(store_->Put("k", "x").status()), Reason::kNodeUnavailable);
  EXPECT_EQ(flaky_->calls, 1);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(ClientRetry, CancellingEndsTheTriesAsCancelled) {
  flaky_->lose_requests = 1'000;
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  cancel_after_waits_ = {context.cancel, 3};
  EXPECT_EQ(GetReason(store_->Put("k", "x", {.context = context}).status()), Reason::kCancelled);
  EXPECT_EQ(flaky_->calls, 3);
  cancel_after_waits_ = {context.cancel, 1'000};
  EXPECT_EQ(GetReason(store_->Stat("k", context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(store_->Delete("k", {}, context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(store_->List({}, context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(store_->BatchGet({"k"}, context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(store_->MaxObjectBytes(context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(store_->BeginSession("test", context).status()), Reason::kCancelled);
}

TEST_F(ClientRetry, ASourceThatCannotBeReadAgainIsSentOnce) {
  class Plain : public ByteSource {
   public:
    explicit Plain(Bytes bytes) : rest_(bytes) {}
    absl::StatusOr<uint64_t> Read(MutableBytes out) override { return rest_.Read(out); }
    std::optional<uint64_t> length() const override { return rest_.length(); }

   private:
    SpanSource rest_;
  };
  std::string content(3 * kMiB, 'x');
  flaky_->lose_requests = 1;  // nothing of it was taken: tried again
  flaky_->lose_replies = 1;   // all of it was taken: not again, and nobody knows
  Plain source(AsBytes(content));
  EXPECT_EQ(GetReason(store_->Put("k", source).status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(flaky_->calls, 2);
  EXPECT_EQ((*direct_->Stat("k"))->length, content.size());
}

TEST_F(ClientRetry, AnOverloadedNodeIsAskedAgain) {
  flaky_->refuse = MakeError(Reason::kOverloaded, "later");
  auto put = store_->Put("k", "x", {.condition = WriteCondition::Absent()});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->applied);
}

TEST_F(ClientRetry, ADeleteWhoseReplyIsLostIsDone) {
  ASSERT_TRUE(direct_->Put("k", "x").ok());
  flaky_->lose_replies = 1;
  auto deleted = store_->Delete("k");
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_TRUE(deleted->applied);
  EXPECT_FALSE((*direct_->Get("k")).has_value());
}

TEST_F(ClientRetry, ADeleteNeverTakesWhatWasWrittenAfterIt) {
  uint64_t version = direct_->Put("k", "x")->version;
  flaky_->lose_replies = 1;
  flaky_->meanwhile = [this] { EXPECT_TRUE(direct_->Put("k", "new").ok()); };
  auto deleted = store_->Delete("k");
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_TRUE(deleted->applied);
  EXPECT_EQ((*direct_->Get("k"))->content, "new");

  version = (*direct_->Stat("k"))->version;
  flaky_->lose_replies = 1;
  flaky_->meanwhile = [this] { EXPECT_TRUE(direct_->Put("k", "newer").ok()); };
  deleted = store_->Delete("k", WriteCondition::Version(version));
  EXPECT_EQ(GetReason(deleted.status()), Reason::kOutcomeUnknown);
  EXPECT_EQ((*direct_->Get("k"))->content, "newer");
}

TEST_F(ClientRetry, ABatchWhoseReplyIsLostIsDoneOnce) {
  flaky_->lose_replies = 1;
  auto put = store_->BatchPut({{"a", "1", WriteCondition::Absent()},
                               {"b", std::string(5000, 'b'), WriteCondition::Absent()}});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE((*put)[0].applied);
  EXPECT_TRUE((*put)[1].applied);
  EXPECT_EQ((*direct_->Stat("a"))->version, (*put)[0].version);
}

TEST_F(ClientRetry, PutsThatWentTogetherAreEachDoneOnceWhenTheReplyIsLost) {
  NodeStoreOptions options;
  options.retry = {.clock = &clock_, .sleep = [this](int64_t ms) { clock_.Advance(ms * 1'000); }};
  options.grouped_puts = true;
  auto store = NewNodeStore(flaky_, options);
  // Which of the calls are batches is chance, what comes of them is not.
  std::atomic<int> replies{0};
  flaky_->before_reply = [&replies] {
    std::this_thread::yield();
    return replies++ % 5 == 0;
  };
  constexpr int kThreads = 40;
  constexpr int kMostRounds = 2'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = std::to_string(i);
      for (int round = 0; round < kMostRounds && (round < 3 || flaky_->batches < 3); ++round) {
        WriteCondition condition = round == 0 ? WriteCondition::Absent() : WriteCondition{};
        auto put = store->Put(key, std::to_string(round), {.condition = condition});
        ASSERT_TRUE(put.ok()) << put.status();
        EXPECT_TRUE(put->applied);
        EXPECT_EQ((*direct_->Stat(key))->version, put->version);
        EXPECT_EQ((*direct_->Get(key))->content, std::to_string(round));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(flaky_->batches, 3);
}

TEST_F(ClientRetry, APutThatIsOvertakenBeginsAnew) {
  int overtaken = 0;
  flaky_->after_compare = [&] {
    if (overtaken++ < 3) {
      EXPECT_TRUE(direct_->Put("k", "theirs").ok());
    }
  };
  auto put = store_->Put("k", "mine");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->applied);
  EXPECT_EQ((*direct_->Get("k"))->content, "mine");
  EXPECT_EQ(flaky_->calls, 4);
  EXPECT_EQ(waits_.size(), 0u);
  // A condition decides.
  overtaken = 0;
  auto conditional = store_->Put("new", "mine", {.condition = WriteCondition::Absent()});
  EXPECT_TRUE(conditional->applied);
  overtaken = 2;
  conditional = store_->Put("k", "again", {.condition = WriteCondition::Version(put->version)});
  EXPECT_FALSE(conditional->applied);
  // What cannot be read twice is not written twice.
  class Once : public ByteSource {
   public:
    absl::StatusOr<uint64_t> Read(MutableBytes out) override {
      if (left_ == 0) return 0;
      uint64_t n = std::min<uint64_t>(left_, out.size());
      std::fill_n(out.data(), n, 'x');
      left_ -= n;
      return n;
    }

   private:
    uint64_t left_ = 3 * kTransferChunkBytes;
  } source;
  overtaken = 2;
  EXPECT_EQ(GetReason(store_->Put("k", source).status()), Reason::kVersionConflict);
  EXPECT_EQ((*direct_->Get("k"))->content, "theirs");
}

TEST_F(ClientRetry, ItemsOfABatchThatAreOvertakenBeginAnew) {
  int overtaken = 0;
  flaky_->after_compare = [&] {
    if (overtaken++ < 2) {
      EXPECT_TRUE(direct_->Put("b", "theirs").ok());
    }
  };
  auto puts = store_->BatchPut({{"a", "1", {}}, {"b", "2", {}}, {"c", "3", {}}});
  ASSERT_TRUE(puts.ok()) << puts.status();
  for (const PutResult& put : *puts) EXPECT_TRUE(put.applied);
  EXPECT_LT((*puts)[0].version, (*puts)[1].version);
  EXPECT_EQ((*direct_->Get("b"))->content, "2");
  EXPECT_EQ((*direct_->Stat("a"))->version, (*puts)[0].version) << "written once";
}

TEST_F(ClientRetry, AConditionThatWasNotMetStaysSoInARetry) {
  ASSERT_TRUE(direct_->Put("there", "x").ok());
  flaky_->lose_replies = 1;
  auto puts = store_->BatchPut({{"there", "y", WriteCondition::Absent()}, {"new", "z", {}}});
  ASSERT_TRUE(puts.ok()) << puts.status();
  EXPECT_FALSE((*puts)[0].applied);
  EXPECT_EQ((*puts)[0].version, (*direct_->Stat("there"))->version);
  EXPECT_TRUE((*puts)[1].applied);
  EXPECT_EQ((*direct_->Get("there"))->content, "x");
  EXPECT_EQ((*direct_->Get("new"))->content, "z");
}

TEST_F(ClientRetry, ACommitWhoseReplyIsLostIsOneVersion) {
  auto session = store_->BeginSession("test");
  ASSERT_TRUE(session.ok());
  std::string content = "root";
  ObjectRef root = RefOf(0, AsBytes(content));
  ASSERT_TRUE((*session)->Put(root, AsBytes(content)).ok());
  v1::CommitRequest request;
  request.set_ns("default");
  request.set_name("m");
  ObjectRefToWire(root, request.mutable_root());
  request.mutable_if_latest()->set_absent(true);
  flaky_->lose_replies = 2;
  auto response = (*session)->Commit(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->applied());
  EXPECT_EQ(response->version().record().number(), 1u);
  EXPECT_EQ(flaky_->calls, 3);
}

TEST_F(ClientRetry, ASessionKnownToBeLostFailsItsNextCall) {
  auto session = store_->BeginSession("test");
  ASSERT_TRUE(session.ok());
  std::string content = "content";
  ObjectRef ref = RefOf(0, AsBytes(content));
  ASSERT_TRUE((*session)->Put(ref, AsBytes(content)).ok());
  flaky_->keeper_status = MakeError(Reason::kSessionLost, "over");
  EXPECT_EQ(GetReason((*session)->Put(ref, AsBytes(content)).status()), Reason::kSessionLost);
  EXPECT_EQ(GetReason((*session)->Link({&ref, 1}).status()), Reason::kSessionLost);
}

TEST_F(ClientRetry, EachCommitOfASessionIsOneOfItsOwn) {
  auto session = store_->BeginSession("test");
  ASSERT_TRUE(session.ok());
  v1::CommitRequest request;
  request.set_ns("default");
  request.set_name("m");
  uint64_t number = 0;
  // The same root twice on purpose: a version that says the same again is a version.
  for (std::string content : {"one", "two", "two"}) {
    ObjectRef root = RefOf(0, AsBytes(content));
    ASSERT_TRUE((*session)->Put(root, AsBytes(content)).ok());
    ObjectRefToWire(root, request.mutable_root());
    flaky_->lose_replies = 1;
    auto response = (*session)->Commit(request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->version().record().number(), ++number);
    EXPECT_EQ(*ObjectRefFromWire(response->version().record().root()), root);
  }
  // Not known whether it happened: asked again, it is the same commit.
  flaky_->lose_replies = 100;
  EXPECT_THAT(ErrorText((*session)->Commit(request).status()),
              testing::HasSubstr("may have happened"));
  flaky_->lose_replies = 0;
  EXPECT_EQ((*session)->Commit(request)->version().record().number(), ++number);
}

TEST_F(ClientRetry, ACallThatMayNotHappenTwiceIsNotSentAgain) {
  v1::SetTagRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_tag("t");
  flaky_->lose_replies = 1;
  absl::Status status = store_->node().SetTag(request).status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("may have happened"));
  EXPECT_EQ(flaky_->calls, 1);
}

TEST_F(ClientRetry, ADeadlineEndsTheTries) {
  flaky_->lose_requests = 100;
  PutOptions options;
  options.context = CallContext().WithTimeout(1);
  EXPECT_FALSE(store_->Put("k", "x", options).ok());
  EXPECT_LE(flaky_->calls, 1) << "the first wait would end after the deadline";
}

// Two levels of trees: more pieces than one tree lists within the least limit.
TEST(ChunkedValues, OfTwoLevelsReadBackInRanges) {
  auto store = OpenMemoryStore(kLeastMaxObjectBytes);
  ASSERT_TRUE(store.ok());
  std::string content((MaxChunks(1, kLeastMaxObjectBytes) + 2) * kLeastMaxObjectBytes + 5, '\0');
  for (size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i >> 10);
  auto put = (*store)->Put("k", content, {.chunked = true});
  ASSERT_TRUE(put.ok()) << put.status();
  uint64_t border = MaxChunks(1, kLeastMaxObjectBytes) * kLeastMaxObjectBytes;
  auto range = (*store)->Get("k", ByteRange{border - 1000, 2000});
  ASSERT_TRUE(range.ok() && range->has_value()) << range.status();
  EXPECT_TRUE((*range)->content == content.substr(border - 1000, 2000));
  auto whole = (*store)->Get("k");
  ASSERT_TRUE(whole.ok() && whole->has_value()) << whole.status();
  EXPECT_TRUE((*whole)->content == content);
}

}  // namespace
}  // namespace tilekv
