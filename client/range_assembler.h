// The receiving end of ReadObjects, without gRPC: messages go in as they come, verified content
// comes out in the caller's memory.
//
// One for one call, used by one thread at a time. Memory beside the destinations: one leaf, or one
// block and its stored form.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "kvstore/node/node_service.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/read_times.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

class RangeAssembler {
 public:
  // `reads` and their destinations outlive the assembler. `node` is named in errors. `timed`:
  // measures what times() tells, by one leaf or block of each message.
  RangeAssembler(std::span<const ObjectRead> reads, std::string node, bool timed = false);
  ~RangeAssembler();

  // The next message, in pieces, which are not needed afterwards. DATA_LOSS names the object whose
  // bytes do not hash to its id; INTERNAL says that the node's answer is not one to these reads.
  absl::Status Take(std::span<const Bytes> pieces);
  // After the last message: OK when every read was filled.
  absl::Status Finish() const;

  // Of the reads, the one that the next message belongs to; for errors made elsewhere.
  std::string CurrentObject() const;
  size_t current() const { return next_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // Of all messages so far; nothing was fetched here.
  ReadTimes times() const;

 private:
  absl::Status TakeMessage(std::span<const Bytes> pieces);
  absl::Status StartRange(const v1::ReadObjectsResponse& message);
  absl::Status CheckHeader(const v1::ReadObjectHeader& header);
  absl::Status SetLeaves(const v1::ReadObjectHeader& header);
  absl::Status SetBlocks(const v1::ReadObjectHeader& header);
  absl::Status TakeData(Bytes piece);
  absl::Status TakeRaw(Bytes piece);
  absl::Status TakeCoded(Bytes piece);
  absl::Status FinishUnit(Bytes stored);
  // Where the content of the unit that begins at `content_offset` can be put together.
  MutableBytes UnitSpace(uint64_t content_offset, uint64_t length);
  void CopyWanted(uint64_t content_offset, Bytes content);
  void EndRangeIfFilled();
  absl::Status Unexpected(const std::string& what) const;
  const ObjectRead& read() const { return reads_[next_]; }

  std::span<const ObjectRead> reads_;
  std::string node_;
  size_t next_ = 0;  // the read being filled
  uint64_t received_bytes_ = 0;
  const bool timed_;
  int64_t busy_nanos_ = 0;
  SampledTime verifying_;
  SampledTime decoding_;

  bool started_ = false;  // the header of reads_[next_] has come
  Encoding encoding_;
  LeafTable leaves_;  // of leaves_of_
  ObjectRef leaves_of_;
  bool leaves_known_ = false;
  bool leaves_verified_ = false;  // to its id
  std::vector<uint32_t> blocks_;  // of this range
  size_t next_block_ = 0;
  uint64_t content_at_ = 0;   // where the unit (leaf or block) being received begins
  uint64_t content_end_ = 0;  // of the range
  uint64_t unit_filled_ = 0;  // stored bytes of the unit that have come
  std::unique_ptr<BlockCodec> codec_;
  Encoding codec_of_;
  std::vector<uint8_t> stored_;   // the coded block being received
  std::vector<uint8_t> scratch_;  // content of a unit that is not wanted whole
};

}  // namespace tilekv
