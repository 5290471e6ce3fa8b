#include "tensor_chunking/formats/model_source.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/npy_content.h"
#include "tensor_chunking/formats/text_list.h"

namespace tilekv {

std::string ModelSource::FullPath(std::string_view path) const {
  return folder_.empty() ? std::string(path) : fmt::format("{}/{}", folder_, path);
}

SourceTensor ModelSource::tensor(size_t index) const {
  const TensorRef& ref = order_[index];
  const Tables& tables = tables_[ref.file];
  SourceTensor tensor;
  tensor.file = ref.file;
  if (files_[ref.file].kind == WeightFile::Kind::kNpy) {
    tensor.name = tables.npy_name;
    tensor.dtype = tables.npy.dtype;
    tensor.shape = tables.npy.shape;
    tensor.offset = tables.npy.data_start;
    tensor.length_bytes = tables.npy.data_bytes;
    tensor.fortran_order = tables.npy.fortran_order;
    tensor.big_endian = tables.npy.big_endian;
  } else {
    TensorInfo info = tables.safetensors.tensors[ref.row];
    tensor.name = info.name;
    tensor.dtype = info.dtype;
    tensor.shape = info.shape;
    tensor.offset = tables.safetensors.data_start + info.begin;
    tensor.length_bytes = info.end - info.begin;
  }
  return tensor;
}

uint64_t ModelSource::memory_bytes() const {
  uint64_t total = order_.capacity() * sizeof(TensorRef);
  for (const Tables& tables : tables_) total += tables.safetensors.tensors.memory_bytes();
  for (const WeightFile& file : files_) total += file.header.capacity();
  if (index_.has_value()) total += index_->content.capacity();
  return total;
}

absl::Status ModelSource::ReadAt(uint32_t file, uint64_t offset, MutableBytes out) const {
  return cache_->ReadAt(FullPath(files_[file].path), offset, out);
}

absl::Status ModelSource::ReadTensor(size_t index, uint64_t offset, MutableBytes out) const {
  SourceTensor tensor = this->tensor(index);
  TILEKV_CHECK(out.size() <= tensor.length_bytes && offset <= tensor.length_bytes - out.size());
  if (files_[tensor.file].kind == WeightFile::Kind::kSafetensors) {
    return ReadAt(tensor.file, tensor.offset + offset, out);
  }
  auto read = [&](uint64_t at, MutableBytes to) { return ReadAt(tensor.file, at, to); };
  return ReadNpyContent(tables_[tensor.file].npy, read, offset, out);
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
  if (changed.empty()) return absl::OkStatus();
  return MakeError(Reason::kInvalidFile,
                   fmt::format("changed while the model was read: {}; nothing was imported, try "
                               "again when nobody writes there",
                               ListForMessage(changed)));
}

}  // namespace tilekv
