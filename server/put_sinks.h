// What the node does with the streams that it receives: PutObject, PutValue and BatchPut, without
// gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "kvstore/base/call_context.h"
#include "kvstore/node/batch_writer.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/value_writer.h"
#include "kvstore/object/object_store.h"
#include "server/bulk_receiver.h"

namespace tilekv {

// OBJECT_TOO_LARGE, before anything of the object was sent.
absl::Status CheckLimit(const ObjectRef& ref, uint64_t max_object_bytes);
// A copy that was not checked for long, or was reported: reading it costs less than receiving it,
// and where it is bad, storing again heals. True: it is sound.
absl::StatusOr<bool> LookAtCopy(ObjectStore& objects, Domain domain, const ObjectRef& ref);

// One object. The size limit is checked on the header, before a byte is buffered; an object that is
// there, and was verified lately, is answered without its data.
class PutObjectSink : public BulkSink {
 public:
  // `node` outlives the sink. `stored` is told the answer, before the call ends.
  PutObjectSink(LocalNode& node, CallContext context, std::function<void(bool)> stored)
      : node_(node), context_(std::move(context)), stored_(std::move(stored)) {}

  absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) override;
  absl::StatusOr<bool> Begin() override;
  absl::Status Append(Bytes data, std::span<const uint32_t> table) override;
  absl::Status End(bool complete) override;

 private:
  absl::StatusOr<bool> IsThereAlready();

  LocalNode& node_;
  const CallContext context_;
  const std::function<void(bool)> stored_;
  std::optional<v1::PutObjectHeader> header_;
  std::unique_ptr<ObjectWriter> writer_;
};

// One plain value: the compare is answered first, the outcome after the last message.
class PutValueSink : public BulkSink {
 public:
  // `node` outlives the sink. `reply` sends; the last one is followed by the end of the call.
  using Reply = std::function<void(const v1::PutValueResponse&, bool last)>;
  PutValueSink(LocalNode& node, CallContext context, Reply reply)
      : node_(node), context_(std::move(context)), reply_(std::move(reply)) {}

  absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) override;
  absl::StatusOr<bool> Begin() override;
  absl::Status Append(Bytes data, std::span<const uint32_t> table) override;
  absl::Status End(bool complete) override;

 private:
  LocalNode& node_;
  const CallContext context_;
  const Reply reply_;
  std::optional<v1::PutValueHeader> header_;
  std::unique_ptr<ValueWriter> writer_;
};

// A batch of values: its request is the first message, answered by the compares; the second says
// that they were heard, and is answered by the outcomes.
class BatchPutSink : public BulkSink {
 public:
  // As PutValueSink's.
  using Reply = std::function<void(const v1::BatchPutResponse&, bool last)>;
  BatchPutSink(LocalNode& node, CallContext context, Reply reply)
      : node_(node), context_(std::move(context)), reply_(std::move(reply)) {}

  absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) override;
  absl::StatusOr<bool> Begin() override;
  absl::Status Append(Bytes data, std::span<const uint32_t> table) override;
  absl::Status End(bool complete) override;

 private:
  LocalNode& node_;
  const CallContext context_;
  const Reply reply_;
  bool asked_ = false;
  v1::BatchPutRequest request_;
  std::unique_ptr<BatchWriter> writer_;
};

}  // namespace tilekv
