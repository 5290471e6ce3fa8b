// BatchWriter: puts of several plain values together, each with its own condition and outcome.
//
// 1. Begin reads all keys and fixes their compares, which are told to the client before anything is
//    written, as of one value (value_writer.h).
// 2. Finish stores the contents that are not kept in records, small ones in one synced batch, and
//    writes all records in one transaction. A key whose compare does not hold is settled by itself
//    and the others go again without it. Where they are too many for one transaction each goes
//    alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/sessions.h"
#include "kvstore/node/value_writer.h"
#include "tilekv/v1/records.pb.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// For one thread at a time. Destroyed before Finish it leaves nothing visible.
class BatchWriter {
 public:
  // INVALID_ARGUMENT, OBJECT_TOO_LARGE: nothing of the batch is written. OUTCOME_UNKNOWN of a
  // retry.
  static absl::StatusOr<std::unique_ptr<BatchWriter>> Begin(NodeContext& node, Sessions& sessions,
                                                            RollingSession& rolling,
                                                            v1::BatchPutRequest request);
  const std::vector<uint64_t>& compares() const { return compares_; }
  // The outcomes. OUTCOME_UNKNOWN where some were written before an error; any other error but
  // those of a catalog that does not answer: nothing was.
  absl::StatusOr<v1::BatchPutResponse> Finish(const CallContext& context);

 private:
  struct Item {
    KeyWrite write;
    v1::ValueRecord record;
    std::optional<Compare> session;
    std::optional<v1::PutValueOutcome> outcome;
  };

  BatchWriter(NodeContext& node, Sessions& sessions, RollingSession& rolling,
              v1::BatchPutRequest request)
      : node_(node), sessions_(sessions), rolling_(rolling), request_(std::move(request)) {}

  absl::Status Check() const;
  absl::Status FixCompares();
  // Fills the records of the items that have no outcome.
  absl::Status StoreContents(const CallContext& context);
  // False: they do not fit into one transaction; nothing was written.
  absl::StatusOr<bool> WriteTogether(const CallContext& context);
  // One after another. OUTCOME_UNKNOWN when one fails after others were written.
  absl::Status WriteEach(const CallContext& context);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
  const v1::BatchPutRequest request_;
  std::vector<Item> items_;
  std::vector<uint64_t> compares_;
  // Of contents that were stored: held until the transaction, which they are kept by.
  std::shared_ptr<const RollingSession::Held> session_;
};

}  // namespace tilekv
