#include "kvstore/node/usage.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/node/references.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int kListedReferrers = 100;  // of one object; the others are counted

using IdSet = std::unordered_set<ObjectId, ObjectIdHash>;

// Counts objects by who reaches them.
class UsageCount {
 public:
  explicit UsageCount(NodeContext& node) : node_(node) {}

  struct Group {
    v1::UsageRow row;
    bool wanted = false;
    IdSet objects;
  };

  // A group's rows are added to one after another: versions of a model come together.
  absl::Status Add(Group& group, const v1::ObjectRef& message, const CallContext& context) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(message));
    TreeVisitor visitor;
    visitor.visit = [&](const ObjectRef& ref) {
      if (!group.objects.insert(ref.id).second) return false;
      auto [at, is_new] = objects_.try_emplace(ref.id);
      at->second.length = ref.length;
      ++at->second.groups;
      return true;
    };
    // What cannot be read is fsck's to report; the rest is counted.
    visitor.unreadable = [](const ObjectRef&, const absl::Status&) { return absl::OkStatus(); };
    return TreeWalk(node_).Walk(root, visitor, context);
  }

  absl::Status Finish(std::vector<Group*>& groups, v1::UsageResponse& response) {
    IdSet counted;
    for (Group* group : groups) {
      if (!group->wanted) continue;
      for (const ObjectId& id : group->objects) {
        const Object& object = objects_[id];
        TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, node_.objects.Stat(node_.domain, id));
        uint64_t stored = row ? row->stored_length : 0;
        Count(group->row, object, stored);
        if (counted.insert(id).second) Count(*response.mutable_total(), object, stored);
      }
      v1::UsageRow& total = *response.mutable_total();
      total.set_versions(total.versions() + group->row.versions());
      total.set_logical_bytes(total.logical_bytes() + group->row.logical_bytes());
      *response.add_rows() = group->row;
    }
    uint64_t reached = 0;
    for (const auto& [id, object] : objects_) reached += object.length;
    TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, node_.objects.Usage());
    response.set_unreferenced_bytes(usage.content_bytes - std::min(usage.content_bytes, reached));
    return absl::OkStatus();
  }

 private:
  struct Object {
    uint64_t length = 0;
    uint64_t groups = 0;
  };
  static void Count(v1::UsageRow& row, const Object& object, uint64_t stored) {
    row.set_referenced_bytes(row.referenced_bytes() + object.length);
    if (object.groups > 1) {
      row.set_shared_bytes(row.shared_bytes() + object.length);
    } else {
      row.set_unique_bytes(row.unique_bytes() + object.length);
    }
    row.set_stored_bytes(row.stored_bytes() + stored);
  }

  NodeContext& node_;
  std::unordered_map<ObjectId, Object, ObjectIdHash> objects_;
};

}  // namespace

absl::StatusOr<v1::UsageResponse> ComputeUsage(NodeContext& node, const v1::UsageRequest& request,
                                               const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node.catalog.Snapshot());
  UsageCount count(node);
  std::map<std::string, UsageCount::Group> models;
  UsageCount::Group values;
  TILEKV_RETURN_IF_ERROR(VisitVersions(*snapshot, [&](const VersionEntry& version) {
    std::string model = version.ns + "/" + version.name;
    UsageCount::Group& group = models[model];
    group.wanted = model.rfind(request.prefix(), 0) == 0;
    group.row.set_model(model);
    group.row.set_versions(group.row.versions() + 1);
    group.row.set_logical_bytes(group.row.logical_bytes() + version.record.logical_bytes());
    return count.Add(group, version.record.commit(), context);
  }));
  UsageCount::Group other_values;  // those without the prefix: they share, but are not counted
  TILEKV_RETURN_IF_ERROR(VisitAllValues(*snapshot, [&](const ValueEntry& value) -> absl::Status {
    bool wanted = value.key.rfind(request.prefix(), 0) == 0;
    UsageCount::Group& group = wanted ? values : other_values;
    group.wanted = wanted;
    group.row.set_versions(group.row.versions() + 1);
    group.row.set_logical_bytes(group.row.logical_bytes() + value.record.length());
    if (!value.record.has_object()) return absl::OkStatus();
    return count.Add(group, value.record.object(), context);
  }));
  std::vector<UsageCount::Group*> groups;
  for (auto& [name, group] : models) groups.push_back(&group);
  groups.push_back(&values);
  v1::UsageResponse response;
  TILEKV_RETURN_IF_ERROR(count.Finish(groups, response));
  return response;
}

