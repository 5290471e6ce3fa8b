// Sizes as people write and read them. GiB is 2^30, GB is 10^9.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tilekv {

// "64MiB", "5GB", "1.5 GiB", "4096": bytes. Suffixes B, kB, KB, KiB, MB, MiB, GB, GiB, TB, TiB,
// case ignored. INVALID_ARGUMENT names the text.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);
// "309.0 MiB", "512 B"; one decimal, binary units.
std::string FormatSize(uint64_t bytes);
// The same without a decimal where it would be zero: "256 MiB".
std::string FormatSizeShort(uint64_t bytes);
// "324,000,000".
std::string FormatCount(uint64_t count);

}  // namespace tilekv
