// Models from files and into files: import, export, difference, verification. What the CLI and
// programs call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/kv_store.h"
#include "kvstore/model_name.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {

// Imports what OpenModelSource found, all or nothing. `write` gives layout, codec, conditions, tags
// and progress.
absl::StatusOr<WriteReport> ImportModel(KvStore& store, const ModelName& target,
                                        const ModelSource& source, const WriteOptions& write = {});
// What ImportModel writes; refers to `source`, which must outlive it.
WriteInput InputFromSource(const ModelSource& source);

struct ExportOptions {
  uint64_t max_shard_bytes = 0;      // 0: as it was imported, else one file
  std::vector<std::string> include;  // globs on tensor names; empty: all
  bool weights = true;               // false: side files only
  bool overwrite = false;
  std::function<void(const WriteProgress&)> progress;
};
struct ExportReport {
  bool is_folder = false;  // what the destination is
  std::vector<std::string> files;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  // Names, order and headers of the weights' files are those of the import: where the version is
  // the imported one they are equal to the byte.
  bool as_imported = false;
  ReadStats read;           // of tensors; with times where the reader is a timed one
  int64_t write_nanos = 0;  // in which what was read went to the destination; then one thread's
};
// `destination` ending in .safetensors: one file with all tensors; in .npy: the only
// tensor, or the only one that `include` matches; else a folder, side files included. Options that
// the destination cannot honour are refused. Each file is written beside its destination, synced,
// renamed; an existing one needs `overwrite`. Everything that can be refused is refused before the
// first byte: existing files, names that collide, weights in the folder that a reader would take
// for the model's. An alias is written as a tensor of its own.
absl::StatusOr<ExportReport> ExportModel(ModelReader& reader, const std::string& destination,
                                         const ExportOptions& options = {});
// All tensors as one safetensors file, front to back.
absl::StatusOr<ExportReport> ExportModelToSink(ModelReader& reader, ByteSink& sink,
                                               const ExportOptions& options = {});

struct DiffRow {
  enum class Kind { kAdded, kRemoved, kChanged, kRetyped };  // retyped: another dtype or shape
  Kind kind{};
  std::string tensor;
  uint64_t tiles = 0;          // of the newer
  uint64_t changed_tiles = 0;  // of them, with other content than at that place in the older
  uint64_t changed_bytes = 0;
};
struct ModelDiff {
  std::vector<DiffRow> rows;  // in name order; unchanged tensors are not listed
  uint64_t same_tensors = 0;
  std::vector<std::string> side_files_added, side_files_removed, side_files_changed;
  bool metadata_differs = false;
  bool same() const {
    return rows.empty() && side_files_added.empty() && side_files_removed.empty() &&
           side_files_changed.empty() && !metadata_differs;
  }
};
// Reads manifests only.
absl::StatusOr<ModelDiff> DiffModels(ModelReader& older, ModelReader& newer);

struct Damage {
  std::string where;  // tensor and tile, or side file
  std::string text;
};
struct VerifyReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  std::vector<Damage> damages;
};
// Reads every object of the version and checks it to its id, tensors inside packs also to their own
// hashes; goes on after damage.
absl::StatusOr<VerifyReport> VerifyModel(
    ModelReader& reader, const std::function<void(const WriteProgress&)>& progress = {});

struct LoadReport {
  uint64_t bytes = 0;  // of content
  ReadStats read;      // with times where the reader is a timed one
};
// Streams every tile and throws it away: what a load costs, within the reader's budget.
absl::StatusOr<LoadReport> LoadToNull(
    ModelReader& reader, const std::function<void(const WriteProgress&)>& progress = {});

}  // namespace tilekv
