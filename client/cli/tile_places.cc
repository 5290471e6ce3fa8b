#include "client/cli/tile_places.h"

#include <algorithm>
#include <map>

#include "client/cli/model_listing.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

struct ObjectPlace {
  std::vector<v1::ObjectCopy> copies;
  std::vector<std::string> others;
};
using Places = std::map<ObjectRef, ObjectPlace>;

// The stored objects that a tile is made of.
std::vector<ObjectRef> StoredObjects(const TileRef& tile) {
  if (tile.parts == nullptr) return {tile.object};
  return {tile.parts->base, tile.parts->delta};
}

template <typename Request>
Request RequestFor(std::span<const ObjectRef> refs) {
  Request request;
  for (const ObjectRef& ref : refs) {
    v1::ObjectRef* added = request.add_refs();
    added->set_id(std::string(ref.id.view()));
    added->set_level(ref.level);
    added->set_length(ref.length);
  }
  return request;
}

absl::Status Ask(Context& context, KvStore& store, std::span<const ObjectRef> refs,
                 const v1::VersionInfo& version, Places& places) {
  TILEKV_ASSIGN_OR_RETURN(v1::LocateResponse located,
                          store.node().Locate(RequestFor<v1::LocateRequest>(refs), context.call()));
  TILEKV_ASSIGN_OR_RETURN(
      v1::FindReferrersResponse referrers,
      store.node().FindReferrers(RequestFor<v1::FindReferrersRequest>(refs), context.call()));
  if (located.objects_size() != static_cast<int>(refs.size()) ||
      referrers.objects_size() != static_cast<int>(refs.size())) {
    return MakeError(Reason::kInternal, "the store answered for another number of objects");
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    ObjectPlace& place = places[refs[i]];
    const auto& copies = located.objects(static_cast<int>(i)).copies();
    place.copies.assign(copies.begin(), copies.end());
    for (const v1::VersionName& name : referrers.objects(static_cast<int>(i)).versions()) {
      bool self = name.ns() == version.ns() && name.name() == version.name() &&
                  name.number() == version.record().number();
      if (!self) place.others.push_back(ModelText(name.ns(), name.name(), name.number()));
    }
  }
  return absl::OkStatus();
}

TileState StateOf(const ObjectPlace& place) {
  auto any = [&](std::string_view state) {
    return std::any_of(place.copies.begin(), place.copies.end(),
                       [&](const v1::ObjectCopy& copy) { return copy.state() == state; });
  };
  if (any("good")) return place.others.empty() ? TileState::kUnique : TileState::kShared;
  return any("suspect") ? TileState::kSuspect : TileState::kMissing;
}

TilePlace PlaceOf(const TileRef& tile, const Places& places) {
  TilePlace out{.state = TileState::kShared};
  for (const ObjectRef& ref : StoredObjects(tile)) {
    const ObjectPlace& place = places.at(ref);
    out.state = std::max(out.state, StateOf(place));
    out.copies.insert(out.copies.end(), place.copies.begin(), place.copies.end());
    out.others.insert(out.others.end(), place.others.begin(), place.others.end());
  }
  std::sort(out.others.begin(), out.others.end());
  out.others.erase(std::unique(out.others.begin(), out.others.end()), out.others.end());
  return out;
}

// Sums of tile sizes along one dimension: 0 first, the dimension last.
std::vector<uint64_t> EdgesOf(uint64_t size, uint64_t tile) {
  std::vector<uint64_t> edges;
  for (uint64_t at = 0; at < size; at += tile) edges.push_back(at);
  edges.push_back(size);
  return edges;
}

// Rows of the picture are the grid's leading coordinates in C order, each as high as its tiles have
// elements along the leading dimensions together.
void FoldLeadingDimensions(const TileGrid& grid, TileMap& map) {
  uint64_t columns = grid.counts().back();
  uint64_t row = 0;
  for (uint64_t tile = 0; tile < grid.tile_count(); tile += columns) {
    Region region = grid.TileRegion(tile);
    region.start.pop_back();
    region.extent.pop_back();
    map.row_edges.push_back(row);
    map.row_labels.push_back(fmt::format("[{}]", fmt::join(region.start, ",")));
    row += ProductOf(region.extent);
  }
  map.row_edges.push_back(row);
  map.row_labels.emplace_back();
}

}  // namespace

absl::StatusOr<std::vector<TilePlace>> LocateTiles(Context& context, KvStore& store,
                                                   const TensorEntry& tensor,
                                                   const v1::VersionInfo& version) {
  std::vector<ObjectRef> refs;
  for (const TileRef& tile : tensor.tiles) {
    for (const ObjectRef& ref : StoredObjects(tile)) refs.push_back(ref);
  }
  std::sort(refs.begin(), refs.end());
  refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
  Places places;
  for (size_t at = 0; at < refs.size(); at += kMaxBatchOperations) {
    TILEKV_RETURN_IF_ERROR(context.call().Check());
    size_t count = std::min(kMaxBatchOperations, refs.size() - at);
    TILEKV_RETURN_IF_ERROR(
        Ask(context, store, std::span<const ObjectRef>(refs).subspan(at, count), version, places));
  }
  std::vector<TilePlace> out;
  out.reserve(tensor.tiles.size());
  for (const TileRef& tile : tensor.tiles) out.push_back(PlaceOf(tile, places));
  return out;
}

TileMap MapOf(const TensorEntry& tensor, const std::vector<TilePlace>& places) {
  TileMap map;
  for (const TilePlace& place : places) map.states.push_back(place.state);
  TileGrid grid = tensor.grid();
  size_t rank = grid.rank();
  if (rank == 0 || map.states.empty()) {
    map.row_edges = map.column_edges = {0, 1};
    return map;
  }
  map.column_edges = EdgesOf(grid.shape().back(), grid.tile_shape().back());
  if (rank == 1) {
    map.row_edges = {0, 1};
  } else if (rank == 2) {
    map.row_edges = EdgesOf(grid.shape()[0], grid.tile_shape()[0]);
  } else {
    FoldLeadingDimensions(grid, map);
  }
  return map;
}

}  // namespace tilekv
