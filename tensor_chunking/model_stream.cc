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

using Entry = std::shared_ptr<const TensorEntry>;

// One tile of one tensor, as part of a unit.
struct Item {
  Entry entry;
  uint64_t tile = 0;
  uint64_t bytes = 0;
};

struct Unit {
  std::vector<Item> items;
  uint64_t bytes = 0;  // held while it is fetched
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
            next.offset_bytes - end > kLeafBytes) {
          break;
        }
        end = next.offset_bytes + next.length_bytes;
        ++run.last;
      }
      ObjectRead read{.ref = first.object, .offset = first.offset_bytes, .out = out[at].span()};
      if (run.last > run.first) {
        run.buffer = pool_.Get(end - first.offset_bytes);
        read.out = run.buffer.span();
      }
      at = run.last + 1;
      reads.push_back(read);
      runs.push_back(std::move(run));
    }
    absl::Status status = store_.ReadObjects(reads, stats, context_);
    if (!status.ok()) return FindCulprit(unit, runs, reads, status);
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
    return WithContext(
        status, fmt::format("tensor '{}', tile {} of {}", Printable(item.entry->name), item.tile,
                            item.entry->tiles.size()));
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

// Units of neighbouring items.
std::vector<Unit> GroupItems(std::vector<Item> items) {
  std::vector<Unit> units;
  for (Item& item : items) {
    if (units.empty() || units.back().items.size() == kUnitItems ||
        units.back().bytes + item.bytes > kUnitBytes) {
      units.emplace_back();
    }
    units.back().bytes += item.bytes;
    units.back().items.push_back(std::move(item));
  }
  return units;
}

std::vector<Item> ItemsOf(const std::vector<Entry>& entries) {
  std::vector<Item> items;
  for (const Entry& entry : entries) {
    for (uint64_t tile = 0; tile < entry->tiles.size(); ++tile) {
      items.push_back({entry, tile, entry->tiles[tile].length_bytes});
    }
  }
  return items;
}

// What both streams share: the statistics and the queue of items of the unit that was fetched last.
template <typename T>
class UnitStream : public ModelStream<T> {
 public:
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
    return stats_;
  }

 protected:
  void AddStats(const ReadStats& stats) {
    MutexLock lock(mutex_);
    stats_.asked_bytes += stats.asked_bytes;
    stats_.received_bytes += stats.received_bytes;
  }
  // Last of all members of the last class to be made, first to go: its threads call into the
  // others.
  std::unique_ptr<OrderedPrefetch<std::vector<T>>> prefetch_;

 private:
  mutable Mutex mutex_;
  ReadStats stats_ ABSL_GUARDED_BY(mutex_);
  std::deque<T> queue_;
};

class TileStream : public UnitStream<StreamedTile> {
 public:
  TileStream(ModelReader& reader, const TileReader& tiles, const std::vector<Entry>& entries)
      : reader_(reader), tiles_(tiles), units_(GroupItems(ItemsOf(entries))) {
    // Twice: the items' own memory, and that of runs of neighbours.
    prefetch_ = std::make_unique<OrderedPrefetch<std::vector<StreamedTile>>>(
        DefaultThreads(reader.options().threads), units_.size(), reader.budget(),
        reader.options().context,
        [this](size_t i) { return units_[i].bytes * (units_[i].items.size() > 1 ? 2 : 1); },
        [this](size_t i) { return Produce(units_[i]); });
  }
  ~TileStream() override { prefetch_.reset(); }

 private:
  absl::StatusOr<std::vector<StreamedTile>> Produce(const Unit& unit) {
    UnitFetch fetch(reader_.store(), reader_.pool(), tiles_, reader_.options().context);
    std::vector<Buffer> contents;
    ReadStats stats;
    TILEKV_RETURN_IF_ERROR(fetch.Fetch(unit, contents, &stats));
    AddStats(stats);
    std::vector<StreamedTile> tiles;
    for (size_t i = 0; i < unit.items.size(); ++i) {
      const Item& item = unit.items[i];
      Region region = item.entry->grid().TileRegion(item.tile);
      tiles.push_back({.tensor = item.entry->name,
                       .tile_index = item.tile,
                       .start = std::move(region.start),
                       .extent = std::move(region.extent),
                       .content = std::move(contents[i])});
    }
    return tiles;
  }

