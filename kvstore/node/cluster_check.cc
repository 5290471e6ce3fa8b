#include "kvstore/node/cluster_check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/copy_survey.h"
#include "kvstore/node/live_list.h"
#include "kvstore/node/references.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr size_t kMaxFindings = 1'000;
constexpr size_t kMaxOfOneName = 100;      // so that others are listed too
constexpr size_t kMaxExamples = 10;        // of objects that have one thing wrong
constexpr size_t kMaxSuspected = 100'000;  // objects that are looked for again, by name

using Severity = v1::ClusterFinding::Severity;
using IdSet = std::unordered_set<ObjectId, ObjectIdHash>;

v1::ClusterFinding Finding(Severity severity, std::string kind, std::string where,
                           std::string text) {
  v1::ClusterFinding finding;
  finding.set_severity(severity);
  finding.set_kind(std::move(kind));
  finding.set_where(std::move(where));
  finding.set_text(std::move(text));
  return finding;
}

std::string ObjectText(const ObjectRef& ref) {
  return fmt::format("object {} (level {}, {} bytes)", ref.id.Hex(), ref.level, ref.length);
}

class ClusterCheck {
 public:
  ClusterCheck(NodeContext& node, const CallContext& context) : node_(node), context_(context) {}

  absl::Status Nodes() {
    return node_.survey->CheckNodes([this](v1::ClusterFinding finding) { Add(std::move(finding)); },
                                    context_);
  }
  absl::Status Verify() { return node_.survey->VerifyAll(node_.domain, response_, context_); }

  // What names need, at the catalog's state of now.
  absl::Status Names() {
    live_.emplace(node_.scratch, kCollectMemoryBytes);
    TreeWalk walk(node_);
    const TreeVisitor visitor{
        .visit =
            [this](const ObjectRef& ref) {
              added_ = live_->Add(ref);
              return added_.ok();
            },
        // Told with the names that need it, like everything that cannot be read.
        .unreadable =
            [this](const ObjectRef& ref, const absl::Status&) {
              Suspect(ref.id);
              all_names_read_ = false;
              return absl::OkStatus();
            }};
    TILEKV_RETURN_IF_ERROR(VisitNames(
        [&](const ObjectRef& root, const std::string&) -> absl::Status {
          TILEKV_RETURN_IF_ERROR(walk.Walk(root, visitor, context_));
          return added_;
        },
        /*counts=*/true));
    return live_->Finish();
  }

  // What nodes hold, beside it.
  absl::Status Copies() {
    LiveList::Cursor cursor(*live_);
    std::optional<uint64_t> needed;  // the least prefix that no object has had yet
    TILEKV_ASSIGN_OR_RETURN(needed, cursor.AtLeast(0));
    std::optional<uint64_t> last;
    const auto missing_below = [&](std::optional<uint64_t> prefix) -> absl::Status {
      while (needed.has_value() && (!prefix.has_value() || *needed < *prefix)) {
        if (last != needed && missing_.size() < kMaxSuspected) missing_.insert(*needed);
        if (*needed == UINT64_MAX) {
          needed.reset();
          break;
        }
        TILEKV_ASSIGN_OR_RETURN(needed, cursor.AtLeast(*needed + 1));
      }
      return absl::OkStatus();
    };
    TILEKV_RETURN_IF_ERROR(node_.survey->ForEachObject(
        node_.domain,
        [&](const SurveyedObject& object) -> absl::Status {
          const uint64_t prefix = object.ref.id.Prefix64();
          TILEKV_RETURN_IF_ERROR(missing_below(prefix));
          last = prefix;
          Object(object, needed == prefix);
          return absl::OkStatus();
        },
        response_, context_));
    return missing_below(std::nullopt);
  }

  // What seemed to be lost, by the names that need it now.
  absl::Status Lost() {
    if (missing_.empty() && suspected_.empty()) return absl::OkStatus();
    return VisitNames(
        [this](const ObjectRef& root, const std::string& whose) { return LostOf(root, whose); },
        /*counts=*/false);
  }

