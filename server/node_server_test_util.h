// What tests of a node behind gRPC share: a node with the least memory, and a stub that asks it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"
#include "kvstore/wire/status_wire.h"
#include "server/memory_plan.h"
#include "server/testing_node.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {

// Waits for what other threads bring about; false when it does not come.
inline bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline std::string Pattern(uint64_t bytes, uint64_t seed) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>((i * 2'654'435'761u + seed) >> 13);
  return text;
}

// A stub as protoc makes it, which knows nothing of framing by hand.
class NodeServerTest : public testing::Test {
 protected:
  void StartNode(uint64_t max_object_bytes, NodeServerOptions options = {}) {
    stub_.reset();
    options.memory_bytes = kLeastMemoryBytes;
    node_ = std::make_unique<TestingNode>(max_object_bytes, options);
    grpc::ChannelArguments arguments;
    arguments.SetInt("grpc.http2.lookahead_bytes", 64 << 10);
    arguments.SetInt("grpc.http2.bdp_probe", 0);
    arguments.SetInt("grpc.use_local_subchannel_pool", 1);
    stub_ = v1::Node::NewStub(
        grpc::CreateCustomChannel(node_->address(), grpc::InsecureChannelCredentials(), arguments));
  }
  void SetUp() override { StartNode(64 * kMiB); }

  uint64_t BeginSession() {
    v1::BeginSessionRequest request;
    request.set_holder("test");
    auto response = node_->node().BeginSession(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response->session_rev();
  }
  v1::PutObjectRequest PutHeader(const std::string& content) {
    v1::PutObjectRequest first;
    first.mutable_header()->set_session_rev(BeginSession());
    ObjectRefToWire(RefOf(0, AsBytes(content)), first.mutable_header()->mutable_ref());
    return first;
  }
  ObjectRef Store(const std::string& content) {
    ObjectPut put;
    put.session_rev = Revision{BeginSession()};
    put.content = AsBytes(content);
    put.ref = RefOf(0, put.content);
    auto stored = node_->node().PutObject(put);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return put.ref;
  }
  static absl::Status Decoded(const grpc::Status& status) {
    return StatusFromWire(status.error_code(), status.error_message(), status.error_details(), "n");
  }

  std::unique_ptr<TestingNode> node_;
  std::unique_ptr<v1::Node::Stub> stub_;
};

}  // namespace tilekv
