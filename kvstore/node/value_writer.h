// ValueWriter: one put of a plain value in progress, as it comes in process and over the wire.
//
// 1. Begin reads the key. The revision found is the compare of the write; it is fixed here, told to
//    the client before anything is written, and the same in every retry (which brings it along).
// 2. A condition that is not met, and a retry whose first try succeeded (the record carries its
//    request id), are settled at once: what follows is taken and thrown away.
// 3. Content up to the catalog's inline_value_bytes() goes into the record; more becomes an object,
//    put in the node's rolling session, whose record the transaction compares. A chunked blob's
//    root is walked and linked like a commit.
// 4. A compare that fails: in a retry the outcome of the first try cannot be known any more,
//    OUTCOME_UNKNOWN. So it is for a retry that finds the key absent as at the first try: that may
//    have written it and another client deleted it, which leaves no trace, and writing again would
//    undo the deletion. In a first try it is an answer: not applied, and the version found. Where
//    the condition holds for that version, as every one does for an unconditional put, another
//    write came between and the client begins anew. The node never chooses another compare by
//    itself: the client may have gone on without it, and an old value would follow a newer one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/sessions.h"
#include "tilekv/v1/records.pb.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// For one thread at a time. Destroyed before Finish it leaves nothing visible.
class ValueWriter {
 public:
  // INVALID_ARGUMENT: key, condition or lengths wrong; OBJECT_TOO_LARGE when the declared length is
  // above the limit; OUTCOME_UNKNOWN, STORE_FULL, SESSION_LOST.
  static absl::StatusOr<std::unique_ptr<ValueWriter>> Begin(NodeContext& node, Sessions& sessions,
                                                            RollingSession& rolling,
                                                            const v1::PutValueHeader& header);
  // What the transaction will compare; 0: the key is absent.
  Revision compare() const { return compare_; }
  // OBJECT_TOO_LARGE at the first byte beyond the limit; INVALID_ARGUMENT beyond the declared
  // length. The session lives as long as bytes come: a put may take as long as it likes, but no
  // pause between two calls longer than the lease (SESSION_LOST).
  absl::Status Append(Bytes piece);
  absl::StatusOr<v1::PutValueOutcome> Finish(const CallContext& context = {});

 private:
  ValueWriter(NodeContext& node, Sessions& sessions, RollingSession& rolling,
              const v1::PutValueHeader& header)
      : node_(node), sessions_(sessions), rolling_(rolling), header_(header) {}

  absl::Status Start();
  absl::Status FixCompare();
  absl::Status OpenObject();
  absl::Status KeepSession();
  absl::Status CheckChunkedRoot(const CallContext& context);
  // Fills record_ and the compare that its object relies on.
  absl::Status StoreContent(const CallContext& context);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
  const v1::PutValueHeader header_;
  Revision compare_;
  std::optional<CatalogWrite> freed_;  // as KeyWrite's
  std::optional<v1::PutValueOutcome> settled_;
  std::string small_;  // content until it is too much to be inline
  std::shared_ptr<const RollingSession::Held> session_;
  int64_t renew_at_ns_ = 0;  // monotonic
  std::unique_ptr<ObjectWriter> object_;
  uint64_t received_ = 0;
  v1::ValueRecord record_;
  std::optional<Compare> session_compare_;
};

// 16 bytes.
absl::Status CheckRequestId(std::string_view request_id);

// The record of a plain value as it is in the catalog. DATA_LOSS when it is damaged.
absl::StatusOr<v1::ValueRecord> ParseValueRecord(const CatalogEntry& entry);

// One key's write.
struct KeyWrite {
  std::string key;  // the user's
  std::string request_id;
  v1::Condition condition;
  bool retry = false;  // an earlier try with this compare may have been applied
  Revision compare;
  std::optional<CatalogWrite> freed;  // of the object that the key names now
};
// Sends it; rules 2 and 4 above. CANCELLED and DEADLINE_EXCEEDED only before anything was sent.
absl::StatusOr<v1::PutValueOutcome> WriteKey(NodeContext& node, const KeyWrite& write,
                                             const v1::ValueRecord& record,
                                             const std::optional<Compare>& session,
                                             const CallContext& context);
// What has come of a write whose compare did not hold.
absl::StatusOr<v1::PutValueOutcome> SettleFailedCompare(NodeContext& node, const KeyWrite& write);
// SESSION_LOST of a put.
absl::Status SessionEnded(std::string_view key);
// What is known before anything is sent: the condition is not met, or an earlier try succeeded.
// Fills write.compare otherwise (not in a retry).
absl::StatusOr<std::optional<v1::PutValueOutcome>> FixKeyCompare(NodeContext& node,
                                                                 KeyWrite& write);

}  // namespace tilekv
