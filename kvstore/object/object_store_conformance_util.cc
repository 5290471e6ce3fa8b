#include <algorithm>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {

std::string TestContent(uint64_t length, uint64_t seed) {
  SeededRandom random(seed);
  std::string content;
  content.reserve(length);
  while (content.size() < length) {
    size_t run = std::min<uint64_t>(1000, length - content.size());
    if (random.Below(2) == 0) {
      content += random.Bytes(run);
    } else {
      content.append(run, static_cast<char>(random.Next()));
    }
  }
  return content;
}

absl::StatusOr<PutOutcome> PutContent(ObjectStore& store, std::string_view content,
                                      const PutPieces& how) {
  PutSpec spec{.domain = how.domain,
               .level = how.level,
               .encoding = how.encoding,
               .touched_rev = how.touched_rev};
  if (how.declare) spec.expected = RefOf(how.level, AsBytes(content));
  TILEKV_ASSIGN_OR_RETURN(CodedContent coded, EncodeContent(how.encoding, AsBytes(content)));
  spec.encoding = coded.encoding;
  TILEKV_ASSIGN_OR_RETURN(auto writer, store.NewWriter(spec));
  if (coded.encoding.kind != EncodingKind::kNone) {
    TILEKV_RETURN_IF_ERROR(writer->Append(AsBytes(coded.stored), coded.table));
    return writer->Finish();
  }
  uint64_t piece = how.piece_bytes == 0 ? content.size() : how.piece_bytes;
  for (uint64_t at = 0; at < content.size(); at += piece) {
    TILEKV_RETURN_IF_ERROR(writer->Append(AsBytes(content.substr(at, piece))));
  }
  return writer->Finish();
}

absl::StatusOr<std::string> GetContent(ObjectStore& store, const ObjectId& id, Domain domain) {
  TILEKV_ASSIGN_OR_RETURN(auto reader, store.Open(domain, id));
  return ReadWholeContent(*reader, *BufferPool::Create(kMiB));
}

}  // namespace tilekv
