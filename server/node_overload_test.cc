// A node whose clients are slow, stand still, go away or are too many: places, memory, and what is
// left behind.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/remote_node.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"
#include "server/memory_plan.h"
#include "server/node_server_test_util.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

using NodeOverloadTest = NodeServerTest;

TEST_F(NodeOverloadTest, ASlowReaderHoldsTwoChunksAtMostAndGivesThemBackWhenItGoes) {
  ObjectRef ref = Store(Pattern(40 * kMiB, 1));
  v1::ReadObjectsRequest request;
  ObjectRefToWire(ref, request.add_ranges()->mutable_ref());
  request.mutable_ranges(0)->set_length(ref.length);
  grpc::ClientContext call;
  auto reader = stub_->ReadObjects(&call, request);
  v1::ReadObjectsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  // It reads nothing more; what the node holds for it does not grow, however much else it does.
  ASSERT_TRUE(
      Eventually([&] { return node_->server().read_bytes_held() >= 2 * kTransferChunkBytes; }));
  auto other = *ConnectNode(node_->address());
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(other->Info({}).ok());
  EXPECT_LE(node_->server().read_bytes_peak(), 3 * kTransferChunkBytes + 64 * kKiB);
  call.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return node_->server().read_bytes_held() == 0; }));
}

TEST_F(NodeOverloadTest, APutThatIsCancelledGivesItsMemoryBackAndLeavesNothing) {
  std::string content = Pattern(30 * kMiB, 1);
  v1::PutObjectRequest message = PutHeader(content);
  {
    grpc::ClientContext call;
    v1::PutObjectResponse answer;
    auto writer = stub_->PutObject(&call, &answer);
    ASSERT_TRUE(writer->Write(message));
    for (int i = 0; i < 3; ++i) {
      v1::PutObjectRequest next;
      next.set_data(content.substr(i * kMiB, kMiB));
      ASSERT_TRUE(writer->Write(next));
    }
    ASSERT_TRUE(Eventually([&] { return node_->server().stream_bytes_held() > 0; }));
    call.TryCancel();
    writer->Finish();
  }
  EXPECT_TRUE(Eventually([&] { return node_->server().stream_bytes_held() == 0; }));
  auto usage = node_->node().objects().Usage();
  EXPECT_EQ(usage->objects, 0u);
}

TEST_F(NodeOverloadTest, CallsCancelledAtAnyMomentLeaveNothingBehind) {
  ObjectRef stored = Store(Pattern(200'000, 1));
  auto cancel_some = [&](int from) {
    for (int i = from; i < from + 150; ++i) {
      grpc::ClientContext call;
      if (i % 3 == 0) {
        v1::ReadObjectsRequest request;
        ObjectRefToWire(stored, request.add_ranges()->mutable_ref());
        request.mutable_ranges(0)->set_length(stored.length);
        auto reader = stub_->ReadObjects(&call, request);
        v1::ReadObjectsResponse response;
        if (i % 2 == 0) reader->Read(&response);
        call.TryCancel();
        reader->Finish();
        continue;
      }
      auto stream = stub_->PutValue(&call);
      v1::PutValueRequest request;
      request.mutable_header()->set_key(std::to_string(i));
      request.mutable_header()->set_request_id(std::string(16, 'r'));
      request.mutable_header()->set_length(i % 3 == 1 ? 10 : 1'000'000);
      request.set_data("12345");
      stream->Write(request);
      v1::PutValueResponse response;
      if (i % 2 == 0) stream->Read(&response);
      call.TryCancel();
      stream->Finish();
    }
  };
  std::vector<std::thread> threads;
  for (int from : {0, 150, 300, 450}) threads.emplace_back(cancel_some, from);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return node_->server().stream_bytes_held() == 0; }));
  EXPECT_TRUE(Eventually([&] { return node_->server().read_bytes_held() == 0; }));
  // No place was lost either.
  auto remote = *ConnectNode(node_->address());
  for (int i = 0; i < 50; ++i) {
    v1::PutValueHeader header;
    header.set_key("k");
    header.set_request_id(std::string(16, static_cast<char>('a' + i % 26)));
    header.set_length(i % 2 == 0 ? 5 : 100'000);
    std::string content = Pattern(header.length(), i);
    SpanSource source(AsBytes(content));
    EXPECT_TRUE(remote->PutValue(header, &source, nullptr).ok());
  }
}

