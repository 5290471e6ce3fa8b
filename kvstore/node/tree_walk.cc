#include "kvstore/node/tree_walk.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_read.h"

namespace tilekv {
namespace {

// Read at first of a tree: one leaf, in which the table of most trees ends.
constexpr uint64_t kFirstReadBytes = kLeafBytes;
// Trees that a walk remembers: about 16 MiB. Reading one again costs time only.
constexpr size_t kMaxSeenTrees = 256 * 1024;

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenExactly(NodeContext& node, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader,
                          node.objects.Open(node.domain, ref.id));
  if (reader->row().ref != ref) {
    return MakeError(
        Reason::kNotFound,
        fmt::format("object {} is here with level {} and {} bytes, not level {} and {}",
                    ref.id.Short(), reader->row().ref.level, reader->row().ref.length, ref.level,
                    ref.length));
  }
  return reader;
}

absl::StatusOr<std::string> ReadVerified(NodeContext& node, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, OpenExactly(node, ref));
  return ReadWholeContent(*reader, *node.pool);
}

}  // namespace

absl::StatusOr<Tree> ReadTree(NodeContext& node, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(std::string content, ReadVerified(node, ref));
  return DecodeTree(ref.level, AsBytes(content));
}

absl::StatusOr<std::vector<ObjectRef>> ReadTreeChildren(NodeContext& node, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, OpenExactly(node, ref));
  // The opaque part, of a manifest page the larger one, stays where it is.
  std::string head;
  auto read_to = [&](uint64_t end) {
    uint64_t from = head.size();
    head.resize(std::min(end, ref.length));
    return ReadContent(*reader, from,
                       {reinterpret_cast<uint8_t*>(head.data()) + from, head.size() - from},
                       *node.pool);
  };
  TILEKV_RETURN_IF_ERROR(read_to(kFirstReadBytes));
  uint64_t head_bytes = TreeHeadBytes(AsBytes(head));
  if (head_bytes > head.size()) TILEKV_RETURN_IF_ERROR(read_to(head_bytes));
  return DecodeTreeHead(ref.level, AsBytes(head), ref.length);
}

absl::StatusOr<ObjectRef> PutTree(NodeContext& node, const Tree& tree, Revision touched_rev) {
  std::string content = EncodeTree(tree);
  PutSpec spec;
  spec.domain = node.domain;
  spec.level = tree.level;
  spec.expected = RefOf(tree.level, AsBytes(content));
  spec.touched_rev = touched_rev;
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, node.objects.NewWriter(spec));
  TILEKV_RETURN_IF_ERROR(writer->Append(AsBytes(content)));
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer->Finish());
  return outcome.ref;
}

absl::Status TreeWalk::Walk(const ObjectRef& root, const TreeVisitor& visitor,
                            const CallContext& context) {
  std::vector<ObjectRef> waiting{root};
  while (!waiting.empty()) {
    ObjectRef ref = waiting.back();
    waiting.pop_back();
    if (ref.level > 0) {
      if (seen_trees_.size() == kMaxSeenTrees) seen_trees_.clear();
      if (!seen_trees_.insert(ref.id).second) continue;
    }
    if (!visitor.visit(ref) || ref.level == 0) continue;
    TILEKV_RETURN_IF_ERROR(context.Check());
    absl::StatusOr<std::vector<ObjectRef>> children = ReadTreeChildren(node_, ref);
    if (!children.ok()) {
      if (visitor.unreadable == nullptr) return children.status();
      TILEKV_RETURN_IF_ERROR(visitor.unreadable(ref, children.status()));
      continue;
    }
    waiting.insert(waiting.end(), children->rbegin(), children->rend());
  }
  return absl::OkStatus();
}

}  // namespace tilekv
