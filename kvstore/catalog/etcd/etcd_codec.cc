#include "kvstore/catalog/etcd/etcd_codec.h"

#include <map>
#include <set>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/txn_check.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

// With 100 of them, 128 operations on one path through the nested transactions.
constexpr size_t kGroupedOperations = 24;
constexpr uint64_t kGroupedBytes = 64 * kKiB;

// After the write has been done, the compare does not hold.
bool Guards(const Compare& compare, const CatalogWrite& write) {
  if (compare.key != write.key) return false;
  if (write.value) {
    return compare.kind == Compare::Kind::kAbsent || compare.kind == Compare::Kind::kModRevision;
  }
  return compare.kind != Compare::Kind::kAbsent;
}

bool IsGuarded(const CatalogTxn& txn, const CatalogWrite& write) {
  for (const Compare& compare : txn.compares) {
    if (Guards(compare, write)) return true;
  }
  return false;
}

bool SurelyChanges(const CatalogTxn& txn) {
  for (const CatalogWrite& write : txn.writes) {
    if (write.value || IsGuarded(txn, write)) return true;
  }
  return false;
}

pb::RequestOp Read(std::string key, bool keys_only) {
  pb::RequestOp op;
  op.mutable_request_range()->set_key(std::move(key));
  op.mutable_request_range()->set_keys_only(keys_only);
  return op;
}

pb::RequestOp Put(std::string key, std::string_view txn_id, std::string_view value, LeaseId lease) {
  pb::RequestOp op;
  pb::PutRequest& put = *op.mutable_request_put();
  put.set_key(std::move(key));
  put.mutable_value()->reserve(txn_id.size() + value.size());
  put.mutable_value()->append(txn_id);
  put.mutable_value()->append(value);
  put.set_lease(static_cast<int64_t>(lease));
  return op;
}

}  // namespace

pb::TxnRequest EtcdCodec::CreateLine(std::string_view record, std::string_view txn_id) const {
  pb::TxnRequest request;
  *request.add_compare() = ToEtcd(Compare::Absent(kLineKey));
  *request.add_success() = Put(Key(kLineKey), txn_id, record, 0);
  return request;
}

absl::Status EtcdCodec::SetLine(const pb::KeyValue& line) {
  v1::LineRecord record;
  TILEKV_ASSIGN_OR_RETURN(CatalogEntry entry, ToEntry(line));
  if (!record.ParseFromString(entry.value) || record.epoch() == 0 || record.epoch() > 0xffff) {
    return MakeError(
        Reason::kDataLoss,
        fmt::format("etcd's record '{}' is damaged: the catalog does not know where it "
                    "is in its history",
                    Printable(line.key())));
  }
  line_.epoch = static_cast<uint16_t>(record.epoch());
  line_.create_revision = line.create_revision();
  line_.mod_revision = line.mod_revision();
  return absl::OkStatus();
}

Revision EtcdCodec::ToRevision(int64_t etcd_revision) const {
  return Revision::Of(line_.epoch,
                      static_cast<uint64_t>(etcd_revision - line_.create_revision + 1));
}

std::optional<int64_t> EtcdCodec::ToEtcd(Revision revision) const {
  if (revision.epoch() != line_.epoch || revision.catalog_revision() == 0) return std::nullopt;
  return static_cast<int64_t>(revision.catalog_revision()) + line_.create_revision - 1;
}

absl::StatusOr<std::string> EtcdCodec::ToKey(const pb::KeyValue& kv) const {
  if (kv.key().compare(0, prefix_.size(), prefix_) == 0) return kv.key().substr(prefix_.size());
  return MakeError(Reason::kInternal, fmt::format("etcd answered with the key '{}', which is not "
                                                  "of this cluster",
                                                  Printable(kv.key())));
}

absl::StatusOr<CatalogEntry> EtcdCodec::ToEntry(const pb::KeyValue& kv) const {
  CatalogEntry entry;
  TILEKV_ASSIGN_OR_RETURN(entry.key, ToKey(kv));
  if (kv.value().size() < kTxnIdBytes) {
    return MakeError(
        Reason::kDataLoss,
        fmt::format("etcd's record '{}' was not written by a catalog", Printable(kv.key())));
  }
  entry.value = kv.value().substr(kTxnIdBytes);
  entry.create_revision = ToRevision(kv.create_revision());
  entry.mod_revision = ToRevision(kv.mod_revision());
  return entry;
}

pb::Compare EtcdCodec::CompareLine() const {
  pb::Compare line;
  line.set_key(Key(kLineKey));
  line.set_target(pb::Compare::MOD);
  line.set_mod_revision(line_.mod_revision);
  return line;
}

