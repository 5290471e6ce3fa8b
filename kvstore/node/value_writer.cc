#include "kvstore/node/value_writer.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/commit.h"
#include "kvstore/node/freed.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/node/value_errors.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int64_t kRenewEvery_ns = kSessionLease_s * 1'000'000'000 / 4;

v1::PutValueOutcome Outcome(bool applied, Revision version, uint64_t length) {
  v1::PutValueOutcome outcome;
  outcome.set_applied(applied);
  outcome.set_version(version.value);
  outcome.set_length(length);
  return outcome;
}

absl::Status OutcomeUnknown(std::string_view key, bool there) {
  return MakeError(
      Reason::kOutcomeUnknown,
      fmt::format("key '{}': an earlier try of this write may have happened, and the key may have "
                  "been {} since; read it and decide",
                  Printable(key), there ? "written" : "deleted"));
}

}  // namespace

absl::Status CheckRequestId(std::string_view request_id) {
  constexpr size_t kRequestIdBytes = 16;
  if (request_id.size() == kRequestIdBytes) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument, fmt::format("a request id has {} bytes, not {}",
                                                         kRequestIdBytes, request_id.size()));
}

absl::StatusOr<v1::ValueRecord> ParseValueRecord(const CatalogEntry& entry) {
  v1::ValueRecord record;
  if (record.ParseFromString(entry.value)) return record;
  return MakeError(Reason::kDataLoss, fmt::format("the catalog's record of key '{}' is damaged",
                                                  Printable(UserKey(entry.key))));
}

absl::StatusOr<std::optional<v1::PutValueOutcome>> FixKeyCompare(NodeContext& node,
                                                                 KeyWrite& write) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node.catalog.Get(ValueKey(write.key)));
  Revision found = entry ? entry->mod_revision : Revision{};
  write.freed = entry ? FreedWrite(*entry) : std::nullopt;
  if (!write.retry) write.compare = found;
  // In a retry too: what the first try found has settled it.
  if (!ConditionHolds(write.condition, write.compare.value))
    return Outcome(false, write.compare, 0);
  if (write.retry) {
    if (entry && found == write.compare) return std::nullopt;
    if (entry) {
      TILEKV_ASSIGN_OR_RETURN(v1::ValueRecord record, ParseValueRecord(*entry));
      if (record.request_id() == write.request_id) return Outcome(true, found, record.length());
    }
    return OutcomeUnknown(write.key, entry.has_value());
  }
  return std::nullopt;
}

absl::StatusOr<v1::PutValueOutcome> SettleFailedCompare(NodeContext& node, const KeyWrite& write) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node.catalog.Get(ValueKey(write.key)));
  if (entry) {
    TILEKV_ASSIGN_OR_RETURN(v1::ValueRecord record, ParseValueRecord(*entry));
    if (record.request_id() == write.request_id) {
      return Outcome(true, entry->mod_revision, record.length());
    }
  }
  if (write.retry) return OutcomeUnknown(write.key, entry.has_value());
  return Outcome(false, entry ? entry->mod_revision : Revision{}, 0);
}

absl::Status SessionEnded(std::string_view key) {
  return MakeError(Reason::kSessionLost,
                   fmt::format("key '{}': the session of this put ended before it did; put again",
                               Printable(key)));
}

absl::StatusOr<v1::PutValueOutcome> WriteKey(NodeContext& node, const KeyWrite& write,
                                             const v1::ValueRecord& record,
                                             const std::optional<Compare>& session,
                                             const CallContext& context) {
  std::string key = ValueKey(write.key);
  CatalogTxn txn;
  txn.compares.push_back(Compare::Mod(key, write.compare));
  if (session) txn.compares.push_back(*session);
  txn.writes.push_back(CatalogWrite::Put(key, record.SerializeAsString()));
  if (write.freed) txn.writes.push_back(*write.freed);
  TILEKV_CRASH_POINT("value.before_transaction");
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, node.Txn(std::move(txn)));
  TILEKV_CRASH_POINT("value.after_transaction");
  if (result.applied) return Outcome(true, result.revision, record.length());
  if (session && result.failed_compare == 1u) return SessionEnded(write.key);
  return SettleFailedCompare(node, write);
}

absl::StatusOr<std::unique_ptr<ValueWriter>> ValueWriter::Begin(NodeContext& node,
                                                                Sessions& sessions,
                                                                RollingSession& rolling,
                                                                const v1::PutValueHeader& header) {
  auto writer = std::unique_ptr<ValueWriter>(new ValueWriter(node, sessions, rolling, header));
  TILEKV_RETURN_IF_ERROR(writer->Start());
  return writer;
}

absl::Status ValueWriter::Start() {
  TILEKV_RETURN_IF_ERROR(CheckKey(header_.key()));
  TILEKV_RETURN_IF_ERROR(CheckRequestId(header_.request_id()));
  uint64_t limit = node_.objects.max_object_bytes();
  if (!header_.has_root() && header_.has_length() && header_.length() > limit) {
    return ValueTooLargeError(header_.key(), header_.length(), limit);
  }
  TILEKV_RETURN_IF_ERROR(FixCompare());
  if (settled_ || header_.has_root()) return absl::OkStatus();
  bool surely_large = header_.has_length() && header_.length() > node_.catalog.inline_value_bytes();
  return surely_large ? OpenObject() : absl::OkStatus();
}

