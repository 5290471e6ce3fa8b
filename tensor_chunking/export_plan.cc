#include "tensor_chunking/export_plan.h"

#include <set>
#include <unordered_map>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/content_reader.h"
#include "tensor_chunking/formats/source_folder.h"

namespace tilekv {
namespace {

// The tensors of an export, as views into the manifest.
struct Selection {
  std::vector<TensorView> views;
  std::vector<uint64_t> bytes;
  std::unordered_map<std::string_view, uint32_t> by_name;
};

absl::StatusOr<Selection> Select(const Manifest& manifest, const ExportOptions& options) {
  Selection selected;
  for (const TensorEntry& entry : manifest.tensors) {
    if (!options.include.empty() && !MatchesAny(options.include, entry.name)) continue;
    const TensorEntry& tensor = *manifest.FindTensor(entry.name);
    selected.by_name.emplace(entry.name, static_cast<uint32_t>(selected.views.size()));
    selected.views.push_back({entry.name, tensor.dtype, tensor.shape});
    selected.bytes.push_back(tensor.bytes());
  }
  if (selected.views.empty() && !options.include.empty()) {
    return MakeError(Reason::kInvalidArgument, NoTensorMatches(manifest, options));
  }
  return selected;
}

std::vector<std::string> SlotNames(const TensorFilePlan& plan,
                                   const std::vector<TensorView>& views) {
  std::vector<std::string> names;
  for (const auto& slot : plan.slots) names.emplace_back(views[slot.tensor].name);
  return names;
}

std::optional<SafetensorsMetadata> MetadataOf(const Manifest& manifest) {
  if (manifest.metadata.empty()) return std::nullopt;
  return manifest.metadata;
}

absl::StatusOr<std::string> ReadHeader(ModelReader& reader, const StoredContent& content) {
  StringSink sink;
  TILEKV_RETURN_IF_ERROR(
      ReadContent(reader.store(), content, reader.pool(), reader.options().context, sink));
  return std::move(sink.text());
}

// One file with the head that it had; none where the tensors no longer fill it.
absl::StatusOr<std::optional<TensorFilePlan>> PlanKeptFile(ModelReader& reader,
                                                           const Selection& selected,
                                                           std::string head) {
  if (head.empty()) {  // it could be derived, so it was not kept
    TILEKV_ASSIGN_OR_RETURN(TensorFilePlan plan,
                            PlanSafetensorsFile(selected.views, MetadataOf(reader.manifest())));
    return plan;
  }
  return PlanSafetensorsFileAsItWas(std::move(head), selected.views,
                                    [&](std::string_view name) -> std::optional<uint32_t> {
                                      auto found = selected.by_name.find(name);
                                      if (found == selected.by_name.end()) return std::nullopt;
                                      return found->second;
                                    });
}

// The files as they were imported; none where the tensors no longer fill them exactly.
absl::StatusOr<std::optional<ExportPlan>> PlanAsImported(ModelReader& reader,
                                                         const SourceFiles& sources,
                                                         const Selection& selected) {
  ExportPlan plan;
  std::set<uint32_t> placed;
  for (const KeptSourceFile& file : sources.files) {
    TILEKV_ASSIGN_OR_RETURN(std::string head, ReadHeader(reader, file.header));
    TILEKV_ASSIGN_OR_RETURN(auto planned, PlanKeptFile(reader, selected, std::move(head)));
    if (!planned.has_value()) return std::nullopt;
    for (const auto& slot : planned->slots) {
      if (!placed.insert(slot.tensor).second) return std::nullopt;
    }
    ExportFile& out = plan.files.emplace_back();
    out.path = file.path;
    out.tensors = SlotNames(*planned, selected.views);
    out.plan = *std::move(planned);
  }
  if (placed.size() != selected.views.size()) return std::nullopt;
  if (sources.index.has_value()) {
    plan.index_path = sources.index->path;
    TILEKV_ASSIGN_OR_RETURN(plan.index_content, ReadHeader(reader, sources.index->content));
  }
  plan.as_imported = true;
  return plan;
}

// Files in the reference writer's form.
absl::StatusOr<ExportPlan> PlanFresh(const Manifest& manifest, const Selection& selected,
                                     uint64_t max_shard_bytes) {
  ExportPlan plan;
  ShardPlan shards = PlanShards(selected.views, selected.bytes, max_shard_bytes);
  for (const ShardPlan::Shard& shard : shards.shards) {
    std::vector<TensorView> views;
    for (uint32_t tensor : shard.tensors) views.push_back(selected.views[tensor]);
    ExportFile& out = plan.files.emplace_back();
    out.path = shard.file_name;
    TILEKV_ASSIGN_OR_RETURN(out.plan, PlanSafetensorsFile(views, MetadataOf(manifest)));
    out.tensors = SlotNames(out.plan, views);
  }
  plan.index_path = shards.index_name;
  plan.index_content = shards.index_content;
  return plan;
}

}  // namespace

std::string NoTensorMatches(const Manifest& manifest, const ExportOptions& options) {
  return fmt::format("no tensor of the {} matches --include {}", manifest.tensors.size(),
                     Printable(options.include[0]));
}

absl::StatusOr<ExportPlan> PlanExport(ModelReader& reader, const ExportOptions& options,
                                      bool single_file) {
  TILEKV_ASSIGN_OR_RETURN(Selection selected, Select(reader.manifest(), options));
  ExportPlan plan;
  bool as_it_was = options.include.empty() && options.max_shard_bytes == 0;
  std::optional<SourceFiles> sources;
  if (as_it_was) {
    TILEKV_ASSIGN_OR_RETURN(sources, reader.ReadSourceFiles());
  }
  std::optional<ExportPlan> kept;
  if (sources.has_value() && (!single_file || sources->files.size() == 1)) {
    TILEKV_ASSIGN_OR_RETURN(kept, PlanAsImported(reader, *sources, selected));
  }
  if (kept.has_value()) {
    plan = *std::move(kept);
  } else {
    TILEKV_ASSIGN_OR_RETURN(
        plan, PlanFresh(reader.manifest(), selected, single_file ? 0 : options.max_shard_bytes));
  }
  plan.tensors = selected.views.size();
  for (const ExportFile& file : plan.files) plan.bytes += file.plan.file_bytes();
  if (single_file) {
    plan.files[0].path.clear();
    plan.index_path.clear();
  }
  return plan;
}

}  // namespace tilekv