  ModelReader& reader_;
  const TileReader& tiles_;
  const std::vector<Unit> units_;
};

// Tensors in order, small ones in groups, large ones in ranges of rows.
class PieceStream : public UnitStream<StreamedPiece> {
 public:
  PieceStream(ModelReader& reader, const TileReader& tiles, std::vector<Entry> entries,
              uint64_t max_piece_bytes)
      : reader_(reader), tiles_(tiles) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      bool one_tile = entry->tiles.size() == 1 && entry->tiles[0].parts == nullptr;
      if (one_tile && entry->bytes() <= std::min(kUnitBytes, max_piece_bytes)) {
        AddSmall(i, entry);
      } else {
        AddLarge(i, entry, max_piece_bytes);
      }
    }
    prefetch_ = std::make_unique<OrderedPrefetch<std::vector<StreamedPiece>>>(
        DefaultThreads(reader.options().threads), units_.size(), reader.budget(),
        reader.options().context, [this](size_t i) { return units_[i].held_bytes; },
        [this](size_t i) { return Produce(units_[i]); });
  }
  ~PieceStream() override { prefetch_.reset(); }

 private:
  struct PieceUnit {
    Unit small;                   // a group of small tensors, or
    std::vector<size_t> tensors;  // their places in what was asked for
    Entry large;                  // rows of one
    uint64_t first_row = 0;
    uint64_t rows = 0;
    uint64_t offset_bytes = 0;
    uint64_t bytes = 0;
    uint64_t held_bytes = 0;
  };

  void AddSmall(size_t index, const Entry& entry) {
    uint64_t bytes = entry->bytes();
    bool joins = !units_.empty() && units_.back().large == nullptr &&
                 units_.back().tensors.size() < kUnitItems &&
                 units_.back().small.bytes + bytes <= kUnitBytes;
    if (!joins) units_.emplace_back();
    PieceUnit& unit = units_.back();
    unit.small.items.push_back({entry, 0, bytes});
    unit.small.bytes += bytes;
    unit.tensors.push_back(index);
    // The tensors' own memory, and that of runs of neighbours.
    unit.held_bytes = unit.small.bytes * (unit.tensors.size() > 1 ? 2 : 1);
  }

  void AddLarge(size_t index, const Entry& entry, uint64_t max_piece_bytes) {
    uint64_t total_rows = entry->shape.empty() ? 1 : entry->shape[0];
    uint64_t bytes = entry->bytes();
    uint64_t buffer_bytes = TileReader::BufferBytes(*entry);
    uint64_t rows_a_piece = RowsAPiece(*entry, total_rows, bytes, max_piece_bytes);
    for (uint64_t row = 0; row == 0 || row < total_rows; row += rows_a_piece) {
      PieceUnit unit{.tensors = {index}, .large = entry, .first_row = row};
      unit.rows = std::min(rows_a_piece, total_rows - row);
      // In bits first: rows of dtypes below a byte need not be whole bytes, pieces are.
      uint64_t row_elements = total_rows == 0 ? 0 : ProductOf(entry->shape) / total_rows;
      unit.offset_bytes = row * row_elements * DTypeBits(entry->dtype) / 8;
      unit.bytes = unit.rows * row_elements * DTypeBits(entry->dtype) / 8;
      unit.held_bytes = unit.bytes + std::min(buffer_bytes, unit.bytes + kBlockBytes);
      units_.push_back(std::move(unit));
      if (total_rows == 0) break;
    }
  }

  // Whole tiles where one fits, so that none is read twice.
  static uint64_t RowsAPiece(const TensorEntry& entry, uint64_t total_rows, uint64_t bytes,
                             uint64_t max_piece_bytes) {
    if (bytes <= max_piece_bytes || total_rows <= 1) return std::max<uint64_t>(total_rows, 1);
    uint64_t height = entry.tile_shape[0];
    uint64_t rows =
        std::max<uint64_t>(1, max_piece_bytes / std::max<uint64_t>(1, bytes / total_rows));
    if (rows >= height || IsSubByte(entry.dtype)) {
      rows = std::max<uint64_t>(1, rows / height) * height;
    }
    return std::min(rows, total_rows);
  }

  absl::StatusOr<std::vector<StreamedPiece>> Produce(const PieceUnit& unit) {
    std::vector<StreamedPiece> pieces;
    ReadStats stats;
    if (unit.large != nullptr) {
      StreamedPiece& piece = pieces.emplace_back();
      piece = {.index = unit.tensors[0],
               .entry = unit.large,
               .offset_bytes = unit.offset_bytes,
               .content = reader_.pool().Get(unit.bytes)};
      TILEKV_RETURN_IF_ERROR(reader_.ReadRowRangeReserved(*unit.large, unit.first_row, unit.rows,
                                                          piece.content.span(), &stats));
    } else {
      UnitFetch fetch(reader_.store(), reader_.pool(), tiles_, reader_.options().context);
      std::vector<Buffer> contents;
      TILEKV_RETURN_IF_ERROR(fetch.Fetch(unit.small, contents, &stats));
      for (size_t i = 0; i < contents.size(); ++i) {
        pieces.push_back({.index = unit.tensors[i],
                          .entry = unit.small.items[i].entry,
                          .offset_bytes = 0,
                          .content = std::move(contents[i])});
      }
    }
    AddStats(stats);
    return pieces;
  }

  ModelReader& reader_;
  const TileReader& tiles_;
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
    return StreamedTensor{.name = piece->entry->name,
                          .dtype = piece->entry->dtype,
                          .shape = piece->entry->shape,
                          .content = std::move(piece->content)};
  }
  ReadStats stats() const override { return pieces_->stats(); }

 private:
  const std::unique_ptr<ModelStream<StreamedPiece>> pieces_;
};

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<const TensorEntry>>> ModelReader::Select(
    const std::vector<std::string>& tensors) {
  std::vector<Entry> entries;
  if (tensors.empty()) {
    for (const TensorEntry& entry : manifest_.tensors) {
      if (entry.is_alias()) continue;
      TILEKV_ASSIGN_OR_RETURN(entries.emplace_back(), Find(entry.name));
    }
    return entries;
  }
  for (const std::string& tensor : tensors) {
    TILEKV_ASSIGN_OR_RETURN(entries.emplace_back(), Find(tensor));
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedPiece>>> ModelReader::StreamPieces(
    std::vector<std::string> tensors, uint64_t max_piece_bytes) {
  TILEKV_ASSIGN_OR_RETURN(auto entries, Select(tensors));
  return std::make_unique<PieceStream>(*this, tiles_, std::move(entries), max_piece_bytes);
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedTensor>>> ModelReader::StreamTensors(
    std::vector<std::string> tensors) {
  constexpr uint64_t kWhole = UINT64_MAX;
  TILEKV_ASSIGN_OR_RETURN(auto pieces, StreamPieces(std::move(tensors), kWhole));
  return std::make_unique<TensorStream>(std::move(pieces));
}

absl::StatusOr<std::unique_ptr<ModelStream<StreamedTile>>> ModelReader::StreamTiles(
    std::vector<std::string> tensors) {
  TILEKV_ASSIGN_OR_RETURN(auto entries, Select(tensors));
  return std::make_unique<TileStream>(*this, tiles_, entries);
}

}  // namespace tilekv
