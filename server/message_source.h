// What answers a read, without gRPC: messages of a chunk's memory at most, made step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/bytes.h"
#include "server/read_chunk.h"

namespace tilekv {

// One message: `head`, then exactly `data`.
struct ReadMessage {
  std::string head;
  Bytes data;  // in the chunk
  std::shared_ptr<ReadChunk> chunk;
};

// Used by one thread at a time; Produce reads the disk. Memory is reserved by the caller before
// each step and is held by the messages until the last of them is gone.
class MessageSource {
 public:
  virtual ~MessageSource() = default;
  // Everything has been answered.
  virtual bool done() const = 0;
  // What to reserve for the next step.
  virtual uint64_t NextBytes() const = 0;
  // The next messages, at most a chunk of data in all. An error ends everything.
  virtual absl::StatusOr<std::vector<ReadMessage>> Produce(Reservation reservation) = 0;
};

}  // namespace tilekv