  v1::ClusterCheckResponse Response() {
    Summaries();
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const auto& a, const auto& b) { return a.severity() > b.severity(); });
    for (v1::ClusterFinding& finding : findings_) *response_.add_findings() = std::move(finding);
    return std::move(response_);
  }

 private:
  // Objects that have one thing in common.
  struct Group {
    uint64_t objects = 0;
    uint64_t bytes = 0;
    std::vector<std::string> examples;

    void Add(const ObjectRef& ref) {
      ++objects;
      bytes += ref.length;
      if (examples.size() < kMaxExamples) examples.push_back(ref.id.Short());
    }
    std::string Text() const {
      std::string ids;
      for (const std::string& id : examples) ids += (ids.empty() ? "" : " ") + id;
      return fmt::format("{} objects, {}: {}{}", objects, FormatSize(bytes), ids,
                         objects > examples.size() ? " ..." : "");
    }
  };

  void Add(v1::ClusterFinding finding) {
    switch (finding.severity()) {
      case v1::ClusterFinding::LOSS:
        response_.set_loss_count(response_.loss_count() + 1);
        break;
      case v1::ClusterFinding::DEGRADED:
        response_.set_degraded_count(response_.degraded_count() + 1);
        break;
      default:
        response_.set_note_count(response_.note_count() + 1);
    }
    if (findings_.size() < kMaxFindings) findings_.push_back(std::move(finding));
  }

  void Suspect(const ObjectId& id) {
    if (suspected_.size() < kMaxSuspected) suspected_.insert(id);
  }

  void Object(const SurveyedObject& object, bool needed) {
    response_.set_objects(response_.objects() + 1);
    response_.set_bytes(response_.bytes() + object.ref.length);
    response_.set_copies(response_.copies() + object.good);
    if (object.elsewhere > 0) spare_.Add(object.ref);
    if (!needed) {
      unused_.Add(object.ref);
      return;
    }
    if (object.quarantined + object.suspect > 0) bad_.Add(object.ref);
    if (object.differs) differing_.Add(object.ref);
    if (object.good + object.suspect == 0) {
      Suspect(object.ref.id);
    } else if (object.good < node_.survey->min_copies()) {
      scarce_.Add(object.ref);
    } else if (object.at_owners < node_.survey->wanted_copies()) {
      short_.Add(object.ref);
    }
  }

  void Summaries() {
    response_.set_short_objects(scarce_.objects + short_.objects);
    response_.set_spare_objects(spare_.objects);
    response_.set_unused_objects(unused_.objects);
    response_.set_unused_bytes(unused_.bytes);
    const auto add = [this](Severity severity, const char* kind, const char* where,
                            const Group& group) {
      if (group.objects > 0) Add(Finding(severity, kind, where, group.Text()));
    };
    add(v1::ClusterFinding::DEGRADED, "copies", "fewer good copies than min-copies", scarce_);
    add(v1::ClusterFinding::DEGRADED, "copies", "fewer good copies than the replication", short_);
    add(v1::ClusterFinding::DEGRADED, "damaged", "copies that are suspect or in quarantine", bad_);
    add(v1::ClusterFinding::DEGRADED, "copies", "copies of another length or level", differing_);
    add(v1::ClusterFinding::NOTE, "spare", "copies at nodes that do not own them", spare_);
    // Below a tree that cannot be read nothing is known to be needed.
    add(v1::ClusterFinding::NOTE, "unused",
        all_names_read_ ? "no name needs them: uploads, or for the collector"
                        : "no name that can be read needs them",
        unused_);
    for (const std::string& node : response_.not_reached()) {
      Add(Finding(v1::ClusterFinding::DEGRADED, "node", node.substr(0, node.find(':')),
                  "its copies are not counted here:" + node.substr(node.find(':') + 1)));
    }
  }

  // Versions that are deleted and not purged need their objects too.
  absl::Status VisitNames(
      const std::function<absl::Status(const ObjectRef&, const std::string&)>& visit, bool counts) {
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node_.catalog.Snapshot());
    const auto root = [&](const v1::ObjectRef& message, const std::string& whose) -> absl::Status {
      absl::StatusOr<ObjectRef> ref = ObjectRefFromWire(message);
      if (ref.ok()) return visit(*ref, whose);
      if (counts) BadRecord(whose);
      return absl::OkStatus();
    };
    KeyRange range = AllVersionsRange();
    TILEKV_RETURN_IF_ERROR(
        VisitEntries(*snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
          if (counts) response_.set_versions(response_.versions() + 1);
          auto parts = ParseModelKey(entry.key);
          VersionEntry version;
          if (!parts || !version.record.ParseFromString(entry.value) ||
              version.record.number() != parts->number) {
            if (counts) BadRecord(Printable(entry.key));
            return absl::OkStatus();
          }
          version.ns = parts->ns;
          version.name = parts->name;
          return root(version.record.commit(), WhoseText(version));
        }));
    range = ValueRange({});
    return VisitEntries(*snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
      if (counts) response_.set_values(response_.values() + 1);
      ValueEntry value;
      value.key = UserKey(entry.key);
      if (!value.record.ParseFromString(entry.value)) {
        if (counts) BadRecord(WhoseText(value));
        return absl::OkStatus();
      }
      return value.record.has_object() ? root(value.record.object(), WhoseText(value))
                                       : absl::OkStatus();
    });
  }

  void BadRecord(const std::string& whose) {
    all_names_read_ = false;
    Add(Finding(v1::ClusterFinding::LOSS, "record", whose, "its record cannot be read"));
  }

  // Once more, for this name alone: of what it needs, what nobody gives out.
  absl::Status LostOf(const ObjectRef& root, const std::string& whose) {
    TreeWalk walk(node_);
    IdSet looked;
    IdSet told;
    absl::Status status;
    const TreeVisitor visitor{.visit =
                                  [&](const ObjectRef& ref) {
                                    const bool seems_lost = missing_.contains(ref.id.Prefix64()) ||
                                                            suspected_.contains(ref.id);
                                    if (seems_lost && looked.insert(ref.id).second)
                                      status = LookAgain(ref, whose, told);
                                    return status.ok();
                                  },
                              .unreadable =
                                  [&](const ObjectRef& ref, const absl::Status& why) {
                                    AddLost(ref, whose, why, told);
                                    return absl::OkStatus();
                                  }};
    TILEKV_RETURN_IF_ERROR(walk.Walk(root, visitor, context_));
    return status;
  }

  absl::Status LookAgain(const ObjectRef& ref, const std::string& whose, IdSet& told) {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    const auto found = node_.objects.Open(node_.domain, ref.id);
    if (!found.ok()) {
      AddLost(ref, whose, found.status(), told);
    } else if ((*found)->row().ref != ref) {
      AddLost(ref, whose, MakeError(Reason::kNotFound, "its copies are of another level or length"),
              told);
    }
    return absl::OkStatus();
  }

  // An object that this name needs and that cannot be read.
  void AddLost(const ObjectRef& ref, const std::string& whose, const absl::Status& why,
               IdSet& told) {
    if (!told.insert(ref.id).second) return;
    Severity severity = v1::ClusterFinding::LOSS;
    const char* kind = "damaged";
    switch (GetReason(why)) {
      case Reason::kNotFound:
        kind = "missing";
        break;
      case Reason::kInvalidArgument:
        kind = "tree";
        break;
      case Reason::kDataLoss:
        break;
      default:  // some node did not answer, and may have a copy
        severity = v1::ClusterFinding::DEGRADED;
        kind = "unreachable";
    }
    if (told.size() > kMaxOfOneName) {
      severity == v1::ClusterFinding::LOSS
          ? response_.set_loss_count(response_.loss_count() + 1)
          : response_.set_degraded_count(response_.degraded_count() + 1);
      return;
    }
    Add(Finding(severity, kind, whose, fmt::format("{}: {}", ObjectText(ref), ErrorText(why))));
  }

  NodeContext& node_;
  const CallContext& context_;
  v1::ClusterCheckResponse response_;
  std::vector<v1::ClusterFinding> findings_;
  std::optional<LiveList> live_;
  absl::Status added_;
  bool all_names_read_ = true;
  // Looked for again before they are told: what names need and no node has listed (by prefix),
  // and what has no copy that can be read.
  std::unordered_set<uint64_t> missing_;
  IdSet suspected_;
  Group scarce_, short_, bad_, differing_, spare_, unused_;
};

}  // namespace

