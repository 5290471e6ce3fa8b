// Plain values: reading, listing, deleting, batches. Puts of one value: value_writer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/node_service.h"
#include "kvstore/node/sessions.h"

namespace tilekv {

// Thread-safe.
class Values {
 public:
  Values(NodeContext& node, Sessions& sessions, RollingSession& rolling)
      : node_(node), sessions_(sessions), rolling_(rolling) {}

  absl::StatusOr<v1::GetValueResponse> Get(const std::string& key, bool with_content);
  absl::StatusOr<v1::DeleteValueResponse> Delete(const v1::DeleteValueRequest& request);
  absl::StatusOr<v1::ListValuesResponse> List(const v1::ListValuesRequest& request);
  // Contents of objects come whole, so the reply is bounded by kMaxBatchBytes: INVALID_ARGUMENT
  // beyond.
  absl::StatusOr<v1::BatchGetResponse> BatchGet(const v1::BatchGetRequest& request);
  // Compares are fixed for all items first; then contents are stored; then one transaction writes
  // all whose conditions are met, or, where one of them fails, each goes alone.
  absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                const NodeService::ComparesFixed& fixed,
                                                const CallContext& context);

 private:
  struct Item;
  // With the content of a blob of so many bytes at most.
  absl::StatusOr<v1::GetValueResponse> Read(const std::string& key,
                                            std::optional<uint64_t> content_up_to);
  absl::Status CheckBatch(const v1::BatchPutRequest& request);
  absl::Status StoreItem(Item& item, const std::string& content,
                         const std::shared_ptr<const RollingSession::Held>& session);
  // False: not all applied, nothing written.
  absl::StatusOr<bool> WriteTogether(std::vector<Item>& items);
  // One after another. OUTCOME_UNKNOWN when one fails after others were written.
  absl::Status WriteEach(std::vector<Item>& items);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
};

}  // namespace tilekv
