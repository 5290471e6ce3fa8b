#include "tensor_chunking/formats/zip_member.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr uint64_t kCheckpointBytes = 4 * kMiB;
constexpr uint64_t kMaxCheckpoints = 64;
constexpr size_t kIdleDecoders = 4;
constexpr size_t kInputBytes = 64 * kKiB;
constexpr size_t kSkipBytes = 64 * kKiB;
constexpr size_t kMaxPieces = 4'096;  // more are read again at the end
constexpr int kRawDeflate = -MAX_WBITS;

uint32_t Crc(uint32_t crc, Bytes bytes) {
  return static_cast<uint32_t>(crc32_z(crc, bytes.data(), bytes.size()));
}

}  // namespace

// `input` is what zlib is reading from; empty in a checkpoint.
struct ZipMemberReader::Decoder {
  z_stream zlib{};
  uint64_t in_at = 0;   // stored bytes that zlib has taken
  uint64_t out_at = 0;  // content bytes that it has given
  uint32_t crc = 0;     // of them
  bool ended = false;
  std::vector<uint8_t> input;

  ~Decoder() { inflateEnd(&zlib); }
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  static std::unique_ptr<Decoder> AtStart() {
    auto decoder = std::make_unique<Decoder>();
    TILEKV_CHECK(inflateInit2(&decoder->zlib, kRawDeflate) == Z_OK);
    return decoder;
  }
  // The same place, without input.
  std::unique_ptr<Decoder> Copy() {
    auto copy = std::make_unique<Decoder>();
    TILEKV_CHECK(inflateCopy(&copy->zlib, &zlib) == Z_OK);
    copy->zlib.next_in = nullptr;
    copy->zlib.avail_in = 0;
    copy->in_at = in_at;
    copy->out_at = out_at;
    copy->crc = crc;
    copy->ended = ended;
    return copy;
  }
};

ZipMemberReader::ZipMemberReader(ZipMember member, std::string label)
    : member_(std::move(member)),
      label_(std::move(label)),
      checkpoint_bytes_(
          std::max(kCheckpointBytes, CeilDiv(member_.content_bytes, kMaxCheckpoints))) {}

ZipMemberReader::~ZipMemberReader() = default;

absl::Status ZipMemberReader::Damaged(std::string_view what) const {
  return MakeError(Reason::kInvalidFile,
                   fmt::format("'{}' is damaged: {}", Printable(label_), what));
}

absl::Status ZipMemberReader::CompareCrc(uint32_t found) {
  if (found == member_.crc32) return absl::OkStatus();
  return Damaged(fmt::format("its checksum is {:08x}, not {:08x}", found, member_.crc32));
}

absl::Status ZipMemberReader::Read(ReadFileBytes read, uint64_t offset, MutableBytes out) {
  TILEKV_CHECK(out.size() <= member_.content_bytes && offset <= member_.content_bytes - out.size());
  if (out.empty()) return absl::OkStatus();
  return member_.deflated ? ReadDeflated(read, offset, out) : ReadStored(read, offset, out);
}

absl::Status ZipMemberReader::Verify(ReadFileBytes read) {
  if (member_.content_bytes == 0) return CompareCrc(0);
  std::vector<uint8_t> piece(std::min<uint64_t>(member_.content_bytes, kMiB));
  for (uint64_t at = 0; at < member_.content_bytes;) {
    {
      MutexLock lock(mutex_);
      if (verified_) return absl::OkStatus();
      if (!member_.deflated) at = crc_at_;
    }
    uint64_t bytes = std::min<uint64_t>(piece.size(), member_.content_bytes - at);
    TILEKV_RETURN_IF_ERROR(Read(read, at, MutableBytes(piece).first(bytes)));
    at += bytes;
  }
  return absl::OkStatus();
}

void ZipMemberReader::Release() {
  MutexLock lock(mutex_);
  idle_.clear();
  checkpoints_.clear();
  delivered_bytes_ = 0;
}

// --- stored

absl::Status ZipMemberReader::ReadStored(ReadFileBytes read, uint64_t offset, MutableBytes out) {
  TILEKV_RETURN_IF_ERROR(read(member_.offset + offset, out));
  return NoteStored(offset, out);
}

// The checksum grows by whatever follows it; what is read ahead of it waits.
absl::Status ZipMemberReader::NoteStored(uint64_t offset, Bytes content) {
  {
    MutexLock lock(mutex_);
    bool of_use = !verified_ && offset >= crc_at_ && !pieces_.contains(offset) &&
                  (offset == crc_at_ || pieces_.size() < kMaxPieces);
    if (!of_use) return absl::OkStatus();
  }
  Piece piece{content.size(), Crc(0, content)};
  MutexLock lock(mutex_);
  if (offset < crc_at_ || verified_) return absl::OkStatus();
  pieces_.emplace(offset, piece);
  for (auto next = pieces_.begin(); next != pieces_.end() && next->first <= crc_at_;
       next = pieces_.erase(next)) {
    if (next->first < crc_at_) continue;  // overlaps what is counted
    crc_ = static_cast<uint32_t>(
        crc32_combine(crc_, next->second.crc, static_cast<z_off_t>(next->second.length)));
    crc_at_ += next->second.length;
  }
  if (crc_at_ < member_.content_bytes) return absl::OkStatus();
  pieces_.clear();
  verified_ = crc_ == member_.crc32;
  return CompareCrc(crc_);
}

// --- deflated

