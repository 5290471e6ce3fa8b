// What names no longer need: each transaction that purges, deletes, overwrites or moves a name
// writes down which object the name needed, and since when. From these records a collector's round
// knows how much of a fall in the bytes in use has an explanation.
//
// - Freed is what L would still hold had no name gone: what shared trees and equal contents keep in
//   use through other names is not counted, and what several names needed is counted once.
// - A name that came and went between two rounds explains nothing: it was not in use at the first.
//   So a record says since when, and only those of names older than the first round are counted.
// - Objects that were in use at a round that ended are there until the next one ends. So what the
//   records name can still be walked; where a tree of it is damaged, the bytes of its name count.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/node/live_list.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/tree_walk.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {

// For the transaction that takes this version's record away; it was made by `created`.
CatalogWrite FreedWrite(const v1::VersionRecord& version, Revision created);
// For the transaction that takes away or overwrites this entry of a plain value. None: it needs no
// object, or cannot be parsed.
std::optional<CatalogWrite> FreedWrite(const CatalogEntry& value);

// Bytes of objects that names needed at revision `since`, need no longer at the snapshot, as
// records say, and that are not in `live`, what is in use at the snapshot. `walk` has walked what
// is live.
absl::StatusOr<uint64_t> FreedBytes(NodeContext& node, CatalogSnapshot& snapshot, Revision since,
                                    const LiveList& live, TreeWalk walk,
                                    const CallContext& context);
// Removes the records up to this revision. One that is written again meanwhile stays.
absl::Status RemoveFreed(NodeContext& node, Revision up_to);

}  // namespace tilekv
