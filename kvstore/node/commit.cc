#include "kvstore/node/commit.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/model_name.h"
#include "kvstore/node/commit_tree.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr size_t kMissingNamed = 10;

absl::Status CheckPlan(const CommitPlan& plan) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", plan.ns));
  TILEKV_RETURN_IF_ERROR(CheckName("model", plan.name));
  if (plan.commit_id.size() != kCommitIdBytes) {
    return MakeError(Reason::kInvalidArgument, fmt::format("a commit id has {} bytes, not {}",
                                                           kCommitIdBytes, plan.commit_id.size()));
  }
  if (plan.root.level >= kCommitTreeLevel ||
      (plan.sources && plan.sources->level >= kCommitTreeLevel)) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("root and sources of a version have levels below {}", kCommitTreeLevel));
  }
  if (plan.message.size() > kMaxCommitMessageBytes || plan.author.size() > kMaxCommitAuthorBytes) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("message ({} bytes) or author ({} bytes) too long: at most {} and "
                                 "{} bytes",
                                 plan.message.size(), plan.author.size(), kMaxCommitMessageBytes,
                                 kMaxCommitAuthorBytes));
  }
  // A record with other bytes in a text field is written, and then cannot be read.
  for (const auto& [what, text] : {std::pair("message", &plan.message), {"author", &plan.author}}) {
    if (IsValidUtf8(*text)) continue;
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the {} of a version is text in UTF-8, and '{}' is not", what,
                                 Printable(*text)));
  }
  if (plan.tags.size() > kMaxTagsPerCommit) {
    return MakeError(Reason::kInvalidArgument, fmt::format("{} tags in one commit; at most {}",
                                                           plan.tags.size(), kMaxTagsPerCommit));
  }
  for (const std::string& tag : plan.tags) TILEKV_RETURN_IF_ERROR(CheckTag(tag));
  return absl::OkStatus();
}

std::string ListIds(const std::vector<ObjectRef>& refs) {
  std::string text;
  for (size_t i = 0; i < std::min(refs.size(), kMissingNamed); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", refs[i].id.Hex());
  }
  if (refs.size() > kMissingNamed) text += fmt::format(" and {} more", refs.size() - kMissingNamed);
  return text;
}

// Trees that a base's record keeps, and its roots.
using IdSet = std::unordered_set<ObjectId, ObjectIdHash>;

absl::StatusOr<IdSet> TreesOf(NodeContext& node, const ObjectRef& commit,
                              const CallContext& context) {
  IdSet trees;
  TreeVisitor visitor;
  visitor.visit = [&trees](const ObjectRef& ref) {
    if (ref.level > 0) trees.insert(ref.id);
    return ref.level > 1;  // below a level 1 tree are blobs only
  };
  TILEKV_RETURN_IF_ERROR(TreeWalk(node).Walk(commit, visitor, context));
  return trees;
}

}  // namespace

