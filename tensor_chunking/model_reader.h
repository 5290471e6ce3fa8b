// ModelReader: one opened version of a model. Whole tensors, slices, rows, shards and streams, each
// reading only what it needs, straight into memory that the caller owns, verified to the tiles'
// ids.
//
// Thread-safe; the store must outlive it. Tensors are row-major (C order). Peak memory of a call is
// its destination and the reader's budget. Errors name the tensor, and the tile where there is one:
// DATA_LOSS, NOT_FOUND, NODE_UNAVAILABLE; INVALID_ARGUMENT for a slice or a destination that does
// not fit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/machine_memory.h"
#include "kvstore/kv_store.h"
#include "kvstore/model_name.h"
#include "tensor_chunking/manifest.h"
#include "tensor_chunking/read_plan.h"
#include "tensor_chunking/slice.h"
#include "tensor_chunking/source_files.h"
#include "tensor_chunking/tile_reader.h"

namespace tilekv {

struct ReaderOptions {
  // Of what is in flight and of the manifest, destinations not counted. A manifest that needs more
  // than half of it leaves a quarter for what is in flight.
  uint64_t memory_bytes = DefaultClientMemoryBytes();
  int threads = 0;  // 0: twice as many as the machine has processors, 4 to 16
  // False: tensors are not checked against their ids, only lengths are. For who trusts network and
  // disk and needs the processors' time; the manifest is always checked.
  bool verify = true;
  bool timed = false;  // statistics of streams say where the time went
  CallContext context;
};

// One tile's work in a stream: which tensor, where in it, and its content.
struct StreamedTile {
  std::string tensor;
  uint64_t tile_index = 0;
  std::vector<uint64_t> start;  // of the region, one a dimension
  std::vector<uint64_t> extent;
  Buffer content;  // row-major elements of the region; the receiver's to keep
};
struct StreamedTensor {
  std::string name;
  DType dtype{};
  Shape shape;
  Buffer content;  // row-major; the receiver's to keep
};

// A contiguous part of a tensor, or all of it.
struct StreamedPiece {
  size_t index = 0;  // of the tensor in what was asked for
  std::string name;  // as it was asked for: that of an alias where one was
  std::shared_ptr<const TensorEntry> entry;
  uint64_t offset_bytes = 0;  // of the content in the row-major tensor
  Buffer content;
};

template <typename T>
class ModelStream {
 public:
  virtual ~ModelStream() = default;  // cancels what is under way
  // The next in order; none at the end. For one thread at a time.
  virtual absl::StatusOr<std::optional<T>> Next() = 0;
  virtual ReadStats stats() const = 0;
  // The most that its read-ahead has held so far.
  virtual uint64_t peak_bytes() = 0;
};

// A tensor as it was asked for, and what it is.
struct SelectedTensor {
  std::string name;
  std::shared_ptr<const TensorEntry> entry;
};

class ModelReader {
 public:
  // Resolves the name and reads the manifest: two exchanges with the store. NOT_FOUND tells a
  // missing model from a missing version.
  static absl::StatusOr<std::unique_ptr<ModelReader>> Open(KvStore& store, const ModelName& name,
                                                           const ReaderOptions& options = {});
  ~ModelReader();

  const v1::VersionInfo& version() const { return version_; }
  const Manifest& manifest() const { return manifest_; }
  // "NS/NAME@NUMBER".
  std::string full_name() const;
  // The tensor of this name, an alias followed, with all its tiles: those of very large tensors are
  // read at first use and kept. NOT_FOUND names the tensor and says how many there are.
  absl::StatusOr<std::shared_ptr<const TensorEntry>> Find(std::string_view tensor);

  // Each fills `out`, whose size must be that of the result in bytes. Bytes asked and received are
  // added to `stats`.
  absl::Status ReadTensor(std::string_view tensor, MutableBytes out, ReadStats* stats = nullptr);
  absl::Status ReadSlice(std::string_view tensor, const ResolvedSlice& slice, MutableBytes out,
                         ReadStats* stats = nullptr);
  // The share of one of `world` parties along `axis` (negative: from the end), as ShardSlice has
  // it: out.size() is that of ShardSlice(shape, rank, world, axis).
  absl::Status ReadShard(std::string_view tensor, uint64_t rank, uint64_t world, int64_t axis,
                         MutableBytes out, ReadStats* stats = nullptr);
  // Rows (indices of the first dimension, negative from the end) in the order given, duplicates
  // allowed.
  absl::Status ReadRows(std::string_view tensor, std::span<const int64_t> rows, MutableBytes out,
                        ReadStats* stats = nullptr);
  // Tensors named (empty: all but aliases, in name order), in the order given, a whole tensor or a
  // tile at a time, read ahead within the budget. A stream has half of the reader's budget for
  // itself, so that it never waits for other reads, nor they for it.
  absl::StatusOr<std::unique_ptr<ModelStream<StreamedTensor>>> StreamTensors(
      std::vector<std::string> tensors = {});
  // Whole tensors, those above `max_piece_bytes` in contiguous parts of at most that size.
  absl::StatusOr<std::unique_ptr<ModelStream<StreamedPiece>>> StreamPieces(
      std::vector<std::string> tensors, uint64_t max_piece_bytes);
  absl::StatusOr<std::unique_ptr<ModelStream<StreamedTile>>> StreamTiles(
      std::vector<std::string> tensors = {});

  absl::Status ReadSideFile(const SideFile& file, ByteSink& sink);
  // What is kept of the files that the model came from; none where it came from none.
  absl::StatusOr<std::optional<ObjectRef>> SourceFilesRef();
  absl::StatusOr<std::optional<SourceFiles>> ReadSourceFiles();

  KvStore& store() { return store_; }
  BufferPool& pool() { return *pool_; }
  // Of reads into memory of the caller's: half of what the manifest leaves of the reader's.
  ByteBudget& budget() { return *budget_; }
  uint64_t stream_memory_bytes() const { return budget_->total_bytes(); }
  const ReaderOptions& options() const { return options_; }

 private:
  ModelReader(KvStore& store, const ReaderOptions& options, v1::VersionInfo version,
              Manifest manifest);
  absl::Status CheckSize(std::string_view tensor, uint64_t bytes, MutableBytes out) const;
  absl::StatusOr<std::vector<SelectedTensor>> Select(const std::vector<std::string>& tensors);

  KvStore& store_;
  const ReaderOptions options_;
  const v1::VersionInfo version_;
  const Manifest manifest_;
  const uint64_t memory_bytes_;  // for what is in flight
  std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<ByteBudget> budget_;
  TileReader tiles_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const TensorEntry>, std::less<>> listed_
      ABSL_GUARDED_BY(mutex_);  // tensors whose tile lists have been read
};

}  // namespace tilekv
