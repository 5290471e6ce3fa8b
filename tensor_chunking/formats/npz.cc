#include "tensor_chunking/formats/npz.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr std::string_view kNpySuffix = ".npy";

absl::StatusOr<NpyHeader> ReadHeader(ZipMemberReader& member, ReadFileBytes read,
                                     const std::string& label, std::optional<DType> dtype) {
  uint64_t size = member.member().content_bytes;
  std::string start(std::min<uint64_t>(kNpyStartBytes, size), '\0');
  auto fill = [&](std::string& out) {
    return member.Read(read, 0, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  };
  TILEKV_RETURN_IF_ERROR(fill(start));
  TILEKV_ASSIGN_OR_RETURN(uint64_t data_start, NpyDataStart(AsBytes(start), size, label));
  std::string preamble(data_start, '\0');
  TILEKV_RETURN_IF_ERROR(fill(preamble));
  member.Release();  // there may be very many members
  return ParseNpyHeader(AsBytes(preamble), size, label, dtype);
}

}  // namespace

absl::StatusOr<NpzFile> NpzFile::Open(ReadFileBytes read, uint64_t file_size, std::string_view file,
                                      const DTypeOf& dtype_of) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<ZipMember> directory,
                          ReadZipDirectory(read, file_size, file));
  NpzFile npz;
  for (ZipMember& member : directory) {
    if (!member.name.ends_with(kNpySuffix)) {
      return MakeError(Reason::kInvalidFile,
                       fmt::format("'{}': member '{}' is no .npy array: an .npz file holds arrays "
                                   "and nothing else",
                                   Printable(file), Printable(member.name)));
    }
    std::string label = fmt::format("{}/{}", file, member.name);
    Member& added = npz.members_.emplace_back();
    added.tensor = member.name.substr(0, member.name.size() - kNpySuffix.size());
    added.content = std::make_unique<ZipMemberReader>(std::move(member), label);
    TILEKV_ASSIGN_OR_RETURN(added.header,
                            ReadHeader(*added.content, read, label, dtype_of(added.tensor)));
  }
  std::sort(npz.members_.begin(), npz.members_.end(),
            [](const Member& a, const Member& b) { return a.tensor < b.tensor; });
  return npz;
}

uint64_t NpzFile::memory_bytes() const {
  uint64_t total = members_.capacity() * sizeof(Member);
  for (const Member& member : members_) {
    // Its name stands in the tensor's, the member's and the label.
    total += sizeof(ZipMemberReader) + 3 * member.tensor.capacity();
  }
  return total;
}

absl::Status NpzFile::Verify(ReadFileBytes read) const {
  for (const Member& member : members_) TILEKV_RETURN_IF_ERROR(member.content->Verify(read));
  return absl::OkStatus();
}

}  // namespace tilekv
