#include "kvstore/cluster/cluster_survey.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/copy_listing.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {
namespace {

using Severity = v1::ClusterFinding::Severity;

// Once for each node.
void AddNotReached(const MapNode& node, const absl::Status& why,
                   v1::ClusterCheckResponse& response) {
  const std::string prefix = node.id + ": ";
  const auto& told = response.not_reached();
  const bool known = std::any_of(told.begin(), told.end(), [&prefix](const std::string& other) {
    return other.rfind(prefix, 0) == 0;
  });
  if (!known) response.add_not_reached(prefix + ErrorText(why));
}

class NodeFindings {
 public:
  explicit NodeFindings(const std::function<void(v1::ClusterFinding)>& found) : found_(found) {}

  void Add(Severity severity, const char* kind, const std::string& where, const std::string& text) {
    v1::ClusterFinding finding;
    finding.set_severity(severity);
    finding.set_kind(kind);
    finding.set_where(where);
    finding.set_text(text);
    found_(std::move(finding));
  }

  void Node(const v1::ClusterMapNode& node, const v1::ClusterNodeStatus& status,
            uint64_t map_version) {
    const std::string& where = node.id();
    const bool maintenance = node.maintenance();
    if (!status.registered()) {
      return Add(maintenance ? v1::ClusterFinding::NOTE : v1::ClusterFinding::DEGRADED, "node",
                 where,
                 maintenance ? "is away, under maintenance"
                             : fmt::format("is away, for {} s by now", status.missing_seconds()));
    }
    const v1::NodeRegistration& here = status.registration();
    if (here.store_uuid() != node.store_uuid()) {
      Add(v1::ClusterFinding::DEGRADED, "node", where,
          fmt::format("is here with the store {}, and the map has {}", Printable(here.store_uuid()),
                      node.store_uuid()));
    }
    if (here.health() == v1::NODE_HEALTH_FULL) {
      Add(v1::ClusterFinding::DEGRADED, "node", where,
          "has a full disk, and takes nothing: add a node, or a larger disk");
    } else if (here.health() == v1::NODE_HEALTH_FAILED) {
      Add(v1::ClusterFinding::DEGRADED, "node", where,
          "has a disk to which a write has failed, and takes nothing: replace it, or start the "
          "node again when it is mended");
    }
    if (here.map_version() < map_version) {
      Add(v1::ClusterFinding::NOTE, "node", where, "does not act on the newest map yet");
    }
    if (node.state() == v1::NODE_STATE_DRAINING) {
      Add(v1::ClusterFinding::NOTE, "node", where,
          fmt::format("is draining, and holds {} objects", here.objects()));
    } else if (node.state() == v1::NODE_STATE_OUT) {
      Add(v1::ClusterFinding::NOTE, "node", where,
          "is out and owns nothing; 'tilekv node undrain' lets it own objects again");
    }
  }

 private:
  const std::function<void(v1::ClusterFinding)>& found_;
};

}  // namespace

uint32_t ClusterSurvey::wanted_copies() {
  const std::shared_ptr<const Placement> placement = view_.placement();
  return std::min<uint32_t>(placement->map().settings().replication,
                            static_cast<uint32_t>(placement->map().CountIn()));
}

uint32_t ClusterSurvey::min_copies() { return view_.placement()->map().settings().min_copies; }

