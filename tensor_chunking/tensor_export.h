// One tensor, or a part of it, out of a store: to a file or a pipe, in its own dtype or another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {

struct TensorExportOptions {
  std::string slice;        // as ParseSlice has it; "": all
  std::optional<DType> as;  // converted as convert.h says
  bool overwrite = false;
  std::function<void(const WriteProgress&)> progress;
};
struct TensorExportReport {
  DType dtype{};
  Shape shape;
  uint64_t bytes = 0;       // of the result, as it was written
  ReadStats read;           // of content asked for, and of stored bytes that came
  uint64_t overflowed = 0;  // numbers that became infinite in the conversion
};

// To a .npy or .safetensors file, or row-major bytes to `raw` where that is not null. Streamed:
// memory is the reader's budget, however large the selection is. A file appears whole or not at
// all. INVALID_ARGUMENT where slice, dtype or destination cannot be, and for an element that the
// dtype cannot hold; its index in the result is named.
absl::StatusOr<TensorExportReport> ExportTensor(ModelReader& reader, const std::string& tensor,
                                                const std::string& destination, ByteSink* raw,
                                                const TensorExportOptions& options = {});

}  // namespace tilekv
