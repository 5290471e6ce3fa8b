#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"

namespace tilekv {

WriteInput InputFromSource(const ModelSource& source) {
  WriteInput input;
  input.tensors.reserve(source.tensor_count());
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

namespace {

// About what the input takes of this process's memory.
uint64_t MemoryBytesOf(const WriteInput& input) {
  constexpr uint64_t kBlock = 16;  // of each, for the allocator's own sake
  uint64_t sum = 0;
  for (const TensorSource& tensor : input.tensors) {
    sum += sizeof tensor + 2 * kBlock + tensor.name.capacity() +
           tensor.shape.capacity() * sizeof(uint64_t);
  }
  return sum;
}

}  // namespace

absl::StatusOr<WriteReport> ImportModel(KvStore& store, const ModelName& target,
                                        const ModelSource& source, const WriteOptions& write) {
  WriteInput input = InputFromSource(source);
  WriteOptions options = write;
  // Tables, kept headers and what was made of them stay until the end.
  options.memory_bytes -=
      std::min(source.memory_bytes() + MemoryBytesOf(input), options.memory_bytes / 2);
  options.before_commit = [&]() -> absl::Status {
    if (write.before_commit != nullptr) TILEKV_RETURN_IF_ERROR(write.before_commit());
    return source.VerifyUnchanged();
  };
  const SourceTimes before = source.times();
  TILEKV_ASSIGN_OR_RETURN(WriteReport report, WriteModel(store, target, input, options));
  const SourceTimes after = source.times();
  WriteCost& cost = report.cost;
  cost.inflate_nanos = after.inflate_nanos - before.inflate_nanos;
  cost.turn_nanos = after.turn_nanos - before.turn_nanos;
  cost.source_nanos =
      std::max<int64_t>(0, cost.source_nanos - cost.inflate_nanos - cost.turn_nanos);
  return report;
}

}  // namespace tilekv
