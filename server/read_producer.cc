#include "server/read_producer.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int kMaxRanges = 1'024;
// Messages of one step, so that their heads stay small beside the chunk.
constexpr size_t kMaxMessages = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<ReadProducer>> ReadProducer::Create(
    ObjectStore& store, std::shared_ptr<BufferPool> pool, const v1::ReadObjectsRequest& request) {
  std::unique_ptr<ReadProducer> producer(new ReadProducer(store, std::move(pool)));
  if (request.ranges_size() > kMaxRanges) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} ranges in one call; at most {} are taken",
                                 request.ranges_size(), kMaxRanges));
  }
  producer->domain_ = request.domain();
  for (const v1::ObjectRange& range : request.ranges()) {
    Range r;
    TILEKV_ASSIGN_OR_RETURN(r.ref, ObjectRefFromWire(range.ref()));
    r.offset = range.offset();
    r.length = range.length();
    if (r.ref.length > kGreatestMaxObjectBytes || r.offset > r.ref.length ||
        r.length > r.ref.length - r.offset) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("{} bytes from {} are not within object {} of {} bytes",
                                   r.length, r.offset, r.ref.id.Short(), r.ref.length));
    }
    producer->ranges_.push_back(r);
  }
  for (const v1::Encoding& message : request.accept()) {
    // One that this node does not know is of no use, and no error.
    if (auto encoding = EncodingFromWire(message); encoding.ok()) {
      producer->accept_.push_back(*encoding);
    }
  }
  return producer;
}

bool ReadProducer::Accepts(const Encoding& encoding) const {
  return encoding.kind == EncodingKind::kNone ||
         std::find(accept_.begin(), accept_.end(), encoding) != accept_.end();
}

// Of leaf and block tables that go before the data of this range.
uint64_t ReadProducer::TableBytes(size_t index) const {
  const Range& range = ranges_[index];
  uint64_t blocks = std::min(BlockCount(range.ref.length), range.length / kBlockBytes + 2);
  bool leaves_known = index > 0 ? ranges_[index - 1].ref == range.ref : false;
  return (leaves_known ? 0 : LeafCount(range.ref.length) * sizeof(LeafHash)) +
         blocks * sizeof(uint32_t);
}

// At most so much data answers this range: whole blocks at both ends.
uint64_t ReadProducer::DataBound(size_t index) const {
  const Range& range = ranges_[index];
  if (range.length == 0) return 0;
  return std::min(range.ref.length, range.length + 2 * kBlockBytes);
}

bool ReadProducer::is_short() const {
  uint64_t asked = 0;
  uint64_t answer = 0;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    asked += ranges_[i].length;
    answer += TableBytes(i) + DataBound(i);
  }
  return asked <= kShortReadBytes && answer <= kShortAnswerBytes;
}

uint64_t ReadProducer::NextBytes() const {
  uint64_t tables = 0;
  uint64_t data = 0;
  for (size_t i = next_; i < ranges_.size() && i - next_ < kMaxMessages; ++i) {
    bool started = i == next_ && open_.has_value();
    if (!started) tables += TableBytes(i);
    data += started ? open_->total_bytes - open_->sent_bytes : DataBound(i);
    if (data + tables >= kTransferChunkBytes) break;
  }
  return tables + std::min(data, kTransferChunkBytes);
}

absl::StatusOr<std::vector<ReadMessage>> ReadProducer::Produce(Reservation reservation) {
  uint64_t left = reservation.bytes();
  auto chunk = std::make_shared<ReadChunk>(std::move(reservation), pool_,
                                           std::min(left, kTransferChunkBytes));
  std::vector<ReadMessage> messages;
  while (!done() && messages.size() < kMaxMessages) {
    bool first = !open_.has_value();
    if (first) {
      uint64_t tables = TableBytes(next_);
      if (!messages.empty() && left < tables + std::min(DataBound(next_), kBlockBytes)) break;
      left -= std::min(left, tables);
      TILEKV_RETURN_IF_ERROR(OpenNext());
    }
    TILEKV_ASSIGN_OR_RETURN(Bytes data, ReadSome(std::min(chunk->room(), left), *chunk));
    bool whole = open_->sent_bytes == open_->total_bytes;
    if (data.empty() && !first && !whole) break;  // a block that has no room any more
    messages.push_back({EncodeBulkHead(Fields(first), data.size()), data, chunk});
    if (first) leaves_sent_ = true;
    left -= data.size();
    if (!whole) break;
    open_.reset();
    ++next_;
  }
  return messages;
}

