// Puts of plain values by a client: with retries that never write twice and never claim what they
// do not know; in chunks where that is asked for.
//
// The first exchange fixes the compare of the write and tells it before anything is written. A
// retry carries the same request id and compare: it finds its own record, writes over the version
// that the first try would have replaced, or learns that it cannot know (OUTCOME_UNKNOWN): the key
// was written by another, or is absent as before the first try. A put whose source cannot be read
// twice is tried again only while none of it was taken.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/kv_store.h"
#include "kvstore/retrying_node.h"

namespace tilekv {

class ValuePut {
 public:
  // All outlive the object. Thread-safe.
  ValuePut(NodeService& node, const RetryOptions& retry, BufferPool& pool)
      : node_(node), retry_(retry), pool_(pool) {}

  absl::StatusOr<PutResult> Put(std::string_view key, ByteSource& source,
                                const PutOptions& options);
  // Reads the source to its end; begins a session of its own. `begin_session` makes one.
  absl::StatusOr<PutResult> PutChunked(std::string_view key, ByteSource& source,
                                       UploadSession& session, uint64_t max_object_bytes,
                                       const PutOptions& options);
  absl::StatusOr<std::vector<PutResult>> PutBatch(const std::vector<BatchPutEntry>& entries,
                                                  const CallContext& context);

 private:
  absl::StatusOr<PutResult> Send(v1::PutValueHeader header, ByteSource* source,
                                 const CallContext& context);

  NodeService& node_;
  const RetryOptions& retry_;
  BufferPool& pool_;
};

void SetCondition(const WriteCondition& condition, v1::Condition* message);

}  // namespace tilekv
