#include "kvstore/object/object_store.h"

#include "kvstore/base/status.h"

namespace tilekv {

absl::Status ObjectReader::ReadStoredPieces(uint64_t stored_offset,
                                            std::span<const MutableBytes> pieces) {
  for (MutableBytes piece : pieces) {
    TILEKV_RETURN_IF_ERROR(ReadStored(stored_offset, piece));
    stored_offset += piece.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedBytes> ObjectReader::MapStored(uint64_t /*stored_offset*/,
                                                    uint64_t /*length*/) {
  return absl::UnimplementedError("these bytes cannot be mapped");
}

absl::StatusOr<std::vector<PutOutcome>> ObjectStore::PutSmall(Domain domain,
                                                              std::span<const Bytes> contents,
                                                              Revision touched_rev) {
  std::vector<PutOutcome> outcomes;
  for (Bytes content : contents) {
    PutSpec spec;
    spec.domain = domain;
    spec.length = content.size();
    spec.touched_rev = touched_rev;
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, NewWriter(spec));
    TILEKV_RETURN_IF_ERROR(writer->Append(content));
    TILEKV_ASSIGN_OR_RETURN(outcomes.emplace_back(), writer->Finish());
  }
  return outcomes;
}

}  // namespace tilekv