absl::Status ValueWriter::FixCompare() {
  KeyWrite write{header_.key(),
                 header_.request_id(),
                 header_.condition(),
                 header_.has_compare(),
                 {header_.compare()}};
  TILEKV_ASSIGN_OR_RETURN(settled_, FixKeyCompare(node_, write));
  compare_ = write.compare;
  freed_ = std::move(write.freed);
  return absl::OkStatus();
}

absl::Status ValueWriter::OpenObject() {
  TILEKV_ASSIGN_OR_RETURN(session_, rolling_.Acquire());
  renew_at_ns_ = node_.clock.MonotonicNanos() + kRenewEvery_ns;
  PutSpec spec;
  spec.domain = node_.domain;
  if (header_.has_length()) spec.length = header_.length();
  spec.touched_rev = session_->handle().revision;
  TILEKV_ASSIGN_OR_RETURN(object_, node_.objects.NewWriter(spec));
  if (small_.empty()) return absl::OkStatus();
  std::string small = std::move(small_);
  small_.clear();
  return object_->Append(AsBytes(small));
}

absl::Status ValueWriter::Append(Bytes piece) {
  if (header_.has_root()) {
    return MakeError(Reason::kInvalidArgument, "a put that names a root brings no data");
  }
  uint64_t limit = node_.objects.max_object_bytes();
  if (header_.has_length() && piece.size() > header_.length() - received_) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("key '{}': more than the declared {} bytes came",
                                 Printable(header_.key()), FormatCount(header_.length())));
  }
  if (piece.size() > limit - received_) return ValueGrewTooLargeError(header_.key(), limit);
  received_ += piece.size();
  if (settled_) return absl::OkStatus();
  if (object_ == nullptr) {
    if (received_ <= node_.catalog.inline_value_bytes()) {
      small_.append(AsText(piece));
      return absl::OkStatus();
    }
    TILEKV_RETURN_IF_ERROR(OpenObject());
  }
  TILEKV_RETURN_IF_ERROR(KeepSession());
  return object_->Append(piece);
}

absl::Status ValueWriter::KeepSession() {
  int64_t now_ns = node_.clock.MonotonicNanos();
  if (now_ns < renew_at_ns_) return absl::OkStatus();
  renew_at_ns_ = now_ns + kRenewEvery_ns;
  return session_->Use();
}

absl::Status ValueWriter::CheckChunkedRoot(const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(header_.root()));
  Revision session_rev{header_.session_rev()};
  TILEKV_ASSIGN_OR_RETURN(session_compare_, sessions_.CompareFor(header_.token(), session_rev));
  std::vector<ObjectRef> refs, missing;
  TreeVisitor visitor;
  visitor.visit = [&refs](const ObjectRef& ref) {
    refs.push_back(ref);
    return true;
  };
  visitor.unreadable = [&missing](const ObjectRef& ref, const absl::Status& status) {
    Reason reason = GetReason(status);
    if (reason != Reason::kNotFound && reason != Reason::kDataLoss) return status;
    missing.push_back(ref);
    return absl::OkStatus();
  };
  TILEKV_RETURN_IF_ERROR(TreeWalk(node_).Walk(root, visitor, context));
  TILEKV_RETURN_IF_ERROR(LinkAll(node_, std::move(refs), std::move(missing), session_rev, context));
  uint64_t length = root.length;
  if (root.level > 0) {
    TILEKV_ASSIGN_OR_RETURN(Tree tree, ReadTree(node_, root));
    TILEKV_ASSIGN_OR_RETURN(ChunkedBlob value, DecodeChunkedBlob(tree, Reason::kInvalidArgument));
    length = value.content_bytes;
  }
  if (length != header_.root_length()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("key '{}': the chunked blob has {} bytes, not {}",
                                 Printable(header_.key()), length, header_.root_length()));
  }
  record_.set_length(length);
  *record_.mutable_object() = header_.root();
  return absl::OkStatus();
}

absl::Status ValueWriter::StoreContent(const CallContext& context) {
  if (header_.has_root()) return CheckChunkedRoot(context);
  record_.set_length(received_);
  if (object_ == nullptr) {
    record_.set_inline_content(small_);
    return absl::OkStatus();
  }
  TILEKV_RETURN_IF_ERROR(session_->Use());
  TILEKV_ASSIGN_OR_RETURN(PutOutcome put, object_->Finish());
  ObjectRefToWire(put.ref, record_.mutable_object());
  TILEKV_ASSIGN_OR_RETURN(session_compare_, sessions_.CompareFor(session_->handle().token,
                                                                 session_->handle().revision));
  return absl::OkStatus();
}

absl::StatusOr<v1::PutValueOutcome> ValueWriter::Finish(const CallContext& context) {
  if (header_.has_length() && !header_.has_root() && received_ != header_.length()) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("key '{}': {} bytes came of the declared {}", Printable(header_.key()),
                    FormatCount(received_), FormatCount(header_.length())));
  }
  if (settled_) return *settled_;
  TILEKV_RETURN_IF_ERROR(StoreContent(context));
  record_.set_request_id(header_.request_id());
  record_.set_modified_micros(node_.clock.WallMicros());
  KeyWrite write{
      header_.key(), header_.request_id(), header_.condition(), header_.has_compare(), compare_,
      freed_};
  return WriteKey(node_, write, record_, session_compare_, context);
}

}  // namespace tilekv
