#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"

namespace tilekv {

WriteInput InputFromSource(const ModelSource& source) {
  WriteInput input;
  for (size_t i = 0; i < source.tensor_count(); ++i) {
    SourceTensor tensor = source.tensor(i);
    input.tensors.push_back({.name = std::string(tensor.name),
                             .dtype = tensor.dtype,
                             .shape = Shape(tensor.shape.begin(), tensor.shape.end()),
                             .read = [&source, i](uint64_t offset, MutableBytes out) {
                               return source.ReadTensor(i, offset, out);
                             }});
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
  options.before_commit = [&]() -> absl::Status {
    if (write.before_commit != nullptr) TILEKV_RETURN_IF_ERROR(write.before_commit());
    return source.VerifyUnchanged();
  };
  return WriteModel(store, target, input, options);
}

}  // namespace tilekv
