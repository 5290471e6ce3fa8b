#include "kvstore/node/fsck.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/references.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/object/copy_check.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int kMaxListedProblems = 1'000;
constexpr size_t kMaxListedOfOneName = 100;  // so that others are listed too
constexpr size_t kRowsAtOnce = 1'024;        // between two looks at the rows

// What the versions of a model say that its head should say.
struct VersionCounts {
  uint64_t latest = 0;
  uint64_t highest = 0;
  uint64_t deleted = 0;
  std::unordered_set<uint64_t> live;  // numbers
};
absl::StatusOr<VersionCounts> CountVersions(CatalogSnapshot& snapshot, const std::string& ns,
                                            const std::string& name) {
  VersionCounts counts;
  KeyRange range = VersionRange(ns, name);
  TILEKV_RETURN_IF_ERROR(
      VisitEntries(snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
        v1::VersionRecord record;
        if (!record.ParseFromString(entry.value)) return absl::OkStatus();  // told elsewhere
        counts.highest = record.number();
        if (record.deleted_micros() != 0) {
          ++counts.deleted;
          return absl::OkStatus();
        }
        counts.latest = record.number();
        counts.live.insert(record.number());
        return absl::OkStatus();
      }));
  return counts;
}

// Sets the head right. False: there is none.
absl::StatusOr<bool> RecountModel(NodeContext& node, const std::string& ns,
                                  const std::string& name) {
  auto plan = [&](HeadState& head, CatalogTxn&) -> absl::StatusOr<bool> {
    if (!head.exists) return false;
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node.catalog.Snapshot());
    TILEKV_ASSIGN_OR_RETURN(VersionCounts counts, CountVersions(*snapshot, ns, name));
    head.head.set_latest(counts.latest);
    head.head.set_live_versions(counts.live.size());
    head.head.set_deleted_versions(counts.deleted);
    head.head.set_next_version(std::max(head.head.next_version(), counts.highest + 1));
    return true;
  };
  return ChangeModel(node, ns, name, TxnPurpose::kRemove, plan);
}

class Check {
 public:
  Check(NodeContext& node, bool repair, const CallContext& context)
      : node_(node), repair_(repair), context_(context) {}

  enum class Outcome { kFound, kRepaired };
  void Problem(std::string kind, std::string where, std::string text,
               Outcome outcome = Outcome::kFound) {
    bool repaired = outcome == Outcome::kRepaired;
    response_.set_repaired_count(response_.repaired_count() + repaired);
    v1::FsckProblem* problem = AddProblem(std::move(kind), std::move(where), std::move(text));
    if (problem != nullptr) problem->set_repaired(repaired);
  }

  // Rows, files and counts. What is wrong with an object is told with the names that need it.
  absl::Status Copies() {
    return node_.objects.CheckCopies(
        node_.domain, repair_,
        [this](const CopyProblem& problem) {
          if (problem.id && !problem.repaired) {
            bad_[*problem.id] = {problem.kind, problem.text};
            return;
          }
          Problem(problem.kind,
                  problem.id ? fmt::format("object {}", problem.id->Hex()) : std::string("store"),
                  problem.text, problem.repaired ? Outcome::kRepaired : Outcome::kFound);
        },
        context_);
  }

  // A name's record, so that what it needs is not known.
  void UnreadableRecord(std::string where, std::string text) {
    all_names_read_ = false;
    Problem("record", std::move(where), std::move(text));
  }

  absl::Status CatalogLog() {
    TILEKV_ASSIGN_OR_RETURN(uint64_t log, node_.catalog.LogInDoubt());
    if (log == 0) return absl::OkStatus();
    all_names_read_ = false;
    Problem("log", "catalog",
            fmt::format(
                "an opening left out the end of the catalog's log (catalog/DROPPED-{}), which was "
                "torn or damaged: the newest names may be missing. Nothing is collected "
                "until somebody has looked: 'tilekv store gc' says how",
                log));
    return absl::OkStatus();
  }

  // Every content was read: all that names need is here.
  bool NothingIsMissing() const { return all_names_read_ && response_.lost_count() == 0; }

  // Bad copies that no name needs.
  void Unneeded() {
    for (const auto& [id, bad] : bad_) {
      if (seen_.contains(id)) continue;
      Problem(bad.kind, fmt::format("object {}", id.Hex()), bad.text + "; no name needs it");
    }
  }

