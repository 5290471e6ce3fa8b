#include "tensor_chunking/stored_content.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {

EncodedObject EncodeTreeObject(const Tree& tree) {
  EncodedObject object;
  object.content = EncodeTree(tree);
  object.ref = RefOf(tree.level, AsBytes(object.content));
  return object;
}

EncodedObject EncodeBlobObject(std::string content) {
  ObjectRef ref = RefOf(0, AsBytes(content));
  return {ref, std::move(content)};
}

absl::Status CheckStoredContent(const StoredContent& content, Reason reason) {
  if (content.ref.level == 0 ? content.ref.length == content.length_bytes
                             : content.ref.level <= 2) {
    return absl::OkStatus();
  }
  return MakeError(reason,
                   fmt::format("a content of {} bytes is an object of level {} and {} bytes",
                               content.length_bytes, content.ref.level, content.ref.length));
}

absl::StatusOr<StoredContent> EncodeInMemory(std::string_view content, uint64_t max_object_bytes,
                                             std::vector<EncodedObject>& out) {
  if (content.size() <= ChunkBytes(max_object_bytes)) {
    out.push_back(EncodeBlobObject(std::string(content)));
    return StoredContent{out.back().ref, content.size()};
  }
  const uint64_t piece_bytes = ChunkBytes(max_object_bytes);
  ChunkedBlobBuilder builder(max_object_bytes, [&](const ObjectRef& ref, std::string tree) {
    out.push_back({ref, std::move(tree)});
    return absl::OkStatus();
  });
  for (uint64_t at = 0; at < content.size(); at += piece_bytes) {
    out.push_back(EncodeBlobObject(std::string(content.substr(at, piece_bytes))));
    TILEKV_RETURN_IF_ERROR(builder.Add(out.back().ref));
  }
  TILEKV_ASSIGN_OR_RETURN(BlobChunk whole, builder.Finish());
  return StoredContent{whole.ref, whole.content_bytes};
}

}  // namespace tilekv