std::unique_ptr<ZipMemberReader::Decoder> ZipMemberReader::TakeDecoder(uint64_t offset) {
  MutexLock lock(mutex_);
  size_t checkpoint = std::min<size_t>(offset / checkpoint_bytes_, checkpoints_.size());
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->out_at > offset) continue;
    if (best == idle_.end() || (*it)->out_at > (*best)->out_at) best = it;
  }
  if (best != idle_.end() && (*best)->out_at >= checkpoint * checkpoint_bytes_) {
    std::unique_ptr<Decoder> taken = std::move(*best);
    idle_.erase(best);
    return taken;
  }
  return checkpoint == 0 ? Decoder::AtStart() : checkpoints_[checkpoint - 1]->Copy();
}

void ZipMemberReader::PutBack(std::unique_ptr<Decoder> decoder, uint64_t delivered_bytes) {
  MutexLock lock(mutex_);
  delivered_bytes_ += delivered_bytes;
  if (delivered_bytes_ >= member_.content_bytes) {
    // Once over: most likely nobody comes back.
    idle_.clear();
    checkpoints_.clear();
    delivered_bytes_ = 0;
    return;
  }
  if (idle_.size() == kIdleDecoders) idle_.erase(idle_.begin());
  idle_.push_back(std::move(decoder));
}

absl::Status ZipMemberReader::ReadDeflated(ReadFileBytes read, uint64_t offset, MutableBytes out) {
  std::unique_ptr<Decoder> decoder = TakeDecoder(offset);
  TILEKV_RETURN_IF_ERROR(Advance(*decoder, read, offset, nullptr));
  TILEKV_RETURN_IF_ERROR(Advance(*decoder, read, offset + out.size(), out.data()));
  PutBack(std::move(decoder), out.size());
  return absl::OkStatus();
}

absl::Status ZipMemberReader::Advance(Decoder& decoder, ReadFileBytes read, uint64_t end,
                                      uint8_t* out) {
  std::vector<uint8_t> skipped(out == nullptr && decoder.out_at < end ? kSkipBytes : 0);
  while (decoder.out_at < end) {
    uint64_t next = (decoder.out_at / checkpoint_bytes_ + 1) * checkpoint_bytes_;
    uint64_t bytes = std::min(end, next) - decoder.out_at;
    if (out == nullptr) bytes = std::min<uint64_t>(bytes, skipped.size());
    TILEKV_RETURN_IF_ERROR(Step(decoder, read, {out == nullptr ? skipped.data() : out, bytes}));
    if (out != nullptr) out += bytes;
    if (decoder.out_at == next) {
      MutexLock lock(mutex_);
      if (checkpoints_.size() + 1 == next / checkpoint_bytes_) {
        checkpoints_.push_back(decoder.Copy());
      }
    }
  }
  return decoder.out_at == member_.content_bytes ? Finish(decoder, read) : absl::OkStatus();
}

absl::Status ZipMemberReader::Refill(Decoder& decoder, ReadFileBytes read) const {
  if (decoder.zlib.avail_in > 0) return absl::OkStatus();
  uint64_t left = member_.stored_bytes - decoder.in_at;
  decoder.input.resize(std::min<uint64_t>(kInputBytes, left));
  TILEKV_RETURN_IF_ERROR(read(member_.offset + decoder.in_at, decoder.input));
  decoder.zlib.next_in = decoder.input.data();
  decoder.zlib.avail_in = static_cast<uInt>(decoder.input.size());
  return absl::OkStatus();
}

// Exactly out.size() bytes of content.
absl::Status ZipMemberReader::Step(Decoder& decoder, ReadFileBytes read, MutableBytes out) {
  z_stream& zlib = decoder.zlib;
  uint64_t done = 0;
  while (done < out.size()) {
    if (decoder.ended) return Damaged("its content ends before its length");
    TILEKV_RETURN_IF_ERROR(Refill(decoder, read));
    uInt offered = zlib.avail_in;
    auto room = static_cast<uInt>(std::min<uint64_t>(out.size() - done, 1 * kGiB));
    zlib.next_out = out.data() + done;
    zlib.avail_out = room;
    int result = inflate(&zlib, Z_NO_FLUSH);
    decoder.in_at += offered - zlib.avail_in;
    uInt made = room - zlib.avail_out;
    decoder.crc = Crc(decoder.crc, Bytes(out.data() + done, made));
    decoder.out_at += made;
    done += made;
    if (result == Z_STREAM_END) {
      decoder.ended = true;
    } else if (result == Z_MEM_ERROR) {
      return MakeError(Reason::kOverloaded,
                       fmt::format("no memory to decode '{}'", Printable(label_)));
    } else if (result != Z_OK) {
      return Damaged(zlib.msg != nullptr ? zlib.msg : "its compressed data ends early");
    }
  }
  return absl::OkStatus();
}

// Behind the last byte: the end of the compressed data, and the checksum.
absl::Status ZipMemberReader::Finish(Decoder& decoder, ReadFileBytes read) {
  uint8_t more = 0;
  z_stream& zlib = decoder.zlib;
  while (!decoder.ended) {
    TILEKV_RETURN_IF_ERROR(Refill(decoder, read));
    uInt offered = zlib.avail_in;
    zlib.next_out = &more;
    zlib.avail_out = 1;
    int result = inflate(&zlib, Z_NO_FLUSH);
    decoder.in_at += offered - zlib.avail_in;
    if (zlib.avail_out == 0) return Damaged("its content is longer than its length");
    if (result == Z_STREAM_END) decoder.ended = true;
    if (result != Z_OK && result != Z_STREAM_END) return Damaged("its compressed data ends early");
  }
  if (decoder.in_at != member_.stored_bytes) {
    return Damaged("bytes follow its compressed data");
  }
  TILEKV_RETURN_IF_ERROR(CompareCrc(decoder.crc));
  MutexLock lock(mutex_);
  verified_ = true;
  return absl::OkStatus();
}

}  // namespace tilekv
