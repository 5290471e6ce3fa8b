// Reads of plain values by a client: ranges, streamed and verified, a few pieces ahead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/executor.h"
#include "kvstore/kv_store.h"

namespace tilekv {

ValueInfo ToValueInfo(const v1::ValueInfo& message);

// Thread-safe; node and pool outlive it.
class ValueGet {
 public:
  ValueGet(NodeService& node, BufferPool& pool);

  // As KvStore::Get. A value that was replaced while it was read is read again if nothing of it has
  // been given to the sink; else VERSION_CONFLICT.
  absl::StatusOr<std::optional<ValueInfo>> Get(std::string_view key, ByteSink& sink,
                                               const ByteRange& range, const CallContext& context);

 private:
  // A run of an object that is the next of the range.
  struct Piece {
    ObjectRef ref;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  class Stream;

  absl::Status ReadTree(const ObjectRef& ref, std::string& content, const CallContext& context);
  // The pieces of content [offset, offset + length) of a blob or a chunked blob, at most
  // kReadPieceBytes each.
  absl::Status FindPieces(const ObjectRef& ref, uint64_t content_bytes, uint64_t offset,
                          uint64_t length, const CallContext& context, std::vector<Piece>& pieces);
  ThreadPool& Threads();

  NodeService& node_;
  BufferPool& pool_;
  Mutex mutex_;
  std::unique_ptr<ThreadPool> threads_ ABSL_GUARDED_BY(mutex_);  // when first needed
};

}  // namespace tilekv
