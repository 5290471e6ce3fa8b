// What a node does with copies that other nodes bring and fetch, on its own disk: without gRPC.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/call_context.h"
#include "kvstore/object/object_store.h"
#include "server/bulk_receiver.h"
#include "server/message_source.h"
#include "server/peer_service.h"
#include "tilekv/v1/peer.pb.h"

namespace tilekv {

// Whether a call with this header is meant for this node, by a node on the same line:
// CATALOG_REWOUND, NODE_UNAVAILABLE (another node has the address now).
absl::Status CheckPeer(const PeerServiceOptions& options, const v1::PeerHeader& header);

// One copy that another node sends. It is made durable once all of it is here, whether its sender
// still waits or not.
class CopySink : public BulkSink {
 public:
  using Reply = std::function<void(const v1::PutCopyResponse&)>;
  // `options` outlives the sink. `reply` is told the answer, before the call ends.
  CopySink(const PeerServiceOptions& options, CallContext context, Reply reply)
      : options_(options), context_(std::move(context)), reply_(std::move(reply)) {}

  absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) override;
  absl::StatusOr<bool> Begin() override;
  absl::Status Append(Bytes data, std::span<const uint32_t> table) override;
  absl::Status End(bool complete) override;

 private:
  absl::Status TakeHeader(const v1::PutCopyHeader& header);
  absl::Status CheckWanted() const;
  absl::StatusOr<bool> IsThereAlready();
  absl::Status Answer(bool stored);

  const PeerServiceOptions& options_;
  const CallContext context_;
  const Reply reply_;
  std::optional<PutSpec> spec_;
  // Of what has come.
  uint64_t bytes_ = 0;
  uint64_t blocks_ = 0;
  std::atomic<bool> all_here_{false};
  std::unique_ptr<ObjectWriter> writer_;
};

// Answers ReadCopy.
class CopySource : public MessageSource {
 public:
  // `options` outlives the source. INVALID_ARGUMENT, and as CheckPeer.
  static absl::StatusOr<std::unique_ptr<MessageSource>> Create(const PeerServiceOptions& options,
                                                               std::shared_ptr<BufferPool> pool,
                                                               const v1::ReadCopyRequest& request);

  bool done() const override { return done_; }
  uint64_t NextBytes() const override;
  // NOT_FOUND where there is no copy, or no more the one that was opened.
  absl::StatusOr<std::vector<ReadMessage>> Produce(Reservation reservation) override;

 private:
  CopySource(ObjectStore& objects, std::shared_ptr<BufferPool> pool, Domain domain, ObjectId id)
      : objects_(objects), pool_(std::move(pool)), domain_(domain), id_(id) {}
  absl::Status OpenCopy();
  absl::StatusOr<ReadMessage> Read(const v1::ReadCopyResponse& fields, uint64_t bytes,
                                   Reservation reservation);

  ObjectStore& objects_;
  const std::shared_ptr<BufferPool> pool_;
  const Domain domain_;
  const ObjectId id_;
  std::optional<v1::CopyRange> range_;
  std::shared_ptr<ObjectReader> reader_;
  uint64_t at_ = 0;  // of stored bytes
  bool done_ = false;
};

}  // namespace tilekv
