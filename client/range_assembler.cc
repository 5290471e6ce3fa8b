#include "client/range_assembler.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// What is sent to answer a range: whole units (leaves, or blocks where coded).
struct Cover {
  uint64_t offset;
  uint64_t length;
};

Cover CoverOf(const ObjectRead& read, uint64_t unit_bytes) {
  if (read.length() == 0) return {read.offset / unit_bytes * unit_bytes, 0};
  uint64_t start = read.offset / unit_bytes * unit_bytes;
  uint64_t end = std::min(RoundUp(read.offset + read.length(), unit_bytes), read.ref.length);
  return {start, end - start};
}

uint64_t UnitBytes(const Encoding& encoding) {
  return encoding.kind == EncodingKind::kNone ? kLeafBytes : kBlockBytes;
}

}  // namespace

RangeAssembler::RangeAssembler(std::span<const ObjectRead> reads, std::string node, bool timed)
    : reads_(reads), node_(std::move(node)), timed_(timed) {}

RangeAssembler::~RangeAssembler() = default;

absl::Status RangeAssembler::Unexpected(const std::string& what) const {
  return MakeError(Reason::kInternal, fmt::format("node {} answered a read of {} wrongly: {}",
                                                  node_, CurrentObject(), what));
}

std::string RangeAssembler::CurrentObject() const {
  if (reads_.empty()) return "nothing";
  return fmt::format("object {}", reads_[std::min(next_, reads_.size() - 1)].ref.id.Short());
}

absl::Status RangeAssembler::Take(std::span<const Bytes> pieces) {
  if (!timed_) return TakeMessage(pieces);
  verifying_.SampleNext();
  decoding_.SampleNext();
  TimedScope busy(&busy_nanos_);
  return TakeMessage(pieces);
}

ReadTimes RangeAssembler::times() const {
  // Estimates: a step that was timed while the thread did not run would say more than there was.
  const double verify = static_cast<double>(verifying_.Nanos());
  const double decode = static_cast<double>(decoding_.Nanos());
  const double busy = static_cast<double>(busy_nanos_);
  const double share = verify + decode > busy ? busy / (verify + decode) : 1;
  ReadTimes times{.verify_nanos = static_cast<int64_t>(verify * share),
                  .decode_nanos = static_cast<int64_t>(decode * share)};
  times.place_nanos = busy_nanos_ - times.verify_nanos - times.decode_nanos;
  return times;
}

absl::Status RangeAssembler::TakeMessage(std::span<const Bytes> pieces) {
  v1::ReadObjectsResponse message;
  std::vector<Bytes> data;
  absl::Status decoded = DecodeBulk(pieces, message, data);
  if (!decoded.ok()) return Unexpected(ErrorText(decoded));
  received_bytes_ += TotalBytes(data);
  if (next_ >= reads_.size()) return Unexpected("more than was asked for");
  if (message.index() != next_) {
    return Unexpected(fmt::format("range {} instead of {}", message.index(), next_));
  }
  if (message.has_header() == started_) {
    return Unexpected(started_ ? "a second header" : "data without a header");
  }
  if (!started_) TILEKV_RETURN_IF_ERROR(StartRange(message));
  for (Bytes piece : data) TILEKV_RETURN_IF_ERROR(TakeData(piece));
  EndRangeIfFilled();
  return absl::OkStatus();
}

absl::Status RangeAssembler::StartRange(const v1::ReadObjectsResponse& message) {
  const v1::ReadObjectHeader& header = message.header();
  absl::StatusOr<Encoding> encoding = EncodingFromWire(header.encoding());
  if (!encoding.ok() || !IsKnownEncoding(*encoding)) {
    return Unexpected(fmt::format("encoding {} was not asked for", header.encoding().kind()));
  }
  encoding_ = *encoding;
  TILEKV_RETURN_IF_ERROR(CheckHeader(header));
  TILEKV_RETURN_IF_ERROR(SetLeaves(header));
  TILEKV_RETURN_IF_ERROR(SetBlocks(header));
  content_at_ = header.content_offset();
  content_end_ = content_at_ + header.content_length();
  unit_filled_ = 0;
  started_ = true;
  return absl::OkStatus();
}

