#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "server/exchange_reactor.h"
#include "server/grpc_calls.h"
#include "server/put_sinks.h"
#include "server/read_producer.h"
#include "server/receiving_reactor.h"
#include "server/sending_reactor.h"

namespace tilekv {
namespace {

class PutObjectReactor final : public ReceivingReactor<grpc::ServerReadReactor<grpc::ByteBuffer>> {
 public:
  PutObjectReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : ReceivingReactor(service.Puts(), call, "PutObject"), node_(service.node) {}

  void Begin(grpc::ByteBuffer* response) {
    ServeTransfer(
        std::make_unique<PutObjectSink>(node_, served_.context(), [response](bool stored) {
          v1::PutObjectResponse answer;
          answer.set_stored(stored);
          *response = ToBuffer(answer);
        }));
  }

 private:
  void FinishCall(const absl::Status& status) override { EndCall(status); }

  LocalNode& node_;
};

class PutValueReactor final : public ExchangeReactor {
 public:
  PutValueReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : ExchangeReactor(service.Puts(), call, "PutValue"), node_(service.node) {}

 private:
  absl::StatusOr<Opened> Open(std::span<const Bytes> pieces) override {
    v1::PutValueRequest first;
    std::vector<Bytes> data;
    TILEKV_RETURN_IF_ERROR(DecodeBulk(pieces, first, data));
    const v1::PutValueHeader& header = first.header();
    Opened opened;
    opened.data_bytes = TotalBytes(data);
    opened.sink = std::make_unique<PutValueSink>(
        node_, served_.context(),
        [this](const v1::PutValueResponse& response, bool last) { Reply(response, last); });
    opened.is_small =
        header.has_length() && header.length() <= kSmallValueBytes && !header.has_root();
    return opened;
  }

  LocalNode& node_;
};

// A client that did not hear the compares may begin anew without an unknown outcome: nothing was
// written. One that says nothing loses its place to others, as of one value.
class BatchPutReactor final : public ExchangeReactor {
 public:
  BatchPutReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : ExchangeReactor(service.Puts(), call, "BatchPut"), node_(service.node) {}

 private:
  absl::StatusOr<Opened> Open(std::span<const Bytes> pieces) override {
    Opened opened;
    opened.sink = std::make_unique<BatchPutSink>(
        node_, served_.context(),
        [this](const v1::BatchPutResponse& response, bool last) { Reply(response, last); });
    opened.is_small = TotalBytes(pieces) <= kSmallValueBytes;
    return opened;
  }

  LocalNode& node_;
};

// A short read has a place and memory among its like.
absl::StatusOr<std::unique_ptr<ReadProducer>> ProducerOf(ServiceContext& service,
                                                         const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  std::string text;
  for (Bytes piece : PiecesOf(message, slices)) text += AsText(piece);
  v1::ReadObjectsRequest request;
  if (!request.ParseFromString(text)) {
    return MakeError(Reason::kInvalidArgument, "malformed request");
  }
  return ReadProducer::Create(service.node.objects(), service.pool, request);
}

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ServePutObject(ServiceContext& service,
                                                          grpc::CallbackServerContext& call,
                                                          grpc::ByteBuffer* response) {
  auto reactor = std::make_shared<PutObjectReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin(response);
  return reactor.get();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ServeReadObjects(ServiceContext& service,
                                                             grpc::CallbackServerContext& call,
                                                             const grpc::ByteBuffer* request) {
  auto producer = ProducerOf(service, *request);
  const bool is_short = producer.ok() && (*producer)->is_short();
  return SendingReactor::Start(is_short ? service.ShortReads() : service.Reads(), call,
                               "ReadObjects", std::move(producer));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServePutValue(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  auto reactor = std::make_shared<PutValueReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin(service.small_puts);
  return reactor.get();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServeBatchPut(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  auto reactor = std::make_shared<BatchPutReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin(service.small_puts);
  return reactor.get();
}

}  // namespace tilekv