pb::Compare EtcdCodec::ToEtcd(const Compare& compare) const {
  constexpr int64_t kNever = -1;  // no record's
  pb::Compare out;
  out.set_key(Key(compare.key));
  switch (compare.kind) {
    case Compare::Kind::kAbsent:
      out.set_target(pb::Compare::CREATE);
      out.set_create_revision(0);
      break;
    case Compare::Kind::kExists:
      out.set_target(pb::Compare::CREATE);
      out.set_result(pb::Compare::GREATER);
      out.set_create_revision(0);
      break;
    case Compare::Kind::kModRevision:
      out.set_target(pb::Compare::MOD);
      out.set_mod_revision(ToEtcd(compare.revision).value_or(kNever));
      break;
    case Compare::Kind::kCreateRevision:
      out.set_target(pb::Compare::CREATE);
      out.set_create_revision(ToEtcd(compare.revision).value_or(kNever));
      break;
  }
  return out;
}

bool EtcdCodec::ComparesLine(const CatalogTxn& txn) const {
  for (const Compare& compare : txn.compares) {
    if (compare.key == kLineKey && compare.kind == Compare::Kind::kModRevision &&
        ToEtcd(compare.revision) == line_.mod_revision) {
      return true;
    }
  }
  return false;
}

pb::TxnRequest EtcdCodec::EmptyGroup() const {
  pb::TxnRequest request;
  *request.add_compare() = CompareLine();
  return request;
}

void EtcdCodec::Encode(const CatalogTxn& txn, std::string_view txn_id, bool with_line,
                       pb::TxnRequest& request) const {
  std::set<std::string_view> written;
  for (const CatalogWrite& write : txn.writes) written.insert(write.key);
  std::set<std::string_view> read;
  if (with_line && !ComparesLine(txn)) {
    *request.add_compare() = CompareLine();
    *request.add_failure() = Read(Key(kLineKey), /*keys_only=*/true);
  }
  auto read_back = [&](const std::string& key) {
    if (!read.insert(key).second) return;
    // The value of what it writes tells who wrote it last.
    *request.add_failure() = Read(Key(key), /*keys_only=*/written.count(key) == 0);
  };
  for (const Compare& compare : txn.compares) {
    *request.add_compare() = ToEtcd(compare);
    read_back(compare.key);
  }
  for (const CatalogWrite& write : txn.writes) {
    if (write.value) {
      *request.add_success() = Put(Key(write.key), txn_id, *write.value, write.lease);
    } else {
      request.add_success()->mutable_request_delete_range()->set_key(Key(write.key));
    }
    // Any of them that says "ours" is enough: where there are too many, those first in order.
    bool room = static_cast<size_t>(request.failure_size()) < txn_operations_;
    if (room) read_back(write.key);
  }
  if (!SurelyChanges(txn)) *request.add_success() = Put(prefix_, txn_id, "", 0);
}

absl::StatusOr<FailedTxn> EtcdCodec::DecodeFailure(const CatalogTxn& txn, std::string_view txn_id,
                                                   const pb::TxnResponse& response) const {
  std::map<std::string, const pb::KeyValue*> found;
  for (const pb::ResponseOp& op : response.responses()) {
    for (const pb::KeyValue& kv : op.response_range().kvs()) {
      TILEKV_ASSIGN_OR_RETURN(std::string key, ToKey(kv));
      found[key] = &kv;
    }
  }
  FailedTxn failed;
  auto line = found.find(kLineKey);
  failed.line_holds = line != found.end() && line->second->mod_revision() == line_.mod_revision;
  failed.deleted = !txn.writes.empty();
  for (const CatalogWrite& write : txn.writes) {
    auto at = found.find(write.key);
    failed.deleted &= !write.value && at == found.end();
    if (!write.value || at == found.end()) continue;
    if (at->second->value().compare(0, kTxnIdBytes, txn_id) == 0) {
      failed.ours = at->second->mod_revision();
    }
  }
  TILEKV_ASSIGN_OR_RETURN(
      failed.failed_compare,
      FindFailedCompare(txn,
                        [&](const std::string& key) -> absl::StatusOr<std::optional<KeyRevisions>> {
                          auto at = found.find(key);
                          if (at == found.end()) return std::nullopt;
                          return KeyRevisions{ToRevision(at->second->create_revision()),
                                              ToRevision(at->second->mod_revision())};
                        }));
  return failed;
}

bool MayBeSentAgain(const CatalogTxn& txn) {
  if (txn.writes.empty()) return true;
  for (const CatalogWrite& write : txn.writes) {
    if (IsGuarded(txn, write)) return true;
  }
  return false;
}

bool MayBeGrouped(const CatalogTxn& txn) {
  if (txn.writes.empty() || txn.compares.size() + txn.writes.size() > kGroupedOperations) {
    return false;
  }
  uint64_t bytes = 0;
  for (const CatalogWrite& write : txn.writes) {
    if (write.lease != 0 || !IsGuarded(txn, write)) return false;
    bytes += write.key.size() + (write.value ? write.value->size() : 0);
  }
  return bytes <= kGroupedBytes;
}

}  // namespace tilekv
