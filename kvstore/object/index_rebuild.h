// Making the index of a store anew from the headers of its payload files, where it is lost or
// damaged.
//
// 1. The store is locked: nobody else has it open.
// 2. Every payload file is read whole. A good one gets a row, a damaged one a quarantined row. One
//    whose header cannot be read, or is missing, is moved to DIR/damaged: it may be all there is of
//    an object, or of a put that ended half-way. One in which nothing is, zeros at most, is left
//    for collection.
// 3. Contents below kInlineContentBytes lived in the index itself: what the old one still gives,
//    whatever else is damaged in it, is taken over, checked to its id (index_salvage.h). The others
//    are lost with it.
// 4. The new index, whole and synced, takes the place of the old one, which is kept as
//    DIR/index.old (.2, .3, ...). A process that ends before leaves the store as it was, but for
//    what it had set aside, or without an index: then this is done again.
// 5. New files get numbers above all that payloads, files set aside or an old index tell of.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/revision.h"
#include "kvstore/object/local_engine_options.h"

namespace tilekv {

struct IndexRebuildReport {
  uint64_t rows = 0;            // in the new index
  uint64_t damaged = 0;         // of these, quarantined
  uint64_t small_contents = 0;  // of these, taken over from the old index
  uint64_t unfinished = 0;      // files in which nothing is
  uint64_t set_aside = 0;       // files in DIR/damaged
  std::string old_index;        // where it is now; empty: there was none
  std::string old_index_error;  // where it is damaged; empty: it gave everything
};

// `touched_rev` is given to all rows: at least the catalog's present revision, so that nothing that
// a session of before had linked looks older than it is. NOT_FOUND: no store. STORE_LOCKED: it is
// open.
absl::StatusOr<IndexRebuildReport> RebuildIndex(const LocalEngineOptions& options,
                                                Revision touched_rev,
                                                const CallContext& context = {});

}  // namespace tilekv