  absl::Status Reached(const v1::ObjectRef& message, const std::string& whose) {
    absl::StatusOr<ObjectRef> root = ObjectRefFromWire(message);
    if (!root.ok()) {
      UnreadableRecord(whose, std::string(root.status().message()));
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectId> lost, LostFrom(*root));
    for (size_t i = 0; i < lost.size(); ++i) Lost(lost_.at(lost[i]), whose, i);
    return absl::OkStatus();
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

  // Reads every object, or, without `all`, those that are not good: a disk that failed for a while
  // gives them back.
  absl::Status Contents(bool all) {
    TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, node_.objects.Usage());
    std::optional<ObjectId> after;
    while (true) {
      std::vector<ObjectRow> rows;
      absl::Status scanned = node_.objects.Scan(node_.domain, after, [&rows](const ObjectRow& row) {
        rows.push_back(row);
        return rows.size() < kRowsAtOnce;
      });
      // Told by the check of copies.
      bool damaged = GetReason(scanned) == Reason::kDataLoss;
      if (!damaged) TILEKV_RETURN_IF_ERROR(scanned);
      if (!rows.empty()) {
        after = rows.back().ref.id;
      } else if (damaged) {
        after = StepAbove(after, usage.objects);
      }
      if (rows.empty() && (!damaged || !after.has_value())) return absl::OkStatus();
      TILEKV_RETURN_IF_ERROR(context_.Check());
      for (const ObjectRow& row : rows) {
        if (!all && row.state == RowState::kGood) continue;
        TILEKV_RETURN_IF_ERROR(context_.Check());
        TILEKV_RETURN_IF_ERROR(OneContent(row));
      }
    }
  }

  v1::FsckResponse& response() { return response_; }

 private:
  struct Bad {
    std::string kind;
    std::string text;
    bool counted = false;  // as lost
  };

  // None where no more are listed.
  v1::FsckProblem* AddProblem(std::string kind, std::string where, std::string text) {
    response_.set_problem_count(response_.problem_count() + 1);
    if (response_.problems_size() == kMaxListedProblems) return nullptr;
    v1::FsckProblem& problem = *response_.add_problems();
    problem.set_kind(std::move(kind));
    problem.set_where(std::move(where));
    problem.set_text(std::move(text));
    return &problem;
  }

  // The n-th object, from 0, that this name needs and that cannot be read.
  void Lost(Bad& bad, const std::string& whose, size_t n) {
    if (!bad.counted) response_.set_lost_count(response_.lost_count() + 1);
    bad.counted = true;
    if (n >= kMaxListedOfOneName) {
      response_.set_problem_count(response_.problem_count() + 1);
      return;
    }
    v1::FsckProblem* problem = AddProblem(bad.kind, whose, bad.text);
    if (problem != nullptr) problem->set_lost(true);
  }

  // What cannot be read of this object and all below it. Each object is looked at once, however
  // many names need it. As deep as there are levels.
  absl::StatusOr<std::vector<ObjectId>> LostFrom(const ObjectRef& ref) {
    if (seen_.insert(ref.id).second) {
      TILEKV_ASSIGN_OR_RETURN(bool there, CheckObject(ref));
      if (there && ref.level > 0) TILEKV_RETURN_IF_ERROR(CheckBelow(ref));
    }
    if (lost_.contains(ref.id)) return std::vector{ref.id};
    auto below = lost_below_.find(ref.id);
    return below == lost_below_.end() ? std::vector<ObjectId>() : below->second;
  }

