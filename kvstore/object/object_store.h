// ObjectStore: immutable objects on one node. Two engines pass one conformance suite:
// MemoryObjectStore, and LocalEngine (RocksDB index and payload files).
//
// Blocking and thread-safe. Every operation on one id (link, put, delete, sweep, quarantine) holds
// one striped lock from reading its row to the synced batch, never while bytes arrive or are
// written. `touched_rev` only grows; a raise is synced before the call returns. Only good rows
// count, for anything.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/revision.h"
#include "kvstore/base/shared_bytes.h"
#include "kvstore/base/table_files.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

enum class RowState : uint8_t {
  kGood = 1,
  kSuspect = 2,      // reported bad, or could not be read; read last, still read
  kQuarantined = 3,  // its bytes failed a check of the node's own; kept, never given out
};

struct ObjectRow {
  ObjectRef ref;
  RowState state = RowState::kGood;
  Encoding encoding;
  uint64_t stored_length = 0;  // bytes as coded
  uint64_t file_number = 0;    // 0: inline in the index
  Revision touched_rev;
  int64_t verified_at_micros = 0;  // when the copy was last checked, with whatever outcome
};

struct PutSpec {
  Domain domain = kDefaultDomain;
  uint8_t level = 0;
  std::optional<ObjectRef>
      expected;  // id and length when known; else the content is spooled and named at the end
  std::optional<uint64_t> length;  // declared length when the id is not known; none: unknown
  Encoding encoding;
  Revision touched_rev;
};

struct PutOutcome {
  ObjectRef ref;
  bool stored = false;  // false: a good copy was there already; its touched_rev was raised
};

// One put in progress, for one thread at a time. Destroyed before Finish it leaves nothing behind.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  // The next bytes as stored. kNone: any split, `table` empty. Else whole blocks, with a table
  // entry for each. OBJECT_TOO_LARGE at the first byte of content beyond the limit (or the declared
  // length: INVALID_ARGUMENT).
  virtual absl::Status Append(Bytes stored, std::span<const uint32_t> table = {}) = 0;
  // Verifies the content to the expected id (DATA_LOSS when it does not hash to it), checks a tree,
  // and makes it durable: payload synced, directory synced, row synced.
  virtual absl::StatusOr<PutOutcome> Finish() = 0;
};

// An open copy. Stays readable when the object is deleted meanwhile. Thread-safe. Readers and
// writers are destroyed before their store.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual const ObjectRow& row() const = 0;
  // Not yet checked against the id: see VerifyLeafTable in object_read.h.
  virtual std::span<const LeafHash> leaves() const = 0;
  virtual std::span<const uint32_t> block_table() const = 0;  // empty for kNone
  // Fills `out` from this offset of the stored bytes. Unverified: the reader at the end verifies to
  // the id.
  virtual absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) = 0;
  // The same into several pieces of memory, one after another; by itself a ReadStored for each.
  virtual absl::Status ReadStoredPieces(uint64_t stored_offset,
                                        std::span<const MutableBytes> pieces);
  // The same bytes as they lie in the node's memory, to be handed on: see File::Map. UNIMPLEMENTED
  // where they must be read.
  virtual absl::StatusOr<SharedBytes> MapStored(uint64_t stored_offset, uint64_t length);
  // What was read did not hash to the id: the copy's owner marks it suspect before anything else
  // happens.
  virtual void ReportDamage() {}
  // After damage: true where the reader now reads another copy, so that the same read may come out
  // right. Row, leaves and tables are as before.
  virtual bool NextCopy() { return false; }
};

struct LinkResult {
  bool present = false;  // a good row of that level and length; its touched_rev is now at least the
                         // one asked for
  bool trusted = false;  // and its copy was checked within kVerifiedFor_s: storing the object again
                         // would not even look at it
};

// An object and a revision of it: what is asked for, or what was seen.
struct TouchedRef {
  ObjectRef ref;
  Revision touched_rev;

  friend bool operator==(const TouchedRef&, const TouchedRef&) = default;
};

struct StoreUsage {
  uint64_t objects = 0;
  uint64_t content_bytes = 0;  // sum of lengths
  uint64_t stored_bytes = 0;   // as coded
  uint64_t disk_total_bytes = 0;
  uint64_t disk_available_bytes = 0;
  uint64_t quarantined_objects = 0;
};