absl::Status RangeAssembler::CheckHeader(const v1::ReadObjectHeader& header) {
  Cover cover = CoverOf(read(), UnitBytes(encoding_));
  bool empty = cover.length == 0 && header.content_length() == 0;
  if (!empty &&
      (header.content_offset() != cover.offset || header.content_length() != cover.length)) {
    return Unexpected(fmt::format("content [{}, +{}) where [{}, +{}) covers the range",
                                  header.content_offset(), header.content_length(), cover.offset,
                                  cover.length));
  }
  if (encoding_.kind == EncodingKind::kNone && header.stored_length() != header.content_length()) {
    return Unexpected("stored and content length of an uncoded object differ");
  }
  return absl::OkStatus();
}

// The table comes with the first range of an object; ranges of the same object that follow at once
// may leave it out.
absl::Status RangeAssembler::SetLeaves(const v1::ReadObjectHeader& header) {
  const ObjectRef& ref = read().ref;
  if (!header.leaf_hashes().empty() || !leaves_known_ || leaves_of_ != ref) {
    leaves_known_ = leaves_verified_ = false;
    absl::StatusOr<LeafTable> leaves = LeavesFromWire(header.leaf_hashes(), ref.length);
    if (!leaves.ok()) return Unexpected(ErrorText(leaves.status()));
    leaves_ = *std::move(leaves);
    leaves_of_ = ref;
    leaves_known_ = true;
  }
  if (!read().verify || leaves_verified_) return absl::OkStatus();
  absl::Status verified = VerifyLeafTable(ref, leaves_);
  if (!verified.ok()) return WithContext(verified, "from node " + node_);
  leaves_verified_ = true;
  return absl::OkStatus();
}

absl::Status RangeAssembler::SetBlocks(const v1::ReadObjectHeader& header) {
  blocks_.assign(header.block_table().begin(), header.block_table().end());
  next_block_ = 0;
  bool coded = encoding_.kind != EncodingKind::kNone;
  if (blocks_.size() != (coded ? BlockCount(header.content_length()) : 0)) {
    return Unexpected(fmt::format("a block table of {} entries", blocks_.size()));
  }
  uint64_t total = 0;
  for (uint32_t entry : blocks_) {
    uint64_t length = entry & ~kRawBlockBit;
    if (length == 0 || length > kBlockBytes) return Unexpected("a block table that cannot be");
    total += length;
  }
  if (coded && total != header.stored_length()) return Unexpected("a block table that lies");
  if (coded && (codec_ == nullptr || codec_of_ != encoding_)) {
    TILEKV_ASSIGN_OR_RETURN(codec_, NewBlockCodec(encoding_));
    codec_of_ = encoding_;
    stored_.resize(kBlockBytes);
  }
  return absl::OkStatus();
}

absl::Status RangeAssembler::TakeData(Bytes piece) {
  return encoding_.kind == EncodingKind::kNone ? TakeRaw(piece) : TakeCoded(piece);
}

absl::Status RangeAssembler::TakeRaw(Bytes piece) {
  while (!piece.empty()) {
    if (content_at_ == content_end_) return Unexpected("more data than its header said");
    if (!read().verify) {  // of no unit more than what has come is needed
      Bytes wanted = piece.first(std::min<uint64_t>(piece.size(), content_end_ - content_at_));
      CopyWanted(content_at_, wanted);
      content_at_ += wanted.size();
      piece = piece.subspan(wanted.size());
      continue;
    }
    uint64_t unit = std::min(kLeafBytes, content_end_ - content_at_);
    if (read().place && unit_filled_ == 0 && piece.size() >= unit) {  // where it lies
      TILEKV_RETURN_IF_ERROR(FinishUnit(piece.first(unit)));
      piece = piece.subspan(unit);
      continue;
    }
    MutableBytes space = UnitSpace(content_at_, unit);
    uint64_t n = std::min<uint64_t>(piece.size(), unit - unit_filled_);
    std::memcpy(space.data() + unit_filled_, piece.data(), n);
    unit_filled_ += n;
    piece = piece.subspan(n);
    if (unit_filled_ == unit) TILEKV_RETURN_IF_ERROR(FinishUnit(space));
  }
  return absl::OkStatus();
}

