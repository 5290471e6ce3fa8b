#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"

namespace tilekv {
namespace {

constexpr char kPutValue[] = "/tilekv.v1.Node/PutValue";
constexpr char kBatchPut[] = "/tilekv.v1.Node/BatchPut";

grpc::ByteBuffer ToBuffer(const std::string& text) {
  grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

void DeleteBuffer(void* buffer) { delete static_cast<Buffer*>(buffer); }

// The next message of data, with `finish` where it is the last.
absl::StatusOr<grpc::ByteBuffer> NextData(BufferPool& pool, ByteSource* source, bool& last) {
  auto buffer = std::make_unique<Buffer>(pool.Get(kTransferChunkBytes));
  uint64_t filled = 0;
  last = source == nullptr;
  while (!last && filled < kTransferChunkBytes) {
    TILEKV_ASSIGN_OR_RETURN(uint64_t n, source->Read(buffer->span().subspan(filled)));
    filled += n;
    last = n == 0;
  }
  v1::PutValueRequest fields;
  fields.set_finish(last);
  grpc::Slice slices[2] = {grpc::Slice(EncodeBulkHead(fields, filled)), grpc::Slice()};
  if (filled == 0) return grpc::ByteBuffer(slices, 1);
  uint8_t* data = buffer->data();
  slices[1] = grpc::Slice(data, filled, &DeleteBuffer, buffer.release());
  return grpc::ByteBuffer(slices, 2);
}

absl::Status BadAnswer(const RemoteChannels& channels, const std::string& what) {
  return MakeError(Reason::kInternal,
                   fmt::format("node {} answered {} wrongly", channels.address(), what));
}

// The end of a call that broke off: its own error, or that there was none.
absl::Status Broken(BlockingStream& stream, const RemoteChannels& channels,
                    const std::string& what) {
  absl::Status status = stream.Finish(what);
  return status.ok() ? BadAnswer(channels, what) : status;
}

}  // namespace

absl::StatusOr<v1::PutValueOutcome> RemotePutValue(RemoteChannels& channels,
                                                   const v1::PutValueHeader& header,
                                                   ByteSource* source,
                                                   const NodeService::CompareFixed& fixed,
                                                   const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  std::string what = fmt::format("key '{}'", Printable(header.key()));
  BlockingStream stream = channels.NewStream(kPutValue, context);
  v1::PutValueRequest first;
  *first.mutable_header() = header;
  std::string text;
  v1::PutValueResponse reply;
  if (!stream.Write(ToBuffer(first.SerializeAsString()), false) || !stream.Read(text)) {
    return Broken(stream, channels, what);
  }
  if (!reply.ParseFromString(text) || !reply.has_compare()) return BadAnswer(channels, what);
  if (fixed) fixed(Revision{reply.compare()});
  // The last message is sent only now, after the compare has been heard: before it the node writes
  // nothing.
  for (bool last = false; !last;) {
    TILEKV_ASSIGN_OR_RETURN(grpc::ByteBuffer data, NextData(channels.pool(), source, last));
    if (!stream.Write(data, last)) return Broken(stream, channels, what);
  }
  stream.SetStallTimeout(channels.options().sync_timeout_ms);
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> last_text, stream.ReadLast(what));
  if (!last_text || !reply.ParseFromString(*last_text) || !reply.has_outcome()) {
    return BadAnswer(channels, what);
  }
  return reply.outcome();
}

absl::StatusOr<v1::BatchPutResponse> RemoteBatchPut(RemoteChannels& channels,
                                                    const v1::BatchPutRequest& request,
                                                    const NodeService::ComparesFixed& fixed,
                                                    const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  const std::string what = "a batch of keys";
  BlockingStream stream = channels.NewStream(kBatchPut, context);
  std::string text;
  if (!stream.Write(ToBuffer(request.SerializeAsString()), false) || !stream.Read(text)) {
    return Broken(stream, channels, what);
  }
  v1::BatchPutResponse reply;
  if (!reply.ParseFromString(text) || reply.compares_size() != request.items_size()) {
    return BadAnswer(channels, what);
  }
  if (fixed) {
    TILEKV_RETURN_IF_ERROR(fixed({reply.compares().begin(), reply.compares().end()}));
  }
  // An empty message says that the compares were heard; before it the node writes nothing.
  stream.SetStallTimeout(channels.options().sync_timeout_ms);
  if (!stream.Write(ToBuffer(""), true)) return Broken(stream, channels, what);
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> last_text, stream.ReadLast(what));
  v1::BatchPutResponse outcome;
  if (!last_text || !outcome.ParseFromString(*last_text) ||
      outcome.outcomes_size() != request.items_size()) {
    return BadAnswer(channels, what);
  }
  *outcome.mutable_compares() = reply.compares();
  return outcome;
}

}  // namespace tilekv
