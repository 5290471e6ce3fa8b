#include "kvstore/node_store.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/upload_session.h"
#include "kvstore/value_get.h"
#include "kvstore/value_put.h"

namespace tilekv {
namespace {

class NodeStore : public KvStore {
 public:
  NodeStore(std::shared_ptr<NodeService> node, NodeStoreOptions options)
      : options_(std::move(options)),
        pool_(options_.pool != nullptr ? options_.pool : BufferPool::Create(32 * kMiB)),
        node_(std::move(node), options_.retry),
        put_(node_, options_.retry, *pool_, options_.grouped_puts),
        get_(node_, *pool_) {}

  absl::StatusOr<PutResult> Put(std::string_view key, ByteSource& source,
                                const PutOptions& options) override;
  absl::StatusOr<std::optional<ValueInfo>> Get(std::string_view key, ByteSink& sink,
                                               const ByteRange& range,
                                               const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(CheckKey(key));
    return get_.Get(key, sink, range, context);
  }
  absl::StatusOr<std::optional<ValueInfo>> Stat(std::string_view key,
                                                const CallContext& context) override;
  absl::StatusOr<DeleteResult> Delete(std::string_view key, const WriteCondition& condition,
                                      const CallContext& context) override;
  absl::StatusOr<ValuePage> List(const ListOptions& options, const CallContext& context) override;
  absl::StatusOr<std::vector<std::optional<Value>>> BatchGet(const std::vector<std::string>& keys,
                                                             const CallContext& context) override;
  absl::StatusOr<std::vector<PutResult>> BatchPut(const std::vector<BatchPutEntry>& entries,
                                                  const CallContext& context) override {
    return put_.PutBatch(entries, context);
  }
  absl::StatusOr<std::unique_ptr<UploadSession>> BeginSession(const std::string& holder,
                                                              const CallContext& context) override {
    return NodeUploadSession::Begin(node_, *options_.retry.random, holder, context);
  }
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                           const CallContext& context) override {
    while (!reads.empty()) {
      auto some = reads.first(std::min(reads.size(), kMaxBatchOperations));
      reads = reads.subspan(some.size());
      TILEKV_RETURN_IF_ERROR(node_.ReadObjects(some, stats, context));
    }
    return absl::OkStatus();
  }
  NodeService& node() override { return node_; }
  absl::StatusOr<uint64_t> MaxObjectBytes(const CallContext& context) override;
  const std::string& uri() const override { return options_.uri; }

 private:
  absl::StatusOr<DeleteResult> DeleteVersion(std::string_view key, uint64_t version,
                                             const CallContext& context);

  const NodeStoreOptions options_;
  const std::shared_ptr<BufferPool> pool_;
  RetryingNode node_;
  ValuePut put_;
  ValueGet get_;
  Mutex mutex_;
  std::optional<uint64_t> max_object_bytes_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<PutResult> NodeStore::Put(std::string_view key, ByteSource& source,
                                         const PutOptions& options) {
  if (!options.chunked) return put_.Put(key, source, options);
  TILEKV_RETURN_IF_ERROR(CheckKey(key));
  TILEKV_ASSIGN_OR_RETURN(uint64_t limit, MaxObjectBytes(options.context));
  if (source.length() && *source.length() <= limit) return put_.Put(key, source, options);
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<UploadSession> session,
      BeginSession(fmt::format("chunked put of key '{}'", Printable(key)), options.context));
  return put_.PutChunked(key, source, *session, limit, options);
}

absl::StatusOr<std::optional<ValueInfo>> NodeStore::Stat(std::string_view key,
                                                         const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckKey(key));
  v1::GetValueRequest request;
  request.set_key(std::string(key));
  TILEKV_ASSIGN_OR_RETURN(v1::GetValueResponse response, node_.GetValue(request, context));
  if (!response.found()) return std::nullopt;
  return ToValueInfo(response.info());
}

