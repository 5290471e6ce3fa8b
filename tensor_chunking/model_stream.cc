// The streams of ModelReader: work is grouped into units of some megabytes (so that thousands of
// small tensors do not cost as many exchanges), units are fetched ahead in order within the budget,
// and handed out one item at a time.

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/parallel.h"

namespace tilekv {
namespace {

constexpr uint64_t kUnitBytes = kDefaultTileBytes;
constexpr size_t kUnitItems = kMaxBatchOperations / 2;
// Between neighbours in a pack that are read as one range.
constexpr uint64_t kMostGapBytes = 4 * kKiB;

using Entry = std::shared_ptr<const TensorEntry>;

// One tile of one tensor, as part of a unit.
struct Item {
  size_t index = 0;  // of the tensor in what was asked for
  Entry entry;
  uint64_t tile = 0;
  uint64_t bytes = 0;

  // The item's own buffer; its share of a run of neighbours, where it is in a pack; the parts of a
  // `base, xor` tile.
  uint64_t held_bytes() const {
    const TileRef& ref = entry->tiles[tile];
    uint64_t run = ref.is_part() ? bytes + kMostGapBytes : 0;
    uint64_t parts = ref.parts == nullptr ? 0 : 2 * ref.object.length;
    return BufferPool::CapacityFor(bytes) + run + parts;
  }
};

struct Unit {
  std::vector<Item> items;
  uint64_t bytes = 0;       // of content
  uint64_t held_bytes = 0;  // while it is fetched, and until it is handed over

  bool Takes(uint64_t more_bytes) const {
    return items.size() < kUnitItems && bytes + more_bytes <= kUnitBytes;
  }
  void Add(Item item) {
    bytes += item.bytes;
    held_bytes += item.held_bytes();
    items.push_back(std::move(item));
  }
};

// Fetches the contents of a unit's tiles in one exchange. Neighbours in one pack are read as one
// range: leaves are verified whole, so reading each small tensor by itself would read the same leaf
// many times.
class UnitFetch {
 public:
  UnitFetch(KvStore& store, BufferPool& pool, const TileReader& tiles, const CallContext& context)
      : store_(store), pool_(pool), tiles_(tiles), context_(context) {}