absl::Status LinkAll(NodeContext& node, std::vector<ObjectRef> refs, std::vector<ObjectRef> missing,
                     Revision session_rev, const CallContext& context) {
  std::sort(refs.begin(), refs.end());
  refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
  std::span<const ObjectRef> rest(refs);
  while (!rest.empty()) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    auto some = rest.first(std::min(rest.size(), kMaxBatchOperations));
    rest = rest.subspan(some.size());
    TILEKV_ASSIGN_OR_RETURN(std::vector<LinkResult> linked,
                            node.objects.Link(node.domain, some, session_rev));
    for (size_t i = 0; i < some.size(); ++i) {
      if (!linked[i].present) missing.push_back(some[i]);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return MakeError(
      Reason::kTooFewCopies,
      fmt::format("{} of the objects named are not here: {}. Link them and send what is "
                  "missing, then commit again",
                  missing.size(), ListIds(missing)));
}

absl::StatusOr<v1::CommitResponse> Committer::Commit(const v1::CommitRequest& request,
                                                     const CallContext& context) {
  CommitPlan plan;
  plan.session = {request.token(), {request.session_rev()}};
  plan.commit_id = request.commit_id();
  plan.ns = request.ns();
  plan.name = request.name();
  TILEKV_ASSIGN_OR_RETURN(plan.root, ObjectRefFromWire(request.root()));
  if (request.has_sources()) {
    TILEKV_ASSIGN_OR_RETURN(plan.sources, ObjectRefFromWire(request.sources()));
  }
  plan.if_latest = request.if_latest();
  if (request.has_base()) plan.base = request.base();
  plan.tags.assign(request.tags().begin(), request.tags().end());
  plan.message = request.message();
  plan.author = request.author();
  plan.logical_bytes = request.logical_bytes();
  plan.tensor_count = request.tensor_count();
  return Run(plan, context);
}

absl::StatusOr<v1::CommitResponse> Committer::Copy(const v1::CopyVersionRequest& request,
                                                   const CallContext& context) {
  CommitPlan plan;
  plan.commit_id = request.commit_id();
  plan.ns = request.ns();
  plan.name = request.name();
  plan.if_latest = request.if_latest();
  plan.base = request.source();
  plan.tags.assign(request.tags().begin(), request.tags().end());
  plan.message = request.message();
  plan.author = request.author();
  TILEKV_RETURN_IF_ERROR(CheckPlan(plan));
  // Before the source is looked at: it may be gone since the try that succeeded.
  TILEKV_ASSIGN_OR_RETURN(std::optional<v1::CommitResponse> done, FindDone(plan));
  if (done) return *std::move(done);

  VersionState source;
  TILEKV_RETURN_IF_ERROR(CompareForBase(request.source(), source).status());
  if (!source.live()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("version {} of {} is deleted", request.source().number(),
                                 ModelText(request.source().ns(), request.source().name())));
  }
  TILEKV_ASSIGN_OR_RETURN(ObjectRef commit_ref, ObjectRefFromWire(source.record.commit()));
  TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectRef> children, ReadTreeChildren(node_, commit_ref));
  TILEKV_ASSIGN_OR_RETURN(plan.root, ObjectRefFromWire(source.record.root()));
  if (children.size() > 1) plan.sources = children[1];
  plan.logical_bytes = source.record.logical_bytes();
  plan.tensor_count = source.record.tensor_count();
  TILEKV_ASSIGN_OR_RETURN(auto held, rolling_.Acquire());
  plan.session = held->handle();
  return Run(plan, context);
}

absl::StatusOr<v1::CommitResponse> Committer::Run(const CommitPlan& plan,
                                                  const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckPlan(plan));
  TILEKV_ASSIGN_OR_RETURN(std::optional<v1::CommitResponse> done, FindDone(plan));
  if (done) return *std::move(done);

  std::vector<Compare> compares{Compare::Absent(CommitKey(plan.commit_id))};
  TILEKV_ASSIGN_OR_RETURN(Compare session,
                          sessions_.CompareFor(plan.session.token, plan.session.revision));
  compares.push_back(std::move(session));
  VersionState base;
  if (plan.base) {
    TILEKV_ASSIGN_OR_RETURN(Compare compare, CompareForBase(*plan.base, base));
    compares.push_back(std::move(compare));
  }
  TILEKV_RETURN_IF_ERROR(LinkNew(plan, plan.base ? &base : nullptr, context));
  TILEKV_CRASH_POINT("commit.linked");
  for (int tries = 0; tries < kMaxTransactionTries; ++tries) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_ASSIGN_OR_RETURN(std::optional<v1::CommitResponse> response, TryOnce(plan, compares));
    if (response) return *std::move(response);
  }
  return TooManyTries(fmt::format("model {}", ModelText(plan.ns, plan.name)));
}

