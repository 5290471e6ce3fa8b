// ReadOnlyEngine: reads a store's directory beside its writer, without a lock and without changing
// anything of the store. Objects in which it meets damage are reported (damage_reports.h), as far
// as it may write there: at most 1,024 by one opening.
//
// It sees what the writer had synced at the last refresh. A miss (no row, or a row whose file is
// gone) is believed once a refresh has changed nothing about it. Every call that would write is
// PERMISSION_DENIED. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/local_engine_options.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

class ObjectIndex;
struct Superblock;

class ReadOnlyEngine : public ObjectStore {
 public:
  // NOT_FOUND where there is no store: reading never makes one. Otherwise as LocalEngine::Open.
  static absl::StatusOr<std::unique_ptr<ReadOnlyEngine>> Open(const LocalEngineOptions& options);
  ~ReadOnlyEngine() override;

  // Sees what the writer has synced by now.
  absl::Status Refresh();

  uint64_t max_object_bytes() const override;
  const std::string& store_uuid() const override;
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) override;
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
  // Counted by a walk over all rows.
  absl::StatusOr<StoreUsage> Usage() override;
  absl::Status CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                           const CallContext& context) override;
  absl::Status CheckWritable(uint64_t bytes) override;

 private:
  ReadOnlyEngine(const LocalEngineOptions& options, std::unique_ptr<Superblock> superblock,
                 std::unique_ptr<ObjectIndex> index);

  // What the rows that this opening sees say of the object.
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenAsSeen(Domain domain, const ObjectId& id);
  void Report(Domain domain, const ObjectId& id);

  const LocalEngineOptions options_;
  std::atomic<int> reports_{0};
  const std::unique_ptr<Superblock> superblock_;
  const std::unique_ptr<ObjectIndex> index_;
};

}  // namespace tilekv
