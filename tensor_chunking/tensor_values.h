// What the numbers of a stored model are like, and how those of two versions differ. Read tile by
// tile within the reader's budget.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor_chunking/element_stats.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/model_reader.h"

namespace tilekv {

struct TensorStats {
  std::string tensor;
  DType dtype{};
  Shape shape;
  bool numeric = true;  // false: of a dtype whose elements are no numbers here; nothing was read
  ElementStats stats;
};
// Calls `visit` for each of the tensors (empty: all but aliases) in the order given, each once it
// is read.
absl::Status VisitTensorStats(ModelReader& reader, const std::vector<std::string>& tensors,
                              const std::function<absl::Status(const TensorStats&)>& visit,
                              const std::function<void(const WriteProgress&)>& progress = {});

// Of a row of a difference (model_files.h) of kind kChanged, the elements of both versions. Only
// tiles whose contents differ are read. `changes.count` are all elements of the tensor; nothing is
// counted where the dtype's elements are no numbers here.
struct ValueChanges {
  bool numeric = true;
  ElementChanges changes;
};
absl::StatusOr<ValueChanges> CompareValues(
    ModelReader& older, ModelReader& newer, const std::string& tensor,
    const std::function<void(uint64_t bytes)>& progress = {});

}  // namespace tilekv
