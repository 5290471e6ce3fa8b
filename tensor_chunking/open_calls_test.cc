// What opening a model asks its node for, counted at the seam between client and node.
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/node_store.h"
#include "kvstore/retrying_node.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {
namespace {

// Passes every call on, and notes the names of those that readers have.
class NotingNode : public RetryingNode {
 public:
  explicit NotingNode(std::shared_ptr<NodeService> node)
      : RetryingNode(std::move(node), {.retry_for_ms = 0}) {}

#define TILEKV_NODE_CALL(Name)                                                        \
  absl::StatusOr<v1::Name##Response> Name(const v1::Name##Request& request,           \
                                          const CallContext& context = {}) override { \
    calls.push_back(#Name);                                                           \
    return RetryingNode::Name(request, context);                                      \
  }
  TILEKV_NODE_CALL(Info)
  TILEKV_NODE_CALL(GetValue)
  TILEKV_NODE_CALL(BatchGet)
  TILEKV_NODE_CALL(ListModels)
  TILEKV_NODE_CALL(ResolveVersion)
  TILEKV_NODE_CALL(ListVersions)
  TILEKV_NODE_CALL(Locate)
#undef TILEKV_NODE_CALL
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                           const CallContext& context) override {
    calls.push_back("ReadObjects");
    objects_read += reads.size();
    return RetryingNode::ReadObjects(reads, stats, context);
  }

  std::vector<std::string> calls;
  size_t objects_read = 0;
};

class OpenCalls : public testing::Test {
 protected:
  // A model of `count` tensors of four bytes, opened through the noting node.
  std::unique_ptr<ModelReader> Open(int count) {
    auto memory = OpenMemoryStore();
    EXPECT_TRUE(memory.ok()) << memory.status();
    std::shared_ptr<KvStore> held = *std::move(memory);
    node_ = std::make_shared<NotingNode>(std::shared_ptr<NodeService>(held, &held->node()));
    store_ = NewNodeStore(node_, {.uri = "memory:"});
    WriteInput input;
    for (int i = 0; i < count; ++i) {
      TensorSource source;
      source.name = fmt::format("layers.{}.weight", i);
      source.dtype = DType::kI32;
      source.shape = {1};
      source.read = [i](uint64_t, MutableBytes out) {
        for (size_t b = 0; b < out.size(); ++b) out[b] = static_cast<uint8_t>(i >> (8 * b));
        return absl::OkStatus();
      };
      input.tensors.push_back(std::move(source));
    }
    const ModelName model{.ns = "t", .name = "m"};
    auto report = WriteModel(*store_, model, input);
    EXPECT_TRUE(report.ok()) << report.status();
    node_->calls.clear();
    node_->objects_read = 0;
    auto reader = ModelReader::Open(*store_, model);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }

  std::shared_ptr<NotingNode> node_;
  std::unique_ptr<KvStore> store_;
};

TEST_F(OpenCalls, AModelOf100000TensorsTakesOneCallForItsRootAndOneForAllItsPages) {
  auto reader = Open(100'000);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->manifest().tensors.size(), 100'000u);
  EXPECT_EQ(node_->calls, (std::vector<std::string>{"ResolveVersion", "ReadObjects"}));
  EXPECT_GT(node_->objects_read, 10u) << "pages";
}

TEST_F(OpenCalls, AModelOfOneTensorTakesNoMore) {
  ASSERT_NE(Open(1), nullptr);
  EXPECT_EQ(node_->calls.front(), "ResolveVersion");
  EXPECT_LE(node_->calls.size(), 2u);
}

}  // namespace
}  // namespace tilekv
