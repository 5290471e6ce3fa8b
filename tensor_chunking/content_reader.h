// Whole objects and contents (blobs and chunked blobs) out of a store: what is read beside tiles.
// Thread-safe functions.
#pragma once

#include <functional>
#include <span>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/kv_store.h"
#include "tensor_chunking/stored_content.h"

namespace tilekv {

// Each object's whole content, in order, many in one exchange. Meant for trees: at most a few MiB
// each.
absl::Status ReadObjectsWhole(KvStore& store, std::span<const ObjectRef> refs,
                              const CallContext& context,
                              const std::function<absl::Status(Bytes content)>& visit);

// A content of any length, piece by piece in order, verified before the sink sees it. Holds one
// piece at a time.
absl::Status ReadContent(KvStore& store, const StoredContent& content, BufferPool& pool,
                         const CallContext& context, ByteSink& sink);

}  // namespace tilekv
