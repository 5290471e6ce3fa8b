#include "kvstore/placement/rendezvous.h"

#include <bit>

namespace tilekv {
namespace {

constexpr int kFractionBits = 32;
constexpr int kCostShift = 24;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

__extension__ using uint128_t = unsigned __int128;

// The finalizer of SplitMix64: each bit of the input moves about half of the output's.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t NodeSeed(std::string_view node_id) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : node_id) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return Mix(hash);
}

uint64_t NodePartitionHash(uint64_t node_seed, uint32_t partition) {
  return Mix(node_seed + (uint64_t{partition} + 1) * kGolden) | 1;
}

uint64_t MinusLog2(uint64_t hash) {
  const int zeros = std::countl_zero(hash);
  // hash = m * 2^(63 - zeros) with m in [1, 2), here in units of 2^-63. Squaring m doubles its
  // logarithm: each time that it passes 2, the next bit of the logarithm is 1.
  uint64_t m = hash << zeros;
  uint64_t log2 = 63 - zeros;
  for (int bit = 0; bit < kFractionBits; ++bit) {
    const uint128_t square = static_cast<uint128_t>(m) * m;
    const bool passes_two = (square >> 127) != 0;
    m = static_cast<uint64_t>(square >> (passes_two ? 64 : 63));
    log2 = log2 << 1 | (passes_two ? 1 : 0);
  }
  return (uint64_t{64} << kFractionBits) - log2;
}

uint64_t PlacementCost(uint64_t node_seed, uint32_t partition, uint32_t weight_milli) {
  return (MinusLog2(NodePartitionHash(node_seed, partition)) << kCostShift) / weight_milli;
}

}  // namespace tilekv
