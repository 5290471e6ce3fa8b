#include "kvstore/object/block_codecs.h"

#include <array>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/byte_planes.h"
#include "kvstore/object/zstd_frames.h"

namespace tilekv {
namespace {

class ZstdCodec : public BlockCodec {
 private:
  size_t EncodeBlock(Bytes block, MutableBytes out) override { return encoder_.Encode(block, out); }
  absl::Status DecodeBlock(Bytes stored, MutableBytes out) override {
    return decoder_.Decode(stored, out);
  }

  ZstdEncoder encoder_{ZstdEncoder::Mode::kFast};
  ZstdDecoder decoder_;
};

absl::Status DamagedPlanes(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("coded block: its byte planes {}", what));
}

class PlanesCodec : public BlockCodec {
 public:
  explicit PlanesCodec(uint8_t width) : width_(width) {}

 private:
  uint64_t TableBytes() const { return width_ * sizeof(uint32_t); }

  // Planes in which a sixteenth is not saved stay as they are: decoding them would cost more.
  size_t EncodeBlock(Bytes block, MutableBytes out) override {
    uint64_t elements = block.size() / width_;
    uint64_t tail = block.size() % width_;
    if (elements == 0 || out.size() < TableBytes()) return 0;
    scratch_.resize(elements * width_);
    std::array<uint8_t*, kMaxPlaneWidth> planes{};
    for (size_t p = 0; p < width_; ++p) planes[p] = scratch_.data() + p * elements;
    SplitPlanes(width_, block.first(elements * width_), planes);
    uint64_t at = TableBytes();
    for (size_t p = 0; p < width_; ++p) {
      MutableBytes room = out.subspan(at);
      Bytes plane{planes[p], elements};
      size_t coded =
          encoder_.Encode(plane, room.first(std::min<uint64_t>(room.size(), elements * 15 / 16)));
      if (coded == 0 && room.size() < elements) return 0;
      if (coded == 0) std::copy(plane.begin(), plane.end(), room.begin());
      StoreLe<uint32_t>(out.data() + p * sizeof(uint32_t),
                        static_cast<uint32_t>(coded == 0 ? elements | kRawBlockBit : coded));
      at += coded == 0 ? elements : coded;
    }
    if (out.size() - at < tail) return 0;
    Bytes rest = block.last(tail);
    std::copy(rest.begin(), rest.end(), out.begin() + static_cast<ptrdiff_t>(at));
    return at + tail;
  }

  // Raw planes are merged from where they lie; coded ones go through scratch memory of the block's
  // size at most.
  absl::Status DecodeBlock(Bytes stored, MutableBytes out) override {
    uint64_t elements = out.size() / width_;
    uint64_t tail = out.size() % width_;
    if (elements == 0) return DamagedPlanes("are of less than one element");
    if (stored.size() < TableBytes()) return DamagedPlanes("have no table");
    ByteReader table(stored.first(TableBytes()));
    Bytes rest = stored.subspan(TableBytes());
    std::array<const uint8_t*, kMaxPlaneWidth> planes{};
    size_t coded_planes = 0;
    for (size_t p = 0; p < width_; ++p) {
      uint32_t entry = table.Read<uint32_t>();
      uint64_t length = entry & ~kRawBlockBit;
      if (length > rest.size()) return DamagedPlanes("are cut short");
      Bytes plane = rest.first(length);
      rest = rest.subspan(length);
      if ((entry & kRawBlockBit) != 0) {
        if (length != elements) return DamagedPlanes("have the wrong length");
        planes[p] = plane.data();
        continue;
      }
      MutableBytes decoded = Scratch(coded_planes++, elements);
      // One in which all of the element is: straight to where it belongs.
      if (width_ == 1) decoded = out;
      TILEKV_RETURN_IF_ERROR(decoder_.Decode(plane, decoded));
      planes[p] = decoded.data();
    }
    if (rest.size() != tail) return DamagedPlanes("do not add up to the block");
    if (planes[0] != out.data()) MergePlanes(width_, planes, out.first(elements * width_));
    std::copy(rest.begin(), rest.end(), out.end() - static_cast<ptrdiff_t>(tail));
    return absl::OkStatus();
  }

  MutableBytes Scratch(size_t index, uint64_t elements) {
    // Of full size at once, as pointers into it are kept.
    if (scratch_.size() < elements * width_) scratch_.resize(elements * width_);
    return MutableBytes(scratch_).subspan(index * elements, elements);
  }

  const uint8_t width_;
  ZstdEncoder encoder_{ZstdEncoder::Mode::kLiterals};
  ZstdDecoder decoder_;
  std::vector<uint8_t> scratch_;
};

}  // namespace

std::unique_ptr<BlockCodec> NewZstdCodec() { return std::make_unique<ZstdCodec>(); }

std::unique_ptr<BlockCodec> NewPlanesCodec(uint8_t width) {
  return std::make_unique<PlanesCodec>(width);
}

}  // namespace tilekv
