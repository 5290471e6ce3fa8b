#include "kvstore/catalog/etcd/etcd_catalog.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"
#include "kvstore/catalog/etcd/etcd_grpc.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/txn_check.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

constexpr int64_t kNanosPerMilli = 1'000'000;
// That a transaction has beside the caller's: the line, and a write that gives it a revision.
constexpr size_t kOwnOperations = 2;

}  // namespace

class EtcdCatalog::HeldSnapshot : public CatalogSnapshot {
 public:
  HeldSnapshot(EtcdCatalog& catalog, Revision revision, int64_t etcd_revision)
      : catalog_(catalog), revision_(revision), etcd_revision_(etcd_revision) {}
  Revision revision() const override { return revision_; }
  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    return catalog_.GetAt(key, etcd_revision_);
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    return catalog_.ListAt(start, end, limit, etcd_revision_);
  }

 private:
  EtcdCatalog& catalog_;
  const Revision revision_;
  const int64_t etcd_revision_;
};

absl::StatusOr<std::unique_ptr<EtcdCatalog>> EtcdCatalog::Open(const EtcdOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<EtcdRpc> rpc, MakeEtcdGrpc(options));
  return Open(options, std::move(rpc));
}

absl::StatusOr<std::unique_ptr<EtcdCatalog>> EtcdCatalog::Open(const EtcdOptions& options,
                                                               std::unique_ptr<EtcdRpc> rpc) {
  TILEKV_RETURN_IF_ERROR(CheckClusterName(options.cluster));
  auto catalog = std::unique_ptr<EtcdCatalog>(new EtcdCatalog(options, std::move(rpc)));
  TILEKV_RETURN_IF_ERROR(catalog->Start());
  return catalog;
}

EtcdCatalog::EtcdCatalog(const EtcdOptions& options, std::unique_ptr<EtcdRpc> rpc)
    : options_(options),
      rpc_(std::move(rpc)),
      codec_(ClusterPrefix(options.cluster), options.txn_operations),
      leases_(*rpc_, options_),
      writer_(*rpc_, codec_, guard_, options_) {}

absl::Status EtcdCatalog::Start() {
  pb::RangeRequest request;
  request.set_key(codec_.Key(kLineKey));
  TILEKV_ASSIGN_OR_RETURN(pb::RangeResponse line, Range(request, Deadline()));
  if (line.kvs().empty()) {
    pb::RangeRequest any;
    any.set_key(codec_.prefix());
    any.set_range_end(PrefixEnd(codec_.prefix()));
    any.set_limit(1);
    any.set_keys_only(true);
    TILEKV_ASSIGN_OR_RETURN(pb::RangeResponse found, Range(any, Deadline()));
    if (!found.kvs().empty()) {
      return MakeError(Reason::kDataLoss,
                       fmt::format("etcd has keys of cluster '{}' but not '{}': its catalog is "
                                   "incomplete. Restore it from a backup",
                                   options_.cluster, codec_.Key(kLineKey)));
    }
    if (!options_.create_if_missing) {
      return MakeError(Reason::kNotFound,
                       fmt::format("etcd has no cluster '{}'; 'tilekv cluster init' makes one",
                                   options_.cluster));
    }
    TILEKV_RETURN_IF_ERROR(CreateLine());
    TILEKV_ASSIGN_OR_RETURN(line, Range(request, Deadline()));
  }
  if (line.kvs().empty()) {
    return MakeError(Reason::kInternal, "the catalog's first record is gone at once");
  }
  return codec_.SetLine(line.kvs(0));
}

absl::Status EtcdCatalog::CreateLine() {
  // Where another is first, or a try of this was done, the record is there: it is read next.
  pb::TxnRequest request =
      codec_.CreateLine(NewLineRecord(*options_.random), options_.random->Bytes(kTxnIdBytes));
  pb::TxnResponse response;
  int64_t deadline_ns = Deadline();
  return Repeat([&] { return rpc_->Txn(request, response, deadline_ns); }, deadline_ns).last.error;
}

int64_t EtcdCatalog::Deadline() const {
  return Clock::System()->MonotonicNanos() + options_.timeout_ms * kNanosPerMilli;
}

absl::StatusOr<pb::RangeResponse> EtcdCatalog::Range(const pb::RangeRequest& request,
                                                     int64_t deadline_ns) {
  pb::RangeResponse response;
  int64_t seen = guard_.Seen();
  Reply reply =
      Repeat([&] { return rpc_->Range(request, response, deadline_ns); }, deadline_ns).last;
  if (reply.refusal == Refusal::kCompacted) {
    return CompactedError(codec_.ToRevision(request.revision()));
  }
  if (!reply.answered()) return reply.error;
  guard_.Answered(seen, response.header().revision());
  return response;
}

absl::StatusOr<std::optional<CatalogEntry>> EtcdCatalog::GetAt(const std::string& key,
                                                               int64_t etcd_revision) {
  if (key.empty()) return MakeError(Reason::kInvalidArgument, "a catalog key is empty");
  pb::RangeRequest request;
  request.set_key(codec_.Key(key));
  request.set_revision(etcd_revision);
  TILEKV_ASSIGN_OR_RETURN(pb::RangeResponse response, Range(request, Deadline()));
  if (response.kvs().empty()) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(CatalogEntry entry, codec_.ToEntry(response.kvs(0)));
  return entry;
}

