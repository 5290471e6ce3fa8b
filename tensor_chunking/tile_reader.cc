#include "tensor_chunking/tile_reader.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/parallel.h"
#include "tensor_chunking/stream_copy.h"

namespace tilekv {
namespace {

// Pieces of memory shorter than this are filled by a copy rather than by the kernel, one by one.
constexpr uint64_t kLeastPieceBytes = 2 * kKiB;
// More than this would not stay in the processor's cache until it is used.
constexpr uint64_t kLeastStreamedBytes = 32 * kMiB;

}  // namespace

int DefaultThreads(int asked) {
  if (asked > 0) return asked;
  return std::clamp(2 * static_cast<int>(std::thread::hardware_concurrency()), 4, 16);
}

uint64_t TileReader::BufferBytes(const TensorEntry& entry) {
  uint64_t most = 0;
  for (const TileRef& ref : entry.tiles) {
    uint64_t bytes =
        ref.parts == nullptr ? ref.length_bytes : ref.length_bytes + 2 * ref.object.length;
    most = std::max(most, bytes);
  }
  return most;
}

absl::Status TileReader::Run(const TensorEntry& entry, const ReadPlan& plan, uint8_t* destination,
                             ReadStats* stats, const CallContext& context) const {
  Mutex mutex;
  ReadStats total;
  const ReadHow how{.streams = plan.result_bytes() >= kLeastStreamedBytes};
  absl::Status status = ParallelFor(threads_, plan.size(), context, [&](size_t i) {
    ReadStats own{.timed = stats != nullptr && stats->timed};
    absl::Status read = ReadWork(entry, plan.Work(i), destination, how, &own, context);
    MutexLock lock(mutex);
    total.Add(own);
    return read;
  });
  if (stats != nullptr) stats->Add(total);
  return status;
}

absl::Status TileReader::RunReserved(const TensorEntry& entry, const ReadPlan& plan,
                                     uint8_t* destination, ReadStats* stats,
                                     const CallContext& context) const {
  for (uint64_t i = 0; i < plan.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_RETURN_IF_ERROR(
        ReadWork(entry, plan.Work(i), destination, {.reserved = true}, stats, context));
  }
  return absl::OkStatus();
}

absl::Status TileReader::ReadWork(const TensorEntry& entry, const TileWork& work,
                                  uint8_t* destination, ReadHow how, ReadStats* stats,
                                  const CallContext& context) const {
  const TileRef& ref = entry.tiles[work.tile];
  const bool timed = stats != nullptr && stats->timed;
  auto where = [&] {
    return fmt::format("tensor '{}', tile {} of {}", Printable(entry.name), work.tile,
                       entry.tiles.size());
  };
  auto located = [&](const absl::Status& status) {
    return status.ok() ? status : WithContext(status, where());
  };
  uint64_t buffered_bytes = 0;
  for (const TileRead& read : work.reads) {
    if (!read.direct() && !read.placed()) buffered_bytes += read.length_bytes;
  }
  if (ref.parts != nullptr) buffered_bytes = ref.length_bytes + 2 * ref.object.length;
  Reservation reservation;
  if (!how.reserved && buffered_bytes > 0) {
    TimedScope waiting(timed ? &stats->budget_nanos : nullptr);
    TILEKV_ASSIGN_OR_RETURN(reservation, budget_.Acquire(buffered_bytes, context));
  }
  if (ref.parts != nullptr) {
    Buffer whole = pool_.Get(ref.length_bytes);
    TILEKV_RETURN_IF_ERROR(located(ReadXor(ref, whole.span(), stats, context)));
    for (const TileRead& read : work.reads) {
      for (const RegionCopy& copy : read.copies) {
        copy.Run(whole.data() + read.offset_bytes, destination);
      }
    }
    return absl::OkStatus();
  }
  std::vector<ObjectRead> reads;
  std::vector<Buffer> buffers(work.reads.size());
  for (size_t i = 0; i < work.reads.size(); ++i) {
    const TileRead& read = work.reads[i];
    ObjectRead object{.ref = ref.object, .offset = ref.offset_bytes + read.offset_bytes, .out = {}};
    object.verify = verify_;
    if (read.placed()) {
      object.placed_bytes = read.length_bytes;
      if (how.streams && HasMemory(destination + read.copies[0].dst_offset())) {
        object.place = [&copy = read.copies[0], destination](uint64_t offset, Bytes piece) {
          copy.StreamPiece(offset, piece, destination);
        };
      } else {
        object.place = [&copy = read.copies[0], destination](uint64_t offset, Bytes piece) {
          copy.RunPiece(offset, piece, destination);
        };
      }
      if (read.copies[0].run_bytes() >= kLeastPieceBytes) {
        object.pieces = [&copy = read.copies[0], destination](uint64_t offset, uint64_t length,
                                                              std::vector<MutableBytes>& pieces) {
          copy.PiecesOf(offset, length, destination, pieces);
        };
      }
    } else if (read.direct()) {
      object.out = {destination + read.copies[0].dst_offset(), read.length_bytes};
    } else {
      buffers[i] = pool_.Get(read.length_bytes);
      object.out = buffers[i].span();
    }
    reads.push_back(object);
  }
  if (timed) {
    ReadStats own{.timed = true};
    absl::Status read = store_.ReadObjects(reads, &own, context);
    own.slowest.what = where();
    stats->Add(own);
    TILEKV_RETURN_IF_ERROR(located(read));
  } else {
    TILEKV_RETURN_IF_ERROR(located(store_.ReadObjects(reads, stats, context)));
  }
  TimedScope placing(timed ? &stats->times : nullptr, &ReadTimes::place_nanos);
  for (size_t i = 0; i < work.reads.size(); ++i) {
    if (!buffers[i]) continue;
    for (const RegionCopy& copy : work.reads[i].copies) copy.Run(buffers[i].data(), destination);
  }
  return absl::OkStatus();
}

absl::Status TileReader::ReadTile(const TileRef& ref, MutableBytes out, ReadStats* stats,
                                  const CallContext& context) const {
  if (ref.parts != nullptr) return ReadXor(ref, out, stats, context);
  ObjectRead read{.ref = ref.object, .offset = ref.offset_bytes, .out = out, .verify = verify_};
  return store_.ReadObjects({&read, 1}, stats, context);
}

absl::Status TileReader::ReadXor(const TileRef& ref, MutableBytes out, ReadStats* stats,
                                 const CallContext& context) const {
  uint64_t length = ref.object.length;
  Buffer base = pool_.Get(length);
  Buffer delta = pool_.Get(length);
  ObjectRead reads[] = {{.ref = ref.parts->base, .offset = 0, .out = base.span()},
                        {.ref = ref.parts->delta, .offset = 0, .out = delta.span()}};
  TILEKV_RETURN_IF_ERROR(store_.ReadObjects(reads, stats, context));
  for (uint64_t i = 0; i < length; ++i) base.data()[i] ^= delta.data()[i];
  if (IdOf(ref.object.level, base.span()) != ref.object.id) {
    return MakeError(
        Reason::kDataLoss,
        fmt::format("objects {} and {} do not combine to {}", ref.parts->base.id.Short(),
                    ref.parts->delta.id.Short(), ref.object.id.Short()));
  }
  std::copy_n(base.data() + ref.offset_bytes, out.size(), out.data());
  return absl::OkStatus();
}

}  // namespace tilekv