  absl::Status Fetch(const Unit& unit, std::vector<Buffer>& out, ReadStats* stats) {
    out.clear();
    for (const Item& item : unit.items) out.push_back(pool_.Get(item.bytes));
    size_t at = 0;
    std::vector<ObjectRead> reads;
    std::vector<Run> runs;
    while (at < unit.items.size()) {
      const TileRef& first = Ref(unit.items[at]);
      if (first.parts != nullptr) {
        TILEKV_RETURN_IF_ERROR(
            Located(unit.items[at], tiles_.ReadTile(first, out[at].span(), stats, context_)));
        ++at;
        continue;
      }
      Run run{.first = at, .last = at};
      uint64_t end = first.offset_bytes + first.length_bytes;
      while (run.last + 1 < unit.items.size()) {
        const TileRef& next = Ref(unit.items[run.last + 1]);
        if (next.parts != nullptr || next.object != first.object || next.offset_bytes < end ||
            next.offset_bytes - end > kMostGapBytes) {
          break;
        }
        end = next.offset_bytes + next.length_bytes;
        ++run.last;
      }
      ObjectRead read{.ref = first.object,
                      .offset = first.offset_bytes,
                      .out = out[at].span(),
                      .verify = tiles_.verify()};
      if (run.last > run.first) {
        run.buffer = pool_.Get(end - first.offset_bytes);
        read.out = run.buffer.span();
      }
      at = run.last + 1;
      reads.push_back(read);
      runs.push_back(std::move(run));
    }
    ReadStats own{.timed = stats->timed};
    absl::Status status = store_.ReadObjects(reads, &own, context_);
    if (own.timed && !runs.empty()) own.slowest.what = Where(unit.items[runs[0].first]);
    stats->Add(own);
    if (!status.ok()) return FindCulprit(unit, runs, reads, status);
    TimedScope placing(stats->timed ? &stats->times : nullptr, &ReadTimes::place_nanos);
    for (const Run& run : runs) {
      if (!run.buffer) continue;
      uint64_t base = Ref(unit.items[run.first]).offset_bytes;
      for (size_t i = run.first; i <= run.last; ++i) {
        std::memcpy(out[i].data(), run.buffer.data() + (Ref(unit.items[i]).offset_bytes - base),
                    unit.items[i].bytes);
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Run {
    size_t first, last;  // items
    Buffer buffer;       // empty: the only item's own
  };

  static const TileRef& Ref(const Item& item) { return item.entry->tiles[item.tile]; }
  static absl::Status Located(const Item& item, const absl::Status& status) {
    return WithContext(status, Where(item));
  }
  static std::string Where(const Item& item) {
    return fmt::format("tensor '{}', tile {} of {}", Printable(item.entry->name), item.tile,
                       item.entry->tiles.size());
  }
  // The exchange of many failed: which tile is it? Asked again one by one, only then.
  absl::Status FindCulprit(const Unit& unit, const std::vector<Run>& runs,
                           const std::vector<ObjectRead>& reads, const absl::Status& status) {
    for (size_t i = 0; i < runs.size(); ++i) {
      absl::Status again = store_.ReadObjects({&reads[i], 1}, nullptr, context_);
      if (!again.ok()) return Located(unit.items[runs[i].first], again);
    }
    return status;
  }

  KvStore& store_;
  BufferPool& pool_;
  const TileReader& tiles_;
  const CallContext& context_;
};

// What both streams share: a budget of its own, the statistics, and the queue of items of the unit
// that was fetched last.
template <typename T>
class UnitStream : public ModelStream<T> {
 public:
  explicit UnitStream(ModelReader& reader)
      : reader_(reader), budget_(reader.stream_memory_bytes()) {}

  absl::StatusOr<std::optional<T>> Next() override {
    while (queue_.empty()) {
      TILEKV_ASSIGN_OR_RETURN(auto unit, prefetch_->Next());
      if (!unit.has_value()) return std::nullopt;
      for (T& item : *unit) queue_.push_back(std::move(item));
    }
    T item = std::move(queue_.front());
    queue_.pop_front();
    return item;
  }
  ReadStats stats() const override {
    MutexLock lock(mutex_);
    ReadStats stats = stats_;
    stats.budget_nanos += prefetch_->budget_nanos();
    return stats;
  }
  uint64_t peak_bytes() override { return budget_.peak_bytes(); }

 protected:
  void StartPrefetch(size_t units, std::function<uint64_t(size_t)> cost,
                     typename OrderedPrefetch<std::vector<T>>::Produce produce) {
    prefetch_ = std::make_unique<OrderedPrefetch<std::vector<T>>>(
        DefaultThreads(reader_.options().threads), units, budget_, reader_.options().context,
        std::move(cost), std::move(produce));
  }
  // For the destructors of those who started it: its threads call into their members.
  void StopPrefetch() { prefetch_.reset(); }

  absl::StatusOr<std::vector<Buffer>> Fetch(const Unit& unit, const TileReader& tiles,
                                            const CallContext& context) {
    std::vector<Buffer> contents;
    ReadStats stats = NewStats();
    TILEKV_RETURN_IF_ERROR(
        UnitFetch(reader_.store(), reader_.pool(), tiles, context).Fetch(unit, contents, &stats));
    AddStats(stats);
    return contents;
  }
  void AddStats(const ReadStats& stats) {
    MutexLock lock(mutex_);
    stats_.Add(stats);
  }
  ReadStats NewStats() const { return {.timed = reader_.options().timed}; }

  ModelReader& reader_;

 private:
  ByteBudget budget_;
  std::unique_ptr<OrderedPrefetch<std::vector<T>>> prefetch_;
  mutable Mutex mutex_;
  ReadStats stats_ ABSL_GUARDED_BY(mutex_);
  std::deque<T> queue_;
};

class TileStream : public UnitStream<StreamedTile> {
 public:
  TileStream(ModelReader& reader, const TileReader& tiles, std::vector<SelectedTensor> tensors)
      : UnitStream(reader), tiles_(tiles), tensors_(std::move(tensors)) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Entry& entry = tensors_[i].entry;
      for (uint64_t tile = 0; tile < entry->tiles.size(); ++tile) {
        uint64_t bytes = entry->tiles[tile].length_bytes;
        if (units_.empty() || !units_.back().Takes(bytes)) units_.emplace_back();
        units_.back().Add({i, entry, tile, bytes});
      }
    }
    StartPrefetch(
        units_.size(), [this](size_t i) { return units_[i].held_bytes; },
        [this](size_t i, const CallContext& context) { return Produce(units_[i], context); });
  }
  ~TileStream() override { StopPrefetch(); }

 private:
  absl::StatusOr<std::vector<StreamedTile>> Produce(const Unit& unit, const CallContext& context) {
    TILEKV_ASSIGN_OR_RETURN(std::vector<Buffer> contents, Fetch(unit, tiles_, context));
    std::vector<StreamedTile> tiles;
    for (size_t i = 0; i < unit.items.size(); ++i) {
      const Item& item = unit.items[i];
      Region region = item.entry->grid().TileRegion(item.tile);
      tiles.push_back({.tensor = tensors_[item.index].name,
                       .tile_index = item.tile,
                       .start = std::move(region.start),
                       .extent = std::move(region.extent),
                       .content = std::move(contents[i])});
    }
    return tiles;
  }

  const TileReader& tiles_;
  const std::vector<SelectedTensor> tensors_;
  std::vector<Unit> units_;
};

// Cuts a tensor into boxes that are contiguous in it: one index of each leading axis, a range of
// the next one, all of the rest.
class BoxCutter {
 public:
  BoxCutter(const TensorEntry& entry, uint64_t max_bytes) : entry_(entry) {
    const Shape& shape = entry.shape;
    if (shape.empty() || entry.bytes() <= max_bytes) return;
    // The first axis of which one index fits. Of dtypes below a byte only the first axis has edges
    // on bytes for sure.
    size_t last = IsSubByte(entry.dtype) ? 0 : shape.size() - 1;
    while (axis_ < last && InnerBits() > max_bytes * 8) ++axis_;
    step_ = std::max<uint64_t>(1, max_bytes * 8 / InnerBits());
    uint64_t height = entry.tile_shape[axis_];
    // Whole tiles where one fits, so that none is read twice.
    if (step_ >= height || IsSubByte(entry.dtype)) {
      step_ = std::max<uint64_t>(1, step_ / height) * height;
    }
  }

