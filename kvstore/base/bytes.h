// Spans of bytes, and little-endian integers in them: everything that is hashed or stored by us is
// little-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tilekv {

static_assert(std::endian::native == std::endian::little, "TileKV runs on little-endian machines");

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

inline Bytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a T at `at`, which need not be aligned; the caller has checked the length.
template <typename T>
T LoadLe(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void StoreLe(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
void AppendLe(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
// Big-endian, for keys whose order is the number's.
inline void AppendBe64(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}
inline uint64_t LoadBe64(const uint8_t* at) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | at[i];
  return value;
}

// A cursor over bytes that never reads past the end: after a short read ok() is false and every
// value is 0.
class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) : rest_(bytes) {}
  template <typename T>
  T Read() {
    if (rest_.size() < sizeof(T)) {
      Fail();
      return T{};
    }
    T value = LoadLe<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  Bytes Take(uint64_t length) {
    if (rest_.size() < length) {
      Fail();
      return {};
    }
    Bytes taken = rest_.first(length);
    rest_ = rest_.subspan(length);
    return taken;
  }
  // A u32 length and that many bytes.
  std::string_view TakeText() { return AsText(Take(Read<uint32_t>())); }
  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }
  Bytes rest() const { return rest_; }

 private:
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  Bytes rest_;
  bool ok_ = true;
};

inline void AppendText(std::string& out, std::string_view text) {
  AppendLe<uint32_t>(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

std::string HexEncode(Bytes bytes);
// False when `hex` is not an even number of hexadecimal digits.
bool HexDecode(std::string_view hex, std::string& out);

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr uint64_t CeilDiv(uint64_t value, uint64_t divisor) {
  return value / divisor + (value % divisor != 0);
}
// False on overflow, with `out` unchanged.
inline bool CheckedMul(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}
inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}

}  // namespace tilekv
