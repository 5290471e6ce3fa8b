// Commit: makes a version of a model visible, or does nothing.
//
// 1. The commit id was drawn by the client before its first try. If `commits/<id>` exists, an
//    earlier try succeeded: that is the answer, whatever has happened to the version since. An id
//    used for another model or another root is INVALID_ARGUMENT.
// 2. The session record must be there with the revision that the client was told; the base's record
//    too, where there is a base.
// 3. Every tree of the new version is read and checked, except trees of the base: what they reach
//    stays while the base's record does, and the transaction compares that it does.
// 4. Everything else is linked at the session's revision. Something is not there: TOO_FEW_COPIES
//    names it. Clients' own acknowledgements are not asked for.
// 5. The commit's tree is stored, and one transaction compares commit id absent, session, base and
//    head as read, and writes head, version, commit id and tags.
// 6. If it does not apply, 1 is asked again first. A changed head: the condition is looked at again
//    (not met: a result), else the next number is tried.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/sessions.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

struct CommitPlan {
  SessionHandle session;
  std::string commit_id;
  std::string ns;
  std::string name;
  ObjectRef root;
  std::optional<ObjectRef> sources;
  v1::Condition if_latest;
  std::optional<v1::VersionName> base;
  std::vector<std::string> tags;
  std::string message;
  std::string author;
  uint64_t logical_bytes = 0;
  uint64_t tensor_count = 0;
};

// Thread-safe.
class Committer {
 public:
  Committer(NodeContext& node, Sessions& sessions, RollingSession& rolling)
      : node_(node), sessions_(sessions), rolling_(rolling) {}

  absl::StatusOr<v1::CommitResponse> Commit(const v1::CommitRequest& request,
                                            const CallContext& context);
  // A version of the target on the source's root: a commit whose base is the source.
  absl::StatusOr<v1::CommitResponse> Copy(const v1::CopyVersionRequest& request,
                                          const CallContext& context);

 private:
  absl::StatusOr<v1::CommitResponse> Run(const CommitPlan& plan, const CallContext& context);
  // The answer of an earlier try that succeeded.
  absl::StatusOr<std::optional<v1::CommitResponse>> FindDone(const CommitPlan& plan);
  absl::StatusOr<Compare> CompareForBase(const v1::VersionName& base, VersionState& found);
  absl::Status LinkNew(const CommitPlan& plan, const VersionState* base,
                       const CallContext& context);
  // None: the head changed meanwhile.
  absl::StatusOr<std::optional<v1::CommitResponse>> TryOnce(const CommitPlan& plan,
                                                            const std::vector<Compare>& compares);
  absl::StatusOr<v1::VersionRecord> StoreCommitTree(const CommitPlan& plan, const HeadState& head);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
};

// Links everything, in batches. TOO_FEW_COPIES names what is not there; `missing` (of trees that
// could not even be read) is named with it.
absl::Status LinkAll(NodeContext& node, std::vector<ObjectRef> refs, std::vector<ObjectRef> missing,
                     Revision session_rev, const CallContext& context);

}  // namespace tilekv