  void ForEach(const std::function<void(ResolvedSlice slice, uint64_t offset, uint64_t bytes)>&
                   visit) const {
    if (step_ == 0) return visit(WholeSlice(entry_.shape), 0, entry_.bytes());
    uint64_t length = entry_.shape[axis_];
    uint64_t outer = ProductOf(ShapeSpan(entry_.shape).first(axis_));
    uint64_t bits = InnerBits();
    for (uint64_t o = 0; o < outer; ++o) {
      for (uint64_t at = 0; at < length; at += step_) {
        uint64_t count = std::min(step_, length - at);
        visit(Box(o, at, count), (o * length + at) * bits / 8, count * bits / 8);
      }
    }
  }

  // Whether every box is read straight to where it goes: rows of tiles lie one after another in it.
  bool direct() const {
    for (size_t d = axis_ + 1; d < entry_.shape.size(); ++d) {
      if (entry_.tile_shape[d] != entry_.shape[d]) return false;
    }
    return true;
  }

 private:
  uint64_t InnerBits() const {
    return ProductOf(ShapeSpan(entry_.shape).subspan(axis_ + 1)) * DTypeBits(entry_.dtype);
  }
  ResolvedSlice Box(uint64_t outer, uint64_t at, uint64_t count) const {
    ResolvedSlice slice = WholeSlice(entry_.shape);
    for (size_t d = axis_; d-- > 0;) {
      slice.dims[d].start = outer % entry_.shape[d];
      slice.dims[d].count = 1;
      slice.result_shape[d] = 1;
      outer /= entry_.shape[d];
    }
    slice.dims[axis_].start = at;
    slice.dims[axis_].count = count;
    slice.result_shape[axis_] = count;
    return slice;
  }