absl::StatusOr<v1::ClusterCheckResponse> RunClusterCheck(NodeContext& node,
                                                         const v1::ClusterCheckRequest& request,
                                                         const CallContext& context) {
  ClusterCheck check(node, context);
  TILEKV_RETURN_IF_ERROR(check.Nodes());
  if (request.deep()) TILEKV_RETURN_IF_ERROR(check.Verify());
  TILEKV_RETURN_IF_ERROR(check.Names());
  TILEKV_RETURN_IF_ERROR(check.Copies());
  TILEKV_RETURN_IF_ERROR(check.Lost());
  return check.Response();
}

absl::Status CheckNotNeeded(NodeContext& node, const std::string& id, const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(v1::ClusterCheckResponse report,
                          RunClusterCheck(node, v1::ClusterCheckRequest(), context));
  for (const std::string& other : report.not_reached()) {
    if (other.rfind(id + ": ", 0) == 0) continue;
    return MakeError(Reason::kInvalidArgument,
                     "what other nodes hold has to be known first; " + other);
  }
  for (const v1::ClusterFinding& finding : report.findings()) {
    const bool lacks =
        finding.severity() == v1::ClusterFinding::LOSS || finding.kind() == "unreachable";
    if (!lacks) continue;
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} needs what no other node has ({}): start the node, or delete "
                                 "what needs it; 'tilekv cluster check' lists all of it",
                                 finding.where(), finding.text()));
  }
  if (report.short_objects() == 0) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("{} objects do not have all their copies without the node yet: "
                               "'tilekv cluster status' shows how far repair is",
                               report.short_objects()));
}

}  // namespace tilekv
