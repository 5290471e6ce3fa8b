// The header of a safetensors file: u64 little-endian length N, N bytes of JSON, data. Bytes in,
// tables out; no I/O here.
//
// Reading is strict: what the format's description or its reference reader forbids is refused, and
// so is what the reference reader passes over in silence (a tensor twice, unknown fields, white
// space before the header, `__metadata__` that is null). Errors are INVALID_FILE and name the
// file as the caller calls it, the tensor and what is wrong.
//
// The reference writer's form, which BuildSafetensorsHeader produces and IsReferenceForm
// recognises:
// `__metadata__` first, then the tensors by dtype in descending order of the format's list, then
// by name bytewise; data in the same order without gaps; no white space but the spaces that pad
// the header to a multiple of 8; in texts only what JSON demands is escaped. The reference writer
// (the `safetensors` package up to 0.8) writes two or more metadata keys in a random order, another
// one in every run; ours are sorted bytewise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/formats/tensor_table.h"

namespace tilekv {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;  // the length in front of the header
inline constexpr uint64_t kSafetensorsHeaderAlignBytes = 8;
inline constexpr size_t kSafetensorsStartBytes = 512;  // enough to say what a wrong file is

using SafetensorsMetadata = std::map<std::string, std::string>;  // `__metadata__`

struct SafetensorsHeader {
  TensorTable tensors;                          // in the order of their data
  std::vector<uint32_t> by_name;                // indices into tensors, by name bytewise
  std::optional<SafetensorsMetadata> metadata;  // none: the header has no `__metadata__`
  uint64_t header_bytes = 0;                    // N, padding included
  uint64_t data_start = 0;                      // where range 0 is in the file
};

// Memory that reading a header of `header_bytes` can take besides the header itself, whatever is in
// it; take it from the budget first. Usual headers need a quarter of it.
constexpr uint64_t SafetensorsTableBytes(uint64_t header_bytes) {
  return 5 * header_bytes + std::min(16 * header_bytes, 16 * kMiB);
}

// The length N out of the file's first bytes (`start`: the first min(kSafetensorsStartBytes, file
// size) of them), checked against file size and limit before anything is allocated. A Git-LFS
// pointer, a web page and other usual strangers under this name are called by theirs.
absl::StatusOr<uint64_t> SafetensorsHeaderLength(Bytes start, uint64_t file_size,
                                                 std::string_view file);

// Reads the N bytes of JSON of a file of `file_size` bytes, and checks that the tensors' ranges
// fill the data from 0 to its end without hole or overlap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t file_size,
                                                         std::string_view file);

// The same for a header without its file, whose size is then what the tensors say.
absl::StatusOr<SafetensorsHeader> ParseKeptSafetensorsHeader(std::string_view json,
                                                             std::string_view file);

// A file to be written in the reference writer's form.
struct SafetensorsLayout {
  struct Slot {
    uint32_t tensor;  // index into the tensors given
    uint64_t begin;   // of its bytes, in the data
    uint64_t end;
  };
  std::vector<Slot> slots;  // in the order of their data
  uint64_t data_bytes = 0;
};

// Where each tensor goes. INVALID_ARGUMENT names a tensor that no safetensors file can hold: a name
// twice, `__metadata__`, not UTF-8 or with NUL; bytes that are not whole or overflow.
absl::StatusOr<SafetensorsLayout> LayOutSafetensors(const std::vector<TensorView>& tensors);

// The header's JSON, padding included, for tensors laid out by LayOutSafetensors.
std::string BuildSafetensorsHeader(const std::vector<TensorView>& tensors,
                                   const SafetensorsLayout& layout,
                                   const std::optional<SafetensorsMetadata>& metadata);

// Whether our writer would make exactly `json` of what was parsed from it.
bool IsReferenceForm(std::string_view json, const SafetensorsHeader& header);

}  // namespace tilekv
