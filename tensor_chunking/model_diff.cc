#include <algorithm>
#include <map>

#include "tensor_chunking/model_files.h"

namespace tilekv {
namespace {

DiffRow CompareTiles(const TensorEntry& older, const TensorEntry& newer) {
  DiffRow row{.kind = DiffRow::Kind::kChanged, .tensor = newer.name, .tiles = newer.tiles.size()};
  bool same_cut = older.tile_shape == newer.tile_shape;
  for (size_t i = 0; i < newer.tiles.size(); ++i) {
    if (same_cut && newer.tiles[i].SameContent(older.tiles[i])) continue;
    ++row.changed_tiles;
    row.changed_bytes += newer.tiles[i].length_bytes;
  }
  return row;
}

DiffRow WholeRow(DiffRow::Kind kind, const TensorEntry& entry) {
  return {.kind = kind,
          .tensor = entry.name,
          .tiles = entry.tiles.size(),
          .changed_tiles = entry.tiles.size(),
          .changed_bytes = entry.bytes()};
}

absl::Status CompareTensor(ModelReader& older, ModelReader& newer, const std::string& name,
                           ModelDiff& diff) {
  const TensorEntry* a = older.manifest().FindTensor(name);
  const TensorEntry* b = newer.manifest().FindTensor(name);
  if (a != nullptr && b != nullptr && *a == *b) {
    ++diff.same_tensors;
    return absl::OkStatus();
  }
  DiffRow row;
  if (a == nullptr) {
    TILEKV_ASSIGN_OR_RETURN(auto entry, newer.Find(name));
    row = WholeRow(DiffRow::Kind::kAdded, *entry);
  } else if (b == nullptr) {
    TILEKV_ASSIGN_OR_RETURN(auto entry, older.Find(name));
    row = WholeRow(DiffRow::Kind::kRemoved, *entry);
  } else {
    TILEKV_ASSIGN_OR_RETURN(auto old_entry, older.Find(name));
    TILEKV_ASSIGN_OR_RETURN(auto new_entry, newer.Find(name));
    bool comparable = old_entry->dtype == new_entry->dtype && old_entry->shape == new_entry->shape;
    row = comparable ? CompareTiles(*old_entry, *new_entry)
                     : WholeRow(DiffRow::Kind::kRetyped, *new_entry);
    if (comparable && row.changed_tiles == 0) {
      ++diff.same_tensors;
      return absl::OkStatus();
    }
  }
  row.tensor = name;
  diff.rows.push_back(std::move(row));
  return absl::OkStatus();
}

void CompareSideFiles(const Manifest& older, const Manifest& newer, ModelDiff& diff) {
  std::map<std::string, const SideFile*> before;
  for (const SideFile& file : older.side_files) before.emplace(file.path, &file);
  for (const SideFile& file : newer.side_files) {
    auto found = before.find(file.path);
    if (found == before.end()) {
      diff.side_files_added.push_back(file.path);
    } else {
      if (!(found->second->content == file.content)) diff.side_files_changed.push_back(file.path);
      before.erase(found);
    }
  }
  for (const auto& [path, file] : before) diff.side_files_removed.push_back(path);
}

}  // namespace

absl::StatusOr<ModelDiff> DiffModels(ModelReader& older, ModelReader& newer) {
  ModelDiff diff;
  std::vector<std::string> names;
  for (const TensorEntry& entry : older.manifest().tensors) names.push_back(entry.name);
  for (const TensorEntry& entry : newer.manifest().tensors) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    TILEKV_RETURN_IF_ERROR(CompareTensor(older, newer, name, diff));
  }
  CompareSideFiles(older.manifest(), newer.manifest(), diff);
  diff.metadata_differs = older.manifest().metadata != newer.manifest().metadata;
  return diff;
}

}  // namespace tilekv