  absl::Status CheckBelow(const ObjectRef& tree) {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    absl::StatusOr<std::vector<ObjectRef>> children = ReadTreeChildren(node_, tree);
    if (!children.ok()) {
      bool no_tree = GetReason(children.status()) == Reason::kInvalidArgument;
      lost_[tree.id] = {no_tree ? "tree" : "damaged",
                        fmt::format("tree {}: {}", tree.id.Hex(), ErrorText(children.status()))};
      return absl::OkStatus();
    }
    std::vector<ObjectId> below;
    std::unordered_set<ObjectId, ObjectIdHash> once;
    for (const ObjectRef& child : *children) {
      TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectId> lost, LostFrom(child));
      for (const ObjectId& id : lost) {
        if (once.insert(id).second) below.push_back(id);
      }
    }
    if (!below.empty()) lost_below_[tree.id] = std::move(below);
    return absl::OkStatus();
  }

  absl::Status OneContent(const ObjectRow& row) {
    absl::StatusOr<bool> good = node_.objects.Verify(node_.domain, row.ref.id);
    // Swept meanwhile.
    if (GetReason(good.status()) == Reason::kNotFound) return absl::OkStatus();
    TILEKV_RETURN_IF_ERROR(good.status());
    if (!*good) {
      bad_.try_emplace(row.ref.id, Bad{"damaged", "cannot be read, or does not hash to its id"});
    } else if (row.state != RowState::kGood) {
      Problem("damaged", fmt::format("object {}", row.ref.id.Hex()),
              fmt::format("was {} and passes its check again",
                          row.state == RowState::kSuspect ? "suspect" : "quarantined"),
              Outcome::kRepaired);
    }
    return absl::OkStatus();
  }

  // Whether it can be read. Else it is lost.
  absl::StatusOr<bool> CheckObject(const ObjectRef& ref) {
    absl::StatusOr<std::optional<ObjectRow>> found = node_.objects.Stat(node_.domain, ref.id);
    bool readable = GetReason(found.status()) != Reason::kDataLoss;
    if (readable) TILEKV_RETURN_IF_ERROR(found.status());
    std::optional<ObjectRow> row = readable ? *found : std::nullopt;
    response_.set_objects(response_.objects() + 1);
    response_.set_bytes(response_.bytes() + ref.length);
    std::string text =
        fmt::format("object {} (level {}, {} bytes)", ref.id.Hex(), ref.level, ref.length);
    if (!readable) {
      lost_[ref.id] = {std::string(kIndexProblem), text + ": " + ErrorText(found.status())};
      return false;
    }
    if (!row || row->ref != ref) {
      lost_[ref.id] = {"missing", text + (row ? " is here under another level or length" : "")};
      return false;
    }
    if (auto bad = bad_.find(ref.id); bad != bad_.end()) {
      lost_[ref.id] = {bad->second.kind, text + ": " + bad->second.text};
      return false;
    }
    if (row->state == RowState::kQuarantined) {
      lost_[ref.id] = {"damaged", text + " failed a check and is quarantined"};
      return false;
    }
    return true;
  }

  absl::Status OneModel(CatalogSnapshot& snapshot, const std::string& ns, const std::string& name,
                        const v1::ModelHead& head) {
    TILEKV_ASSIGN_OR_RETURN(VersionCounts counts, CountVersions(snapshot, ns, name));
    std::string whose = ModelText(ns, name);
    if (counts.latest != head.latest() || counts.live.size() != head.live_versions() ||
        counts.deleted != head.deleted_versions() || counts.highest >= head.next_version()) {
      Outcome outcome = Outcome::kFound;
      if (repair_) {
        TILEKV_ASSIGN_OR_RETURN(bool repaired, RecountModel(node_, ns, name));
        if (repaired) outcome = Outcome::kRepaired;
      }
      Problem("record", whose,
              fmt::format("the head says latest {}, {} live, {} deleted, next {}; its versions say "
                          "{}, {}, {}",
                          head.latest(), head.live_versions(), head.deleted_versions(),
                          head.next_version(), counts.latest, counts.live.size(), counts.deleted),
              outcome);
    }
    KeyRange range = TagRange(ns, name);
    return VisitEntries(
        snapshot, range.start, range.end, [&](const CatalogEntry& entry) -> absl::Status {
          v1::TagRecord tag;
          if (tag.ParseFromString(entry.value) && counts.live.contains(tag.number())) {
            return absl::OkStatus();
          }
          Outcome outcome = Outcome::kFound;
          if (repair_) {
            TILEKV_ASSIGN_OR_RETURN(
                TxnResult removed,
                node_.Txn({.compares = {Compare::Mod(entry.key, entry.mod_revision)},
                           .writes = {CatalogWrite::Delete(entry.key)}},
                          TxnPurpose::kRemove));
            if (removed.applied) outcome = Outcome::kRepaired;
          }
          Problem("record", whose,
                  fmt::format("tag '{}' is on version {}, which is not there",
                              Printable(ParseModelKey(entry.key)->last), tag.number()),
                  outcome);
          return absl::OkStatus();
        });
  }

  NodeContext& node_;
  const bool repair_;
  const CallContext& context_;
  bool all_names_read_ = true;
  std::unordered_map<ObjectId, Bad, ObjectIdHash> bad_;  // whose copies cannot be used
  v1::FsckResponse response_;
  std::unordered_set<ObjectId, ObjectIdHash> seen_;       // that names need
  std::unordered_map<ObjectId, Bad, ObjectIdHash> lost_;  // of these, what cannot be read
  // Of trees: what of these is below.
  std::unordered_map<ObjectId, std::vector<ObjectId>, ObjectIdHash> lost_below_;
};

}  // namespace

absl::StatusOr<v1::FsckResponse> RunFsck(NodeContext& node, const v1::FsckRequest& request,
                                         const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node.catalog.Snapshot());
  Check check(node, request.repair(), context);
  TILEKV_RETURN_IF_ERROR(check.Copies());
  TILEKV_RETURN_IF_ERROR(check.CatalogLog());
  if (request.verify_content() || request.repair()) {
    TILEKV_RETURN_IF_ERROR(check.Contents(request.verify_content()));
  }
  TILEKV_RETURN_IF_ERROR(check.Models(*snapshot));
  KeyRange range = AllVersionsRange();
  TILEKV_RETURN_IF_ERROR(
      VisitEntries(*snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
        check.response().set_versions(check.response().versions() + 1);
        auto parts = ParseModelKey(entry.key);
        VersionEntry version;
        if (!parts || !version.record.ParseFromString(entry.value) ||
            version.record.number() != parts->number) {
          check.UnreadableRecord(Printable(entry.key), "a version's record that cannot be read");
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
          check.UnreadableRecord(WhoseText(value), "a value's record that cannot be read");
          return absl::OkStatus();
        }
        if (!value.record.has_object()) return absl::OkStatus();
        return check.Reached(value.record.object(), WhoseText(value));
      }));
  check.Unneeded();
  if (request.verify_content() && check.NothingIsMissing()) {
    TILEKV_RETURN_IF_ERROR(node.objects.NothingIsMissing());
  }
  return check.response();
}

}  // namespace tilekv
