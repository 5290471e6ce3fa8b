// A put in progress in a LocalEngine. See ObjectWriter; memory is one staging buffer of 1 MiB, or
// the content itself below kInlineContentBytes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/engine_core.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// `spec` has passed CheckPutSpec. The core outlives the writer.
absl::StatusOr<std::unique_ptr<ObjectWriter>> NewLocalWriter(EngineCore* core, const PutSpec& spec);
// See ObjectStore::NewReplacement.
absl::StatusOr<std::unique_ptr<ObjectWriter>> NewLocalReplacement(EngineCore* core,
                                                                  const PutSpec& spec,
                                                                  const ObjectRow& seen);
// See ObjectStore::PutSmall.
absl::StatusOr<std::vector<PutOutcome>> PutSmallLocally(EngineCore* core, Domain domain,
                                                        std::span<const Bytes> contents,
                                                        Revision touched_rev);

}  // namespace tilekv
