// The directory of a zip archive: which members there are and where their bytes stand, zip64
// included. Members are read by zip_member.h. The directory is read here because Debian 12's
// minizip takes no zip64 where `long` has 64 bits, and libzip does not tell where a member's bytes
// are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"

namespace tilekv {

// Reads bytes at an offset of a file or member, all of them or an error.
using ReadFileBytes = absl::FunctionRef<absl::Status(uint64_t offset, MutableBytes out)>;

struct ZipMember {
  std::string name;  // UTF-8, relative, without `..`
  bool deflated = false;
  uint64_t offset = 0;  // of its stored bytes, in the archive
  uint64_t stored_bytes = 0;
  uint64_t content_bytes = 0;
  uint32_t crc32 = 0;  // of the content
};

// The members, in the archive's order. INVALID_FILE names the archive and the member: no zip, cut
// short, encrypted, a method other than stored and deflated, a name twice, a name that is a path to
// elsewhere, sizes that contradict each other, members that overlap. At most kMaxSourceFolderFiles
// members.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(ReadFileBytes read, uint64_t file_size,
                                                        std::string_view file);

}  // namespace tilekv
