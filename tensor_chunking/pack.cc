#include "tensor_chunking/pack.h"

#include <algorithm>
#include <utility>

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/name_boundary.h"

namespace tilekv {
namespace {

constexpr int kPackBoundaryBits = 3;

}  // namespace

bool GoesToPack(uint64_t bytes, uint64_t max_object_bytes) {
  return bytes > 0 && bytes < kPackBelowBytes && bytes <= max_object_bytes;
}

std::vector<Pack> PlanPacks(std::span<const PackCandidate> candidates, uint64_t max_object_bytes) {
  const uint64_t greatest = std::min(kMaxPackBytes, max_object_bytes);
  std::vector<Pack> packs;
  Pack pack;
  auto end_pack = [&] {
    if (!pack.entries.empty()) packs.push_back(std::exchange(pack, Pack{}));
  };
  for (uint64_t i = 0; i < candidates.size(); ++i) {
    const PackCandidate& candidate = candidates[i];
    if (!GoesToPack(candidate.bytes, max_object_bytes)) continue;
    uint64_t offset = RoundUp(pack.length_bytes, kPackAlignBytes);
    if (offset + candidate.bytes > greatest) {
      end_pack();
      offset = 0;
    }
    pack.entries.push_back({i, offset});
    pack.length_bytes = offset + candidate.bytes;
    if (NameEndsRun(candidate.name, kPackBoundaryBits)) end_pack();
  }
  end_pack();
  return packs;
}

}  // namespace tilekv
