#include "kvstore/node/values.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/freed.h"
#include "kvstore/node/model_records.h"
#include "kvstore/node/value_errors.h"
#include "kvstore/node/value_writer.h"
#include "kvstore/object/object_read.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// A value that was overwritten and collected while it was read is read again under its new name.
constexpr int kReadTries = 4;

v1::ValueInfo ToInfo(const CatalogEntry& entry, const v1::ValueRecord& record) {
  v1::ValueInfo info;
  info.set_key(std::string(UserKey(entry.key)));
  info.set_version(entry.mod_revision.value);
  info.set_length(record.length());
  info.set_modified_micros(record.modified_micros());
  if (record.has_object()) *info.mutable_object() = record.object();
  return info;
}

absl::StatusOr<std::string> ReadBlob(NodeContext& node, const v1::ObjectRef& message) {
  TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader,
                          node.objects.Open(node.domain, ref.id));
  return ReadWholeContent(*reader, *node.pool);
}

}  // namespace

absl::StatusOr<v1::GetValueResponse> Values::Get(const std::string& key, bool with_content) {
  return Read(key, with_content ? std::optional(kSmallValueBytes) : std::nullopt);
}

absl::StatusOr<v1::GetValueResponse> Values::Read(const std::string& key,
                                                  std::optional<uint64_t> content_up_to) {
  TILEKV_RETURN_IF_ERROR(CheckKey(key));
  absl::Status failed;
  for (int tries = 0; tries < kReadTries; ++tries) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(ValueKey(key)));
    v1::GetValueResponse response;
    if (!entry) return response;
    TILEKV_ASSIGN_OR_RETURN(v1::ValueRecord record, ParseValueRecord(*entry));
    response.set_found(true);
    *response.mutable_info() = ToInfo(*entry, record);
    if (!content_up_to) return response;
    if (!record.has_object()) {
      response.set_content(record.inline_content());
      return response;
    }
    if (record.object().level() > 0 || record.length() > *content_up_to) return response;
    absl::StatusOr<std::string> content = ReadBlob(node_, record.object());
    if (content.ok()) {
      response.set_content(*std::move(content));
      return response;
    }
    failed = WithContext(content.status(), fmt::format("key '{}'", Printable(key)));
    if (GetReason(failed) != Reason::kNotFound) return failed;
  }
  return MakeError(Reason::kDataLoss, std::string(failed.message()));
}

absl::StatusOr<v1::DeleteValueResponse> Values::Delete(const v1::DeleteValueRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckKey(request.key()));
  std::string key = ValueKey(request.key());
  v1::DeleteValueResponse response;
  for (int tries = 0; tries < kMaxTransactionTries; ++tries) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(key));
    uint64_t found = entry ? entry->mod_revision.value : 0;
    response.set_existed(entry.has_value());
    if (!ConditionHolds(request.condition(), found)) {
      response.set_version_found(found);
      return response;
    }
    response.set_applied(true);
    if (!entry) return response;
    CatalogTxn txn;
    txn.compares.push_back(Compare::Mod(key, entry->mod_revision));
    txn.writes.push_back(CatalogWrite::Delete(key));
    std::optional<CatalogWrite> freed = FreedWrite(*entry);
    if (freed) txn.writes.push_back(*std::move(freed));
    TILEKV_CRASH_POINT("value.before_delete");
    TILEKV_ASSIGN_OR_RETURN(TxnResult result, node_.Txn(std::move(txn), TxnPurpose::kRemove));
    TILEKV_CRASH_POINT("value.after_delete");
    if (result.applied) return response;
    response.Clear();
  }
  return TooManyTries(fmt::format("key '{}'", Printable(request.key())));
}

absl::StatusOr<v1::ListValuesResponse> Values::List(const v1::ListValuesRequest& request) {
  if (request.prefix().size() > kMaxKeyBytes || request.after().size() > kMaxKeyBytes) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("a prefix has at most {} bytes", FormatCount(kMaxKeyBytes)));
  }
  size_t limit = kMaxListPageEntries;
  if (request.limit() != 0) limit = std::min<size_t>(limit, request.limit());
  KeyRange range = ValueRange(request.prefix(), request.after());
  v1::ListValuesResponse response;
  if (range.start >= range.end) return response;
  TILEKV_ASSIGN_OR_RETURN(CatalogPage page, node_.catalog.List(range.start, range.end, limit));
  for (const CatalogEntry& entry : page.entries) {
    TILEKV_ASSIGN_OR_RETURN(v1::ValueRecord record, ParseValueRecord(entry));
    *response.add_values() = ToInfo(entry, record);
  }
  response.set_more(page.more);
  return response;
}

absl::StatusOr<v1::BatchGetResponse> Values::BatchGet(const v1::BatchGetRequest& request) {
  if (request.keys_size() > static_cast<int>(kMaxBatchOperations)) {
    return MakeError(Reason::kInvalidArgument, fmt::format("{} keys in one batch; at most {}",
                                                           FormatCount(request.keys_size()),
                                                           FormatCount(kMaxBatchOperations)));
  }
  v1::BatchGetResponse response;
  uint64_t total = 0;
  for (const std::string& key : request.keys()) {
    v1::GetValueResponse& result = *response.add_results();
    TILEKV_ASSIGN_OR_RETURN(result, Read(key, kMaxBatchBytes - total));
    if (!result.found()) continue;
    total += result.info().length();
    if (total > kMaxBatchBytes || !result.has_content()) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("the values of this batch have more than {} bytes ({}), or one is "
                      "chunked: get key '{}' and those after it by themselves",
                      FormatCount(kMaxBatchBytes), FormatSizeShort(kMaxBatchBytes),
                      Printable(key)));
    }
  }
  return response;
}

}  // namespace tilekv
