// A node whose places for transfers are all taken, by clients that take one message and no more.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/remote_node.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"
#include "server/memory_plan.h"
#include "server/testing_node.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {
namespace {

constexpr int64_t kNever_ms = 3'600'000;  // no place is given away in this test

NodeServerOptions Options() {
  NodeServerOptions options;
  options.memory_bytes = kLeastMemoryBytes;
  options.transfer_queue_ms = kNever_ms;
  options.stalled_transfer_ms = kNever_ms;
  return options;
}

class BusyNodeTest : public testing::Test {
 protected:
  BusyNodeTest()
      : node_(64 * kMiB, Options()),
        large_(Store(std::string(40 * kMiB, 'x'))),
        stub_(v1::Node::NewStub(
            grpc::CreateChannel(node_.address(), grpc::InsecureChannelCredentials()))) {}
  ~BusyNodeTest() override {
    for (auto& call : calls_) call->TryCancel();
    for (auto& reader : readers_) {
      v1::ReadObjectsResponse response;
      while (reader->Read(&response)) {
      }
      reader->Finish();
    }
  }

  ObjectRef Store(const std::string& content) {
    auto session = node_.node().BeginSession({});
    EXPECT_TRUE(session.ok()) << session.status();
    ObjectPut put;
    put.session_rev = Revision{session->session_rev()};
    put.content = AsBytes(content);
    put.ref = RefOf(0, put.content);
    auto stored = node_.node().PutObject(put);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return put.ref;
  }
  void TakeEveryPlace() {
    v1::ReadObjectsRequest request;
    ObjectRefToWire(large_, request.add_ranges()->mutable_ref());
    request.mutable_ranges(0)->set_length(large_.length);
    const uint64_t places = PlanMemory(kLeastMemoryBytes).max_streams;
    while (readers_.size() < places) {
      calls_.push_back(std::make_unique<grpc::ClientContext>());
      readers_.push_back(stub_->ReadObjects(calls_.back().get(), request));
      v1::ReadObjectsResponse response;
      ASSERT_TRUE(readers_.back()->Read(&response));
    }
  }
  // Of `ref`, over connections of its own.
  absl::Status Read(const ObjectRef& ref, uint64_t offset, std::string& out, int64_t timeout_ms) {
    auto remote = ConnectNode(node_.address());
    if (!remote.ok()) return remote.status();
    ObjectRead read{ref, offset, {reinterpret_cast<uint8_t*>(out.data()), out.size()}};
    return (*remote)->ReadObjects({&read, 1}, nullptr, CallContext().WithTimeout(timeout_ms));
  }

  TestingNode node_;
  const ObjectRef large_;
  std::unique_ptr<v1::Node::Stub> stub_;
  std::vector<std::unique_ptr<grpc::ClientContext>> calls_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadObjectsResponse>>> readers_;
};

TEST_F(BusyNodeTest, AShortReadIsAnsweredAllTheSame) {
  const std::string manifest(5'000, 'm');
  ObjectRef small = Store(manifest);
  TakeEveryPlace();
  std::string whole(manifest.size(), '?');
  absl::Status status = Read(small, 0, whole, 60'000);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(whole, manifest);
  std::string slice(kShortReadBytes, '?');
  status = Read(large_, 7 * kMiB + 1, slice, 60'000);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(slice, std::string(kShortReadBytes, 'x'));
}

TEST_F(BusyNodeTest, ALongerReadWaitsForAPlace) {
  TakeEveryPlace();
  std::string longer(kShortReadBytes + 1, '?');
  EXPECT_EQ(GetReason(Read(large_, 0, longer, 300)), Reason::kDeadlineExceeded);
}

}  // namespace
}  // namespace tilekv