// A source that cancels its own call after the first piece.
class CancellingSource : public ByteSource {
 public:
  explicit CancellingSource(CallContext context) : context_(std::move(context)) {}
  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    if (++pieces_ == 3) context_.cancel->Cancel();
    std::memset(out.data(), pieces_, out.size());
    return out.size();
  }

 private:
  const CallContext context_;
  int pieces_ = 0;
};

TEST_F(NodeOverloadTest, CancellingAValueInMidStreamEndsItAndWritesNothing) {
  auto remote = *ConnectNode(node_->address());
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  CancellingSource source(context);
  v1::PutValueHeader header;
  header.set_key("k");
  header.set_request_id(std::string(16, 'r'));
  auto outcome = remote->PutValue(header, &source, nullptr, context);
  EXPECT_EQ(GetReason(outcome.status()), Reason::kCancelled) << outcome.status();
  EXPECT_TRUE(Eventually([&] { return node_->server().stream_bytes_held() == 0; }));
  v1::GetValueRequest get;
  get.set_key("k");
  EXPECT_FALSE(node_->node().GetValue(get)->found());
}

TEST_F(NodeOverloadTest, ManyStreamsGetThroughOnTheLeastMemory) {
  auto remote = *ConnectNode(node_->address());
  Revision session{BeginSession()};
  std::atomic<int> stored{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 24; ++i) {
    threads.emplace_back([&, i] {
      std::string content = Pattern(3 * kMiB + i, i);
      ObjectPut put;
      put.session_rev = session;
      put.content = AsBytes(content);
      put.ref = RefOf(0, put.content);
      absl::StatusOr<bool> result = remote->PutObject(put);
      while (GetReason(result.status()) == Reason::kOverloaded) result = remote->PutObject(put);
      if (!result.ok()) return;
      std::string back(content.size(), '\0');
      ObjectRead read{put.ref, 0, {reinterpret_cast<uint8_t*>(back.data()), back.size()}};
      absl::Status status = remote->ReadObjects({&read, 1});
      while (GetReason(status) == Reason::kOverloaded) status = remote->ReadObjects({&read, 1});
      stored += status.ok() && back == content;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stored, 24);
  EXPECT_EQ(node_->server().stream_bytes_held(), 0u);
  EXPECT_TRUE(Eventually([&] { return node_->server().read_bytes_held() == 0; }));
}

// An upload that sends its header and nothing more.
class StalledPut {
 public:
  StalledPut(v1::Node::Stub& stub, const v1::PutObjectRequest& header)
      : writer_(stub.PutObject(&call_, &answer_)) {
    writer_->Write(header);
  }
  ~StalledPut() {
    call_.TryCancel();
    if (!over_) writer_->Finish();
  }
  grpc::Status Finish() {
    over_ = true;
    return writer_->Finish();
  }
  const grpc::ClientContext& call() const { return call_; }

 private:
  grpc::ClientContext call_;
  v1::PutObjectResponse answer_;
  std::unique_ptr<grpc::ClientWriter<v1::PutObjectRequest>> writer_;
  bool over_ = false;
};

TEST_F(NodeOverloadTest, ClientsThatStandStillGiveTheirPlacesToThoseWhoWait) {
  NodeServerOptions options;
  options.stalled_transfer_ms = 300;
  StartNode(64 * kMiB, options);
  const uint64_t places = PlanMemory(kLeastMemoryBytes).max_streams;
  ObjectRef ref = Store(Pattern(40 * kMiB, 1));
  std::string content = Pattern(300'000, 2);
  ObjectRef small = Store(content);
  v1::PutObjectRequest header = PutHeader(Pattern(kMiB, 3));
  StalledPut upload(*stub_, header);
  // Readers that take one message and no more.
  v1::ReadObjectsRequest request;
  ObjectRefToWire(ref, request.add_ranges()->mutable_ref());
  request.mutable_ranges(0)->set_length(ref.length);
  std::vector<std::unique_ptr<grpc::ClientContext>> calls;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadObjectsResponse>>> readers;
  v1::ReadObjectsResponse response;
  while (readers.size() + 1 < places) {
    calls.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->ReadObjects(calls.back().get(), request));
    ASSERT_TRUE(readers.back()->Read(&response));
  }
  // No try is repeated here: they wait for their places, and get them.
  auto remote = *ConnectNode(node_->address());
  std::vector<std::thread> threads;
  std::atomic<int> read{0};
  for (uint64_t i = 0; i < 2 * places; ++i) {
    threads.emplace_back([&] {
      std::string got(content.size(), '\0');
      ObjectRead one{small, 0, {reinterpret_cast<uint8_t*>(got.data()), got.size()}};
      absl::Status status = remote->ReadObjects({&one, 1});
      EXPECT_TRUE(status.ok()) << status;
      read += got == content;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read, static_cast<int>(2 * places));
  // The upload may go on while nobody needs its place; whoever lost it is told why.
  absl::Status ended = Decoded(upload.Finish());
  EXPECT_EQ(GetReason(ended), Reason::kOverloaded);
  EXPECT_THAT(ErrorText(ended), HasSubstr("others waited"));
  EXPECT_EQ(upload.call().GetServerTrailingMetadata().count(kRetryAfterTrailer), 1u);
  for (size_t i = 0; i < readers.size(); ++i) {
    calls[i]->TryCancel();
    while (readers[i]->Read(&response)) {
    }
    readers[i]->Finish();
  }
  EXPECT_TRUE(Eventually([&] { return node_->server().read_bytes_held() == 0; }));
  EXPECT_TRUE(Eventually([&] { return node_->server().stream_bytes_held() == 0; }));
}

TEST_F(NodeOverloadTest, BeyondThoseWhoMayWaitACallIsRefusedAndToldWhenToCome) {
  const MemoryPlan plan = PlanMemory(kLeastMemoryBytes);
  std::string content = Pattern(kMiB, 1);
  v1::PutObjectRequest header = PutHeader(content);
  std::vector<std::unique_ptr<StalledPut>> puts;
  for (uint64_t i = 0; i < plan.max_streams + plan.max_waiting_puts; ++i) {
    puts.push_back(std::make_unique<StalledPut>(*stub_, header));
  }
  ObjectPut put;
  put.session_rev = Revision{BeginSession()};
  put.content = AsBytes(content);
  put.ref = RefOf(0, put.content);
  auto remote = *ConnectNode(node_->address());
  absl::Status refused;
  // The others may still be on their way.
  EXPECT_TRUE(Eventually([&] {
    refused = remote->PutObject(put, CallContext().WithTimeout(200)).status();
    return GetReason(refused) == Reason::kOverloaded;
  })) << refused;
  EXPECT_EQ(GetRetryHint(refused).after_ms, kOverloadedRetry_s * 1'000) << refused;
  // Control calls go on.
  EXPECT_TRUE(remote->Info({}).ok());
  puts.clear();
  EXPECT_TRUE(Eventually([&] { return remote->PutObject(put).ok(); }));
}

TEST_F(NodeOverloadTest, ASmallValueIsWrittenWhereEveryTransfersPlaceIsTaken) {
  const MemoryPlan plan = PlanMemory(kLeastMemoryBytes);
  std::string content = Pattern(kMiB, 1);
  std::vector<std::unique_ptr<StalledPut>> puts;
  for (uint64_t i = 0; i < plan.max_streams + plan.max_waiting_puts; ++i) {
    puts.push_back(std::make_unique<StalledPut>(*stub_, PutHeader(content)));
  }
  auto remote = *ConnectNode(node_->address());
  v1::PutValueHeader header;
  header.set_key("k");
  header.set_request_id(std::string(16, 'r'));
  header.set_length(5);
  SpanSource source(AsBytes("hello"));
  auto outcome = remote->PutValue(header, &source, nullptr, CallContext().WithTimeout(10'000));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->applied());
  v1::GetValueRequest get;
  get.set_key("k");
  EXPECT_TRUE(node_->node().GetValue(get)->found());
}

}  // namespace
}  // namespace tilekv
