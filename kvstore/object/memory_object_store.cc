#include "kvstore/object/memory_object_store.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/incoming_content.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"

namespace tilekv {

class MemoryObjectStore::Reader : public ObjectReader {
 public:
  Reader(MemoryObjectStore* store, Domain domain, ObjectRow row, std::shared_ptr<const Copy> copy)
      : store_(store), domain_(domain), row_(row), copy_(std::move(copy)) {}
  const ObjectRow& row() const override { return row_; }
  std::span<const LeafHash> leaves() const override { return copy_->leaves; }
  std::span<const uint32_t> block_table() const override { return copy_->block_table; }
  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    if (stored_offset > copy_->stored.size() || out.size() > copy_->stored.size() - stored_offset) {
      return ObjectDamaged(row_.ref, "its copy is too short");
    }
    if (!out.empty()) std::memcpy(out.data(), copy_->stored.data() + stored_offset, out.size());
    return absl::OkStatus();
  }
  void ReportDamage() override {
    MutexLock lock(store_->mutex_);
    Entry* entry = store_->Find(domain_, row_.ref.id);
    if (entry != nullptr && entry->copy == copy_ && entry->row.state == RowState::kGood) {
      entry->row.state = RowState::kSuspect;
    }
  }

 private:
  MemoryObjectStore* const store_;
  const Domain domain_;
  const ObjectRow row_;
  const std::shared_ptr<const Copy> copy_;
};

class MemoryWriter : public ObjectWriter {
 public:
  MemoryWriter(MemoryObjectStore* store, const PutSpec& spec, const std::optional<ObjectRow>& seen)
      : store_(store),
        spec_(spec),
        seen_(seen),
        content_(spec, store->max_object_bytes_, store->pool_) {}

  absl::Status Append(Bytes stored, std::span<const uint32_t> table) override {
    TILEKV_RETURN_IF_ERROR(status_);
    status_ = content_.Append(stored, table);
    if (status_.ok()) copy_.stored.append(AsText(stored));
    return status_;
  }

  absl::StatusOr<PutOutcome> Finish() override {
    TILEKV_RETURN_IF_ERROR(status_);
    status_ = MakeError(Reason::kInvalidArgument, "this put has ended");
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, content_.Finish());
    copy_.leaves = content_.leaves();
    copy_.block_table = content_.block_table();
    return store_->Add(spec_, seen_, ref, std::move(copy_));
  }

 private:
  MemoryObjectStore* const store_;
  const PutSpec spec_;
  const std::optional<ObjectRow> seen_;
  IncomingContent content_;
  absl::Status status_;  // of the put so far: after an error nothing more is taken
  MemoryObjectStore::Copy copy_;
};

MemoryObjectStore::MemoryObjectStore(uint64_t max_object_bytes, Clock* clock, Random* random)
    : max_object_bytes_(max_object_bytes),
      clock_(clock),
      store_uuid_(HexEncode(AsBytes(random->Bytes(16)))),
      pool_(BufferPool::Create(4 * kMiB)) {}

MemoryObjectStore::Entry* MemoryObjectStore::Find(Domain domain, const ObjectId& id) {
  auto found = entries_.find({domain, id});
  return found == entries_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> MemoryObjectStore::NewWriter(const PutSpec& spec) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, max_object_bytes_));
  return std::make_unique<MemoryWriter>(this, spec, std::nullopt);
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> MemoryObjectStore::NewReplacement(
    const PutSpec& spec, const ObjectRow& seen) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, max_object_bytes_));
  return std::make_unique<MemoryWriter>(this, spec, seen);
}

absl::StatusOr<PutOutcome> MemoryObjectStore::Add(const PutSpec& spec,
                                                  const std::optional<ObjectRow>& seen,
                                                  const ObjectRef& ref, Copy copy) {
  MutexLock lock(mutex_);
  if (seen.has_value()) {
    Entry* there = Find(spec.domain, ref.id);
    if (there == nullptr || there->row.state != RowState::kGood ||
        there->row.encoding != seen->encoding ||
        there->row.verified_at_micros != seen->verified_at_micros) {
      return PutOutcome{.ref = ref, .stored = false};
    }
  }
  Entry& entry = entries_[{spec.domain, ref.id}];
  bool was_good = entry.copy != nullptr && entry.row.state == RowState::kGood;
  Revision touched = std::max(entry.row.touched_rev, spec.touched_rev);
  // Stored even over a good copy: it costs nothing here and heals what is damaged but not yet
  // found.
  entry.row = ObjectRow{.ref = ref,
                        .encoding = spec.encoding,
                        .stored_length = copy.stored.size(),
                        .touched_rev = touched,
                        .verified_at_micros = clock_->WallMicros()};
  entry.copy = std::make_shared<const Copy>(std::move(copy));
  return PutOutcome{.ref = ref, .stored = seen.has_value() || !was_good};
}

LinkResult MemoryObjectStore::LinkOne(Domain domain, const ObjectRef& ref, Revision touched_rev) {
  Entry* entry = Find(domain, ref.id);
  if (entry == nullptr || entry->row.state != RowState::kGood || entry->row.ref != ref) return {};
  entry->row.touched_rev = std::max(entry->row.touched_rev, touched_rev);
  return {
      .present = true,
      .trusted = entry->row.verified_at_micros > clock_->WallMicros() - kVerifiedFor_s * 1'000'000};
}

absl::StatusOr<std::vector<LinkResult>> MemoryObjectStore::Link(Domain domain,
                                                                std::span<const ObjectRef> refs,
                                                                Revision touched_rev) {
  MutexLock lock(mutex_);
  std::vector<LinkResult> results;
  for (const ObjectRef& ref : refs) results.push_back(LinkOne(domain, ref, touched_rev));
  return results;
}

