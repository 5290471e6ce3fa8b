// What the node does with the streams that it receives: PutObject and PutValue, without gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "kvstore/base/call_context.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/value_writer.h"
#include "kvstore/object/object_store.h"
#include "server/bulk_receiver.h"

namespace tilekv {

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
  absl::StatusOr<bool> LookAtCopy();

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

}  // namespace tilekv
