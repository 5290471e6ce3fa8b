// LocalEngine: the objects of one directory, durable. RocksDB is the index; contents of
// kInlineContentBytes or more have a payload file each (docs/formats.md, sections 3 and 4).
//
// Thread-safe and blocking; concurrent puts share directory syncs and RocksDB's group commit, so
// callers bring their own threads. One writer a directory (flock); any number of ReadOnlyEngines
// beside it.
//
// 1. A put streams into a file under its final name, number never used before: blocks, tables,
//    header, fdatasync, directory sync. Then, under the id's stripe, the row in a synced batch.
//    Until the row nothing refers to the file, so every earlier failure leaves garbage at most.
// 2. A delete removes the row in a synced batch, then the file. Readers hold the file open.
// 3. A replacement (another encoding) is a put into a new file whose row takes the place of the
//    old one in one synced batch; then the old file goes.
// 4. A failed sync is final: reads go on, every write gets STORE_FAILED, Link answers absent.
// 5. A copy that fails a check is marked in its row before anything else happens. What read-only
//    openings report (damage_reports.h) is marked before the next link or put.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/local_engine_options.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

class EngineCore;

class LocalEngine : public ObjectStore {
 public:
  // Opens the directory as its writer. NOT_FOUND where there is no store and none is to be made;
  // STORE_LOCKED names the present writer; STORE_MISMATCH: not a store but full of other things, a
  // later format, another limit; DATA_LOSS: index or superblock damaged or gone.
  static absl::StatusOr<std::unique_ptr<LocalEngine>> Open(const LocalEngineOptions& options);
  // Waits for nothing: writers and readers are gone before.
  ~LocalEngine() override;

  uint64_t max_object_bytes() const override;
  const std::string& store_uuid() const override;
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) override;
  absl::StatusOr<std::vector<PutOutcome>> PutSmall(Domain domain, std::span<const Bytes> contents,
                                                   Revision touched_rev) override;
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewReplacement(const PutSpec& spec,
                                                               const ObjectRow& seen) override;
  absl::StatusOr<std::vector<LinkResult>> Link(Domain domain, std::span<const ObjectRef> refs,
                                               Revision touched_rev) override;
  absl::StatusOr<std::vector<LinkResult>> LinkEach(Domain domain,
                                                   std::span<const TouchedRef> refs) override;
  absl::StatusOr<std::shared_ptr<ObjectReader>> Open(Domain domain, const ObjectId& id) override;
  absl::StatusOr<std::optional<ObjectRow>> Stat(Domain domain, const ObjectId& id) override;
  absl::Status Scan(Domain domain, const std::optional<ObjectId>& after,
                    const std::function<bool(const ObjectRow&)>& visit) override;
  absl::StatusOr<std::vector<bool>> DeleteAllBelow(Domain domain, std::span<const ObjectId> ids,
                                                   Revision fence) override;
  absl::StatusOr<std::vector<bool>> DropUnchanged(
      Domain domain, std::span<const TouchedRef> seen,
      const std::function<bool()>& still_allowed) override;
  absl::Status MarkSuspect(Domain domain, const ObjectId& id) override;
  absl::StatusOr<bool> Verify(Domain domain, const ObjectId& id) override;
  absl::StatusOr<StoreUsage> Usage() override;
  absl::Status CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                           const CallContext& context) override;
  absl::Status CheckWritable(uint64_t bytes) override;
  void MakeRoomForDelete() override;
  absl::Status SettleRevisions(Domain domain, Revision revision) override;
  TableFiles* tables() override;
  absl::StatusOr<uint64_t> RemoveUnnamedFiles() override;
  absl::Status NothingIsMissing() override;

 private:
  explicit LocalEngine(std::unique_ptr<EngineCore> core);

  const std::unique_ptr<EngineCore> core_;
};

}  // namespace tilekv
