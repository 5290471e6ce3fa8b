// Between the catalog's records and etcd's: keys under the cluster's prefix, revisions on the
// catalog's line, transactions in both directions. No I/O; const and thread-safe.
//
// 1. A key of etcd is the cluster's prefix and the catalog's key. A value of etcd is 8 random
// bytes,
//    the id of the transaction that wrote it, and the catalog's value: so an answer that was lost
//    is recognised as one's own.
// 2. The catalog's revision is etcd's, counted from the one that made the line record, in the epoch
//    of that record. A revision of another epoch is never equal to one of this.
// 3. Each transaction also compares the line record. In its other branch it reads all that it
//    compares and writes, which tells the first compare that failed and whether an earlier try of
//    it was done.
// 4. etcd gives a transaction that changes nothing no revision of its own. One that might not
//    change anything (without writes, or with deletes of keys that need not exist) therefore also
//    writes the key that is the prefix itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/revision.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd.pb.h"

namespace tilekv {

inline constexpr size_t kTxnIdBytes = 8;

// The line record as it was when the catalog was opened.
struct EtcdLine {
  uint16_t epoch = 0;
  int64_t create_revision = 0;  // of etcd
  int64_t mod_revision = 0;
};

// What the other branch of a transaction says.
struct FailedTxn {
  bool line_holds = true;
  std::optional<size_t> failed_compare;
  std::optional<int64_t> ours;  // etcd's revision of an earlier try of this transaction
  bool deleted = false;         // it only deletes, and all its keys are absent
};

class EtcdCodec {
 public:
  // `txn_operations`: that etcd takes in one transaction.
  EtcdCodec(std::string prefix, size_t txn_operations)
      : prefix_(std::move(prefix)), txn_operations_(txn_operations) {}

  // What to ask for, and what to make of it, before the line is known.
  std::string Key(std::string_view key) const { return prefix_ + std::string(key); }
  etcdserverpb::TxnRequest CreateLine(std::string_view record, std::string_view txn_id) const;
  // DATA_LOSS: it is not a line record.
  absl::Status SetLine(const etcdserverpb::KeyValue& line);

  Revision ToRevision(int64_t etcd_revision) const;
  // None: no record can have it.
  std::optional<int64_t> ToEtcd(Revision revision) const;
  // Of a key with the prefix. DATA_LOSS: a value that the catalog never wrote.
  absl::StatusOr<CatalogEntry> ToEntry(const etcdserverpb::KeyValue& kv) const;
  absl::StatusOr<std::string> ToKey(const etcdserverpb::KeyValue& kv) const;
  const std::string& prefix() const { return prefix_; }
  const EtcdLine& line() const { return line_; }

  // `with_line`: not where the transaction is nested in one that compares the line.
  void Encode(const CatalogTxn& txn, std::string_view txn_id, bool with_line,
              etcdserverpb::TxnRequest& request) const;
  // One that compares the line, for others to be nested in.
  etcdserverpb::TxnRequest EmptyGroup() const;
  // Of the same transaction, with succeeded = false.
  absl::StatusOr<FailedTxn> DecodeFailure(const CatalogTxn& txn, std::string_view txn_id,
                                          const etcdserverpb::TxnResponse& response) const;

 private:
  etcdserverpb::Compare CompareLine() const;
  bool ComparesLine(const CatalogTxn& txn) const;  // by itself
  etcdserverpb::Compare ToEtcd(const Compare& compare) const;

  const std::string prefix_;
  const size_t txn_operations_;
  EtcdLine line_;  // written before the codec is shared
};

// Done once, this transaction cannot be done again: it compares a key that it writes.
bool MayBeSentAgain(const CatalogTxn& txn);
// It may share one transaction of etcd with others: small, without a lease, and each key that it
// writes is compared.
bool MayBeGrouped(const CatalogTxn& txn);

}  // namespace tilekv
