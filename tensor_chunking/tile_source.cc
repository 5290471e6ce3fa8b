#include "tensor_chunking/tile_source.h"

#include <cstring>

#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/unit_shape.h"

namespace tilekv {
namespace {

// A piece that the cache of one core holds, copied and hashed.
constexpr uint64_t kHashStepBytes = 128 * kKiB;

// Memory that is filled from its beginning on.
class HashedFill {
 public:
  explicit HashedFill(Bytes whole) : whole_(whole) {}

  // The first `bytes` are there.
  void Filled(uint64_t bytes) {
    if (bytes < hasher_.length() + kHashStepBytes) return;
    HashTo(bytes / kLeafBytes * kLeafBytes);
  }
  // All of it is.
  ObjectRef Finish() {
    HashTo(whole_.size());
    return {.id = IdFromLeaves(0, whole_.size(), hasher_.Finish()),
            .level = 0,
            .length = whole_.size()};
  }
  int64_t nanos() const { return nanos_; }

 private:
  void HashTo(uint64_t bytes) {
    TimedScope hashing(&nanos_);
    hasher_.Update(whole_.subspan(hasher_.length(), bytes - hasher_.length()));
  }

  const Bytes whole_;
  LeafHasher hasher_;
  int64_t nanos_ = 0;
};

// Run by run, as the source has them.
absl::Status ReadRuns(const TensorSource& source, const Region& region, MutableBytes out,
                      HashedFill& fill) {
  TILEKV_ASSIGN_OR_RETURN(UnitShape units, UnitShape::Of(source.dtype, source.shape));
  TILEKV_ASSIGN_OR_RETURN(Region box, units.FoldRegion(region));
  const Shape& dims = units.dims();
  // Trailing dimensions that are taken whole, and the one before them, are one run.
  size_t split = dims.size();
  uint64_t run = units.unit_bytes();
  while (split > 0) {
    --split;
    run *= box.extent[split];
    if (box.extent[split] != dims[split]) break;
  }
  Shape at = box.start;
  for (uint64_t done = 0; done < out.size();) {
    uint64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) offset = offset * dims[d] + at[d];
    TILEKV_RETURN_IF_ERROR(ReadFrom(source, offset * units.unit_bytes(), out.subspan(done, run)));
    done += run;
    fill.Filled(done);
    for (size_t d = split; d-- > 0;) {
      if (++at[d] < box.start[d] + box.extent[d]) break;
      at[d] = box.start[d];
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadFrom(const TensorSource& source, uint64_t offset, MutableBytes out) {
  if (out.empty()) return absl::OkStatus();
  if (source.content.empty()) return source.read(offset, out);
  std::memcpy(out.data(), source.content.data() + offset, out.size());
  return absl::OkStatus();
}

absl::StatusOr<ObjectRef> ReadHashedRegion(const TensorSource& source, const Region& region,
                                           MutableBytes out, WriteCost& cost) {
  HashedFill fill(out);
  const int64_t begun_nanos = TimedScope::NowNanos();
  absl::Status read = source.read_box != nullptr ? source.read_box(region, out)
                                                 : ReadRuns(source, region, out, fill);
  cost.source_nanos += TimedScope::NowNanos() - begun_nanos - fill.nanos();
  if (!read.ok()) return read;
  const ObjectRef ref = fill.Finish();
  cost.hash_nanos += fill.nanos();
  return ref;
}

}  // namespace tilekv