  const TensorEntry& entry_;
  size_t axis_ = 0;
  uint64_t step_ = 0;  // 0: one box
};

// Tensors in order, small ones in groups, large ones in boxes.
class PieceStream : public UnitStream<StreamedPiece> {
 public:
  PieceStream(ModelReader& reader, const TileReader& tiles, std::vector<SelectedTensor> tensors,
              uint64_t max_piece_bytes)
      : UnitStream(reader), tiles_(tiles), tensors_(std::move(tensors)) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const Entry& entry = tensors_[i].entry;
      bool one_tile = entry->tiles.size() == 1 && entry->tiles[0].parts == nullptr;
      if (one_tile && entry->bytes() <= std::min(kUnitBytes, max_piece_bytes)) {
        AddSmall(i, entry);
      } else {
        AddLarge(i, entry, max_piece_bytes);
      }
    }
    StartPrefetch(
        units_.size(), [this](size_t i) { return units_[i].held_bytes(); },
        [this](size_t i, const CallContext& context) {
          return units_[i].large == nullptr ? Small(units_[i].small, context)
                                            : Large(units_[i], context);
        });
  }
  ~PieceStream() override { StopPrefetch(); }

 private:
  struct PieceUnit {
    Unit small;        // a group of small tensors, or
    size_t index = 0;  // a box of a large one
    Entry large;
    ResolvedSlice slice;
    uint64_t offset_bytes = 0;
    uint64_t bytes = 0;
    uint64_t buffer_bytes = 0;

    uint64_t held_bytes() const {
      return large == nullptr ? small.held_bytes : BufferPool::CapacityFor(bytes) + buffer_bytes;
    }
  };

  void AddSmall(size_t index, const Entry& entry) {
    bool joins = !units_.empty() && units_.back().large == nullptr &&
                 units_.back().small.Takes(entry->bytes());
    if (!joins) units_.emplace_back();
    units_.back().small.Add({index, entry, 0, entry->bytes()});
  }

  void AddLarge(size_t index, const Entry& entry, uint64_t max_piece_bytes) {
    BoxCutter cutter(*entry, max_piece_bytes);
    bool has_parts = std::any_of(entry->tiles.begin(), entry->tiles.end(),
                                 [](const TileRef& ref) { return ref.parts != nullptr; });
    uint64_t most = cutter.direct() && !has_parts ? 0 : TileReader::BufferBytes(*entry);
    cutter.ForEach([&](ResolvedSlice slice, uint64_t offset, uint64_t bytes) {
      uint64_t buffer = has_parts ? most : std::min(most, bytes + kBlockBytes);
      units_.push_back({.small = {},
                        .index = index,
                        .large = entry,
                        .slice = std::move(slice),
                        .offset_bytes = offset,
                        .bytes = bytes,
                        .buffer_bytes = buffer});
    });
  }

