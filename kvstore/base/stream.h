// Bytes that come or go in pieces, for content that is not held whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"

namespace tilekv {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to out.size() bytes and says how many; 0 only at the end (out is never empty).
  virtual absl::StatusOr<uint64_t> Read(MutableBytes out) = 0;
  // Bytes in all, when known beforehand.
  virtual std::optional<uint64_t> length() const { return std::nullopt; }
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(Bytes piece) = 0;
};

// Takes the content of a range in order: where in the range it begins, and the bytes, which are the
// giver's again when it returns.
using PlaceContent = std::function<void(uint64_t offset_in_range, Bytes content)>;
// The memory that the same function would write `length` bytes to, in order of the content:
// appended to `pieces`.
using PiecesOfContent = std::function<void(uint64_t offset_in_range, uint64_t length,
                                           std::vector<MutableBytes>& pieces)>;

// Memory that the caller keeps.
class SpanSource : public ByteSource {
 public:
  explicit SpanSource(Bytes bytes) : rest_(bytes), length_(bytes.size()) {}
  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    uint64_t n = std::min(out.size(), rest_.size());
    if (n > 0) std::memcpy(out.data(), rest_.data(), n);
    rest_ = rest_.subspan(n);
    return n;
  }
  std::optional<uint64_t> length() const override { return length_; }

 private:
  Bytes rest_;
  uint64_t length_;
};

class StringSink : public ByteSink {
 public:
  absl::Status Append(Bytes piece) override {
    text_.append(AsText(piece));
    return absl::OkStatus();
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

}  // namespace tilekv
