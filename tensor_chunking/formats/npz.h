// .npz files: zip archives of .npy members, each a tensor called as its member is without `.npy`.
// Errors are INVALID_FILE and name file and member.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/zip_member.h"

namespace tilekv {

// Movable; reading is thread-safe. Members stay stored or deflated as they are: nothing is unpacked
// here (inflated_copy.h does it for who reads in another order).
class NpzFile {
 public:
  struct Member {
    std::string tensor;
    NpyHeader header;
    std::unique_ptr<ZipMemberReader> content;
  };

  // An archive without members.
  NpzFile() = default;
  // Reads the directory and every member's header. `dtype_of` gives what raw elements of a tensor
  // are, see ParseNpyHeader. Members that are not called `.npy` are refused.
  using DTypeOf = std::function<std::optional<DType>(std::string_view tensor)>;
  static absl::StatusOr<NpzFile> Open(ReadFileBytes read, uint64_t file_size, std::string_view file,
                                      const DTypeOf& dtype_of);

  const std::vector<Member>& members() const { return members_; }  // by tensor, bytewise
  // Compares the checksums of all members, reading what was not read yet.
  absl::Status Verify(ReadFileBytes read) const;
  uint64_t memory_bytes() const;  // of the tables

 private:
  std::vector<Member> members_;
};

}  // namespace tilekv