// Deletes exactly this version. A try without an answer is followed by the same one: the version
// cannot come back, so absent or another version means that it is gone.
absl::StatusOr<DeleteResult> NodeStore::DeleteVersion(std::string_view key, uint64_t version,
                                                      const CallContext& context) {
  v1::DeleteValueRequest request;
  request.set_key(std::string(key));
  request.set_request_id(options_.retry.random->Bytes(16));
  request.mutable_condition()->set_version(version);
  RetryPolicy policy(options_.retry, context);
  bool unknown = false;
  while (true) {
    absl::StatusOr<v1::DeleteValueResponse> response = node_.DeleteValue(request, context);
    if (response.ok()) {
      if (unknown && !response->applied() && response->version_found() != 0) {
        return MakeError(Reason::kOutcomeUnknown,
                         fmt::format("key '{}' was deleted and written again, by this call or by "
                                     "others; read it and decide",
                                     Printable(key)));
      }
      bool gone = response->applied() || (unknown && response->version_found() == 0);
      return DeleteResult{gone, gone || response->existed(), response->version_found()};
    }
    if (GetReason(response.status()) != Reason::kNodeUnavailable) return response.status();
    unknown = true;
    if (policy.TryAgain(response.status())) continue;
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("key '{}' may be deleted or not: {}", Printable(key),
                                 ErrorText(response.status())));
  }
}

absl::StatusOr<DeleteResult> NodeStore::Delete(std::string_view key,
                                               const WriteCondition& condition,
                                               const CallContext& context) {
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> found, Stat(key, context));
    uint64_t version = found ? found->version : 0;
    bool met = condition.kind == WriteCondition::Kind::kNone ||
               (condition.kind == WriteCondition::Kind::kAbsent ? version == 0
                                                                : version == condition.version);
    if (!met) return DeleteResult{false, found.has_value(), version};
    if (!found) return DeleteResult{true, false, 0};
    absl::StatusOr<DeleteResult> result = DeleteVersion(key, version, context);
    if (condition.kind != WriteCondition::Kind::kNone) return result;
    // Unconditional: what was there is gone, whoever took it away. A definite "not met" is another
    // write in between, which goes too.
    if (GetReason(result.status()) == Reason::kOutcomeUnknown) {
      TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> now, Stat(key, context));
      if (!now || now->version != version) return DeleteResult{true, true, 0};
    }
    if (!result.ok() || result->applied) return result;
  }
}

absl::StatusOr<ValuePage> NodeStore::List(const ListOptions& options, const CallContext& context) {
  v1::ListValuesRequest request;
  request.set_prefix(options.prefix);
  request.set_after(options.after);
  request.set_limit(options.limit);
  TILEKV_ASSIGN_OR_RETURN(v1::ListValuesResponse response, node_.ListValues(request, context));
  ValuePage page;
  page.more = response.more();
  for (const v1::ValueInfo& info : response.values()) page.values.push_back(ToValueInfo(info));
  return page;
}

absl::StatusOr<std::vector<std::optional<Value>>> NodeStore::BatchGet(
    const std::vector<std::string>& keys, const CallContext& context) {
  v1::BatchGetRequest request;
  for (const std::string& key : keys) request.add_keys(key);
  TILEKV_ASSIGN_OR_RETURN(v1::BatchGetResponse response, node_.BatchGet(request, context));
  std::vector<std::optional<Value>> values;
  for (v1::GetValueResponse& result : *response.mutable_results()) {
    if (!result.found()) {
      values.emplace_back();
      continue;
    }
    values.push_back(Value{ToValueInfo(result.info()), std::move(*result.mutable_content())});
  }
  return values;
}

absl::StatusOr<uint64_t> NodeStore::MaxObjectBytes(const CallContext& context) {
  {
    MutexLock lock(mutex_);
    if (max_object_bytes_) return *max_object_bytes_;
  }
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, node_.Info({}, context));
  MutexLock lock(mutex_);
  max_object_bytes_ = info.max_object_bytes();
  return info.max_object_bytes();
}

}  // namespace

std::unique_ptr<KvStore> NewNodeStore(std::shared_ptr<NodeService> node, NodeStoreOptions options) {
  return std::make_unique<NodeStore>(std::move(node), std::move(options));
}

}  // namespace tilekv