  absl::StatusOr<std::vector<StreamedPiece>> Large(const PieceUnit& unit,
                                                   const CallContext& context) {
    std::vector<StreamedPiece> pieces(1);
    pieces[0] = {.index = unit.index,
                 .name = tensors_[unit.index].name,
                 .entry = unit.large,
                 .offset_bytes = unit.offset_bytes,
                 .content = reader_.pool().Get(unit.bytes)};
    TILEKV_ASSIGN_OR_RETURN(ReadPlan plan,
                            ReadPlan::Create(unit.large->dtype, unit.large->grid(), unit.slice));
    ReadStats stats = NewStats();
    TILEKV_RETURN_IF_ERROR(
        tiles_.RunReserved(*unit.large, plan, pieces[0].content.data(), &stats, context));
    AddStats(stats);
    return pieces;
  }

  absl::StatusOr<std::vector<StreamedPiece>> Small(const Unit& unit, const CallContext& context) {
    TILEKV_ASSIGN_OR_RETURN(std::vector<Buffer> contents, Fetch(unit, tiles_, context));
    std::vector<StreamedPiece> pieces;
    for (size_t i = 0; i < contents.size(); ++i) {
      const Item& item = unit.items[i];
      pieces.push_back({.index = item.index,
                        .name = tensors_[item.index].name,
                        .entry = item.entry,
                        .offset_bytes = 0,
                        .content = std::move(contents[i])});
    }
    return pieces;
  }

  const TileReader& tiles_;
  const std::vector<SelectedTensor> tensors_;
  std::vector<PieceUnit> units_;
};

// Pieces that are whole tensors.
class TensorStream : public ModelStream<StreamedTensor> {
 public:
  explicit TensorStream(std::unique_ptr<ModelStream<StreamedPiece>> pieces)
      : pieces_(std::move(pieces)) {}
  absl::StatusOr<std::optional<StreamedTensor>> Next() override {
    TILEKV_ASSIGN_OR_RETURN(auto piece, pieces_->Next());
    if (!piece.has_value()) return std::nullopt;
    return StreamedTensor{.name = std::move(piece->name),
                          .dtype = piece->entry->dtype,
                          .shape = piece->entry->shape,
                          .content = std::move(piece->content)};
  }
  ReadStats stats() const override { return pieces_->stats(); }
  uint64_t peak_bytes() override { return pieces_->peak_bytes(); }

 private:
  const std::unique_ptr<ModelStream<StreamedPiece>> pieces_;
};

}  // namespace

absl::StatusOr<std::vector<SelectedTensor>> ModelReader::Select(
    const std::vector<std::string>& tensors) {
  std::vector<SelectedTensor> selected;
  if (tensors.empty()) {
    for (const TensorEntry& entry : manifest_.tensors) {
      if (entry.is_alias()) continue;
      TILEKV_ASSIGN_OR_RETURN(auto found, Find(entry.name));
      selected.push_back({entry.name, std::move(found)});
    }
    return selected;
  }
  for (const std::string& tensor : tensors) {
    TILEKV_ASSIGN_OR_RETURN(auto found, Find(tensor));
    selected.push_back({tensor, std::move(found)});
  }
  return selected;
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedPiece>>> ModelReader::StreamPieces(
    std::vector<std::string> tensors, uint64_t max_piece_bytes) {
  TILEKV_ASSIGN_OR_RETURN(auto selected, Select(tensors));
  return std::make_unique<PieceStream>(*this, tiles_, std::move(selected), max_piece_bytes);
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedTensor>>> ModelReader::StreamTensors(
    std::vector<std::string> tensors) {
  constexpr uint64_t kWhole = UINT64_MAX;
  TILEKV_ASSIGN_OR_RETURN(auto pieces, StreamPieces(std::move(tensors), kWhole));
  return std::make_unique<TensorStream>(std::move(pieces));
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedTile>>> ModelReader::StreamTiles(
    std::vector<std::string> tensors) {
  TILEKV_ASSIGN_OR_RETURN(auto selected, Select(tensors));
  return std::make_unique<TileStream>(*this, tiles_, std::move(selected));
}

}  // namespace tilekv
