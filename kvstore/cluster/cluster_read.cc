#include "kvstore/cluster/cluster_read.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/copy_finder.h"
#include "kvstore/cluster/stored_pieces.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"

namespace tilekv {
namespace {

// The form in which a reader gives its object, whichever copy it reads.
class Form {
 public:
  // That of the copy that was opened, which has the tables from now on, and may be read no more.
  explicit Form(std::shared_ptr<ObjectReader> copy) : copy_(std::move(copy)) {}

  const ObjectRow& row() const { return copy_->row(); }
  std::span<const LeafHash> leaves() const { return copy_->leaves(); }
  std::span<const uint32_t> block_table() const { return copy_->block_table(); }
  bool coded() const { return row().encoding.kind != EncodingKind::kNone; }
  bool IsThatOf(const ObjectReader& copy) const {
    const std::span<const uint32_t> mine = block_table(), its = copy.block_table();
    return copy.row().encoding == row().encoding &&
           std::equal(mine.begin(), mine.end(), its.begin(), its.end());
  }

 private:
  const std::shared_ptr<ObjectReader> copy_;
};

// A copy whose damage is told by who reads it here.
class QuietCopy : public ObjectReader {
 public:
  explicit QuietCopy(ObjectReader& copy) : copy_(copy) {}
  const ObjectRow& row() const override { return copy_.row(); }
  std::span<const LeafHash> leaves() const override { return copy_.leaves(); }
  std::span<const uint32_t> block_table() const override { return copy_.block_table(); }
  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    return copy_.ReadStored(stored_offset, out);
  }

 private:
  ObjectReader& copy_;
};

// A piece of the form, out of any copy that has it; verified.
absl::StatusOr<Buffer> ReadInForm(const Form& form, ObjectReader& copy, const StoredPiece& piece,
                                  BufferPool& pool) {
  Buffer out = pool.Get(piece.stored_length);
  if (form.IsThatOf(copy)) {
    const StoredUnits units(form.row(), form.block_table());
    TILEKV_RETURN_IF_ERROR(ReadPiece(copy, units, piece, out.span(), pool));
    return out;
  }
  if (form.coded()) {
    return MakeError(Reason::kNodeUnavailable,
                     "its copy is coded otherwise; open the object again");
  }
  QuietCopy quiet(copy);
  TILEKV_RETURN_IF_ERROR(ReadContent(quiet, piece.stored_offset, out.span(), pool));
  return out;
}

class ClusterReader : public ObjectReader {
 public:
  // `own`: this node's copy, given as it is until it fails. Null: `form` is another node's.
  ClusterReader(ClusterParts& parts, Domain domain, std::shared_ptr<const Form> form,
                std::shared_ptr<ObjectReader> own, std::shared_ptr<CopyFinder> others)
      : parts_(parts),
        domain_(domain),
        form_(std::move(form)),
        own_(std::move(own)),
        reads_own_(own_ != nullptr),
        others_(std::move(others)) {}

  // Other nodes' copies end in the executor: who has read enough must not wait for their nodes.
  ~ClusterReader() override {
    MutexLock lock(mutex_);
    if (others_ == nullptr) return;
    parts_.options.executor->Post([form = std::move(form_), others = std::move(others_)] {});
  }
  const ObjectRow& row() const override { return form_->row(); }
  std::span<const LeafHash> leaves() const override { return form_->leaves(); }
  std::span<const uint32_t> block_table() const override { return form_->block_table(); }
  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override;
  void ReportDamage() override;
  bool NextCopy() override;

 private:
  // Null once it was left.
  ObjectReader* Own() {
    MutexLock lock(mutex_);
    return reads_own_ ? own_.get() : nullptr;
  }
  void LeaveOwn(const absl::Status& why);
  CopyFinder& Others();
  absl::StatusOr<Buffer> ReadOthers(const StoredPiece& piece);
  // What the read before has left of its last unit; how much it was.
  uint64_t TakeRest(uint64_t stored_offset, MutableBytes out);
  // The last unit of a piece of which `taken` bytes were taken.
  void KeepRest(const StoredPiece& piece, const Buffer& bytes, uint64_t taken);

