#include "server/peer_streams.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"
#include "server/peer_rounds.h"
#include "server/put_sinks.h"

namespace tilekv {
namespace {

constexpr size_t kLineIdBytes = 16;

void NameCopy(const ObjectRow& row, v1::CopyName* name) {
  EncodingToWire(row.encoding, name->mutable_encoding());
  name->set_stored_length(row.stored_length);
  name->set_file_number(row.file_number);
}

bool IsNamed(const ObjectRow& row, const v1::CopyName& name) {
  auto encoding = EncodingFromWire(name.encoding());
  return encoding.ok() && *encoding == row.encoding && name.stored_length() == row.stored_length &&
         name.file_number() == row.file_number;
}

}  // namespace

absl::Status CheckPeer(const PeerServiceOptions& options, const v1::PeerHeader& header) {
  if (header.line_id().size() != kLineIdBytes) {
    return MakeError(Reason::kInvalidArgument, "a call of a node without the catalog's line");
  }
  if (std::string line = options.line_id(); header.line_id() != line) {
    return MakeError(
        Reason::kCatalogRewound,
        fmt::format("node '{}' is on line {} of the catalog, and node '{}', which asks it, on "
                    "line {}: one of them has not seen that the catalog was recovered, or they "
                    "are of different clusters",
                    Printable(options.node_id), HexEncode(AsBytes(line)), Printable(header.from()),
                    HexEncode(AsBytes(header.line_id()))));
  }
  if (header.to() != options.node_id) {
    return MakeError(Reason::kNodeUnavailable,
                     fmt::format("this is node '{}'; node '{}', which was meant, has another "
                                 "address by now",
                                 Printable(options.node_id), Printable(header.to())));
  }
  return absl::OkStatus();
}

absl::StatusOr<IncomingMessage> CopySink::Decode(std::span<const Bytes> pieces) {
  v1::PutCopyRequest message;
  IncomingMessage incoming;
  TILEKV_RETURN_IF_ERROR(DecodeBulk(pieces, message, incoming.data));
  if (message.has_header() == spec_.has_value()) {
    return MakeError(Reason::kInvalidArgument, spec_.has_value()
                                                   ? "a second header in one stream"
                                                   : "the stream's first message has no header");
  }
  if (message.has_header()) TILEKV_RETURN_IF_ERROR(TakeHeader(message.header()));
  incoming.table.assign(message.block_table().begin(), message.block_table().end());
  bytes_ += TotalBytes(incoming.data);
  blocks_ += incoming.table.size();
  const uint64_t length = spec_->expected->length;
  incoming.last = spec_->encoding.kind == EncodingKind::kNone ? bytes_ >= length
                                                              : blocks_ >= BlockCount(length);
  if (incoming.last) all_here_ = true;
  return incoming;
}

absl::Status CopySink::TakeHeader(const v1::PutCopyHeader& header) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options_, header.peer()));
  PutSpec spec;
  spec.domain = header.domain();
  TILEKV_ASSIGN_OR_RETURN(spec.expected, ObjectRefFromWire(header.ref()));
  spec.level = spec.expected->level;
  TILEKV_ASSIGN_OR_RETURN(spec.encoding, EncodingFromWire(header.encoding()));
  spec.touched_rev = Revision{header.touched_rev()};
  TILEKV_RETURN_IF_ERROR(CheckSession(options_, spec.touched_rev));
  TILEKV_RETURN_IF_ERROR(CheckLimit(*spec.expected, options_.objects->max_object_bytes()));
  spec_ = spec;
  return absl::OkStatus();
}

// Nobody waits for what can not be finished.
absl::Status CopySink::CheckWanted() const {
  return all_here_ ? absl::OkStatus() : context_.Check();
}

absl::StatusOr<bool> CopySink::Begin() {
  TILEKV_RETURN_IF_ERROR(CheckWanted());
  TILEKV_ASSIGN_OR_RETURN(bool there, IsThereAlready());
  if (!there) {
    TILEKV_ASSIGN_OR_RETURN(bool looked,
                            LookAtCopy(*options_.objects, spec_->domain, *spec_->expected));
    if (looked) {
      TILEKV_ASSIGN_OR_RETURN(there, IsThereAlready());
    }
  }
  if (there) {
    TILEKV_RETURN_IF_ERROR(Answer(false));
    return false;
  }
  TILEKV_ASSIGN_OR_RETURN(writer_, options_.objects->NewWriter(*spec_));
  return true;
}

