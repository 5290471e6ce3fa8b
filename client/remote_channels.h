// The connections to one node, and the bulk calls over them. Private to client/.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client/remote_node.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/grpc/blocking_stream.h"
#include "kvstore/grpc/grpc_call.h"
#include "kvstore/node/node_service.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {

// Thread-safe.
class RemoteChannels {
 public:
  // `target` is for gRPC, `address` for people.
  RemoteChannels(const std::string& target, const std::string& address,
                 const RemoteOptions& options);

  const std::string& address() const { return address_; }
  const RemoteOptions& options() const { return options_; }
  v1::Node::Stub& control() { return *control_; }
  // The next connection in turn, for a bulk call.
  grpc::GenericStub& NextBulk();
  // The same for one that is driven by blocking steps.
  BlockingStream NewStream(const char* method, const CallContext& context) {
    return BlockingStream(NextBulk(), method, address_, options_.progress_timeout_ms, context);
  }
  BufferPool& pool() { return *pool_; }

 private:
  const std::string address_;
  const RemoteOptions options_;
  const std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<v1::Node::Stub> control_;
  std::vector<std::unique_ptr<grpc::GenericStub>> bulk_;
  std::atomic<size_t> next_{0};
};

// The bulk calls of NodeService, with the same contracts.
absl::StatusOr<bool> RemotePutObject(RemoteChannels& channels, const ObjectPut& put,
                                     const CallContext& context);
absl::Status RemoteReadObjects(RemoteChannels& channels, std::span<const ObjectRead> reads,
                               ReadStats* stats, const CallContext& context);
absl::StatusOr<v1::PutValueOutcome> RemotePutValue(RemoteChannels& channels,
                                                   const v1::PutValueHeader& header,
                                                   ByteSource* source,
                                                   const NodeService::CompareFixed& fixed,
                                                   const CallContext& context);
absl::StatusOr<v1::BatchPutResponse> RemoteBatchPut(RemoteChannels& channels,
                                                    const v1::BatchPutRequest& request,
                                                    const NodeService::ComparesFixed& fixed,
                                                    const CallContext& context);
absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> RemoteKeepSession(
    std::shared_ptr<RemoteChannels> channels, const std::string& token, const CallContext& context);

}  // namespace tilekv