absl::StatusOr<std::optional<v1::CommitResponse>> Committer::FindDone(const CommitPlan& plan) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry,
                          node_.catalog.Get(CommitKey(plan.commit_id)));
  if (!entry) return std::nullopt;
  v1::CommitRecord record;
  if (!record.ParseFromString(entry->value)) {
    return MakeError(Reason::kDataLoss, "the catalog's record of the commit is damaged");
  }
  bool same_root = true;
  if (record.has_root() && plan.root != ObjectRef{}) {  // a copy does not know its root yet
    TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(record.root()));
    same_root = root == plan.root;
  }
  if (record.ns() != plan.ns || record.name() != plan.name || !same_root) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the commit id was used for version {} of {} already{}; a commit "
                                 "has an id of its own",
                                 record.number(), ModelText(record.ns(), record.name()),
                                 same_root ? "" : ", with another root"));
  }
  TILEKV_ASSIGN_OR_RETURN(HeadState head, ReadHead(node_, plan.ns, plan.name));
  TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                          ReadVersion(node_, plan.ns, plan.name, record.number()));
  v1::VersionRecord number_only;  // of a version that was purged since
  number_only.set_number(record.number());
  v1::CommitResponse response;
  response.set_applied(true);
  TILEKV_ASSIGN_OR_RETURN(
      *response.mutable_version(),
      MakeVersionInfo(node_, plan.ns, plan.name, head, version ? version->record : number_only));
  return response;
}

absl::StatusOr<Compare> Committer::CompareForBase(const v1::VersionName& base,
                                                  VersionState& found) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", base.ns()));
  TILEKV_RETURN_IF_ERROR(CheckName("model", base.name()));
  TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                          ReadVersion(node_, base.ns(), base.name(), base.number()));
  if (!version) {
    return MakeError(Reason::kNotFound,
                     fmt::format("the base, version {} of {}, does not exist", base.number(),
                                 ModelText(base.ns(), base.name())));
  }
  found = *std::move(version);
  return Compare::Created(VersionKey(base.ns(), base.name(), base.number()), found.create);
}

absl::Status Committer::LinkNew(const CommitPlan& plan, const VersionState* base,
                                const CallContext& context) {
  std::vector<ObjectRef> roots{plan.root};
  if (plan.sources) roots.push_back(*plan.sources);
  IdSet base_trees;
  if (base != nullptr) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef commit, ObjectRefFromWire(base->record.commit()));
    TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectRef> kept, ReadTreeChildren(node_, commit));
    std::erase_if(roots, [&kept](const ObjectRef& root) {
      return std::find(kept.begin(), kept.end(), root) != kept.end();
    });
    if (roots.empty()) return absl::OkStatus();
    TILEKV_ASSIGN_OR_RETURN(base_trees, TreesOf(node_, commit, context));
  }
  std::vector<ObjectRef> refs;
  std::vector<ObjectRef> missing;
  TreeVisitor visitor;
  visitor.visit = [&](const ObjectRef& ref) {
    if (base_trees.contains(ref.id)) return false;
    refs.push_back(ref);
    return true;
  };
  visitor.unreadable = [&](const ObjectRef& ref, const absl::Status& status) {
    Reason reason = GetReason(status);
    if (reason != Reason::kNotFound && reason != Reason::kDataLoss) return status;
    missing.push_back(ref);
    return absl::OkStatus();
  };
  TreeWalk walk(node_);
  for (const ObjectRef& root : roots) TILEKV_RETURN_IF_ERROR(walk.Walk(root, visitor, context));
  return LinkAll(node_, std::move(refs), std::move(missing), plan.session.revision, context);
}

absl::StatusOr<v1::VersionRecord> Committer::StoreCommitTree(const CommitPlan& plan,
                                                             const HeadState& head) {
  CommitTree commit;
  commit.number = std::max<uint64_t>(head.head.next_version(), 1);
  commit.commit_id = plan.commit_id;
  commit.line_id = node_.line_id();
  commit.previous_commit_id = std::string(kCommitIdBytes, '\0');
  TILEKV_RETURN_IF_ERROR(
      VisitVersionsDown(node_, plan.ns, plan.name, head, 0, [&commit](const VersionState& version) {
        if (version.record.commit_id().size() == kCommitIdBytes) {
          commit.previous_commit_id = version.record.commit_id();
        }
        return false;
      }));
  commit.created_micros = node_.clock.WallMicros();
  commit.logical_bytes = plan.logical_bytes;
  commit.tensor_count = plan.tensor_count;
  commit.ns = plan.ns;
  commit.name = plan.name;
  if (plan.base) {
    commit.base_number = plan.base->number();
    commit.base_ns = plan.base->ns();
    commit.base_name = plan.base->name();
  }
  commit.message = plan.message;
  commit.author = plan.author;
  commit.root = plan.root;
  commit.sources = plan.sources;
  TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, PutTree(node_, ToTree(commit), plan.session.revision));

  v1::VersionRecord record;
  record.set_number(commit.number);
  ObjectRefToWire(ref, record.mutable_commit());
  ObjectRefToWire(plan.root, record.mutable_root());
  record.set_commit_id(plan.commit_id);
  record.set_created_micros(commit.created_micros);
  record.set_message(plan.message);
  record.set_author(plan.author);
  record.set_logical_bytes(plan.logical_bytes);
  record.set_tensor_count(plan.tensor_count);
  // The number alone: only where it is of this model.
  if (plan.base && plan.base->ns() == plan.ns && plan.base->name() == plan.name) {
    record.set_base_number(plan.base->number());
  }
  return record;
}