absl::StatusOr<std::vector<LinkResult>> MemoryObjectStore::LinkEach(
    Domain domain, std::span<const TouchedRef> refs) {
  MutexLock lock(mutex_);
  std::vector<LinkResult> results;
  for (const TouchedRef& each : refs)
    results.push_back(LinkOne(domain, each.ref, each.touched_rev));
  return results;
}

absl::StatusOr<std::shared_ptr<ObjectReader>> MemoryObjectStore::Open(Domain domain,
                                                                      const ObjectId& id) {
  MutexLock lock(mutex_);
  Entry* entry = Find(domain, id);
  if (entry == nullptr || entry->row.state == RowState::kQuarantined) return ObjectNotFound(id);
  return std::make_shared<Reader>(this, domain, entry->row, entry->copy);
}

absl::StatusOr<std::optional<ObjectRow>> MemoryObjectStore::Stat(Domain domain,
                                                                 const ObjectId& id) {
  MutexLock lock(mutex_);
  Entry* entry = Find(domain, id);
  return entry == nullptr ? std::nullopt : std::optional<ObjectRow>(entry->row);
}

absl::Status MemoryObjectStore::Scan(Domain domain, const std::optional<ObjectId>& after,
                                     const std::function<bool(const ObjectRow&)>& visit) {
  // Copies of the rows, some at a time: `visit` may call the store.
  constexpr size_t kRowsAtOnce = 256;
  std::optional<ObjectId> last = after;
  while (true) {
    std::vector<ObjectRow> rows;
    {
      MutexLock lock(mutex_);
      auto it = last.has_value() ? entries_.upper_bound({domain, *last})
                                 : entries_.lower_bound({domain, ObjectId{}});
      for (; it != entries_.end() && it->first.first == domain && rows.size() < kRowsAtOnce; ++it) {
        rows.push_back(it->second.row);
      }
    }
    for (const ObjectRow& row : rows) {
      if (!visit(row)) return absl::OkStatus();
    }
    if (rows.size() < kRowsAtOnce) return absl::OkStatus();
    last = rows.back().ref.id;
  }
}

absl::StatusOr<std::vector<bool>> MemoryObjectStore::DeleteAllBelow(Domain domain,
                                                                    std::span<const ObjectId> ids,
                                                                    Revision fence) {
  MutexLock lock(mutex_);
  std::vector<bool> deleted(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    Entry* entry = Find(domain, ids[i]);
    if (entry == nullptr || entry->row.touched_rev >= fence) continue;
    entries_.erase({domain, ids[i]});
    deleted[i] = true;
  }
  return deleted;
}

absl::StatusOr<std::vector<bool>> MemoryObjectStore::DropUnchanged(
    Domain domain, std::span<const TouchedRef> seen, const std::function<bool()>& still_allowed) {
  MutexLock lock(mutex_);
  std::vector<bool> dropped(seen.size());
  if (!still_allowed()) return dropped;
  for (size_t i = 0; i < seen.size(); ++i) {
    Entry* entry = Find(domain, seen[i].ref.id);
    if (entry == nullptr || entry->row.ref != seen[i].ref ||
        entry->row.touched_rev != seen[i].touched_rev) {
      continue;
    }
    entries_.erase({domain, seen[i].ref.id});
    dropped[i] = true;
  }
  return dropped;
}

absl::Status MemoryObjectStore::MarkSuspect(Domain domain, const ObjectId& id) {
  MutexLock lock(mutex_);
  Entry* entry = Find(domain, id);
  if (entry != nullptr && entry->row.state == RowState::kGood) {
    entry->row.state = RowState::kSuspect;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryObjectStore::Verify(Domain domain, const ObjectId& id) {
  std::shared_ptr<Reader> reader;
  {
    MutexLock lock(mutex_);
    Entry* entry = Find(domain, id);
    if (entry == nullptr) return ObjectNotFound(id);
    reader = std::make_shared<Reader>(this, domain, entry->row, entry->copy);
  }
  absl::Status status = ReadWholeContent(*reader, *pool_).status();
  if (!status.ok() && GetReason(status) != Reason::kDataLoss) return status;
  MutexLock lock(mutex_);
  Entry* entry = Find(domain, id);
  if (entry == nullptr) return ObjectNotFound(id);
  // What replaced the copy meanwhile was verified when it came.
  if (entry->copy->leaves.data() != reader->leaves().data()) return true;
  entry->row.state = status.ok() ? RowState::kGood : RowState::kQuarantined;
  entry->row.verified_at_micros = clock_->WallMicros();
  return status.ok();
}

absl::StatusOr<StoreUsage> MemoryObjectStore::Usage() {
  MutexLock lock(mutex_);
  StoreUsage usage;
  for (const auto& [key, entry] : entries_) {
    ++usage.objects;
    usage.content_bytes += entry.row.ref.length;
    usage.stored_bytes += entry.row.stored_length;
    usage.quarantined_objects += entry.row.state == RowState::kQuarantined;
  }
  return usage;
}

void MemoryObjectStore::FlipBit(Domain domain, const ObjectId& id, uint64_t stored_offset) {
  MutexLock lock(mutex_);
  Entry* entry = Find(domain, id);
  TILEKV_CHECK(entry != nullptr && stored_offset < entry->copy->stored.size());
  auto damaged = std::make_shared<Copy>(*entry->copy);
  damaged->stored[stored_offset] ^= 1;
  entry->copy = std::move(damaged);
}

}  // namespace tilekv
