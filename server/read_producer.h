// The sending end of ReadObjects, without gRPC: turns a request into messages, a chunk at a time.
//
// MessageSource says how it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store.h"
#include "server/message_source.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Takes what answers a read of kShortReadBytes from one object of the default limit, coded or not.
inline constexpr uint64_t kShortAnswerBytes = 768 * kKiB;

class ReadProducer : public MessageSource {
 public:
  // `store` outlives the producer. INVALID_ARGUMENT for a request that can never be right.
  static absl::StatusOr<std::unique_ptr<ReadProducer>> Create(
      ObjectStore& store, std::shared_ptr<BufferPool> pool, const v1::ReadObjectsRequest& request);

  bool done() const override { return next_ == ranges_.size(); }
  // Before the first step: little is asked for, and all that answers it is within
  // kShortAnswerBytes.
  bool is_short() const;
  // Enough for a chunk of data and the tables before it.
  uint64_t NextBytes() const override;
  // A part of a long range, or many short ones.
  // The first range that fails ends everything: NOT_FOUND, DATA_LOSS.
  absl::StatusOr<std::vector<ReadMessage>> Produce(Reservation reservation) override;

 private:
  struct Range {
    ObjectRef ref;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  // The range being answered.
  struct Open {
    Encoding encoding;         // in which it is sent
    bool decode = false;       // stored in an encoding that the client does not take
    CoveringRange cover;       // of the stored bytes, or of the content when decoded here
    uint64_t sent_bytes = 0;   // of data
    uint64_t total_bytes = 0;  // of data
  };

  ReadProducer(ObjectStore& store, std::shared_ptr<BufferPool> pool)
      : store_(store), pool_(std::move(pool)) {}
  absl::Status OpenNext();
  absl::Status OpenObject(const ObjectRef& ref);
  absl::StatusOr<Bytes> ReadSome(uint64_t room, ReadChunk& chunk);
  v1::ReadObjectsResponse Fields(bool first) const;
  uint64_t TableBytes(size_t index) const;
  uint64_t DataBound(size_t index) const;
  bool Accepts(const Encoding& encoding) const;

  ObjectStore& store_;
  const std::shared_ptr<BufferPool> pool_;
  Domain domain_ = kDefaultDomain;
  std::vector<Range> ranges_;
  std::vector<Encoding> accept_;
  size_t next_ = 0;
  std::optional<Open> open_;
  // Of the range before, too: ranges of one object in a row open it once and send its leaf table
  // once.
  std::shared_ptr<ObjectReader> reader_;
  ObjectRef reader_of_;
  bool leaves_sent_ = false;
};

}  // namespace tilekv