namespace {

// Which of the objects asked for trees reach. A tree is read once, however many versions share it.
class Reach {
 public:
  Reach(NodeContext& node, const CallContext& context) : node_(node), context_(context) {}

  void Ask(const ObjectId& id, int index) { asked_[id].push_back(index); }

  // Indices as asked, in order, each once; the reference itself counts.
  absl::StatusOr<std::vector<int>> Of(const ObjectRef& ref) {
    std::vector<int> found;
    if (auto at = asked_.find(ref.id); at != asked_.end()) found = at->second;
    if (ref.level == 0) return found;
    if (auto known = known_.find(ref.id); known != known_.end()) return known->second;
    TILEKV_RETURN_IF_ERROR(context_.Check());
    // What cannot be read is fsck's to report; the rest is found.
    absl::StatusOr<std::vector<ObjectRef>> children = ReadTreeChildren(node_, ref);
    if (children.ok()) {
      for (const ObjectRef& child : *children) {  // of lower levels: the depth is bounded
        TILEKV_ASSIGN_OR_RETURN(std::vector<int> below, Of(child));
        found.insert(found.end(), below.begin(), below.end());
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    known_.emplace(ref.id, found);
    return found;
  }

 private:
  NodeContext& node_;
  const CallContext& context_;
  std::unordered_map<ObjectId, std::vector<int>, ObjectIdHash> asked_;
  std::unordered_map<ObjectId, std::vector<int>, ObjectIdHash> known_;  // of trees
};

absl::Status CheckRefs(int count) {
  if (count <= static_cast<int>(kMaxBatchOperations)) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument, fmt::format("{} objects asked for at once; at most {}",
                                                         count, kMaxBatchOperations));
}

}  // namespace

absl::StatusOr<v1::FindReferrersResponse> FindReferrers(NodeContext& node,
                                                        const v1::FindReferrersRequest& request,
                                                        const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckRefs(request.refs_size()));
  v1::FindReferrersResponse response;
  Reach reach(node, context);
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
    reach.Ask(ref.id, response.objects_size());
    response.add_objects();
  }
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node.catalog.Snapshot());
  TILEKV_RETURN_IF_ERROR(VisitVersions(*snapshot, [&](const VersionEntry& version) -> absl::Status {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef commit, ObjectRefFromWire(version.record.commit()));
    TILEKV_ASSIGN_OR_RETURN(std::vector<int> reached, reach.Of(commit));
    for (int index : reached) {
      v1::Referrers& referrers = *response.mutable_objects(index);
      referrers.set_version_count(referrers.version_count() + 1);
      if (referrers.versions_size() == kListedReferrers) continue;
      v1::VersionName& name = *referrers.add_versions();
      name.set_ns(version.ns);
      name.set_name(version.name);
      name.set_number(version.record.number());
    }
    return absl::OkStatus();
  }));
  return response;
}

absl::StatusOr<v1::LocateResponse> Locate(NodeContext& node, const v1::LocateRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckRefs(request.refs_size()));
  v1::LocateResponse response;
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
    v1::LocatedObject& located = *response.add_objects();
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, node.objects.Stat(node.domain, ref.id));
    if (!row) continue;
    v1::ObjectCopy& copy = *located.add_copies();
    copy.set_node(node.objects.store_uuid());
    copy.set_state(row->state == RowState::kGood      ? "good"
                   : row->state == RowState::kSuspect ? "suspect"
                                                      : "quarantined");
    EncodingToWire(row->encoding, copy.mutable_encoding());
    copy.set_stored_length(row->stored_length);
  }
  return response;
}

}  // namespace tilekv
