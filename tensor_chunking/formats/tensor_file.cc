#include "tensor_chunking/formats/tensor_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/safetensors_index.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

absl::StatusOr<TensorFilePlan> PlanSafetensorsFile(
    const std::vector<TensorView>& tensors, const std::optional<SafetensorsMetadata>& metadata) {
  TILEKV_ASSIGN_OR_RETURN(SafetensorsLayout layout, LayOutSafetensors(tensors));
  std::string json = BuildSafetensorsHeader(tensors, layout, metadata);
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return MakeError(
        Reason::kObjectTooLarge,
        fmt::format("the header of {} tensors has {} bytes, but readers of safetensors take up to "
                    "{}; spread them over several files with --max-shard-size",
                    FormatCount(tensors.size()), FormatCount(json.size()),
                    FormatCount(kMaxSafetensorsHeaderBytes)));
  }
  TensorFilePlan plan;
  AppendLe<uint64_t>(plan.head, json.size());
  plan.head += json;
  plan.slots = std::move(layout.slots);
  plan.data_bytes = layout.data_bytes;
  return plan;
}

absl::StatusOr<std::optional<TensorFilePlan>> PlanSafetensorsFileAsItWas(
    std::string head, const std::vector<TensorView>& tensors,
    absl::FunctionRef<std::optional<uint32_t>(std::string_view name)> find) {
  constexpr std::string_view kName = "the kept header";
  TILEKV_ASSIGN_OR_RETURN(uint64_t length,
                          SafetensorsHeaderLength(AsBytes(head), head.size(), kName));
  std::string_view json = std::string_view(head).substr(kSafetensorsLengthBytes, length);
  // The file's size is not known here; it is what the tensors say.
  TensorFilePlan plan;
  TILEKV_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseKeptSafetensorsHeader(json, kName));
  if (kSafetensorsLengthBytes + length != head.size()) {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("{} has {} bytes, not the {} that it says", kName, head.size(),
                                 kSafetensorsLengthBytes + length));
  }
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    TensorInfo was = header.tensors[i];
    std::optional<uint32_t> index = find(was.name);
    if (!index.has_value()) return std::optional<TensorFilePlan>();
    const TensorView& is = tensors[*index];
    bool same = is.name == was.name && is.dtype == was.dtype &&
                std::equal(is.shape.begin(), is.shape.end(), was.shape.begin(), was.shape.end());
    if (!same) return std::optional<TensorFilePlan>();
    plan.slots.push_back({.tensor = *index, .begin = was.begin, .end = was.end});
    plan.data_bytes = was.end;
  }
  plan.head = std::move(head);
  return std::optional<TensorFilePlan>(std::move(plan));
}

absl::StatusOr<TensorFilePlan> PlanNpyFile(const TensorView& tensor) {
  TensorFilePlan plan;
  TILEKV_ASSIGN_OR_RETURN(plan.head, BuildNpyHeader(tensor.dtype, tensor.shape));
  TILEKV_ASSIGN_OR_RETURN(plan.data_bytes, TensorBytes(tensor.dtype, tensor.shape));
  plan.slots.push_back({.tensor = 0, .begin = 0, .end = plan.data_bytes});
  return plan;
}

ShardPlan PlanShards(const std::vector<TensorView>& tensors,
                     const std::vector<uint64_t>& tensor_bytes, uint64_t max_shard_bytes) {
  ShardPlan plan;
  uint64_t total_bytes = 0;
  ShardPlan::Shard current;
  uint64_t current_bytes = 0;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    uint64_t bytes = tensor_bytes[i];
    total_bytes += bytes;
    if (max_shard_bytes > 0 && bytes > max_shard_bytes) {
      plan.shards.push_back({.file_name = {}, .tensors = {i}});
      continue;
    }
    if (max_shard_bytes > 0 && bytes > max_shard_bytes - current_bytes) {
      plan.shards.push_back(std::exchange(current, {}));
      current_bytes = 0;
    }
    current.tensors.push_back(i);
    current_bytes += bytes;
  }
  if (!current.tensors.empty() || plan.shards.empty()) plan.shards.push_back(std::move(current));
  if (plan.shards.size() == 1) {
    plan.shards[0].file_name = "model.safetensors";
    return plan;
  }
  std::map<std::string_view, std::string_view> weight_map;
  for (size_t s = 0; s < plan.shards.size(); ++s) {
    ShardPlan::Shard& shard = plan.shards[s];
    shard.file_name = fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, plan.shards.size());
    for (uint32_t index : shard.tensors) weight_map[tensors[index].name] = shard.file_name;
  }
  plan.index_name = "model.safetensors.index.json";
  plan.index_content = BuildSafetensorsIndex(weight_map, total_bytes);
  return plan;
}

}  // namespace tilekv
