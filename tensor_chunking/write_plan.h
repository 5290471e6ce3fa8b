// What a write consists of: how each tensor is cut, which small ones share packs, and the units of
// work that read, cut and send them, each small enough for the budget. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/pack.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

struct PlannedTensor {
  const TensorSource* source = nullptr;
  uint64_t bytes = 0;
  bool packed = false;
  TileGrid grid;
};

// One piece of work: read once, cut, hashed, linked, sent.
struct WriteUnit {
  enum class Kind {
    kSlab,   // slab `index` of a tensor, read whole
    kTile,   // tile `index` of a tensor that lies in memory, or whose slabs are too large to hold
             // and are read piece by piece
    kPacks,  // packs [index, index + count)
    kSideFile,  // side file `index`
  };
  Kind kind{};
  uint64_t tensor = 0;
  uint64_t index = 0;
  uint64_t count = 1;
  uint64_t content_bytes = 0;
  uint64_t held_bytes = 0;  // buffers, while it is worked on
};

struct WritePlan {
  std::vector<PlannedTensor> tensors;  // in name order
  std::vector<Pack> packs;             // candidates are indices into tensors
  std::vector<WriteUnit> units;
  uint64_t logical_bytes = 0;  // tensors and side files
  uint64_t tiles = 0;          // objects that hold tensor content

  // About what the plan, and the manifest that is made by it, take of this process's memory.
  uint64_t memory_bytes() const;
};

// `base_shape` gives the tile shape of a tensor of the base, or null. INVALID_ARGUMENT names a
// tensor that cannot be stored.
using BaseTileShape = std::function<const Shape*(const TensorSource&)>;
absl::StatusOr<WritePlan> PlanUnits(const WriteInput& input, uint64_t max_object_bytes,
                                    const WriteOptions& options, const BaseTileShape& base_shape);

}  // namespace tilekv
