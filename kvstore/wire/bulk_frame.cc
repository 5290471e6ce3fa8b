#include "kvstore/wire/bulk_frame.h"

#include <algorithm>
#include <limits>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr uint32_t kDataTag = kBulkDataField << 3 | kLengthDelimited;
constexpr int kMaxVarintBytes = 10;
// Tags and lengths have at most 32 bits; protobuf's parser takes no longer forms of them.
constexpr int kMaxVarint32Bytes = 5;
// As deep as protobuf's parser follows groups.
constexpr int kMaxGroupDepth = 100;
// Protobuf's own bound on a length.
constexpr uint64_t kMaxFieldBytes = std::numeric_limits<int32_t>::max() - 16;

absl::Status Malformed(const char* what) {
  return MakeError(Reason::kInvalidArgument, std::string("malformed message: ") + what);
}

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// A position in a list of pieces. Nothing is read past the end.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const Bytes> pieces)
      : pieces_(pieces), left_(TotalBytes(pieces)) {}

  uint64_t left() const { return left_; }

  bool ReadByte(uint8_t& byte) {
    if (left_ == 0) return false;
    byte = Front()[0];
    Advance(1);
    return true;
  }

  // Gives `take` what lies in each piece of the next `length` bytes; false when there are fewer.
  template <typename Take>
  bool Walk(uint64_t length, Take take) {
    if (length > left_) return false;
    while (length > 0) {
      Bytes front = Front();
      Bytes part = front.first(std::min<uint64_t>(front.size(), length));
      take(part);
      Advance(part.size());
      length -= part.size();
    }
    return true;
  }

 private:
  // The rest of the first piece that is not used up; there is one, since left_ > 0.
  Bytes Front() {
    while (at_ == pieces_[index_].size()) {
      ++index_;
      at_ = 0;
    }
    return pieces_[index_].subspan(at_);
  }
  void Advance(uint64_t bytes) {
    at_ += bytes;
    left_ -= bytes;
  }

  std::span<const Bytes> pieces_;
  size_t index_ = 0;
  size_t at_ = 0;
  uint64_t left_;
};

// Copies every field but `data` into `rest`, for protobuf to parse, and finds `data`.
class Splitter {
 public:
  Splitter(PieceCursor cursor, std::string& rest, std::vector<Bytes>& data)
      : cursor_(cursor), rest_(rest), data_(data) {}

  absl::Status Run() {
    while (cursor_.left() > 0) {
      TILEKV_RETURN_IF_ERROR(Field(0, 0));
    }
    return absl::OkStatus();
  }

 private:
  // A varint of up to `max_bytes`, also appended to `raw_`.
  bool Varint(int max_bytes, uint64_t& value) {
    value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      uint8_t byte = 0;
      if (!cursor_.ReadByte(byte)) return false;
      raw_.push_back(static_cast<char>(byte));
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Keep(uint64_t length) {
    return cursor_.Walk(length, [this](Bytes part) { rest_.append(AsText(part)); });
  }

  // One field, and what is in it where it is a group. `group` is the number of the one we are in.
  absl::Status Field(int depth, uint32_t group) {
    raw_.clear();
    uint64_t tag = 0;
    if (!Varint(kMaxVarint32Bytes, tag)) return Malformed("a field's tag");
    tag = static_cast<uint32_t>(tag);  // bits above are dropped, as by protobuf's parser
    if (tag >> 3 == 0) return Malformed("a field's tag");
    if (tag == kDataTag && depth == 0) return Data();
    rest_ += raw_;
    return Other(static_cast<uint32_t>(tag), depth, group);
  }

  absl::Status Data() {
    uint64_t length = 0;
    raw_.clear();
    if (!Varint(kMaxVarint32Bytes, length) || length > kMaxFieldBytes) {
      return Malformed("a field's length");
    }
    data_.clear();  // of two, the last one counts, as in protobuf
    if (!cursor_.Walk(length, [this](Bytes part) { data_.push_back(part); })) {
      return Malformed("data longer than the message");
    }
    return absl::OkStatus();
  }

  absl::Status Other(uint32_t tag, int depth, uint32_t group) {
    raw_.clear();
    uint64_t value = 0;
    switch (tag & 7) {
      case kVarint:
        if (!Varint(kMaxVarintBytes, value)) return Malformed("a number");
        rest_ += raw_;
        return absl::OkStatus();
      case kFixed64:
        return Keep(8) ? absl::OkStatus() : Malformed("a number is cut short");
      case kFixed32:
        return Keep(4) ? absl::OkStatus() : Malformed("a number is cut short");
      case kLengthDelimited:
        if (!Varint(kMaxVarint32Bytes, value) || value > kMaxFieldBytes) {
          return Malformed("a field's length");
        }
        rest_ += raw_;
        return Keep(value) ? absl::OkStatus() : Malformed("a field longer than the message");
      case kStartGroup:
        return Group(tag >> 3, depth + 1);
      case kEndGroup:
        if (depth == 0 || tag >> 3 != group) return Malformed("a group's end");
        group_ended_ = true;
        return absl::OkStatus();
      default:
        return Malformed("an unknown kind of field");
    }
  }

  absl::Status Group(uint32_t number, int depth) {
    if (depth > kMaxGroupDepth) return Malformed("groups nested too deep");
    while (true) {
      if (cursor_.left() == 0) return Malformed("a group without an end");
      group_ended_ = false;
      TILEKV_RETURN_IF_ERROR(Field(depth, number));
      if (group_ended_) break;
    }
    group_ended_ = false;  // the group around this one goes on
    return absl::OkStatus();
  }

  PieceCursor cursor_;
  std::string& rest_;
  std::vector<Bytes>& data_;
  std::string raw_;
  bool group_ended_ = false;
};

}  // namespace

uint64_t TotalBytes(std::span<const Bytes> pieces) {
  uint64_t total = 0;
  for (Bytes piece : pieces) total += piece.size();
  return total;
}

std::string EncodeBulkHead(const google::protobuf::MessageLite& fields, uint64_t data_bytes) {
  TILEKV_CHECK(data_bytes <= kMaxFieldBytes);
  std::string head = fields.SerializeAsString();
  if (data_bytes > 0) {
    AppendVarint(head, kDataTag);
    AppendVarint(head, data_bytes);
  }
  return head;
}

absl::Status DecodeBulk(std::span<const Bytes> pieces, google::protobuf::MessageLite& fields,
                        std::vector<Bytes>& data) {
  data.clear();
  std::string rest;
  TILEKV_RETURN_IF_ERROR(Splitter(PieceCursor(pieces), rest, data).Run());
  if (!fields.ParseFromString(rest)) return Malformed("its fields");
  return absl::OkStatus();
}

}  // namespace tilekv