// What a look at rows, files and counts has found. Kinds: `no-payload` (the content of a row is
// gone), `unreadable` (the disk does not give it), `payload` (it is cut short or another's),
// `index` (it contradicts itself, or is damaged), `orphan-file` (no row names it), `log` (an
// opening may have left out rows: LocalEngine), `counts` (of objects and bytes).
struct CopyProblem {
  std::string kind;
  std::optional<ObjectId> id;  // of the object whose copy it is; none: of no object
  std::string text;
  bool repaired = false;
};
using CopyProblemFound = std::function<void(const CopyProblem&)>;

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  virtual uint64_t max_object_bytes() const = 0;
  virtual const std::string& store_uuid() const = 0;  // 32 hexadecimal digits

  // OBJECT_TOO_LARGE when the known length is above the limit, before anything is written or
  // reserved; STORE_FULL below the reserve (puts in flight counted); STORE_FAILED after a failed
  // sync.
  virtual absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) = 0;
  // Puts several blobs, not coded, each below kInlineContentBytes: durable together, by one synced
  // batch where the engine can. In the order of `contents`; the same content twice is one object.
  // After an error none is named, but any may be there.
  virtual absl::StatusOr<std::vector<PutOutcome>> PutSmall(Domain domain,
                                                           std::span<const Bytes> contents,
                                                           Revision touched_rev);
  // The same of an object that is here, to store it in another encoding: `seen` is the row of the
  // copy that was read, `spec.expected` its object. Finish puts the new copy in the place of that
  // one, which goes; it changes nothing, and says stored = false, where another copy stands there
  // by then, or none, or one that is not good.
  virtual absl::StatusOr<std::unique_ptr<ObjectWriter>> NewReplacement(const PutSpec& spec,
                                                                       const ObjectRow& seen) = 0;
  // Raises touched_rev of those present, all in one synced batch. Results in the order of `refs`.
  virtual absl::StatusOr<std::vector<LinkResult>> Link(Domain domain,
                                                       std::span<const ObjectRef> refs,
                                                       Revision touched_rev) = 0;
  // The same, each to a revision of its own.
  virtual absl::StatusOr<std::vector<LinkResult>> LinkEach(Domain domain,
                                                           std::span<const TouchedRef> refs) = 0;
  // Good rows, then suspect ones. NOT_FOUND where there is none.
  virtual absl::StatusOr<std::shared_ptr<ObjectReader>> Open(Domain domain, const ObjectId& id) = 0;
  // Any state.
  virtual absl::StatusOr<std::optional<ObjectRow>> Stat(Domain domain, const ObjectId& id) = 0;
  // Rows of any state in order of id, from the first one above `after` (none: the first), until
  // `visit` returns false.
  virtual absl::Status Scan(Domain domain, const std::optional<ObjectId>& after,
                            const std::function<bool(const ObjectRow&)>& visit) = 0;
  // The sweep's step: deletes those of the objects (distinct ids) whose touched_rev is below
  // `fence`, decided in the locked section, all in one synced batch. True: deleted; in the order of
  // `ids`.
  virtual absl::StatusOr<std::vector<bool>> DeleteAllBelow(Domain domain,
                                                           std::span<const ObjectId> ids,
                                                           Revision fence) = 0;
  // The same of one object.
  absl::StatusOr<bool> DeleteBelow(Domain domain, const ObjectId& id, Revision fence) {
    absl::StatusOr<std::vector<bool>> deleted = DeleteAllBelow(domain, {&id, 1}, fence);
    if (!deleted.ok()) return deleted.status();
    return bool{deleted->front()};
  }
  // The drop's step: deletes those of the objects (distinct ids), in any state, whose row is still
  // that of `seen` and whose touched_rev is still as it was there, all in one synced batch.
  // `still_allowed` is asked in the locked section, once, and must not call the store; false:
  // nothing is deleted. True: deleted; in the order of `seen`.
  virtual absl::StatusOr<std::vector<bool>> DropUnchanged(
      Domain domain, std::span<const TouchedRef> seen,
      const std::function<bool()>& still_allowed) = 0;
  // A report from outside: a good row becomes suspect, and counts no more until the copy was looked
  // at. Absent: nothing.
  virtual absl::Status MarkSuspect(Domain domain, const ObjectId& id) = 0;
  // Reads the payload past the page cache and checks it to the id. True: the row is good, with a
  // new verified_at. False: its bytes do not hash to the id, and it is quarantined, with a new
  // verified_at; or its payload is gone or could not be read, and what was good is suspect.
  // NOT_FOUND when absent.
  virtual absl::StatusOr<bool> Verify(Domain domain, const ObjectId& id) = 0;
  virtual absl::StatusOr<StoreUsage> Usage() = 0;
  // Whether rows, files and counts belong together; contents of files are not read (see Verify). A
  // good row whose copy is bad becomes suspect. `repair`: copies whose bytes are bad are
  // quarantined, never deleted; what the index lacks is added; files that no row names go; counts
  // are set right. Without it nothing else changes. A read-only opening does not
  // look for orphan files: it cannot tell them from those of puts in progress.
  virtual absl::Status CheckCopies(Domain /*domain*/, bool /*repair*/,
                                   const CopyProblemFound& /*found*/,
                                   const CallContext& /*context*/) {
    return absl::OkStatus();
  }
  // Whether this many bytes may be added, here or by others on the same disk, as the catalog does:
  // STORE_FAILED after a failed sync, STORE_FULL where the disk would fall below the reserve (puts
  // in flight counted). 0: STORE_FAILED only.
  virtual absl::Status CheckWritable(uint64_t bytes) = 0;
  // For whoever removes names, so that it works on a full disk too: gives up the ballast where next
  // to nothing is free.
  virtual void MakeRoomForDelete() {}
  // For who has just opened a catalog that is at `revision`: rows that were made anew without one
  // get it as their touched_rev. Before anything else is done with the store.
  virtual absl::Status SettleRevisions(Domain /*domain*/, Revision /*revision*/) {
    return absl::OkStatus();
  }
  // Those of the index, where it has any: small contents lie in them. Null: none.
  virtual TableFiles* tables() { return nullptr; }
  // Unlinks payload files that no row names and that cannot be in use; none while an opening may
  // have left out rows. Returns how many.
  virtual absl::StatusOr<uint64_t> RemoveUnnamedFiles() { return 0; }
  // Every content was read, and all that names need is here: nothing was left out.
  virtual absl::Status NothingIsMissing() { return absl::OkStatus(); }
};

}  // namespace tilekv