absl::Status ClusterSurvey::CheckNodes(const std::function<void(v1::ClusterFinding)>& found,
                                       const CallContext& context) {
  NodeFindings findings(found);
  if (admin_ != nullptr) {
    TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status, admin_->Status(context));
    for (int i = 0; i < std::min(status.nodes_size(), status.map().nodes_size()); ++i) {
      findings.Node(status.map().nodes(i), status.nodes(i), status.map().version());
    }
    if (!status.catalog().error().empty()) {
      findings.Add(v1::ClusterFinding::DEGRADED, "map", "catalog", status.catalog().error());
    }
  }
  const std::shared_ptr<const Placement> placement = view_.placement();
  const ClusterMap& map = placement->map();
  if (map.CountIn() < map.settings().replication) {
    findings.Add(v1::ClusterFinding::DEGRADED, "map", "replication",
                 fmt::format("{} copies are asked for, and {} nodes are in: add nodes",
                             map.settings().replication, map.CountIn()));
    return absl::OkStatus();
  }
  std::set<std::string_view> zones;
  for (const MapNode& node : map.nodes()) zones.insert(node.zone);
  uint64_t shared_zones = 0;
  uint64_t shared_hosts = 0;
  for (uint32_t partition = 0; partition < placement->partitions(); ++partition) {
    const Owners::Pass pass = placement->OwnersOf(partition).pass;
    shared_hosts += pass == Owners::Pass::kAny;
    shared_zones += pass == Owners::Pass::kNewHost;
  }
  const auto share = [&](uint64_t count, const char* what) {
    findings.Add(v1::ClusterFinding::NOTE, "map", what,
                 fmt::format("owners of {} of {} partitions share one: there are too few", count,
                             placement->partitions()));
  };
  if (shared_hosts > 0) share(shared_hosts, "hosts");
  // Without zones every node is in the same one, which is meant so.
  if (shared_zones > 0 && zones.size() > 1) share(shared_zones, "zones");
  return absl::OkStatus();
}

// One node's rows, a page at a time.
class ClusterSurvey::Listing {
 public:
  Listing(ClusterSurvey& survey, NodeIndex index, const MapNode& node, Domain domain)
      : survey_(survey), index_(index), node_(node), domain_(domain) {}

  NodeIndex index() const { return index_; }
  const MapNode& node() const { return node_; }
  bool has_row() const { return at_ < page_.rows.size(); }
  const PartitionRow& row() const { return page_.rows[at_]; }
  bool needs_page() const { return !has_row() && !page_.end && failed_.ok(); }
  const absl::Status& failed() const { return failed_; }
  void Next() { ++at_; }

  void Fetch(const CallContext& context) {
    std::optional<ObjectId> after;
    if (!page_.rows.empty()) after = page_.rows.back().ref.id;
    absl::StatusOr<PartitionPage> page = Ask(after, context);
    failed_ = page.status();
    if (!page.ok()) return;
    page_ = *std::move(page);
    at_ = 0;
  }

  absl::Status Verify(const CallContext& context, VerifyAnswer& sum) {
    std::optional<ObjectId> after;
    std::shared_ptr<Peer> peer;
    const bool is_self = node_.id == survey_.view_.node_id();
    if (!is_self) {
      TILEKV_ASSIGN_OR_RETURN(peer, FindPeer(survey_.peers_, node_.id));
    }
    while (true) {
      TILEKV_RETURN_IF_ERROR(context.Check());
      TILEKV_ASSIGN_OR_RETURN(VerifyAnswer answer,
                              is_self ? VerifyCopies(survey_.local_, domain_, after, context)
                                      : peer->VerifyCopies(domain_, after, context));
      sum.copies += answer.copies;
      sum.bytes += answer.bytes;
      sum.damaged += answer.damaged;
      if (!answer.next_after.has_value()) return absl::OkStatus();
      after = answer.next_after;
    }
  }

 private:
  absl::StatusOr<PartitionPage> Ask(const std::optional<ObjectId>& after,
                                    const CallContext& context) {
    if (node_.id == survey_.view_.node_id()) return ListCopies(survey_.local_, domain_, after);
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<Peer> peer, FindPeer(survey_.peers_, node_.id));
    return peer->ListCopies(domain_, after, context);
  }

  ClusterSurvey& survey_;
  const NodeIndex index_;
  const MapNode& node_;
  const Domain domain_;
  PartitionPage page_;
  size_t at_ = 0;
  absl::Status failed_;
};

