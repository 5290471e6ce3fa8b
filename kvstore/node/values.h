// Plain values: reading, listing, deleting. Puts: value_writer.h, batch_writer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Thread-safe.
class Values {
 public:
  explicit Values(NodeContext& node) : node_(node) {}

  absl::StatusOr<v1::GetValueResponse> Get(const std::string& key, bool with_content);
  absl::StatusOr<v1::DeleteValueResponse> Delete(const v1::DeleteValueRequest& request);
  absl::StatusOr<v1::ListValuesResponse> List(const v1::ListValuesRequest& request);
  // Contents of objects come whole, so the reply is bounded by kMaxBatchBytes: INVALID_ARGUMENT
  // beyond.
  absl::StatusOr<v1::BatchGetResponse> BatchGet(const v1::BatchGetRequest& request);

 private:
  // With the content of a blob of so many bytes at most.
  absl::StatusOr<v1::GetValueResponse> Read(const std::string& key,
                                            std::optional<uint64_t> content_up_to);

  NodeContext& node_;
};

}  // namespace tilekv
