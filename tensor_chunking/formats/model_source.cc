#include "tensor_chunking/formats/model_source.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/read_times.h"
#include "tensor_chunking/formats/npy_content.h"
#include "tensor_chunking/formats/text_list.h"

namespace tilekv {

std::string ModelSource::FullPath(std::string_view path) const {
  return folder_.empty() ? std::string(path) : fmt::format("{}/{}", folder_, path);
}

const NpyHeader* ModelSource::ArrayHeader(const TensorRef& ref) const {
  const Tables& tables = tables_[ref.file];
  switch (files_[ref.file].kind) {
    case WeightFile::Kind::kSafetensors:
      return nullptr;
    case WeightFile::Kind::kNpy:
      return &tables.npy;
    case WeightFile::Kind::kNpz:
      return &tables.npz.members()[ref.row].header;
  }
  return nullptr;
}

SourceTensor ModelSource::tensor(size_t index) const {
  const TensorRef& ref = order_[index];
  const Tables& tables = tables_[ref.file];
  SourceTensor tensor;
  tensor.file = ref.file;
  const NpyHeader* array = ArrayHeader(ref);
  if (array == nullptr) {
    TensorInfo info = tables.safetensors.tensors[ref.row];
    tensor.name = info.name;
    tensor.dtype = info.dtype;
    tensor.shape = info.shape;
    tensor.length_bytes = info.end - info.begin;
    return tensor;
  }
  tensor.dtype = array->dtype;
  tensor.shape = array->shape;
  tensor.length_bytes = array->data_bytes;
  tensor.read_by_boxes = array->fortran_order;
  if (array->fortran_order) tensor.scratch_bytes += kTransposeBytes;
  if (files_[ref.file].kind == WeightFile::Kind::kNpz) {
    const NpzFile::Member& member = tables.npz.members()[ref.row];
    tensor.name = member.tensor;
    if (member.content->member().deflated) tensor.scratch_bytes += kInflateScratchBytes;
  } else {
    tensor.name = tables.npy_name;
  }
  return tensor;
}

uint64_t ModelSource::memory_bytes() const {
  uint64_t total = order_.capacity() * sizeof(TensorRef);
  for (const Tables& tables : tables_) {
    total += tables.safetensors.tensors.memory_bytes() + tables.npz.memory_bytes();
  }
  for (const WeightFile& file : files_) total += file.header.capacity();
  if (index_.has_value()) total += index_->content.capacity();
  return total;
}

absl::Status ModelSource::ReadAt(uint32_t file, uint64_t offset, MutableBytes out) const {
  return cache_->ReadAt(FullPath(files_[file].path), offset, out);
}

// `bytes` are those that the caller wants of the array.
absl::Status ModelSource::ReadArray(const TensorRef& ref, uint64_t bytes,
                                    absl::FunctionRef<absl::Status(ReadFileBytes)> decode) const {
  const Tables& tables = tables_[ref.file];
  int64_t whole_nanos = 0;
  int64_t member_nanos = 0;
  int64_t file_nanos = 0;
  auto from_file = [&](uint64_t at, MutableBytes to) {
    TimedScope timed(&file_nanos);
    return ReadAt(ref.file, at, to);
  };
  InflatedCopy* copy = nullptr;
  absl::Status status;
  {
    TimedScope timed(&whole_nanos);
    if (files_[ref.file].kind == WeightFile::Kind::kNpy) {
      status = decode(from_file);
      member_nanos = file_nanos;
    } else {
      ZipMemberReader& member = *tables.npz.members()[ref.row].content;
      auto found = tables.copies.find(ref.row);
      if (found != tables.copies.end()) copy = found->second.get();
      status = decode([&](uint64_t at, MutableBytes to) {
        TimedScope timed_member(&member_nanos);
        return copy == nullptr ? member.Read(from_file, at, to) : copy->Read(from_file, at, to);
      });
    }
  }
  const NpyHeader& header = *ArrayHeader(ref);
  if (status.ok() && copy != nullptr) copy->Delivered(bytes, header.data_bytes);
  if (header.fortran_order || header.big_endian) {
    counters_->turn_nanos += whole_nanos - member_nanos;
  }
  counters_->inflate_nanos += member_nanos - file_nanos;
  return status;
}

SourceTimes ModelSource::times() const {
  return {.inflate_nanos = counters_->inflate_nanos, .turn_nanos = counters_->turn_nanos};
}

absl::Status ModelSource::ReadTensor(size_t index, uint64_t offset, MutableBytes out) const {
  const TensorRef& ref = order_[index];
  const NpyHeader* array = ArrayHeader(ref);
  if (array != nullptr) {
    return ReadArray(ref, out.size(),
                     [&](ReadFileBytes read) { return ReadNpyContent(*array, read, offset, out); });
  }
  const SafetensorsHeader& header = tables_[ref.file].safetensors;
  TensorInfo info = header.tensors[ref.row];
  TILEKV_CHECK(out.size() <= info.end - info.begin && offset <= info.end - info.begin - out.size());
  return ReadAt(ref.file, header.data_start + info.begin + offset, out);
}

absl::Status ModelSource::ReadTensorBox(size_t index, const Region& box, MutableBytes out) const {
  const TensorRef& ref = order_[index];
  const NpyHeader* array = ArrayHeader(ref);
  TILEKV_CHECK(array != nullptr && array->fortran_order);
  return ReadArray(ref, out.size(),
                   [&](ReadFileBytes read) { return ReadNpyBox(*array, read, box, out); });
}

absl::Status ModelSource::ReadSideFile(size_t index, uint64_t offset, MutableBytes out) const {
  return cache_->ReadAt(FullPath(side_files_[index].path), offset, out);
}

absl::Status ModelSource::VerifyUnchanged() const {
  std::vector<std::string> changed;
  auto check = [&](const std::string& path, const FileInfo& before) -> absl::Status {
    absl::StatusOr<FileInfo> now = fs_->Stat(FullPath(path));
    if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
    if (!now.ok()) {
      changed.push_back(fmt::format("'{}' (gone)", Printable(path)));
    } else if (*now != before) {
      changed.push_back(fmt::format("'{}'", Printable(path)));
    }
    return absl::OkStatus();
  };
  for (const WeightFile& file : files_) TILEKV_RETURN_IF_ERROR(check(file.path, file.identity));
  for (const SourceSideFile& file : side_files_) {
    TILEKV_RETURN_IF_ERROR(check(file.path, file.identity));
  }
  if (index_.has_value()) TILEKV_RETURN_IF_ERROR(check(index_->path, index_->identity));
  if (changed.empty()) {
    for (uint32_t i = 0; i < files_.size(); ++i) {
      auto read = [&](uint64_t at, MutableBytes to) { return ReadAt(i, at, to); };
      TILEKV_RETURN_IF_ERROR(tables_[i].npz.Verify(read));
    }
    return absl::OkStatus();
  }
  return MakeError(Reason::kInvalidFile,
                   fmt::format("changed while the model was read: {}; nothing was imported, try "
                               "again when nobody writes there",
                               ListForMessage(changed)));
}

}  // namespace tilekv
