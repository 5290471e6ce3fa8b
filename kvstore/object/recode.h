// Changes how an object that is here is stored. Its id, and whatever names it, do not notice.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/object/codec_choice.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

struct RecodeOutcome {
  uint64_t stored_before = 0;  // bytes
  uint64_t stored_after = 0;
  bool changed = false;  // another copy stands now; for a dry run: would
};

// Brings the object's copy into the encoding that `codec` gives it (see ChooseEncoding, which here
// knows of no elements), or none where that gains nothing. Content is read block by block and
// verified to the id before the new copy takes the old one's place; one that is damaged stays, is
// reported to its owner, and is DATA_LOSS. A dry run codes everything and writes nothing. NOT_FOUND
// where there is no good copy, or it went or was replaced meanwhile: nothing is lost by that.
// Memory: 1 MiB of content, and a writer. Thread-safe.
absl::StatusOr<RecodeOutcome> RecodeObject(ObjectStore& store, BufferPool& pool, Domain domain,
                                           const ObjectId& id, Codec codec, bool dry_run);

}  // namespace tilekv
