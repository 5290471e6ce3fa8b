// Puts of plain values by a client: with retries that never write twice and never claim what they
// do not know; in chunks where that is asked for.
//
// The first exchange fixes the compare of the write and tells it before anything is written. A
// retry carries the same request id and compare: it finds its own record, writes over the version
// that the first try would have replaced, or learns that it cannot know (OUTCOME_UNKNOWN): the key
// was written by another, or is absent as before the first try. Where another write came between
// the exchanges of an answered try, the put begins anew. A put whose source cannot be read
// twice is tried again only while none of it was taken.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/kv_store.h"
#include "kvstore/put_group.h"
#include "kvstore/retrying_node.h"

namespace tilekv {

class ValuePut {
 public:
  // All outlive the object. `grouped`: concurrent puts of small values go together (put_group.h),
  // which a node behind a network gains by. Thread-safe.
  ValuePut(NodeService& node, const RetryOptions& retry, BufferPool& pool, bool grouped);

  absl::StatusOr<PutResult> Put(std::string_view key, ByteSource& source,
                                const PutOptions& options);
  // Reads the source to its end; begins a session of its own. `begin_session` makes one.
  absl::StatusOr<PutResult> PutChunked(std::string_view key, ByteSource& source,
                                       UploadSession& session, uint64_t max_object_bytes,
                                       const PutOptions& options);
  absl::StatusOr<std::vector<PutResult>> PutBatch(const std::vector<BatchPutEntry>& entries,
                                                  const CallContext& context);

 private:
  // Where the put has been tried in a batch before, `tried` says how that ended. `in_trouble` is
  // called, if it is not null, before it waits to try again.
  absl::StatusOr<PutResult> Send(v1::PutValueHeader header, ByteSource* source,
                                 const CallContext& context, const PutGroup::Result& tried = {},
                                 const std::function<void()>& in_trouble = nullptr);

  // All tries of a batch of which no item was sent before.
  absl::StatusOr<std::vector<PutResult>> SendAgain(v1::BatchPutRequest request,
                                                   const CallContext& context);
  // One try; `compares` is filled once they are fixed.
  absl::StatusOr<std::vector<PutResult>> SendBatch(const v1::BatchPutRequest& request,
                                                   std::vector<uint64_t>& compares,
                                                   const CallContext& context);

  NodeService& node_;
  const RetryOptions& retry_;
  BufferPool& pool_;
  std::optional<PutGroup> group_;
};

void SetCondition(const WriteCondition& condition, v1::Condition* message);

}  // namespace tilekv
