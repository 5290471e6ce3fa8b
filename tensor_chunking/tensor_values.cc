#include "tensor_chunking/tensor_values.h"

#include <memory>
#include <utility>

#include "kvstore/base/status.h"
#include "tensor_chunking/elements.h"
#include "tensor_chunking/parallel.h"

namespace tilekv {
namespace {

using EntryPtr = std::shared_ptr<const TensorEntry>;

ResolvedSlice SliceOf(const Region& region) {
  ResolvedSlice slice;
  for (size_t i = 0; i < region.start.size(); ++i) {
    slice.dims.push_back({region.start[i], 1, region.extent[i], static_cast<int>(i)});
    slice.result_shape.push_back(region.extent[i]);
  }
  return slice;
}

// One stream over many tensors, read ahead across them: one for each would cost threads and an
// exchange for every small tensor.
class StatsStream {
 public:
  // `names` are of tensors whose elements are numbers.
  static absl::StatusOr<StatsStream> Open(ModelReader& reader, std::vector<std::string> names) {
    StatsStream stream;
    if (names.empty()) return stream;  // a stream of none would be of all
    TILEKV_ASSIGN_OR_RETURN(stream.tiles_, reader.StreamTiles(std::move(names)));
    return stream;
  }

  // Of the next of the names, whose entry this is.
  absl::StatusOr<ElementStats> Next(const TensorEntry& entry,
                                    const std::function<void(uint64_t)>& progress) {
    ElementStats stats;
    for (size_t i = 0; i < entry.tiles.size(); ++i) {
      TILEKV_ASSIGN_OR_RETURN(std::optional<StreamedTile> tile, tiles_->Next());
      TILEKV_CHECK(tile.has_value() && tile->tile_index == i);
      stats.Add(entry.dtype, tile->content.span());
      progress(tile->content.size());
    }
    return stats;
  }

 private:
  std::unique_ptr<ModelStream<StreamedTile>> tiles_;
};

// Tiles of the newer tensor that may hold other elements than the older one there.
std::vector<uint64_t> ChangedTiles(const TensorEntry& older, const TensorEntry& newer) {
  std::vector<uint64_t> changed;
  const bool same_cut = older.tile_shape == newer.tile_shape;
  for (uint64_t i = 0; i < newer.tiles.size(); ++i) {
    if (!same_cut || !newer.tiles[i].SameContent(older.tiles[i])) changed.push_back(i);
  }
  return changed;
}

}  // namespace

absl::Status VisitTensorStats(ModelReader& reader, const std::vector<std::string>& tensors,
                              const std::function<absl::Status(const TensorStats&)>& visit,
                              const std::function<void(const WriteProgress&)>& progress) {
  std::vector<std::string> names = tensors;
  if (names.empty()) {
    for (const TensorEntry& entry : reader.manifest().tensors) {
      if (!entry.is_alias()) names.push_back(entry.name);
    }
  }
  std::vector<EntryPtr> entries;
  std::vector<std::string> numeric;
  WriteProgress done;
  for (const std::string& name : names) {
    TILEKV_ASSIGN_OR_RETURN(EntryPtr entry, reader.Find(name));
    if (CheckNumeric(entry->dtype).ok()) {
      done.total_bytes += entry->bytes();
      numeric.push_back(name);
    }
    entries.push_back(std::move(entry));
  }
  TILEKV_ASSIGN_OR_RETURN(StatsStream stream, StatsStream::Open(reader, std::move(numeric)));
  auto advance = [&](uint64_t bytes) {
    done.done_bytes += bytes;
    if (progress != nullptr) progress(done);
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorEntry& entry = *entries[i];
    TensorStats stats{.tensor = names[i], .dtype = entry.dtype, .shape = entry.shape};
    stats.numeric = CheckNumeric(entry.dtype).ok();
    if (stats.numeric) {
      TILEKV_ASSIGN_OR_RETURN(stats.stats, stream.Next(entry, advance));
    }
    TILEKV_RETURN_IF_ERROR(visit(stats));
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueChanges> CompareValues(ModelReader& older, ModelReader& newer,
                                           const std::string& tensor,
                                           const std::function<void(uint64_t)>& progress) {
  TILEKV_ASSIGN_OR_RETURN(EntryPtr before, older.Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(EntryPtr after, newer.Find(tensor));
  TILEKV_CHECK(before->dtype == after->dtype && before->shape == after->shape);
  ValueChanges result;
  if (!CheckNumeric(after->dtype).ok()) {
    result.numeric = false;
    return result;
  }
  const TileGrid grid = after->grid();
  const std::vector<uint64_t> tiles = ChangedTiles(*before, *after);
  // Not the readers' own budgets: their reads wait for those while this one is held.
  ByteBudget budget(newer.stream_memory_bytes());
  Mutex mutex;
  const CallContext& context = newer.options().context;
  TILEKV_RETURN_IF_ERROR(
      ParallelFor(DefaultThreads(newer.options().threads), tiles.size(), context,
                  [&](size_t i) -> absl::Status {
                    const uint64_t bytes = grid.TileBytes(after->dtype, tiles[i]);
                    TILEKV_ASSIGN_OR_RETURN(Reservation held, budget.Acquire(2 * bytes, context));
                    const ResolvedSlice slice = SliceOf(grid.TileRegion(tiles[i]));
                    Buffer old_content = older.pool().Get(bytes);
                    Buffer new_content = newer.pool().Get(bytes);
                    TILEKV_RETURN_IF_ERROR(older.ReadSlice(tensor, slice, old_content.span()));
                    TILEKV_RETURN_IF_ERROR(newer.ReadSlice(tensor, slice, new_content.span()));
                    ElementChanges changes;
                    changes.Add(after->dtype, old_content.span(), new_content.span());
                    MutexLock lock(mutex);
                    result.changes.Merge(changes);
                    if (progress != nullptr) progress(bytes);
                    return absl::OkStatus();
                  }));
  result.changes.count = ProductOf(after->shape);
  return result;
}

}  // namespace tilekv