absl::StatusOr<CatalogPage> EtcdCatalog::ListAt(const std::string& start, const std::string& end,
                                                size_t limit, int64_t etcd_revision) {
  TILEKV_RETURN_IF_ERROR(CheckListArguments(end, limit));
  int64_t revision = etcd_revision;
  auto call = [&](const std::string& from, const std::string& to,
                  size_t most) -> absl::StatusOr<pb::RangeResponse> {
    pb::RangeRequest request;
    request.set_key(from);
    request.set_range_end(to);
    request.set_limit(static_cast<int64_t>(most));
    request.set_revision(revision);
    TILEKV_ASSIGN_OR_RETURN(pb::RangeResponse response, Range(request, Deadline()));
    // What follows of this page is read where its first piece was.
    if (revision == 0) revision = response.header().revision();
    return response;
  };
  // The key that is the prefix itself is not the catalog's.
  std::string first = codec_.Key(start.empty() ? std::string(1, '\0') : start);
  TILEKV_ASSIGN_OR_RETURN(EtcdPage found,
                          ReadPage(first, codec_.Key(end), limit, block_sizes_, call));
  CatalogPage page;
  page.more = found.more;
  if (revision == 0) {  // an empty range
    TILEKV_ASSIGN_OR_RETURN(page.revision, CurrentRevision());
    return page;
  }
  page.revision = codec_.ToRevision(revision);
  page.entries.reserve(found.kvs.size());
  for (const pb::KeyValue& kv : found.kvs) {
    TILEKV_ASSIGN_OR_RETURN(CatalogEntry entry, codec_.ToEntry(kv));
    page.entries.push_back(std::move(entry));
  }
  return page;
}

absl::StatusOr<std::optional<CatalogEntry>> EtcdCatalog::Get(const std::string& key) {
  return GetAt(key, 0);
}

absl::StatusOr<CatalogPage> EtcdCatalog::List(const std::string& start, const std::string& end,
                                              size_t limit) {
  return ListAt(start, end, limit, 0);
}

absl::StatusOr<TxnResult> EtcdCatalog::Txn(const CatalogTxn& txn) { return writer_.Write(txn); }

absl::StatusOr<Revision> EtcdCatalog::CurrentRevision() {
  pb::RangeRequest request;
  request.set_key(codec_.Key(kLineKey));
  request.set_count_only(true);
  TILEKV_ASSIGN_OR_RETURN(pb::RangeResponse response, Range(request, Deadline()));
  return codec_.ToRevision(response.header().revision());
}

absl::StatusOr<std::unique_ptr<CatalogSnapshot>> EtcdCatalog::Snapshot() {
  TILEKV_ASSIGN_OR_RETURN(Revision revision, CurrentRevision());
  return std::make_unique<HeldSnapshot>(*this, revision, *codec_.ToEtcd(revision));
}

size_t EtcdCatalog::max_txn_operations() const {
  return options_.txn_operations - std::min(options_.txn_operations, kOwnOperations);
}

absl::Status EtcdCatalog::Compact(Revision revision) {
  std::optional<int64_t> etcd_revision = codec_.ToEtcd(revision);
  if (!etcd_revision) {
    return MakeError(Reason::kInvalidArgument,
                     "a catalog is compacted at a revision of its own epoch");
  }
  pb::CompactionRequest request;
  request.set_revision(*etcd_revision);
  pb::CompactionResponse response;
  int64_t deadline_ns = Deadline();
  Reply reply =
      Repeat([&] { return rpc_->Compact(request, response, deadline_ns); }, deadline_ns).last;
  // Another was there first, or a try of this.
  if (reply.answered() || reply.refusal == Refusal::kCompacted) return absl::OkStatus();
  return reply.error;
}

std::unique_ptr<CatalogWatch> EtcdCatalog::Watch(const std::string& start, const std::string& end,
                                                 CatalogUpdateCallback callback) {
  auto list = [this, start, end]() -> absl::StatusOr<CatalogPage> {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage all, List(start, end, kMaxListPageEntries));
    std::optional<int64_t> revision = codec_.ToEtcd(all.revision);
    while (all.more) {
      TILEKV_ASSIGN_OR_RETURN(CatalogPage page, ListAt(all.entries.back().key + '\0', end,
                                                       kMaxListPageEntries, revision.value_or(0)));
      all.more = page.more;
      for (CatalogEntry& entry : page.entries) all.entries.push_back(std::move(entry));
    }
    return all;
  };
  return std::make_unique<EtcdWatch>(*rpc_, codec_, options_, start, end, std::move(list),
                                     std::move(callback));
}

absl::StatusOr<EtcdStatus> EtcdCatalog::Status() {
  pb::StatusRequest request;
  pb::StatusResponse response;
  int64_t deadline_ns = Deadline();
  Reply reply =
      Repeat([&] { return rpc_->Status(request, response, deadline_ns); }, deadline_ns).last;
  if (!reply.answered()) return reply.error;
  EtcdStatus status;
  status.version = response.version();
  status.database_bytes = static_cast<uint64_t>(std::max<int64_t>(0, response.dbsize()));
  status.in_use_bytes = static_cast<uint64_t>(std::max<int64_t>(0, response.dbsizeinuse()));
  status.has_leader = response.leader() != 0;
  return status;
}

}  // namespace tilekv
