#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"

namespace tilekv {

WriteInput InputFromSource(const ModelSource& source) {
  WriteInput input;
  for (size_t i = 0; i < source.tensor_count(); ++i) {
    SourceTensor tensor = source.tensor(i);
    TensorSource& added = input.tensors.emplace_back();
    added.name = tensor.name;
    added.dtype = tensor.dtype;
    added.shape = Shape(tensor.shape.begin(), tensor.shape.end());
    added.scratch_bytes = tensor.scratch_bytes;
    added.read = [&source, i](uint64_t offset, MutableBytes out) {
      return source.ReadTensor(i, offset, out);
    };
    if (tensor.read_by_boxes) {
      added.read_box = [&source, i](const Region& box, MutableBytes out) {
        return source.ReadTensorBox(i, box, out);
      };
    }
  }
  for (size_t i = 0; i < source.side_files().size(); ++i) {
    input.side_files.push_back({.path = source.side_files()[i].path,
                                .length = source.side_files()[i].identity.size_bytes,
                                .read = [&source, i](uint64_t offset, MutableBytes out) {
                                  return source.ReadSideFile(i, offset, out);
                                }});
  }
  input.metadata = source.metadata();
  SourceFilesInput kept;
  for (const WeightFile& file : source.files()) {
    if (file.kind != WeightFile::Kind::kSafetensors) continue;
    kept.files.files.push_back({.path = file.path,
                                .kind = SourceKind::kSafetensors,
                                .length_bytes = file.identity.size_bytes});
    kept.headers.push_back(file.header);
  }
  if (source.index().has_value()) {
    kept.files.index.emplace().path = source.index()->path;
    kept.index = source.index()->content;
  }
  if (!kept.headers.empty() || kept.files.index.has_value()) input.source_files = std::move(kept);
  return input;
}

absl::StatusOr<WriteReport> ImportModel(KvStore& store, const ModelName& target,
                                        const ModelSource& source, const WriteOptions& write) {
  WriteInput input = InputFromSource(source);
  WriteOptions options = write;
  // Tables and kept headers stay until the end.
  options.memory_bytes -= std::min(source.memory_bytes(), options.memory_bytes / 2);
  options.before_commit = [&]() -> absl::Status {
    if (write.before_commit != nullptr) TILEKV_RETURN_IF_ERROR(write.before_commit());
    return source.VerifyUnchanged();
  };
  return WriteModel(store, target, input, options);
}

}  // namespace tilekv
