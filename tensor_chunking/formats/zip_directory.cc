#include "tensor_chunking/formats/zip_directory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

// The records of an archive, back to front: the end; in large ones a locator of a larger end before
// it; the directory; and in front of each member's bytes a local header.
constexpr std::string_view kEndSign = "PK\x05\x06";
constexpr std::string_view kLocatorSign = "PK\x06\x07";
constexpr std::string_view kEnd64Sign = "PK\x06\x06";
constexpr std::string_view kEntrySign = "PK\x01\x02";
constexpr std::string_view kLocalSign = "PK\x03\x04";
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kMaxCommentBytes = 0xFFFF;
constexpr uint64_t kMaxDirectoryBytes = 32 * kMiB;
constexpr uint32_t kSeeExtra = 0xFFFFFFFF;  // the value is in the extra field, 64 bits wide
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMaxDeflateRatio = 1'032;  // bytes that one byte can stand for

template <typename T>
T At(std::string_view record, size_t offset) {
  return LoadLe<T>(reinterpret_cast<const uint8_t*>(record.data()) + offset);
}

class Directory {
 public:
  Directory(ReadFileBytes read, uint64_t file_size, std::string_view file)
      : read_(read), file_size_(file_size), file_(file) {}

  absl::StatusOr<std::vector<ZipMember>> Run() {
    TILEKV_RETURN_IF_ERROR(FindDirectory());
    if (bytes_ > kMaxDirectoryBytes) {
      return Fail(fmt::format("its directory has {} bytes; at most {} are taken",
                              FormatCount(bytes_), FormatCount(kMaxDirectoryBytes)));
    }
    TILEKV_ASSIGN_OR_RETURN(std::string directory, Text(offset_, bytes_));
    std::string_view rest = directory;
    while (!rest.empty()) {
      if (places_.size() == kMaxSourceFolderFiles) {
        return Fail(fmt::format("it has more than {} members", FormatCount(places_.size())));
      }
      TILEKV_RETURN_IF_ERROR(TakeEntry(rest));
    }
    if (places_.size() != entries_) {
      return Fail(fmt::format("its directory should have {} members, but has {}",
                              FormatCount(entries_), FormatCount(places_.size())));
    }
    TILEKV_RETURN_IF_ERROR(CheckNoOverlap());
    std::vector<ZipMember> members;
    for (Place& place : places_) members.push_back(std::move(place.member));
    return members;
  }

 private:
  struct Place {
    ZipMember member;
    uint64_t header_at = 0;
    uint64_t end() const { return member.offset + member.stored_bytes; }
  };

  absl::Status Fail(std::string_view text) const {
    return MakeError(Reason::kInvalidFile, fmt::format("'{}': {}", Printable(file_), text));
  }
  absl::Status FailMember(std::string_view name, std::string_view text) const {
    return Fail(fmt::format("member '{}' {}", Printable(name), text));
  }
  absl::Status Damaged() const { return Fail("its directory is damaged or cut short"); }

  // Of a place in the file that the caller has checked.
  absl::StatusOr<std::string> Text(uint64_t offset, uint64_t bytes) const {
    std::string text(bytes, '\0');
    TILEKV_RETURN_IF_ERROR(read_(offset, {reinterpret_cast<uint8_t*>(text.data()), bytes}));
    return text;
  }

  absl::Status FindDirectory() {
    uint64_t tail_bytes = std::min(file_size_, kEndBytes + kMaxCommentBytes);
    TILEKV_ASSIGN_OR_RETURN(std::string tail, Text(file_size_ - tail_bytes, tail_bytes));
    // The end is followed by a comment of the length that it says, and nothing else.
    size_t at =
        tail.size() < kEndBytes ? std::string::npos : tail.rfind(kEndSign, tail.size() - kEndBytes);
    while (at != std::string::npos && at + kEndBytes + At<uint16_t>(tail, at + 20) != tail.size()) {
      at = at == 0 ? std::string::npos : tail.rfind(kEndSign, at - 1);
    }
    if (at == std::string::npos) {
      return Fail("not a zip archive, or one that is cut short: its directory was not found");
    }
    std::string_view end = std::string_view(tail).substr(at, kEndBytes);
    entries_ = At<uint16_t>(end, 10);
    bytes_ = At<uint32_t>(end, 12);
    offset_ = At<uint32_t>(end, 16);
    uint64_t behind = file_size_ - tail_bytes + at;
    if (At<uint16_t>(end, 4) != 0 && At<uint16_t>(end, 4) != 0xFFFF) {
      return Fail("it is one part of several; join them first");
    }
    if (behind >= kLocatorBytes) TILEKV_RETURN_IF_ERROR(ReadEnd64(behind));
    uint64_t directory_end = 0;
    if (!CheckedAdd(offset_, bytes_, directory_end) || directory_end != behind) return Damaged();
    return absl::OkStatus();
  }

  // The larger end, if there is a locator before the end; `behind` is then where it begins.
  absl::Status ReadEnd64(uint64_t& behind) {
    uint64_t locator_at = behind - kLocatorBytes;
    TILEKV_ASSIGN_OR_RETURN(std::string locator, Text(locator_at, kLocatorBytes));
    if (!locator.starts_with(kLocatorSign)) return absl::OkStatus();
    auto at = At<uint64_t>(locator, 8);
    if (locator_at < kEnd64Bytes || at > locator_at - kEnd64Bytes) return Damaged();
    TILEKV_ASSIGN_OR_RETURN(std::string end, Text(at, kEnd64Bytes));
    if (!end.starts_with(kEnd64Sign)) return Damaged();
    entries_ = At<uint64_t>(end, 32);
    bytes_ = At<uint64_t>(end, 40);
    offset_ = At<uint64_t>(end, 48);
    behind = at;
    return absl::OkStatus();
  }