  ClusterParts& parts_;
  const Domain domain_;
  std::shared_ptr<const Form> form_;
  const std::shared_ptr<ObjectReader> own_;  // kept: another thread may still read it
  Mutex mutex_;
  bool reads_own_ ABSL_GUARDED_BY(mutex_);
  absl::Status own_failed_ ABSL_GUARDED_BY(mutex_);             // why it was left
  std::shared_ptr<CopyFinder> others_ ABSL_GUARDED_BY(mutex_);  // made when first needed
  // Units do not end where reads do: with this, reads one after another take each unit once, and
  // come to the other node one after another too.
  uint64_t rest_at_ ABSL_GUARDED_BY(mutex_) = 0;
  Buffer rest_ ABSL_GUARDED_BY(mutex_);
};

void ClusterReader::LeaveOwn(const absl::Status& why) {
  MutexLock lock(mutex_);
  if (!reads_own_) return;
  reads_own_ = false;
  own_failed_ = why;
  ++parts_.counters.left_copies;
}

CopyFinder& ClusterReader::Others() {
  MutexLock lock(mutex_);
  if (others_ == nullptr) {
    others_ = std::make_shared<CopyFinder>(parts_, domain_, form_->row().ref.id);
  }
  return *others_;
}

void ClusterReader::ReportDamage() {
  // Other nodes' copies are verified, and reported, as they are read.
  if (ObjectReader* own = Own()) own->ReportDamage();
}

bool ClusterReader::NextCopy() {
  // What others give was verified. What was damaged came of this node's copy, though another thread
  // may have left that by now. Only where there is one that will do, or the damage would be told as
  // something else.
  if (own_ == nullptr) return false;
  const auto form = form_;
  auto found = Others().Find([form](ObjectReader& copy) -> absl::StatusOr<Buffer> {
    if (!form->coded() || form->IsThatOf(copy)) return Buffer();
    return MakeError(Reason::kNodeUnavailable, "its copy is coded otherwise");
  });
  if (!found.ok()) return false;
  LeaveOwn(ObjectDamaged(form_->row().ref, "this node's copy does not hash to its id"));
  return true;
}

absl::StatusOr<Buffer> ClusterReader::ReadOthers(const StoredPiece& piece) {
  auto found = Others().Find([form = form_, pool = parts_.options.pool, piece](ObjectReader& copy) {
    return ReadInForm(*form, copy, piece, *pool);
  });
  if (found.ok()) return std::move(found->bytes);
  MutexLock lock(mutex_);
  // That no other node has one is not the error where this one's copy has failed.
  if (GetReason(found.status()) == Reason::kNotFound && !own_failed_.ok()) return own_failed_;
  return found.status();
}

uint64_t ClusterReader::TakeRest(uint64_t stored_offset, MutableBytes out) {
  MutexLock lock(mutex_);
  if (!rest_ || stored_offset < rest_at_ || stored_offset >= rest_at_ + rest_.size()) return 0;
  const uint64_t from = stored_offset - rest_at_;
  const uint64_t n = std::min<uint64_t>(out.size(), rest_.size() - from);
  std::memcpy(out.data(), rest_.data() + from, n);
  return n;
}

void ClusterReader::KeepRest(const StoredPiece& piece, const Buffer& bytes, uint64_t taken) {
  const uint64_t left = std::min(piece.stored_length - taken, kBlockBytes);
  Buffer rest;
  if (left > 0) {
    rest = parts_.options.pool->Get(left);
    std::memcpy(rest.data(), bytes.data() + piece.stored_length - left, left);
  }
  MutexLock lock(mutex_);
  rest_ = std::move(rest);
  rest_at_ = piece.stored_offset + piece.stored_length - left;
}

absl::Status ClusterReader::ReadStored(uint64_t stored_offset, MutableBytes out) {
  const uint64_t stored_length = row().stored_length;
  if (stored_offset > stored_length || out.size() > stored_length - stored_offset) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{} bytes from {} are not within the {} stored ones of object {}", out.size(),
                    stored_offset, stored_length, form_->row().ref.id.Short()));
  }
  if (ObjectReader* own = Own()) {
    absl::Status status = own->ReadStored(stored_offset, out);
    if (status.ok()) return status;
    LeaveOwn(status);
  }
  const StoredUnits units(form_->row(), form_->block_table());
  while (!out.empty()) {
    uint64_t n = TakeRest(stored_offset, out);
    if (n == 0) {
      n = std::min(out.size(), kTransferChunkBytes);
      const StoredPiece piece = units.Covering(stored_offset, n);
      TILEKV_ASSIGN_OR_RETURN(Buffer bytes, ReadOthers(piece));
      const uint64_t skip = stored_offset - piece.stored_offset;
      std::memcpy(out.data(), bytes.data() + skip, n);
      KeepRest(piece, bytes, skip + n);
    }
    stored_offset += n;
    out = out.subspan(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenInCluster(ClusterParts& parts, Domain domain,
                                                            const ObjectId& id) {
  absl::StatusOr<std::shared_ptr<ObjectReader>> own = parts.local.Open(domain, id);
  absl::Status own_status = own.status();
  if (own.ok()) own_status = CheckCopyTables(id, **own);
  if (own.ok() && IsDamagedCopy(own_status)) (*own)->ReportDamage();
  if (own_status.ok() && (*own)->row().state == RowState::kGood) {
    auto form = std::make_shared<const Form>(*own);
    return std::make_shared<ClusterReader>(parts, domain, std::move(form), *std::move(own),
                                           nullptr);
  }
  auto others = std::make_shared<CopyFinder>(parts, domain, id);
  auto found = others->Find([](ObjectReader&) -> absl::StatusOr<Buffer> { return Buffer(); });
  if (found.ok()) {
    auto form = std::make_shared<const Form>(found->copy);
    return std::make_shared<ClusterReader>(parts, domain, std::move(form), nullptr,
                                           std::move(others));
  }
  // A suspect copy of this node, last of all.
  if (own_status.ok()) {
    auto form = std::make_shared<const Form>(*own);
    return std::make_shared<ClusterReader>(parts, domain, std::move(form), *std::move(own),
                                           std::move(others));
  }
  const bool own_absent = GetReason(own_status) == Reason::kNotFound;
  return own_absent || GetReason(found.status()) == Reason::kNodeUnavailable ? found.status()
                                                                             : own_status;
}

}  // namespace tilekv
