// Writing a planned file of tensors: to a path, in pieces from several threads; or to a pipe, front
// to back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/base/stream.h"
#include "tensor_chunking/formats/output_file.h"
#include "tensor_chunking/formats/tensor_file.h"

namespace tilekv {

// The plan's file appears at its path by Finish, whole; without it nothing is left. Write may be
// called from several threads, each byte of data written once, in any order.
class TensorFileWriter {
 public:
  // Errors of OutputFile::Create. `fs` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(FileSystem& fs,
                                                                  const std::string& path,
                                                                  TensorFilePlan plan,
                                                                  bool overwrite);

  const TensorFilePlan& plan() const { return plan_; }
  // Bytes of slots[slot] from `offset` in the tensor.
  absl::Status Write(size_t slot, uint64_t offset, Bytes data);
  // Synced and renamed. INTERNAL, and no file, when bytes were left out.
  absl::Status Finish();

 private:
  TensorFileWriter(std::unique_ptr<OutputFile> file, TensorFilePlan plan)
      : file_(std::move(file)), plan_(std::move(plan)) {}

  std::unique_ptr<OutputFile> file_;
  const TensorFilePlan plan_;
  std::atomic<uint64_t> written_bytes_{0};
};

// The same bytes into a sink: Begin, then the content of the slots in their order in any pieces,
// then Finish. For one thread; `sink` must outlive it.
class TensorStreamWriter {
 public:
  TensorStreamWriter(ByteSink& sink, TensorFilePlan plan) : sink_(sink), plan_(std::move(plan)) {}

  const TensorFilePlan& plan() const { return plan_; }
  absl::Status Begin() { return sink_.Append(AsBytes(plan_.head)); }
  absl::Status Append(Bytes data);
  // INTERNAL when bytes were left out.
  absl::Status Finish();

 private:
  ByteSink& sink_;
  const TensorFilePlan plan_;
  uint64_t written_bytes_ = 0;
};

}  // namespace tilekv