absl::StatusOr<bool> CopySink::IsThereAlready() {
  TILEKV_ASSIGN_OR_RETURN(
      std::vector<LinkResult> linked,
      options_.objects->Link(spec_->domain, {&*spec_->expected, 1}, spec_->touched_rev));
  return linked[0].present && linked[0].trusted;
}

absl::Status CopySink::Append(Bytes data, std::span<const uint32_t> table) {
  TILEKV_RETURN_IF_ERROR(CheckWanted());
  return writer_->Append(data, table);
}

absl::Status CopySink::End(bool complete) {
  if (!complete || writer_ == nullptr) {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    return MakeError(Reason::kInvalidArgument,
                     "the stream ended before all of the copy had come; nothing was stored");
  }
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer_->Finish());
  return Answer(outcome.stored);
}

absl::Status CopySink::Answer(bool stored) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row,
                          options_.objects->Stat(spec_->domain, spec_->expected->id));
  v1::PutCopyResponse response;
  v1::CopyStored* answer = response.mutable_answer();
  answer->set_store_uuid(options_.objects->store_uuid());
  answer->set_stored(stored);
  answer->set_touched_rev(row.has_value() ? row->touched_rev.value : spec_->touched_rev.value);
  reply_(response);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MessageSource>> CopySource::Create(
    const PeerServiceOptions& options, std::shared_ptr<BufferPool> pool,
    const v1::ReadCopyRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(ObjectId id, ObjectId::FromBytes(request.id()));
  std::unique_ptr<CopySource> source(
      new CopySource(*options.objects, std::move(pool), request.domain(), id));
  if (request.has_range()) {
    const v1::CopyRange& range = request.range();
    const uint64_t stored = range.copy().stored_length();
    if (range.offset() > stored || range.length() > stored - range.offset()) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("{} bytes from {} are not within the {} stored bytes of object "
                                   "{}",
                                   range.length(), range.offset(), stored, id.Short()));
    }
    source->range_ = range;
    source->at_ = range.offset();
  }
  return source;
}

uint64_t CopySource::NextBytes() const {
  // Tables of the largest object and a small content are within a chunk.
  if (!range_.has_value()) return kTransferChunkBytes;
  return std::min(range_->offset() + range_->length() - at_, kTransferChunkBytes);
}

absl::Status CopySource::OpenCopy() {
  TILEKV_ASSIGN_OR_RETURN(reader_, objects_.Open(domain_, id_));
  if (!range_.has_value() || IsNamed(reader_->row(), range_->copy())) return absl::OkStatus();
  return MakeError(Reason::kNotFound,
                   fmt::format("the copy of object {} that was opened is here no more: another one "
                               "took its place",
                               id_.Short()));
}

absl::StatusOr<std::vector<ReadMessage>> CopySource::Produce(Reservation reservation) {
  if (reader_ == nullptr) TILEKV_RETURN_IF_ERROR(OpenCopy());
  const ObjectRow& row = reader_->row();
  v1::ReadCopyResponse fields;
  uint64_t bytes = reservation.bytes();
  if (!range_.has_value()) {
    const bool with_data = row.stored_length <= kSmallValueBytes;
    v1::CopyHeader* header = fields.mutable_header();
    ObjectRefToWire(row.ref, header->mutable_ref());
    NameCopy(row, header->mutable_copy());
    header->set_state(static_cast<uint32_t>(row.state));
    header->set_touched_rev(row.touched_rev.value);
    header->set_verified_at_micros(row.verified_at_micros);
    header->set_leaf_hashes(LeavesToWire(reader_->leaves()));
    auto table = reader_->block_table();
    header->mutable_block_table()->Assign(table.begin(), table.end());
    header->set_data_follows(with_data);
    bytes = with_data ? row.stored_length : 0;
  }
  std::vector<ReadMessage> messages;
  TILEKV_ASSIGN_OR_RETURN(ReadMessage message, Read(fields, bytes, std::move(reservation)));
  messages.push_back(std::move(message));
  at_ += bytes;
  done_ = !range_.has_value() || at_ >= range_->offset() + range_->length();
  return messages;
}

absl::StatusOr<ReadMessage> CopySource::Read(const v1::ReadCopyResponse& fields, uint64_t bytes,
                                             Reservation reservation) {
  auto chunk = std::make_shared<ReadChunk>(std::move(reservation), pool_, bytes);
  TILEKV_ASSIGN_OR_RETURN(Bytes data, chunk->Fetch(*reader_, at_, bytes));
  return ReadMessage{EncodeBulkHead(fields, bytes), data, chunk};
}

}  // namespace tilekv
