// `model.safetensors.index.json`: which shard holds which tensor. Bytes in, tables out; no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor_chunking/formats/tensor_table.h"

namespace tilekv {

struct SafetensorsIndex {
  struct Entry {
    std::string_view tensor;
    uint32_t shard;  // index into shards
  };
  std::vector<std::string> shards;     // as the index names them, sorted; none leaves the folder
  std::vector<Entry> entries;          // by name bytewise
  std::optional<uint64_t> total_size;  // bytes of all tensors, as the index has it; often wrong
  Arena names;                         // what the entries' names point to
};

// INVALID_FILE (naming `file`) for bad JSON, a tensor twice, no tensors at all, and shards that
// leave the folder (CheckRelativePath). What else is in the index is passed over.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json,
                                                       std::string_view file);

// The index as Hugging Face's tools write it (json.dumps with indent=2 and sort_keys=True, and a
// newline): keys sorted, all but ASCII escaped.
std::string BuildSafetensorsIndex(const std::map<std::string_view, std::string_view>& weight_map,
                                  uint64_t total_size);

}  // namespace tilekv
