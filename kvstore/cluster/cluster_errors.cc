#include "kvstore/cluster/cluster_errors.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_errors.h"

namespace tilekv {
namespace {

constexpr size_t kNodesNamed = 4;

std::string ListFailures(const NodeFailures& failures) {
  std::string text;
  for (size_t i = 0; i < std::min(failures.size(), kNodesNamed); ++i) {
    text +=
        fmt::format("; node {}: {}", Printable(failures[i].first), ErrorText(failures[i].second));
  }
  if (failures.size() > kNodesNamed) {
    text += fmt::format("; and {} more nodes", failures.size() - kNodesNamed);
  }
  return text;
}

// The one that all failures have.
std::optional<Reason> CommonReason(const NodeFailures& failures) {
  if (failures.empty()) return std::nullopt;
  const Reason reason = GetReason(failures.front().second);
  for (const auto& [node, status] : failures) {
    if (GetReason(status) != reason) return std::nullopt;
  }
  return reason;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Peer>> FindPeer(Peers& peers, std::string_view node_id) {
  std::shared_ptr<Peer> peer = peers.Find(node_id);
  if (peer != nullptr) return peer;
  return MakeError(Reason::kNodeUnavailable,
                   fmt::format("node {} has no address", Printable(node_id)));
}

bool IsDamagedCopy(const absl::Status& status) {
  return GetReason(status) == Reason::kDataLoss && !IsUnreadable(status);
}

bool IsOfContent(const absl::Status& status) {
  const Reason reason = GetReason(status);
  return reason == Reason::kInvalidArgument || reason == Reason::kObjectTooLarge ||
         IsDamagedCopy(status);
}

absl::Status TooFewCopies(const ObjectRef& ref, const CopyFigures& figures,
                          const NodeFailures& failures) {
  Reason reason = Reason::kTooFewCopies;
  const auto lost = std::find_if(failures.begin(), failures.end(), [](const auto& failure) {
    return GetReason(failure.second) == Reason::kSessionLost;
  });
  if (lost != failures.end()) return lost->second;
  if (const std::optional<Reason> common = CommonReason(failures)) {
    const bool says_more = *common == Reason::kStoreFull || *common == Reason::kOverloaded ||
                           *common == Reason::kCatalogRewound;
    // With a copy that is whole, the content is right.
    const bool of_content = figures.stores == 0 && IsOfContent(failures.front().second);
    if (of_content) return failures.front().second;
    if (says_more) reason = *common;
  }
  return MakeError(
      reason, fmt::format("object {} ({} bytes): {} of {} stores have it, {} are needed, and the "
                          "cluster has {} {}{}",
                          ref.id.Short(), FormatCount(ref.length), figures.stores,
                          figures.replication, figures.min_copies, figures.nodes,
                          figures.nodes == 1 ? "node" : "nodes", ListFailures(failures)));
}

absl::Status CopyNotFound(const ObjectId& id, const NodeFailures& unanswered) {
  return MakeError(Reason::kNodeUnavailable,
                   fmt::format("object {}: no node that answers gives it{}", id.Hex(),
                               ListFailures(unanswered)));
}

void ReportDamagedCopy(ClusterParts& parts, const CopyCandidate& holder, Domain domain,
                       const ObjectId& id) {
  if (holder.self) {
    // This node looks at its own disk before it counts the copy again.
    (void)parts.local.MarkSuspect(domain, id);
    return;
  }
  std::shared_ptr<Peer> peer = parts.peers.Find(holder.node->id);
  if (peer == nullptr) return;
  parts.options.executor->Post([peer = std::move(peer), domain, id] {
    (void)peer->ReportDamage(domain, id, CallContext());
  });
}

}  // namespace tilekv
