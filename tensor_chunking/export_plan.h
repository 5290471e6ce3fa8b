// Which files an export consists of, and which tensor goes where in them. No content is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_chunking/formats/tensor_file.h"
#include "tensor_chunking/model_files.h"

namespace tilekv {

struct ExportFile {
  std::string path;  // relative to the destination's folder
  TensorFilePlan plan;
  std::vector<std::string> tensors;  // of each slot
};

struct ExportPlan {
  std::vector<ExportFile> files;
  std::string index_path;  // empty: none
  std::string index_content;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  bool as_imported = false;  // the files that the model was imported from: names, order, headers
};

// `single_file`: one safetensors file, whose path is left empty. INVALID_ARGUMENT names globs that
// match nothing.
absl::StatusOr<ExportPlan> PlanExport(ModelReader& reader, const ExportOptions& options,
                                      bool single_file);

// The text of that error.
std::string NoTensorMatches(const Manifest& manifest, const ExportOptions& options);

}  // namespace tilekv