absl::Status ReadProducer::OpenNext() {
  const Range& range = ranges_[next_];
  TILEKV_RETURN_IF_ERROR(OpenObject(range.ref));
  const ObjectRow& row = reader_->row();
  Open open;
  open.encoding = row.encoding;
  open.decode = !Accepts(row.encoding);
  if (open.decode) {
    open.encoding = Encoding{};
    ObjectRow plain = row;
    plain.encoding = open.encoding;
    plain.stored_length = row.ref.length;
    TILEKV_ASSIGN_OR_RETURN(open.cover, CoverRange(plain, {}, range.offset, range.length));
  } else {
    auto cover = CoverRange(row, reader_->block_table(), range.offset, range.length);
    if (!cover.ok()) {
      return MakeError(Reason::kDataLoss, fmt::format("object {}: {}", range.ref.id.Short(),
                                                      ErrorText(cover.status())));
    }
    open.cover = *cover;
  }
  open.total_bytes = open.cover.stored_length;
  open_ = open;
  return absl::OkStatus();
}

absl::Status ReadProducer::OpenObject(const ObjectRef& ref) {
  if (reader_ != nullptr && reader_of_ == ref) return absl::OkStatus();
  reader_.reset();
  leaves_sent_ = false;
  TILEKV_ASSIGN_OR_RETURN(reader_, store_.Open(domain_, ref.id));
  if (reader_->row().ref != ref) {
    return MakeError(Reason::kNotFound,
                     fmt::format("object {} is not here with level {} and {} bytes", ref.id.Short(),
                                 ref.level, ref.length));
  }
  reader_of_ = ref;
  return absl::OkStatus();
}

// Reads on. Less than is left only where `room` is too small.
absl::StatusOr<Bytes> ReadProducer::ReadSome(uint64_t room, ReadChunk& chunk) {
  Open& open = *open_;
  uint64_t n = std::min(room, open.total_bytes - open.sent_bytes);
  Bytes data;
  if (open.decode) {
    // Whole leaves of whole blocks, or each step would decode a block twice.
    if (n < open.total_bytes - open.sent_bytes) {
      uint64_t at = open.cover.content_offset + open.sent_bytes;
      uint64_t end = (at + n) / kBlockBytes * kBlockBytes;
      n = end > at ? end - at : 0;
    }
    if (n == 0) return data;
    MutableBytes memory = chunk.Take(n);
    TILEKV_RETURN_IF_ERROR(
        ReadContent(*reader_, open.cover.content_offset + open.sent_bytes, memory, *pool_));
    data = memory;
  } else {
    TILEKV_ASSIGN_OR_RETURN(data,
                            chunk.Fetch(*reader_, open.cover.stored_offset + open.sent_bytes, n));
  }
  open.sent_bytes += n;
  return data;
}

v1::ReadObjectsResponse ReadProducer::Fields(bool first) const {
  v1::ReadObjectsResponse fields;
  fields.set_index(static_cast<uint32_t>(next_));
  if (!first) return fields;
  v1::ReadObjectHeader* header = fields.mutable_header();
  EncodingToWire(open_->encoding, header->mutable_encoding());
  if (!leaves_sent_) header->set_leaf_hashes(LeavesToWire(reader_->leaves()));
  header->set_content_offset(open_->cover.content_offset);
  header->set_content_length(open_->cover.content_length);
  header->set_stored_length(open_->cover.stored_length);
  if (!open_->decode) {
    auto table = reader_->block_table();
    for (uint64_t i = 0; i < open_->cover.block_count; ++i) {
      header->add_block_table(table[open_->cover.first_block + i]);
    }
  }
  return fields;
}

}  // namespace tilekv
