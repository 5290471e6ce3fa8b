#include "tensor_chunking/formats/tensor_file_writer.h"

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status CheckComplete(std::string_view what, uint64_t written_bytes, uint64_t data_bytes) {
  if (written_bytes == data_bytes) return absl::OkStatus();
  return MakeError(Reason::kInternal,
                   fmt::format("{}: {} of {} bytes of data were written", what,
                               FormatCount(written_bytes), FormatCount(data_bytes)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::Create(FileSystem& fs,
                                                                           const std::string& path,
                                                                           TensorFilePlan plan,
                                                                           bool overwrite) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file,
                          OutputFile::Create(fs, path, overwrite));
  TILEKV_RETURN_IF_ERROR(file->WriteAt(0, AsBytes(plan.head)));
  return std::unique_ptr<TensorFileWriter>(new TensorFileWriter(std::move(file), std::move(plan)));
}

absl::Status TensorFileWriter::Write(size_t slot, uint64_t offset, Bytes data) {
  const TensorFilePlan::Slot& target = plan_.slots[slot];
  uint64_t length = target.end - target.begin;
  TILEKV_CHECK(data.size() <= length && offset <= length - data.size());
  TILEKV_RETURN_IF_ERROR(file_->WriteAt(plan_.head.size() + target.begin + offset, data));
  written_bytes_ += data.size();
  return absl::OkStatus();
}

absl::Status TensorFileWriter::Finish() {
  TILEKV_RETURN_IF_ERROR(CheckComplete(fmt::format("'{}'", Printable(file_->path())),
                                       written_bytes_, plan_.data_bytes));
  return file_->Commit();
}

absl::Status TensorStreamWriter::Append(Bytes data) {
  TILEKV_CHECK(data.size() <= plan_.data_bytes - written_bytes_);
  TILEKV_RETURN_IF_ERROR(sink_.Append(data));
  written_bytes_ += data.size();
  return absl::OkStatus();
}

absl::Status TensorStreamWriter::Finish() {
  return CheckComplete("the stream", written_bytes_, plan_.data_bytes);
}

}  // namespace tilekv