absl::StatusOr<std::optional<v1::CommitResponse>> Committer::TryOnce(
    const CommitPlan& plan, const std::vector<Compare>& compares) {
  TILEKV_ASSIGN_OR_RETURN(HeadState head, ReadHead(node_, plan.ns, plan.name));
  v1::CommitResponse response;
  if (!ConditionHolds(plan.if_latest, head.head.latest())) {
    // An earlier try of this very commit may be what made the condition untrue.
    TILEKV_ASSIGN_OR_RETURN(std::optional<v1::CommitResponse> done, FindDone(plan));
    if (done) return done;
    response.set_latest_found(head.head.latest());
    return response;
  }
  TILEKV_ASSIGN_OR_RETURN(v1::VersionRecord record, StoreCommitTree(plan, head));
  TILEKV_CRASH_POINT("commit.tree_stored");
  uint64_t number = record.number();
  if (!head.exists) head.head.set_incarnation(node_.random.Bytes(16));
  head.head.set_next_version(number + 1);
  head.head.set_latest(number);
  head.head.set_live_versions(head.head.live_versions() + 1);

  v1::CommitRecord done_record;
  done_record.set_ns(plan.ns);
  done_record.set_name(plan.name);
  done_record.set_number(number);
  done_record.set_created_micros(record.created_micros());
  ObjectRefToWire(plan.root, done_record.mutable_root());
  CatalogTxn txn;
  txn.compares = compares;
  AddHead(txn, plan.ns, plan.name, head);
  txn.writes.push_back(
      CatalogWrite::Put(VersionKey(plan.ns, plan.name, number), record.SerializeAsString()));
  txn.writes.push_back(
      CatalogWrite::Put(CommitKey(plan.commit_id), done_record.SerializeAsString()));
  v1::TagRecord tag_record;
  tag_record.set_number(number);
  tag_record.set_moved_micros(record.created_micros());
  std::vector<std::string> tags = plan.tags;
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  for (const std::string& tag : tags) {
    txn.writes.push_back(
        CatalogWrite::Put(TagKey(plan.ns, plan.name, tag), tag_record.SerializeAsString()));
  }
  TILEKV_CRASH_POINT("commit.before_transaction");
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, node_.Txn(std::move(txn)));
  TILEKV_CRASH_POINT("commit.after_transaction");
  if (result.applied) {
    response.set_applied(true);
    v1::VersionInfo& info = *response.mutable_version();
    info.set_ns(plan.ns);
    info.set_name(plan.name);
    *info.mutable_record() = std::move(record);
    info.set_latest(true);
    for (std::string& tag : tags) info.add_tags(std::move(tag));
    return response;
  }
  TILEKV_ASSIGN_OR_RETURN(std::optional<v1::CommitResponse> done, FindDone(plan));
  if (done) return done;
  // In the order of `compares`: commit id, session, base; then the head.
  if (result.failed_compare == 1u) {
    TILEKV_RETURN_IF_ERROR(
        sessions_.CompareFor(plan.session.token, plan.session.revision).status());
  }
  if (plan.base && result.failed_compare == 2u) {
    VersionState found;
    TILEKV_RETURN_IF_ERROR(CompareForBase(*plan.base, found).status());
  }
  return std::nullopt;
}

}  // namespace tilekv
