// Weighted rendezvous hashing in integers alone, so that every program and every machine ranks the
// nodes of a partition alike. Pure functions; the formula, its sources and its golden vectors:
// docs/formats.md, "Placement". It can never change while clusters exist.
#pragma once

#include <cstdint>
#include <string_view>

namespace tilekv {

// Where a node's sequence of hashes begins.
uint64_t NodeSeed(std::string_view node_id);
// The node's hash of a partition: even over 64 bits, and always odd, so never 0.
uint64_t NodePartitionHash(uint64_t node_seed, uint32_t partition);
// 64 - log2(hash) in units of 2^-32, that is -log2 of the hash as a fraction of 2^64; above 0.
// `hash` is odd. The logarithm is that of docs/formats.md to the bit, not the nearest one.
uint64_t MinusLog2(uint64_t hash);
// The node with the least cost comes first in a partition's order. `weight_milli` is 1 to
// 1,000,000.
uint64_t PlacementCost(uint64_t node_seed, uint32_t partition, uint32_t weight_milli);

}  // namespace tilekv
