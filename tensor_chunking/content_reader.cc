#include "tensor_chunking/content_reader.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"

namespace tilekv {
namespace {

constexpr uint64_t kExchangeBytes = 16 * kMiB;

absl::Status ReadBlob(KvStore& store, const ObjectRef& blob, BufferPool& pool,
                      const CallContext& context, ByteSink& sink) {
  for (uint64_t at = 0; at < blob.length; at += kDefaultTileBytes) {
    Buffer piece = pool.Get(std::min(kDefaultTileBytes, blob.length - at));
    ObjectRead read{.ref = blob, .offset = at, .out = piece.span()};
    TILEKV_RETURN_IF_ERROR(store.ReadObjects({&read, 1}, nullptr, context));
    TILEKV_RETURN_IF_ERROR(sink.Append(piece.span()));
  }
  return absl::OkStatus();
}

// Appends what is below `ref` and checks that it is as long as was said.
absl::Status ReadNode(KvStore& store, const ObjectRef& ref, uint64_t length, BufferPool& pool,
                      const CallContext& context, ByteSink& sink) {
  if (ref.level == 0) {
    if (ref.length != length) {
      return MakeError(Reason::kDataLoss, fmt::format("blob {} has {} bytes, not {}",
                                                      ref.id.Short(), ref.length, length));
    }
    return ReadBlob(store, ref, pool, context, sink);
  }
  TILEKV_ASSIGN_OR_RETURN(std::string content, store.ReadObject(ref, context));
  TILEKV_ASSIGN_OR_RETURN(ChunkedBlob blob,
                          DecodeChunkedBlob(ref.level, AsBytes(content), Reason::kDataLoss));
  if (blob.content_bytes != length) {
    return MakeError(Reason::kDataLoss, fmt::format("chunked blob {} has {} bytes, not {}",
                                                    ref.id.Short(), blob.content_bytes, length));
  }
  for (const BlobChunk& chunk : blob.chunks) {
    TILEKV_RETURN_IF_ERROR(ReadNode(store, chunk.ref, chunk.content_bytes, pool, context, sink));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadObjectsWhole(KvStore& store, std::span<const ObjectRef> refs,
                              const CallContext& context,
                              const std::function<absl::Status(Bytes)>& visit) {
  size_t at = 0;
  while (at < refs.size()) {
    std::vector<std::string> contents;
    std::vector<ObjectRead> reads;
    uint64_t bytes = 0;
    size_t end = at;
    while (end < refs.size() && reads.size() < kMaxBatchOperations &&
           (end == at || bytes + refs[end].length <= kExchangeBytes)) {
      bytes += refs[end].length;
      contents.emplace_back(refs[end].length, '\0');
      reads.push_back({.ref = refs[end], .offset = 0, .out = {}});
      ++end;
    }
    for (size_t i = 0; i < reads.size(); ++i) {
      reads[i].out = {reinterpret_cast<uint8_t*>(contents[i].data()), contents[i].size()};
    }
    TILEKV_RETURN_IF_ERROR(store.ReadObjects(reads, nullptr, context));
    for (const std::string& content : contents) {
      TILEKV_RETURN_IF_ERROR(visit(AsBytes(content)));
    }
    at = end;
  }
  return absl::OkStatus();
}

absl::Status ReadContent(KvStore& store, const StoredContent& content, BufferPool& pool,
                         const CallContext& context, ByteSink& sink) {
  return ReadNode(store, content.ref, content.length_bytes, pool, context, sink);
}

}  // namespace tilekv
