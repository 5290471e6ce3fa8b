#include "kvstore/value_get.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr uint64_t kReadPieceBytes = 4 * kMiB;
constexpr size_t kPiecesAhead = 4;
constexpr int kReadThreads = 4;
constexpr int kReadTries = 4;

}  // namespace

ValueInfo ToValueInfo(const v1::ValueInfo& message) {
  return {message.key(), message.version(), message.length(), message.modified_micros(),
          message.object().level() > 0};
}

// Pieces in order, read by threads, a few ahead of the sink.
class ValueGet::Stream {
 public:
  Stream(ValueGet& get, ByteSink& sink, const CallContext& context)
      : get_(get), sink_(sink), context_(context) {}
  // Waits for what is still being read.
  ~Stream() {
    for (std::shared_ptr<Reading>& reading : ahead_) Wait(*reading).IgnoreError();
  }

  absl::Status Run(const std::vector<Piece>& pieces) {
    if (pieces.size() == 1) {
      Reading reading;
      Read(reading, pieces[0]);
      return Give(reading);
    }
    for (const Piece& piece : pieces) {
      if (ahead_.size() == kPiecesAhead) TILEKV_RETURN_IF_ERROR(GiveFirst());
      auto reading = ahead_.emplace_back(std::make_shared<Reading>());
      get_.Threads().Post([this, reading, piece] { Read(*reading, piece); });
    }
    while (!ahead_.empty()) TILEKV_RETURN_IF_ERROR(GiveFirst());
    return absl::OkStatus();
  }
  bool given() const { return given_; }

 private:
  struct Reading {
    Buffer buffer;
    Mutex mutex;
    CondVar done_changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };

  void Read(Reading& reading, const Piece& piece) {
    absl::Status status = context_.Check();
    if (status.ok()) {
      reading.buffer = get_.pool_.Get(piece.length);
      ObjectRead read{piece.ref, piece.offset, reading.buffer.span()};
      status = get_.node_.ReadObjects({&read, 1}, nullptr, context_);
    }
    MutexLock lock(reading.mutex);
    reading.status = std::move(status);
    reading.done = true;
    reading.done_changed.SignalAll();
  }
  static absl::Status Wait(Reading& reading) {
    MutexLock lock(reading.mutex);
    while (!reading.done) reading.done_changed.Wait(reading.mutex);
    return reading.status;
  }
  absl::Status GiveFirst() {
    std::shared_ptr<Reading> first = std::move(ahead_.front());
    ahead_.pop_front();
    return Give(*first);
  }
  absl::Status Give(Reading& reading) {
    TILEKV_RETURN_IF_ERROR(Wait(reading));
    given_ = true;
    return sink_.Append(reading.buffer.span());
  }

  ValueGet& get_;
  ByteSink& sink_;
  const CallContext& context_;
  std::deque<std::shared_ptr<Reading>> ahead_;
  bool given_ = false;
};

ValueGet::ValueGet(NodeService& node, BufferPool& pool) : node_(node), pool_(pool) {}

ThreadPool& ValueGet::Threads() {
  MutexLock lock(mutex_);
  if (threads_ == nullptr) threads_ = std::make_unique<ThreadPool>("value-read", kReadThreads);
  return *threads_;
}

absl::Status ValueGet::ReadTree(const ObjectRef& ref, std::string& content,
                                const CallContext& context) {
  content.resize(ref.length);
  MutableBytes out(reinterpret_cast<uint8_t*>(content.data()), content.size());
  ObjectRead read{ref, 0, out};
  return node_.ReadObjects({&read, 1}, nullptr, context);
}

absl::Status ValueGet::FindPieces(const ObjectRef& ref, uint64_t content_bytes, uint64_t offset,
                                  uint64_t length, const CallContext& context,
                                  std::vector<Piece>& pieces) {
  if (length == 0) return absl::OkStatus();
  if (ref.level == 0) {
    for (uint64_t done = 0; done < length;) {
      uint64_t take = std::min(length - done, kReadPieceBytes);
      pieces.push_back({ref, offset + done, take});
      done += take;
    }
    return absl::OkStatus();
  }
  std::string content;
  TILEKV_RETURN_IF_ERROR(ReadTree(ref, content, context));
  TILEKV_ASSIGN_OR_RETURN(ChunkedBlob value,
                          DecodeChunkedBlob(ref.level, AsBytes(content), Reason::kDataLoss));
  if (value.content_bytes != content_bytes) {
    return MakeError(Reason::kDataLoss,
                     fmt::format("chunked blob {} has {} bytes, not {}", ref.id.Hex(),
                                 value.content_bytes, content_bytes));
  }
  uint64_t start = 0;  // of the chunk, in this tree's content
  for (const BlobChunk& chunk : value.chunks) {
    uint64_t end = start + chunk.content_bytes;
    uint64_t from = std::max(start, offset), to = std::min(end, offset + length);
    if (from < to) {
      TILEKV_RETURN_IF_ERROR(
          FindPieces(chunk.ref, chunk.content_bytes, from - start, to - from, context, pieces));
    }
    start = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ValueInfo>> ValueGet::Get(std::string_view key, ByteSink& sink,
                                                       const ByteRange& range,
                                                       const CallContext& context) {
  v1::GetValueRequest request;
  request.set_key(std::string(key));
  request.set_with_content(true);
  absl::Status status;
  for (int tries = 0; tries < kReadTries; ++tries) {
    TILEKV_ASSIGN_OR_RETURN(v1::GetValueResponse response, node_.GetValue(request, context));
    if (!response.found()) return std::nullopt;
    ValueInfo info = ToValueInfo(response.info());
    uint64_t offset = std::min(range.offset, info.length);
    uint64_t length = std::min(range.length.value_or(info.length), info.length - offset);
    if (response.has_content()) {
      if (response.content().size() != info.length) {
        return MakeError(Reason::kDataLoss,
                         fmt::format("key '{}': {} bytes came of {}", Printable(key),
                                     response.content().size(), info.length));
      }
      TILEKV_RETURN_IF_ERROR(sink.Append(AsBytes(response.content()).subspan(offset, length)));
      return info;
    }
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(response.info().object()));
    std::vector<Piece> pieces;
    status = FindPieces(ref, info.length, offset, length, context, pieces);
    Stream stream(*this, sink, context);
    if (status.ok()) status = stream.Run(pieces);
    if (status.ok()) return info;
    status = WithContext(status, fmt::format("key '{}'", Printable(key)));
    if (GetReason(status) != Reason::kNotFound) return status;
    if (stream.given()) {
      return MakeError(
          Reason::kVersionConflict,
          fmt::format("key '{}' was replaced while it was read; read it again", Printable(key)));
    }
  }
  return MakeError(Reason::kDataLoss, std::string(status.message()));
}

}  // namespace tilekv
