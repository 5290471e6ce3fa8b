// What the parts of a LocalEngine share: index, files, locks, space, health; and the steps that
// hold an id's stripe. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/damage_reports.h"
#include "kvstore/object/disk_reserve.h"
#include "kvstore/object/local_engine_options.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/store_health.h"
#include "kvstore/object/superblock.h"
#include "kvstore/object/usage_counter.h"

namespace tilekv {

class EngineCore {
 public:
  static absl::StatusOr<std::unique_ptr<EngineCore>> Open(const LocalEngineOptions& options);
  // Saves the counts of usage, so that the next opening need not walk all rows.
  ~EngineCore();

  const Superblock& superblock() const { return superblock_; }
  FileSystem* file_system() const { return options_.file_system; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }
  StoreHealth& health() { return *health_; }
  ObjectIndex& index() { return *index_; }
  PayloadDirectory& payloads() { return *payloads_; }
  DiskReserve& disk() { return *disk_; }
  UsageCounter& usage() { return usage_; }

  // Good, and checked within kVerifiedFor_s.
  bool IsTrusted(const ObjectRow& row) const;
  // Whether a new payload file got direct I/O; the first that did not is a notice.
  void NoteDirect(bool direct);

  // --- each holds the id's stripe from reading the row to the synced batch ---

  // Raises touched_rev of a trusted row. False: there is none, nothing has changed.
  absl::StatusOr<bool> RaiseTrusted(Domain domain, const ObjectId& id, Revision touched_rev);
  // Makes `row` the object's, its content durable by now, unless a trusted row came first (whose
  // touched_rev is then raised). `content` is what the index keeps of a small object. Once the new
  // row stands the file of the old one goes. After an error it is not known which row the next
  // opening finds: both files stay.
  struct Commit {
    bool used = false;      // the new row stands
    bool was_good = false;  // a good row was there before
  };
  absl::StatusOr<Commit> CommitRow(Domain domain, ObjectRow row,
                                   std::optional<std::string> content);
  // The same of several objects, all in one synced batch; no two of the same.
  struct NewRow {
    ObjectRow row;
    std::optional<std::string> content;
  };
  absl::StatusOr<std::vector<Commit>> CommitRows(Domain domain, std::vector<NewRow> rows);
  // Puts `row`, its content durable by now, in the place of `seen`, whose file then goes, if that
  // still is the object's copy and good. touched_rev is kept. After an error as CommitRow.
  absl::StatusOr<Commit> ReplaceCopy(Domain domain, const ObjectRow& seen, ObjectRow row,
                                     const std::optional<std::string>& content);
  absl::StatusOr<std::vector<LinkResult>> Link(Domain domain, std::span<const ObjectRef> refs,
                                               Revision touched_rev);
  absl::StatusOr<std::vector<LinkResult>> LinkEach(Domain domain, std::span<const TouchedRef> refs);
  absl::StatusOr<std::vector<bool>> DeleteAllBelow(Domain domain, std::span<const ObjectId> ids,
                                                   Revision fence);
  // See ObjectStore.
  absl::StatusOr<std::vector<bool>> DropUnchanged(Domain domain, std::span<const TouchedRef> seen,
                                                  const std::function<bool()>& still_allowed);
  // Gives the row this state if it still is the one whose copy was looked at (`seen`), and, where
  // the bytes were seen (good or quarantined), the present time. A row that is not good does not
  // become suspect. False: the row is another by now, or gone.
  absl::StatusOr<bool> SetState(Domain domain, const ObjectRow& seen, RowState state);

  // --- reading ---

  // See ObjectStore.
  absl::Status SettleRevisions(Domain domain, Revision revision);
  // Marks what openings for reading have met. Holds stripes of its own.
  void TakeReports();

  // The copy that a readable row names. NOT_FOUND, or DATA_LOSS after the row was quarantined, or
  // made suspect where its payload is gone or was not given by the disk.
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenCopy(Domain domain, const ObjectId& id);
  // See ObjectStore::Verify.
  absl::StatusOr<bool> Verify(Domain domain, const ObjectId& id);
  // See ObjectStore::CheckCopies.
  absl::Status CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                           const CallContext& context);

 private:
  explicit EngineCore(const LocalEngineOptions& options);
  absl::Status OpenParts(bool create_index);
  absl::Status CountUsage(ObjectIndex::Batch& opening);
  // `rev_of` gives the revision of each of `refs`.
  absl::StatusOr<std::vector<LinkResult>> LinkTo(Domain domain, std::span<const ObjectRef> refs,
                                                 const std::function<Revision(size_t)>& rev_of);
  // Deletes the rows for which `goes` holds, and after them their files; `may` is asked under the
  // locks, before any of it. `goes` is asked with the place in `ids`.
  absl::StatusOr<std::vector<bool>> DeleteRows(
      Domain domain, std::span<const ObjectId> ids, const std::function<bool()>& may,
      const std::function<bool(size_t, const ObjectRow&)>& goes);
  Mutex& StripeOf(Domain domain, const ObjectId& id) { return stripes_[StripeIndex(domain, id)]; }
  size_t StripeIndex(Domain domain, const ObjectId& id) const;
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenRow(Domain domain, const ObjectRow& row,
                                                        bool report_damage);
  // Gives the row's file its entry in the index back. False: the row is another by now.
  absl::StatusOr<bool> NameFileAgain(Domain domain, const ObjectRow& seen);
  // False: the row could not be marked.
  bool OnDamage(Domain domain, const ObjectRow& row);
  // Marks the row whose copy was not sound, and tells whoever listens. As SetState.
  absl::StatusOr<bool> MarkBad(Domain domain, const ObjectRow& row, const absl::Status& bad);
  // `changes`: the usage's, before the walk that counted began.
  void CheckCounts(const StoreUsage& counted, uint64_t changes, bool repair,
                   const CopyProblemFound& found);
  // OK where the whole copy, read from the disk itself, hashes to the id.
  absl::Status CheckCopy(Domain domain, const ObjectRow& row);

  const LocalEngineOptions options_;
  const std::shared_ptr<BufferPool> pool_;
  const std::unique_ptr<StoreHealth> health_;
  Superblock superblock_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<ObjectIndex> index_;
  std::unique_ptr<PayloadDirectory> payloads_;
  std::unique_ptr<DiskReserve> disk_;
  UsageCounter usage_;
  Mutex reports_mutex_;  // until those that were found are marked
  // Marked once; each time their copies would never be trusted again.
  std::set<DamageReported> unremovable_reports_ ABSL_GUARDED_BY(reports_mutex_);
  std::atomic<bool> buffered_noticed_{false};
  std::array<Mutex, kLockStripes> stripes_;
};

}  // namespace tilekv