absl::Status RangeAssembler::TakeCoded(Bytes piece) {
  while (!piece.empty()) {
    if (content_at_ == content_end_) return Unexpected("more data than its header said");
    uint64_t unit = std::min(kBlockBytes, content_end_ - content_at_);
    uint32_t entry = blocks_[next_block_];
    uint64_t stored = entry & ~kRawBlockBit;
    Bytes block;
    if (unit_filled_ == 0 && piece.size() >= stored) {  // where it lies
      block = piece.first(stored);
      piece = piece.subspan(stored);
    } else {
      uint64_t n = std::min<uint64_t>(piece.size(), stored - unit_filled_);
      std::memcpy(stored_.data() + unit_filled_, piece.data(), n);
      unit_filled_ += n;
      piece = piece.subspan(n);
      if (unit_filled_ < stored) continue;
      block = Bytes(stored_).first(stored);
    }
    MutableBytes space = UnitSpace(content_at_, unit);
    absl::Status decoded =
        decoding_.Run(stored, [&] { return codec_->Decode(block, entry, space); });
    if (!decoded.ok()) {
      return WithContext(decoded, fmt::format("{} from node {}", CurrentObject(), node_));
    }
    ++next_block_;
    TILEKV_RETURN_IF_ERROR(FinishUnit(space));
  }
  return absl::OkStatus();
}

// Straight into the destination where all of the unit is wanted.
MutableBytes RangeAssembler::UnitSpace(uint64_t content_offset, uint64_t length) {
  const ObjectRead& r = read();
  if (!r.place && content_offset >= r.offset &&
      content_offset + length <= r.offset + r.out.size()) {
    return r.out.subspan(content_offset - r.offset, length);
  }
  if (scratch_.size() < length) scratch_.resize(UnitBytes(encoding_));
  return MutableBytes(scratch_).first(length);
}

absl::Status RangeAssembler::FinishUnit(Bytes content) {
  const ObjectRead& r = read();
  if (r.verify) {
    absl::Status verified = verifying_.Run(content.size(), [&] {
      return VerifyLeaves(r.ref, leaves_, content_at_ / kLeafBytes, content);
    });
    if (!verified.ok()) return WithContext(verified, "from node " + node_);
  }
  if (r.place || (!scratch_.empty() && content.data() == scratch_.data())) {
    CopyWanted(content_at_, content);
  }
  content_at_ += content.size();
  unit_filled_ = 0;
  return absl::OkStatus();
}

void RangeAssembler::CopyWanted(uint64_t content_offset, Bytes content) {
  const ObjectRead& r = read();
  uint64_t from = std::max(content_offset, r.offset);
  uint64_t to = std::min(content_offset + content.size(), r.offset + r.length());
  if (from >= to) return;
  if (r.place) {
    return r.place(from - r.offset, content.subspan(from - content_offset, to - from));
  }
  std::memcpy(r.out.data() + (from - r.offset), content.data() + (from - content_offset),
              to - from);
}

void RangeAssembler::EndRangeIfFilled() {
  if (content_at_ < content_end_) return;
  started_ = false;
  ++next_;
}

absl::Status RangeAssembler::Finish() const {
  if (next_ == reads_.size()) return absl::OkStatus();
  return Unexpected("it ended early");
}

}  // namespace tilekv
