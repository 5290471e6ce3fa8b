// Which small tensors share an object, and where in it each lies (docs/formats.md, section 7). Pure
// and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tilekv {

// Whether a tensor of this size is stored inside a pack. Empty tensors are stored nowhere.
bool GoesToPack(uint64_t bytes, uint64_t max_object_bytes);

struct PackCandidate {
  std::string_view name;
  uint64_t bytes = 0;
};

struct PackEntry {
  uint64_t candidate = 0;     // index into what was given
  uint64_t offset_bytes = 0;  // of the tensor in the pack's content
};

struct Pack {
  std::vector<PackEntry> entries;
  uint64_t length_bytes = 0;  // of the content; bytes between the tensors are zero
};

// Packs for the candidates, which stand in ascending order of their names and are not aliases (the
// caller's to get right). Those that do not go to a pack are passed over.
std::vector<Pack> PlanPacks(std::span<const PackCandidate> candidates, uint64_t max_object_bytes);

}  // namespace tilekv
