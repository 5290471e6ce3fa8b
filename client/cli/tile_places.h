// Where the tiles of a tensor are: copies of each, and the versions that hold it too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/context.h"
#include "client/cli/tile_map.h"
#include "tensor_chunking/manifest.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

struct TilePlace {
  TileState state = TileState::kMissing;
  std::vector<v1::ObjectCopy> copies;  // of the tile's object, or of both parts of a base and xor
  std::vector<std::string> others;     // "NAME@N": other versions that hold it
};

// In the order of the tensor's tiles, which must be there (not listed). `version` is the one that
// the tensor was read from.
absl::StatusOr<std::vector<TilePlace>> LocateTiles(Context& context, KvStore& store,
                                                   const TensorEntry& tensor,
                                                   const v1::VersionInfo& version);

// The picture of a tensor's grid. Dimensions before the last are rows, those of rank 3 and more in
// the order of the grid.
TileMap MapOf(const TensorEntry& tensor, const std::vector<TilePlace>& places);

}  // namespace tilekv
