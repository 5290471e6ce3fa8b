// Catalog: the one place that decides names. Linearizable, transactional, small entries.
// LocalCatalog keeps it in RocksDB on one machine, EtcdCatalog in etcd for a cluster, MemoryCatalog
// in a map for tests; one conformance suite holds for all. Bulk never goes here.
//
// Blocking and thread-safe. A write is durable when its call returns. Every transaction that
// applies gets a revision greater than those of all that were over before it began; two that wrote
// the same key never have the same. A revision is visible only after it is durable.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/revision.h"
#include "kvstore/base/table_files.h"

namespace tilekv {

struct CatalogEntry {
  std::string key;
  std::string value;
  Revision create_revision;  // of the transaction that made the key after it was last absent
  Revision mod_revision;     // of the last write; the key's version as clients see it
};

struct Compare {
  enum class Kind { kAbsent, kExists, kModRevision, kCreateRevision };
  std::string key;
  Kind kind = Kind::kAbsent;
  Revision revision;

  static Compare Absent(std::string key) { return {std::move(key), Kind::kAbsent, {}}; }
  static Compare Exists(std::string key) { return {std::move(key), Kind::kExists, {}}; }
  // Revision 0 means absent.
  static Compare Mod(std::string key, Revision revision) {
    return {std::move(key), revision.value == 0 ? Kind::kAbsent : Kind::kModRevision, revision};
  }
  static Compare Created(std::string key, Revision revision) {
    return {std::move(key), Kind::kCreateRevision, revision};
  }
};

using LeaseId = uint64_t;  // 0: none

struct CatalogWrite {
  std::string key;
  std::optional<std::string> value;  // none: delete
  LeaseId lease = 0;                 // the key goes when the lease ends

  static CatalogWrite Put(std::string key, std::string value, LeaseId lease = 0) {
    return {std::move(key), std::move(value), lease};
  }
  static CatalogWrite Delete(std::string key) { return {std::move(key), std::nullopt, 0}; }
};

// All compares hold: all writes happen. Else none. Keys of writes are distinct.
struct CatalogTxn {
  std::vector<Compare> compares;
  std::vector<CatalogWrite> writes;
};

struct TxnResult {
  bool applied = false;
  Revision revision;                     // of the writes when applied; else the present one
  std::optional<size_t> failed_compare;  // the first that did not hold
};

struct CatalogPage {
  std::vector<CatalogEntry> entries;  // in order of key, bytewise
  bool more = false;
  Revision revision;  // at which the page was read
};

// Reads at one revision, for as long as it is held.
class CatalogSnapshot {
 public:
  virtual ~CatalogSnapshot() = default;
  virtual Revision revision() const = 0;
  virtual absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) = 0;
  virtual absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                           size_t limit) = 0;
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  virtual absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) = 0;
  // Keys in [start, end), at most `limit` (> 0). `end` is always bounded.
  virtual absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                           size_t limit) = 0;
  // OUTCOME_UNKNOWN: the write failed and may be there all the same, now or in a moment. Any other
  // error: nothing was written.
  virtual absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) = 0;
  virtual absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() = 0;
  virtual absl::StatusOr<Revision> CurrentRevision() = 0;
  // STORE_FAILED once a write has failed: no other is taken.
  virtual absl::Status CheckWritable() { return absl::OkStatus(); }
  // The number of the newest log whose end an opening, this one or one before, left out although it
  // may be damaged and not torn: then transactions that were acknowledged are missing. 0: none.
  virtual absl::StatusOr<uint64_t> LogInDoubt() { return 0; }
  // Somebody has looked at what is here: it is right so.
  virtual absl::Status EndDoubt() { return absl::OkStatus(); }
  // Those that this process keeps on its disk. Null: none.
  virtual TableFiles* tables() { return nullptr; }
  // Values up to this size are worth keeping in their entries.
  virtual uint64_t inline_value_bytes() const { return kInlineValueBytes; }
  // Compares, and writes, that one transaction may have; more are INVALID_ARGUMENT.
  virtual size_t max_txn_operations() const { return std::numeric_limits<size_t>::max(); }
  // Snapshots at earlier revisions are not needed any more and may end (IsCompacted).
  virtual absl::Status Compact(Revision) { return absl::OkStatus(); }

  // A lease ends when its time passes without KeepAlive, or by Revoke; its keys are deleted then,
  // in one transaction. Of a local catalog, leases end with the process: opening as writer deletes
  // the keys of earlier processes' leases.
  virtual absl::StatusOr<LeaseId> Grant(int64_t ttl_s) = 0;
  // False when the lease has ended. The new time counts from now.
  virtual absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) = 0;
  virtual absl::Status Revoke(LeaseId lease) = 0;
};

// Whether the error of a snapshot says that its revision was compacted: what it read so far is
// good, the rest is gone, and a new snapshot may be taken. OVERLOADED, for a caller who does not
// ask.
bool IsCompacted(const absl::Status& status);
absl::Status CompactedError(Revision revision);

// The end of the range of all keys with this prefix ("\xff\xff" at most; our keys never begin so).
std::string PrefixEnd(std::string_view prefix);

}  // namespace tilekv
