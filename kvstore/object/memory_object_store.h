// Objects in memory: the engine of tests and of stores that need not last. Keeps contents as they
// were sent. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

class MemoryObjectStore : public ObjectStore {
 public:
  explicit MemoryObjectStore(uint64_t max_object_bytes = kDefaultMaxObjectBytes,
                             Clock* clock = Clock::System(), Random* random = Random::System());

  uint64_t max_object_bytes() const override { return max_object_bytes_; }
  const std::string& store_uuid() const override { return store_uuid_; }
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
  absl::StatusOr<StoreUsage> Usage() override;
  absl::Status CheckWritable(uint64_t /*bytes*/) override { return absl::OkStatus(); }

  // For tests: damages one stored bit. The object is there and `stored_offset` within it (checked).
  void FlipBit(Domain domain, const ObjectId& id, uint64_t stored_offset);

 private:
  friend class MemoryWriter;
  class Reader;
  struct Copy {
    std::string stored;
    LeafTable leaves;
    std::vector<uint32_t> block_table;
  };
  struct Entry {
    ObjectRow row;
    std::shared_ptr<const Copy> copy;  // shared with readers, never changed
  };
  using Key = std::pair<Domain, ObjectId>;

  // `seen` as in NewReplacement, none for a put.
  absl::StatusOr<PutOutcome> Add(const PutSpec& spec, const std::optional<ObjectRow>& seen,
                                 const ObjectRef& ref, Copy copy);
  LinkResult LinkOne(Domain domain, const ObjectRef& ref, Revision touched_rev)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null when absent.
  Entry* Find(Domain domain, const ObjectId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_object_bytes_;
  Clock* const clock_;
  const std::string store_uuid_;
  const std::shared_ptr<BufferPool> pool_;
  Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
