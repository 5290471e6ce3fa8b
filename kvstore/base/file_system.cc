#include "kvstore/base/file_system.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::Status File::Allocate(uint64_t /*size*/) {
  return absl::UnimplementedError("no blocks can be allocated here");
}

absl::StatusOr<SharedBytes> File::Map(uint64_t /*offset*/, uint64_t /*length*/) {
  return absl::UnimplementedError("this file cannot be mapped");
}

absl::StatusOr<uint64_t> File::ReadPieces(uint64_t offset, std::span<const MutableBytes> pieces) {
  uint64_t done = 0;
  for (MutableBytes piece : pieces) {
    TILEKV_ASSIGN_OR_RETURN(uint64_t read, Read(offset + done, piece));
    done += read;
    if (read < piece.size()) break;
  }
  return done;
}

absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  TILEKV_ASSIGN_OR_RETURN(auto file, fs.Open(path, FileSystem::OpenMode::kRead));
  TILEKV_ASSIGN_OR_RETURN(uint64_t size, file->Size());
  if (size > max_bytes) {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("'{}' has {} bytes, at most {} were expected", Printable(path),
                                 size, max_bytes));
  }
  std::string content(size, '\0');
  TILEKV_ASSIGN_OR_RETURN(
      uint64_t read, file->Read(0, {reinterpret_cast<uint8_t*>(content.data()), content.size()}));
  content.resize(read);
  return content;
}

absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path,
                                 std::string_view content) {
  std::string temporary = path + ".tmp";
  absl::Status removed = fs.Unlink(temporary);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  {
    TILEKV_ASSIGN_OR_RETURN(auto file, fs.Open(temporary, FileSystem::OpenMode::kCreateNew));
    TILEKV_RETURN_IF_ERROR(file->Write(0, AsBytes(content)));
    TILEKV_RETURN_IF_ERROR(file->Sync());
  }
  TILEKV_RETURN_IF_ERROR(fs.Rename(temporary, path));
  size_t slash = path.rfind('/');
  return fs.SyncDirectory(slash == std::string::npos ? "." : path.substr(0, slash));
}

}  // namespace tilekv
