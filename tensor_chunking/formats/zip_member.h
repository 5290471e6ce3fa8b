// The content of one member of a zip archive, read at any offset from several threads.
//
// A stored member is read where it stands. A deflated one is decoded forwards only, so the decoder
// is kept where it stopped, and copies of its state every few MiB let a read begin near its
// offset: a pass in order decodes everything once, whatever its pieces, and a jump costs at most
// 4 MiB or 1/64 of the content. The checksum is compared as soon as the last byte was
// read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "tensor_chunking/formats/zip_directory.h"

namespace tilekv {

// What reading of a deflated member can hold beside the destination, for each reading thread.
inline constexpr uint64_t kInflateScratchBytes = 4 * kMiB;

// Thread-safe. `read` reads the archive.
class ZipMemberReader {
 public:
  // `label` is the member in messages.
  ZipMemberReader(ZipMember member, std::string label);
  ~ZipMemberReader();

  const ZipMember& member() const { return member_; }
  // All of `out` from `offset` of the content, within it. INVALID_FILE where the member is damaged.
  absl::Status Read(ReadFileBytes read, uint64_t offset, MutableBytes out);
  // Reads what is still needed to compare the checksum, if anything.
  absl::Status Verify(ReadFileBytes read);
  // Lets decoders go; a later read begins anew.
  void Release();

 private:
  struct Decoder;  // a place in a deflated member
  struct Piece {
    uint64_t length;
    uint32_t crc;
  };

  absl::Status ReadStored(ReadFileBytes read, uint64_t offset, MutableBytes out);
  absl::Status NoteStored(uint64_t offset, Bytes content);
  absl::Status ReadDeflated(ReadFileBytes read, uint64_t offset, MutableBytes out);
  // Decodes up to `end`; into `out` when it is not null.
  absl::Status Advance(Decoder& decoder, ReadFileBytes read, uint64_t end, uint8_t* out);
  absl::Status Refill(Decoder& decoder, ReadFileBytes read) const;
  absl::Status Step(Decoder& decoder, ReadFileBytes read, MutableBytes out);
  absl::Status Finish(Decoder& decoder, ReadFileBytes read);
  std::unique_ptr<Decoder> TakeDecoder(uint64_t offset);
  void PutBack(std::unique_ptr<Decoder> decoder, uint64_t delivered_bytes);
  absl::Status CompareCrc(uint32_t found);
  absl::Status Damaged(std::string_view what) const;

  const ZipMember member_;
  const std::string label_;
  const uint64_t checkpoint_bytes_;  // between two of them
  Mutex mutex_;
  bool verified_ ABSL_GUARDED_BY(mutex_) = false;
  // Stored: the checksum of the first crc_at_ bytes, and pieces behind them that were read.
  uint64_t crc_at_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t crc_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Piece> pieces_ ABSL_GUARDED_BY(mutex_);
  // Deflated: decoders that nobody uses, the last used last; copies at multiples of
  // checkpoint_bytes_, the first at 1; bytes given out since the last release.
  std::vector<std::unique_ptr<Decoder>> idle_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Decoder>> checkpoints_ ABSL_GUARDED_BY(mutex_);
  uint64_t delivered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