// All rows of this object, which are then behind.
SurveyedObject ClusterSurvey::TakeObject(const std::vector<std::unique_ptr<Listing>>& listings,
                                         const ObjectId& id, const Placement& placement) {
  const Owners owners = placement.OwnersOf(placement.PartitionOf(id));
  SurveyedObject object;
  bool any = false;
  std::set<std::string_view> stores;
  for (const auto& listing : listings) {
    if (!listing->has_row() || listing->row().ref.id != id) continue;
    const PartitionRow& row = listing->row();
    const bool first_good = row.state == RowState::kGood && object.good == 0;
    if (any && row.ref != object.ref) object.differs = true;
    if (!any || first_good) object.ref = row.ref;
    any = true;
    const bool owns = owners.Contains(listing->index());
    object.elsewhere += !owns;
    object.suspect += row.state == RowState::kSuspect;
    object.quarantined += row.state == RowState::kQuarantined;
    if (row.state == RowState::kGood && stores.insert(listing->node().store_uuid).second) {
      ++object.good;
      object.at_owners += owns;
    }
    listing->Next();
  }
  return object;
}

absl::Status ClusterSurvey::VerifyAll(Domain domain, v1::ClusterCheckResponse& response,
                                      const CallContext& context) {
  const std::shared_ptr<const Placement> placement = view_.placement();
  const std::vector<MapNode>& nodes = placement->map().nodes();
  std::vector<VerifyAnswer> sums(nodes.size());
  std::vector<absl::Status> ended(nodes.size());
  std::vector<std::function<void()>> work;
  for (size_t i = 0; i < nodes.size(); ++i) {
    work.push_back([&, i] {
      Listing listing(*this, static_cast<NodeIndex>(i), nodes[i], domain);
      ended[i] = listing.Verify(context, sums[i]);
    });
  }
  RunConcurrently(executor_, std::move(work));
  TILEKV_RETURN_IF_ERROR(context.Check());
  for (size_t i = 0; i < nodes.size(); ++i) {
    response.set_verified_copies(response.verified_copies() + sums[i].copies);
    response.set_damaged_copies(response.damaged_copies() + sums[i].damaged);
    if (!ended[i].ok()) AddNotReached(nodes[i], ended[i], response);
  }
  return absl::OkStatus();
}

absl::Status ClusterSurvey::ForEachObject(
    Domain domain, const std::function<absl::Status(const SurveyedObject&)>& visit,
    v1::ClusterCheckResponse& response, const CallContext& context) {
  const std::shared_ptr<const Placement> placement = view_.placement();
  const std::vector<MapNode>& nodes = placement->map().nodes();
  std::vector<std::unique_ptr<Listing>> listings;
  for (size_t i = 0; i < nodes.size(); ++i) {
    listings.push_back(
        std::make_unique<Listing>(*this, static_cast<NodeIndex>(i), nodes[i], domain));
  }
  while (true) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    std::vector<std::function<void()>> work;
    for (auto& listing : listings) {
      if (listing->needs_page()) work.push_back([&listing, &context] { listing->Fetch(context); });
    }
    RunConcurrently(executor_, std::move(work));
    // As long as every node that may have more has a row to compare.
    const auto lacks = [](const auto& listing) { return listing->needs_page(); };
    while (std::none_of(listings.begin(), listings.end(), lacks)) {
      const ObjectId* least = nullptr;
      for (const auto& listing : listings) {
        if (listing->has_row() && (least == nullptr || listing->row().ref.id < *least)) {
          least = &listing->row().ref.id;
        }
      }
      if (least == nullptr) {
        for (const auto& listing : listings) {
          if (!listing->failed().ok()) AddNotReached(listing->node(), listing->failed(), response);
        }
        return absl::OkStatus();
      }
      TILEKV_RETURN_IF_ERROR(visit(TakeObject(listings, ObjectId(*least), *placement)));
    }
  }
}

}  // namespace tilekv
