#include "kvstore/node/fsck.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/references.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int kMaxListedProblems = 1'000;

class Check {
 public:
  Check(NodeContext& node, const CallContext& context) : node_(node), context_(context) {}

  void Problem(std::string kind, std::string where, std::string text) {
    response_.set_problem_count(response_.problem_count() + 1);
    if (response_.problems_size() == kMaxListedProblems) return;
    v1::FsckProblem& problem = *response_.add_problems();
    problem.set_kind(std::move(kind));
    problem.set_where(std::move(where));
    problem.set_text(std::move(text));
  }

  absl::Status Reached(const v1::ObjectRef& message, const std::string& whose) {
    absl::StatusOr<ObjectRef> root = ObjectRefFromWire(message);
    if (!root.ok()) {
      Problem("record", whose, std::string(root.status().message()));
      return absl::OkStatus();
    }
    absl::Status failed;
    TreeVisitor visitor;
    visitor.visit = [&](const ObjectRef& ref) {
      if (!failed.ok() || !seen_.insert(ref.id).second) return false;
      absl::StatusOr<bool> there = CheckObject(ref, whose);
      if (!there.ok()) failed = there.status();
      return there.ok() && *there;
    };
    visitor.unreadable = [&](const ObjectRef& ref, const absl::Status& status) {
      Problem(GetReason(status) == Reason::kInvalidArgument ? "tree" : "damaged", whose,
              fmt::format("tree {}: {}", ref.id.Hex(), ErrorText(status)));
      return absl::OkStatus();
    };
    TILEKV_RETURN_IF_ERROR(TreeWalk(node_).Walk(*root, visitor, context_));
    return failed;
  }

  absl::Status Models(CatalogSnapshot& snapshot) {
    KeyRange range = HeadRange();
    return VisitEntries(snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
      auto parts = ParseModelKey(entry.key);
      v1::ModelHead head;
      if (!parts || !head.ParseFromString(entry.value)) {
        Problem("record", Printable(entry.key), "a model's head that cannot be read");
        return absl::OkStatus();
      }
      return OneModel(snapshot, parts->ns, parts->name, head);
    });
  }

  absl::Status Contents() {
    std::vector<ObjectId> ids;
    TILEKV_RETURN_IF_ERROR(
        node_.objects.Scan(node_.domain, std::nullopt, [&ids](const ObjectRow& row) {
          ids.push_back(row.ref.id);
          return true;
        }));
    for (const ObjectId& id : ids) {
      TILEKV_RETURN_IF_ERROR(context_.Check());
      absl::StatusOr<bool> good = node_.objects.Verify(node_.domain, id);
      if (!good.ok() && GetReason(good.status()) == Reason::kNotFound) continue;  // swept meanwhile
      TILEKV_RETURN_IF_ERROR(good.status());
      if (!*good) Problem("damaged", fmt::format("object {}", id.Hex()), "does not hash to its id");
    }
    return absl::OkStatus();
  }

  v1::FsckResponse& response() { return response_; }

 private:
  // Whether it can be read.
  absl::StatusOr<bool> CheckObject(const ObjectRef& ref, const std::string& whose) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, node_.objects.Stat(node_.domain, ref.id));
    response_.set_objects(response_.objects() + 1);
    response_.set_bytes(response_.bytes() + ref.length);
    std::string text =
        fmt::format("object {} (level {}, {} bytes)", ref.id.Hex(), ref.level, ref.length);
    if (!row || row->ref != ref) {
      Problem("missing", whose, text + (row ? " is here under another level or length" : ""));
      return false;
    }
    if (row->state == RowState::kQuarantined) {
      Problem("damaged", whose, text + " failed a check and is quarantined");
      return false;
    }
    return true;
  }

  absl::Status OneModel(CatalogSnapshot& snapshot, const std::string& ns, const std::string& name,
                        const v1::ModelHead& head) {
    uint64_t latest = 0, live = 0, deleted = 0;
    std::unordered_set<uint64_t> live_numbers;
    KeyRange range = VersionRange(ns, name);
    TILEKV_RETURN_IF_ERROR(
        VisitEntries(snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
          v1::VersionRecord record;
          if (!record.ParseFromString(entry.value)) return absl::OkStatus();  // told elsewhere
          if (record.deleted_micros() != 0) {
            ++deleted;
            return absl::OkStatus();
          }
          ++live;
          latest = record.number();
          live_numbers.insert(record.number());
          return absl::OkStatus();
        }));
    std::string whose = ModelText(ns, name);
    if (latest != head.latest() || live != head.live_versions() ||
        deleted != head.deleted_versions() || latest >= head.next_version()) {
      Problem("record", whose,
              fmt::format("the head says latest {}, {} live, {} deleted, next {}; its versions say "
                          "{}, {}, {}",
                          head.latest(), head.live_versions(), head.deleted_versions(),
                          head.next_version(), latest, live, deleted));
    }
    range = TagRange(ns, name);
    return VisitEntries(snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
      v1::TagRecord tag;
      if (!tag.ParseFromString(entry.value) || !live_numbers.contains(tag.number())) {
        Problem("record", whose,
                fmt::format("tag '{}' is on version {}, which is not there",
                            Printable(ParseModelKey(entry.key)->last), tag.number()));
      }
      return absl::OkStatus();
    });
  }

  NodeContext& node_;
  const CallContext& context_;
  v1::FsckResponse response_;
  std::unordered_set<ObjectId, ObjectIdHash> seen_;
};

}  // namespace

absl::StatusOr<v1::FsckResponse> RunFsck(NodeContext& node, const v1::FsckRequest& request,
                                         const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node.catalog.Snapshot());
  Check check(node, context);
  TILEKV_RETURN_IF_ERROR(check.Models(*snapshot));
  KeyRange range = AllVersionsRange();
  TILEKV_RETURN_IF_ERROR(
      VisitEntries(*snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
        check.response().set_versions(check.response().versions() + 1);
        auto parts = ParseModelKey(entry.key);
        VersionEntry version;
        if (!parts || !version.record.ParseFromString(entry.value) ||
            version.record.number() != parts->number) {
          check.Problem("record", Printable(entry.key), "a version's record that cannot be read");
          return absl::OkStatus();
        }
        version.ns = parts->ns;
        version.name = parts->name;
        return check.Reached(version.record.commit(), WhoseText(version));
      }));
  range = ValueRange({});
  TILEKV_RETURN_IF_ERROR(
      VisitEntries(*snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
        check.response().set_values(check.response().values() + 1);
        ValueEntry value;
        value.key = UserKey(entry.key);
        if (!value.record.ParseFromString(entry.value)) {
          check.Problem("record", WhoseText(value), "a value's record that cannot be read");
          return absl::OkStatus();
        }
        if (!value.record.has_object()) return absl::OkStatus();
        return check.Reached(value.record.object(), WhoseText(value));
      }));
  snapshot.reset();
  if (request.verify_content()) TILEKV_RETURN_IF_ERROR(check.Contents());
  return check.response();
}

}  // namespace tilekv
