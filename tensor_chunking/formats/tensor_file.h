// Files of tensors to be written: what stands at their start, and where each tensor's bytes go.
// Bytes only; tensor_file_writer.h does the writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tensor_chunking/formats/safetensors_header.h"

namespace tilekv {

struct TensorFilePlan {
  using Slot = SafetensorsLayout::Slot;
  std::string head;         // everything before the data
  std::vector<Slot> slots;  // in the order of their data, without gaps
  uint64_t data_bytes = 0;

  uint64_t file_bytes() const { return head.size() + data_bytes; }
};

// A safetensors file in the reference writer's form. Errors of LayOutSafetensors; OBJECT_TOO_LARGE
// when the header would be longer than any reader takes.
absl::StatusOr<TensorFilePlan> PlanSafetensorsFile(
    const std::vector<TensorView>& tensors, const std::optional<SafetensorsMetadata>& metadata);

// A safetensors file with the head (the first 8 + N bytes) that it had when it was imported. `find`
// gives the index of the tensor with a name, if there is one, in `tensors`; a tensor that is not
// there, or with another dtype or shape, gives none: the file cannot be the same any more.
// INVALID_FILE when the head itself is damaged.
absl::StatusOr<std::optional<TensorFilePlan>> PlanSafetensorsFileAsItWas(
    std::string head, const std::vector<TensorView>& tensors,
    absl::FunctionRef<std::optional<uint32_t>(std::string_view name)> find);

// A .npy file of one tensor, row-major and little-endian; its slot is tensor 0. INVALID_ARGUMENT
// for dtypes below a byte.
absl::StatusOr<TensorFilePlan> PlanNpyFile(const TensorView& tensor);

// How tensors are spread over files, as Hugging Face's tools do it.
struct ShardPlan {
  struct Shard {
    std::string file_name;
    std::vector<uint32_t> tensors;  // indices, in the order given
  };
  std::vector<Shard> shards;
  std::string index_name;     // empty: one file, which needs none
  std::string index_content;  // of `index_name`
};

// In the order given, a new file when the next tensor would bring the present one above
// `max_shard_bytes` (0: no limit); a tensor above it has a file of its own. One file is called
// `model.safetensors`; more are `model-00001-of-0000N.safetensors`, with an index.
ShardPlan PlanShards(const std::vector<TensorView>& tensors,
                     const std::vector<uint64_t>& tensor_bytes, uint64_t max_shard_bytes);

}  // namespace tilekv
