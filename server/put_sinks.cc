#include "server/put_sinks.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// The header comes with the first message and with no other.
template <typename Header, typename Message>
absl::Status TakeHeader(const Message& message, std::optional<Header>& header) {
  if (message.has_header() == header.has_value()) {
    return MakeError(Reason::kInvalidArgument, header.has_value()
                                                   ? "a second header in one stream"
                                                   : "the stream's first message has no header");
  }
  if (message.has_header()) header = message.header();
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLimit(const ObjectRef& ref, uint64_t max_object_bytes) {
  if (ref.length <= max_object_bytes) return absl::OkStatus();
  return MakeError(
      Reason::kObjectTooLarge,
      fmt::format("object {} is {} bytes ({}); this store takes objects up to {} bytes "
                  "({})",
                  ref.id.Short(), FormatCount(ref.length), FormatSize(ref.length),
                  FormatCount(max_object_bytes), FormatSizeShort(max_object_bytes)));
}

absl::StatusOr<bool> LookAtCopy(ObjectStore& objects, Domain domain, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(auto row, objects.Stat(domain, ref.id));
  if (!row.has_value() || row->ref != ref || row->state == RowState::kQuarantined) return false;
  absl::StatusOr<bool> good = objects.Verify(domain, ref.id);
  if (absl::IsNotFound(good.status())) return false;
  return good;
}

absl::StatusOr<IncomingMessage> PutObjectSink::Decode(std::span<const Bytes> pieces) {
  v1::PutObjectRequest message;
  IncomingMessage incoming;
  TILEKV_RETURN_IF_ERROR(DecodeBulk(pieces, message, incoming.data));
  bool first = !header_.has_value();
  TILEKV_RETURN_IF_ERROR(TakeHeader(message, header_));
  if (first) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(header_->ref()));
    TILEKV_RETURN_IF_ERROR(CheckLimit(ref, node_.objects().max_object_bytes()));
  }
  incoming.table.assign(message.block_table().begin(), message.block_table().end());
  return incoming;
}

absl::StatusOr<bool> PutObjectSink::Begin() {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  TILEKV_ASSIGN_OR_RETURN(bool there, IsThereAlready());
  if (!there) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(header_->ref()));
    TILEKV_ASSIGN_OR_RETURN(bool looked, LookAtCopy(node_.objects(), header_->domain(), ref));
    if (looked) {
      TILEKV_ASSIGN_OR_RETURN(there, IsThereAlready());
    }
  }
  if (there) {
    stored_(false);
    return false;
  }
  TILEKV_ASSIGN_OR_RETURN(writer_, node_.NewObjectWriter(*header_));
  return true;
}

absl::StatusOr<bool> PutObjectSink::IsThereAlready() {
  v1::LinkRequest link;
  link.set_domain(header_->domain());
  link.set_session_rev(header_->session_rev());
  *link.add_refs() = header_->ref();
  TILEKV_ASSIGN_OR_RETURN(v1::LinkResponse linked, node_.Link(link, context_));
  return linked.present_size() == 1 && linked.present(0);
}

absl::Status PutObjectSink::Append(Bytes data, std::span<const uint32_t> table) {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  return writer_->Append(data, table);
}

absl::Status PutObjectSink::End(bool) {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  if (writer_ == nullptr) {
    return MakeError(Reason::kInvalidArgument, "the stream ended before its header");
  }
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer_->Finish());
  stored_(outcome.stored);
  return absl::OkStatus();
}

absl::StatusOr<IncomingMessage> PutValueSink::Decode(std::span<const Bytes> pieces) {
  v1::PutValueRequest message;
  IncomingMessage incoming;
  TILEKV_RETURN_IF_ERROR(DecodeBulk(pieces, message, incoming.data));
  TILEKV_RETURN_IF_ERROR(TakeHeader(message, header_));
  incoming.last = message.finish();
  return incoming;
}

absl::StatusOr<bool> PutValueSink::Begin() {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  TILEKV_ASSIGN_OR_RETURN(writer_, node_.BeginPutValue(*header_));
  v1::PutValueResponse response;
  response.set_compare(writer_->compare().value);
  reply_(response, false);
  return true;
}

absl::Status PutValueSink::Append(Bytes data, std::span<const uint32_t>) {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  return writer_->Append(data);
}

absl::Status PutValueSink::End(bool complete) {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  if (!complete || writer_ == nullptr) {
    return MakeError(Reason::kInvalidArgument,
                     "the stream ended before its last message; nothing was written");
  }
  v1::PutValueResponse response;
  TILEKV_ASSIGN_OR_RETURN(*response.mutable_outcome(), writer_->Finish(context_));
  reply_(response, true);
  return absl::OkStatus();
}

absl::StatusOr<IncomingMessage> BatchPutSink::Decode(std::span<const Bytes> pieces) {
  IncomingMessage incoming;
  incoming.last = std::exchange(asked_, true);
  if (incoming.last) return incoming;
  std::string text;
  text.reserve(TotalBytes(pieces));
  for (Bytes piece : pieces) text += AsText(piece);
  if (request_.ParseFromString(text)) return incoming;
  return MakeError(Reason::kInvalidArgument, "malformed request");
}

absl::StatusOr<bool> BatchPutSink::Begin() {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  TILEKV_ASSIGN_OR_RETURN(writer_, node_.BeginBatchPut(std::move(request_)));
  v1::BatchPutResponse response;
  response.mutable_compares()->Assign(writer_->compares().begin(), writer_->compares().end());
  reply_(response, false);
  return true;
}

absl::Status BatchPutSink::Append(Bytes, std::span<const uint32_t>) { return absl::OkStatus(); }

absl::Status BatchPutSink::End(bool complete) {
  TILEKV_RETURN_IF_ERROR(context_.Check());
  if (!complete || writer_ == nullptr) {
    return MakeError(Reason::kCancelled,
                     "the stream ended before its client said, by a second message, that it has "
                     "the compares; nothing was written");
  }
  TILEKV_ASSIGN_OR_RETURN(v1::BatchPutResponse response, writer_->Finish(context_));
  reply_(response, true);
  return absl::OkStatus();
}

}  // namespace tilekv
