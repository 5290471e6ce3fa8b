// Models, their versions and tags: listing, resolving, changing. New versions: commit.h.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/model_name.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/node_context.h"

namespace tilekv {

// Thread-safe.
class Models {
 public:
  explicit Models(NodeContext& node) : node_(node) {}

  absl::StatusOr<v1::ListModelsResponse> List(const v1::ListModelsRequest& request);
  // A digest that two different roots begin with is INVALID_ARGUMENT and names both.
  absl::StatusOr<v1::ResolveVersionResponse> Resolve(const v1::ResolveVersionRequest& request);
  absl::StatusOr<v1::ListVersionsResponse> ListVersions(const v1::ListVersionsRequest& request);
  // NOT_FOUND when the version is not there or deleted.
  absl::StatusOr<v1::SetTagResponse> SetTag(const v1::SetTagRequest& request);
  absl::StatusOr<v1::RemoveTagResponse> RemoveTag(const v1::RemoveTagRequest& request);
  absl::StatusOr<v1::DeleteVersionsResponse> Delete(const v1::DeleteVersionsRequest& request);
  absl::StatusOr<v1::UndeleteVersionResponse> Undelete(const v1::UndeleteVersionRequest& request);
  // Head, versions and tags under another name, in one transaction. INVALID_ARGUMENT where there
  // are more of them than kMaxMovedRecords.
  absl::StatusOr<v1::MoveModelResponse> Move(const v1::MoveModelRequest& request);

  // The collector's step: purges one deleted version if its record is still the one that was read.
  // False: it is not.
  absl::StatusOr<bool> Purge(const std::string& ns, const std::string& name, uint64_t number,
                             Revision mod);

 private:
  // None: one of the heads changed meanwhile.
  absl::StatusOr<std::optional<v1::MoveModelResponse>> TryMove(const v1::MoveModelRequest& request);
  absl::StatusOr<std::optional<v1::VersionRecord>> Select(const std::string& ns,
                                                          const std::string& name,
                                                          const HeadState& head,
                                                          const VersionSelector& selector,
                                                          bool with_deleted);
  absl::StatusOr<std::optional<v1::VersionRecord>> SelectByDigest(const std::string& ns,
                                                                  const std::string& name,
                                                                  const HeadState& head,
                                                                  const std::string& digits,
                                                                  bool with_deleted);
  absl::StatusOr<v1::ModelInfo> Describe(const std::string& ns, const std::string& name,
                                         const HeadState& head);
  absl::StatusOr<bool> PlanDelete(const v1::DeleteVersionsRequest& request, HeadState& head,
                                  CatalogTxn& txn, v1::DeleteVersionsResponse& response);

  NodeContext& node_;
};

}  // namespace tilekv
