#include "kvstore/node/batch_writer.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/value_errors.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<BatchWriter>> BatchWriter::Begin(NodeContext& node,
                                                                Sessions& sessions,
                                                                RollingSession& rolling,
                                                                v1::BatchPutRequest request) {
  auto writer =
      std::unique_ptr<BatchWriter>(new BatchWriter(node, sessions, rolling, std::move(request)));
  TILEKV_RETURN_IF_ERROR(writer->Check());
  TILEKV_RETURN_IF_ERROR(writer->FixCompares());
  return writer;
}

absl::Status BatchWriter::Check() const {
  const v1::BatchPutRequest& request = request_;
  TILEKV_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  uint64_t limit = node_.objects.max_object_bytes();
  if (request.items_size() > static_cast<int>(kMaxBatchOperations)) {
    return MakeError(Reason::kInvalidArgument, fmt::format("{} values in one batch; at most {}",
                                                           FormatCount(request.items_size()),
                                                           FormatCount(kMaxBatchOperations)));
  }
  if (request.compares_size() != 0 && request.compares_size() != request.items_size()) {
    return MakeError(Reason::kInvalidArgument, "a retried batch brings one compare for each item");
  }
  std::set<std::string_view> keys;
  uint64_t total = 0;
  for (const v1::BatchPutItem& item : request.items()) {
    TILEKV_RETURN_IF_ERROR(CheckKey(item.key()));
    if (item.content().size() > limit) {
      return ValueTooLargeError(item.key(), item.content().size(), limit);
    }
    if (!keys.insert(item.key()).second) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("key '{}' is in the batch twice", Printable(item.key())));
    }
    total += item.content().size();
  }
  if (total <= kMaxBatchBytes) return absl::OkStatus();
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("the values of this batch have {} bytes; at most {} ({})", FormatCount(total),
                  FormatCount(kMaxBatchBytes), FormatSizeShort(kMaxBatchBytes)));
}

absl::Status BatchWriter::FixCompares() {
  items_.resize(request_.items_size());
  for (int i = 0; i < request_.items_size(); ++i) {
    const v1::BatchPutItem& from = request_.items(i);
    KeyWrite& write = items_[i].write;
    write = {from.key(), request_.request_id(), from.condition(), request_.compares_size() != 0, {},
             {}};
    if (write.retry) write.compare = {request_.compares(i)};
    TILEKV_ASSIGN_OR_RETURN(items_[i].outcome, FixKeyCompare(node_, write));
    compares_.push_back(write.compare.value);
  }
  return absl::OkStatus();
}

absl::Status BatchWriter::StoreContents(const CallContext& context) {
  std::vector<Bytes> small;  // contents that the catalog does not keep
  std::vector<size_t> small_items;
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (item.outcome) continue;
    TILEKV_RETURN_IF_ERROR(context.Check());
    const std::string& content = request_.items(static_cast<int>(i)).content();
    item.record.set_length(content.size());
    item.record.set_request_id(item.write.request_id);
    item.record.set_modified_micros(node_.clock.WallMicros());
    if (content.size() <= node_.catalog.inline_value_bytes()) {
      item.record.set_inline_content(content);
      continue;
    }
    if (session_ == nullptr) {
      TILEKV_ASSIGN_OR_RETURN(session_, rolling_.Acquire());
    }
    if (content.size() < kInlineContentBytes) {
      small.push_back(AsBytes(content));
      small_items.push_back(i);
      continue;
    }
    PutSpec spec;
    spec.domain = node_.domain;
    spec.length = content.size();
    spec.touched_rev = session_->handle().revision;
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, node_.objects.NewWriter(spec));
    TILEKV_RETURN_IF_ERROR(writer->Append(AsBytes(content)));
    TILEKV_ASSIGN_OR_RETURN(PutOutcome put, writer->Finish());
    ObjectRefToWire(put.ref, item.record.mutable_object());
  }
  if (session_ == nullptr) return absl::OkStatus();
  if (!small.empty()) {
    TILEKV_ASSIGN_OR_RETURN(
        std::vector<PutOutcome> puts,
        node_.objects.PutSmall(node_.domain, small, session_->handle().revision));
    for (size_t i = 0; i < puts.size(); ++i) {
      ObjectRefToWire(puts[i].ref, items_[small_items[i]].record.mutable_object());
    }
  }
  TILEKV_ASSIGN_OR_RETURN(
      Compare compare, sessions_.CompareFor(session_->handle().token, session_->handle().revision));
  for (Item& item : items_) {
    if (item.record.has_object()) item.session = compare;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchWriter::WriteTogether(const CallContext& context) {
  while (true) {
    CatalogTxn txn;
    std::vector<Item*> sent;
    std::optional<Compare> session;
    std::set<std::string> freed;  // keys written together may have needed the same object
    for (Item& item : items_) {
      if (item.outcome) continue;
      std::string key = ValueKey(item.write.key);
      txn.compares.push_back(Compare::Mod(key, item.write.compare));
      txn.writes.push_back(CatalogWrite::Put(std::move(key), item.record.SerializeAsString()));
      if (item.session) session = item.session;
      if (item.write.freed && freed.insert(item.write.freed->key).second) {
        txn.writes.push_back(*item.write.freed);
      }
      sent.push_back(&item);
    }
    if (sent.empty()) return true;
    if (session) txn.compares.push_back(*session);
    if (txn.writes.size() > node_.catalog.max_txn_operations()) return false;
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_ASSIGN_OR_RETURN(TxnResult result, node_.Txn(std::move(txn)));
    if (result.applied) {
      for (Item* item : sent) {
        v1::PutValueOutcome& outcome = item->outcome.emplace();
        outcome.set_applied(true);
        outcome.set_version(result.revision.value);
        outcome.set_length(item->record.length());
      }
      return true;
    }
    if (!result.failed_compare) return false;
    if (*result.failed_compare >= sent.size()) return SessionEnded(sent.front()->write.key);
    Item& failed = *sent[*result.failed_compare];
    TILEKV_ASSIGN_OR_RETURN(failed.outcome, SettleFailedCompare(node_, failed.write));
  }
}

absl::Status BatchWriter::WriteEach(const CallContext& context) {
  bool any_written = false;
  for (Item& item : items_) {
    if (item.outcome) continue;
    auto outcome = WriteKey(node_, item.write, item.record, item.session, context);
    if (outcome.ok()) {
      item.outcome = *std::move(outcome);
      any_written |= item.outcome->applied();
      continue;
    }
    if (!any_written) return outcome.status();
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("values of the batch before key '{}' were written, those after it "
                                 "were not; of itself: {}",
                                 Printable(item.write.key), ErrorText(outcome.status())));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::BatchPutResponse> BatchWriter::Finish(const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(StoreContents(context));
  TILEKV_ASSIGN_OR_RETURN(bool together, WriteTogether(context));
  if (!together) TILEKV_RETURN_IF_ERROR(WriteEach(context));
  v1::BatchPutResponse response;
  for (const Item& item : items_) *response.add_outcomes() = *item.outcome;
  return response;
}

}  // namespace tilekv
