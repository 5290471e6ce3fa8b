// Memory of one step of a read, shared by its messages and held until the last of them was sent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/shared_bytes.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Fewer stored bytes are read: a mapping costs some calls of the kernel, a copy costs time for each
// byte.
inline constexpr uint64_t kLeastMappedBytes = 128 * kKiB;

// For one thread at a time.
class ReadChunk {
 public:
  // At most `room` bytes are taken and fetched in all.
  ReadChunk(Reservation reservation, std::shared_ptr<BufferPool> pool, uint64_t room)
      : reservation_(std::move(reservation)), pool_(std::move(pool)), room_(room) {}

  uint64_t room() const { return room_; }
  // Memory for the next `bytes`.
  MutableBytes Take(uint64_t bytes);
  // The next bytes are stored ones, sent as they are: mapped where they are many and it can be
  // done, else read. Errors of ObjectReader::ReadStored.
  absl::StatusOr<Bytes> Fetch(ObjectReader& reader, uint64_t stored_offset, uint64_t length);

 private:
  const Reservation reservation_;
  const std::shared_ptr<BufferPool> pool_;
  uint64_t room_;
  Buffer buffer_;
  uint64_t filled_ = 0;  // of the buffer
  std::vector<SharedBytes> mapped_;
};

}  // namespace tilekv
