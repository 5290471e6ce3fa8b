// Walking trees: from a reference to everything that it needs.
#pragma once

#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "kvstore/object/tree.h"

namespace tilekv {

// The whole tree, verified to its id. NOT_FOUND (also where the copy has another level or length),
// DATA_LOSS; INVALID_ARGUMENT: not a tree.
absl::StatusOr<Tree> ReadTree(NodeContext& node, const ObjectRef& ref);
// Its children only: the rest of the tree is not read, so damage there is not met.
absl::StatusOr<std::vector<ObjectRef>> ReadTreeChildren(NodeContext& node, const ObjectRef& ref);
// Stores a tree. A tree that is there already has its touched_rev raised.
absl::StatusOr<ObjectRef> PutTree(NodeContext& node, const Tree& tree, Revision touched_rev);

struct TreeVisitor {
  // Every reference that is met: a tree once, but for very many trees, which are then forgotten and
  // may come again; a blob as often as it is listed. False: not below it.
  std::function<bool(const ObjectRef&)> visit;
  // A tree that cannot be read. An error ends the walk; OK: it goes on without what is below. None:
  // every such tree ends the walk.
  std::function<absl::Status(const ObjectRef&, const absl::Status&)> unreadable;
};

// One walk over any number of roots. Not thread-safe.
class TreeWalk {
 public:
  explicit TreeWalk(NodeContext& node) : node_(node) {}
  // Depth first. A tree that an earlier root led to is not visited again.
  absl::Status Walk(const ObjectRef& root, const TreeVisitor& visitor,
                    const CallContext& context = {});

 private:
  NodeContext& node_;
  std::unordered_set<ObjectId, ObjectIdHash> seen_trees_;
};

}  // namespace tilekv