  absl::Status TakeEntry(std::string_view& rest) {
    if (rest.size() < kEntryBytes || !rest.starts_with(kEntrySign)) return Damaged();
    std::string_view entry = rest;
    size_t name_bytes = At<uint16_t>(entry, 28);
    size_t extra_bytes = At<uint16_t>(entry, 30);
    size_t whole = kEntryBytes + name_bytes + extra_bytes + At<uint16_t>(entry, 32);
    if (rest.size() < whole) return Damaged();
    rest.remove_prefix(whole);
    Place place;
    ZipMember& member = place.member;
    member.name = entry.substr(kEntryBytes, name_bytes);
    member.crc32 = At<uint32_t>(entry, 16);
    member.stored_bytes = At<uint32_t>(entry, 20);
    member.content_bytes = At<uint32_t>(entry, 24);
    place.header_at = At<uint32_t>(entry, 42);
    TILEKV_RETURN_IF_ERROR(ReadExtra64(entry.substr(kEntryBytes + name_bytes, extra_bytes), place));
    auto flags = At<uint16_t>(entry, 8);
    auto method = At<uint16_t>(entry, 10);
    TILEKV_RETURN_IF_ERROR(CheckEntry(member, flags, method));
    member.deflated = method == kDeflated;
    TILEKV_RETURN_IF_ERROR(FindContent(place, method));
    TILEKV_RETURN_IF_ERROR(CheckSizes(place));
    places_.push_back(std::move(place));
    return absl::OkStatus();
  }

  // Of content, of stored bytes, place: those that the entry itself has no room for.
  absl::Status ReadExtra64(std::string_view extra, Place& place) const {
    while (extra.size() >= 4) {
      auto kind = At<uint16_t>(extra, 0);
      size_t bytes = At<uint16_t>(extra, 2);
      extra.remove_prefix(4);
      if (bytes > extra.size()) return Damaged();
      std::string_view values = extra.substr(0, bytes);
      extra.remove_prefix(bytes);
      if (kind != kExtra64) continue;
      for (uint64_t* value :
           {&place.member.content_bytes, &place.member.stored_bytes, &place.header_at}) {
        if (*value != kSeeExtra) continue;
        if (values.size() < 8) return Damaged();
        *value = At<uint64_t>(values, 0);
        values.remove_prefix(8);
      }
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status CheckEntry(const ZipMember& member, uint16_t flags, uint16_t method) {
    if (!CheckRelativePath(member.name, Reason::kInvalidFile).ok()) {
      return FailMember(member.name,
                        "has a name that is no plain relative path in UTF-8; rename it");
    }
    if (!names_.insert(member.name).second) return FailMember(member.name, "is there twice");
    if ((flags & kEncryptedFlag) != 0) {
      return FailMember(member.name, "is encrypted; save the archive without a password");
    }
    if (method != kStored && method != kDeflated) {
      return FailMember(member.name,
                        fmt::format("is compressed by method {}; only stored and deflated members "
                                    "are read (numpy.savez, numpy.savez_compressed)",
                                    method));
    }
    return absl::OkStatus();
  }

  absl::Status FindContent(Place& place, uint16_t method) const {
    ZipMember& member = place.member;
    auto wrong = [&] {
      return FailMember(member.name, "is not where the directory says, or contradicts it");
    };
    if (offset_ < kLocalBytes || place.header_at > offset_ - kLocalBytes) return wrong();
    TILEKV_ASSIGN_OR_RETURN(std::string local, Text(place.header_at, kLocalBytes));
    uint64_t name_at = place.header_at + kLocalBytes;
    uint64_t name_bytes = At<uint16_t>(local, 26);
    if (!local.starts_with(kLocalSign) || At<uint16_t>(local, 8) != method ||
        (At<uint16_t>(local, 6) & kEncryptedFlag) != 0 || name_bytes != member.name.size() ||
        name_bytes > offset_ - name_at) {
      return wrong();
    }
    TILEKV_ASSIGN_OR_RETURN(std::string name, Text(name_at, name_bytes));
    if (name != member.name) return wrong();
    member.offset = name_at + name_bytes + At<uint16_t>(local, 28);
    return absl::OkStatus();
  }

  absl::Status CheckSizes(const Place& place) const {
    const ZipMember& member = place.member;
    if (member.offset > offset_ || member.stored_bytes > offset_ - member.offset) {
      return FailMember(member.name, "ends behind the members' end: the archive is damaged");
    }
    bool fits = member.deflated ? member.content_bytes / kMaxDeflateRatio <= member.stored_bytes
                                : member.content_bytes == member.stored_bytes;
    if (fits) return absl::OkStatus();
    return FailMember(member.name, fmt::format("cannot have {} bytes: {} are stored",
                                               FormatCount(member.content_bytes),
                                               FormatCount(member.stored_bytes)));
  }

  absl::Status CheckNoOverlap() const {
    std::vector<const Place*> order;
    for (const Place& place : places_) order.push_back(&place);
    std::sort(order.begin(), order.end(),
              [](const Place* a, const Place* b) { return a->header_at < b->header_at; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->end() <= order[i]->header_at) continue;
      return FailMember(order[i]->member.name,
                        fmt::format("overlaps '{}'", Printable(order[i - 1]->member.name)));
    }
    return absl::OkStatus();
  }

  const ReadFileBytes read_;
  const uint64_t file_size_;
  const std::string_view file_;
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;   // of the directory
  uint64_t offset_ = 0;  // of the directory
  std::vector<Place> places_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(ReadFileBytes read, uint64_t file_size,
                                                        std::string_view file) {
  return Directory(read, file_size, file).Run();
}

}  // namespace tilekv
