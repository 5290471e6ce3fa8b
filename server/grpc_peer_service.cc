#include "server/grpc_peer_service.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/grpc_call.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"
#include "server/exchange_reactor.h"
#include "server/peer_repair.h"
#include "server/peer_rounds.h"
#include "server/peer_streams.h"
#include "server/sending_reactor.h"
#include "server/unary_reactor.h"
#include "tilekv/v1/peer.grpc.pb.h"

namespace tilekv {
namespace {

constexpr int kMaxRefs = 1'024;

class CopyReactor final : public ExchangeReactor {
 public:
  CopyReactor(PeerContext& peers, grpc::CallbackServerContext& call)
      : ExchangeReactor(peers.Copies(), call, "PutCopy"), peers_(peers) {
    peers_.at_work.Add(this, [this] { SayIfAtWork(); });
  }

 private:
  absl::StatusOr<Opened> Open(std::span<const Bytes> pieces) override {
    v1::PutCopyRequest first;
    std::vector<Bytes> data;
    TILEKV_RETURN_IF_ERROR(DecodeBulk(pieces, first, data));
    TILEKV_ASSIGN_OR_RETURN(Encoding encoding, EncodingFromWire(first.header().encoding()));
    Opened opened;
    opened.data_bytes = TotalBytes(data);
    opened.sink = std::make_unique<CopySink>(
        peers_.options, served_.context(),
        [this](const v1::PutCopyResponse& response) { Reply(response, true); });
    opened.is_small =
        encoding.kind == EncodingKind::kNone && first.header().ref().length() <= kSmallValueBytes;
    return opened;
  }

  // Who sends a copy gives it up where nothing moves. It is told that the disk, or the queue for
  // it, is what it waits for; but not for ever, lest a disk that hangs passes for a slow one.
  void SayIfAtWork() {
    constexpr int64_t kMostNanos = kProgressTimeout_s * 1'000'000'000;
    if (waits_for_sender_ || Clock::System()->MonotonicNanos() - heard_nanos_ > kMostNanos) return;
    ReplyIfIdle(v1::PutCopyResponse());
  }
  void AskForMessage() override {
    waits_for_sender_ = true;
    ExchangeReactor::AskForMessage();
  }
  void OnReadDone(bool ok) override {
    waits_for_sender_ = false;
    heard_nanos_ = Clock::System()->MonotonicNanos();
    ExchangeReactor::OnReadDone(ok);
  }
  void OnDone() override {
    peers_.at_work.Remove(this);
    ExchangeReactor::OnDone();
  }

  PeerContext& peers_;
  std::atomic<bool> waits_for_sender_{false};
  std::atomic<int64_t> heard_nanos_{Clock::System()->MonotonicNanos()};
};

absl::StatusOr<v1::PeerLinkResponse> Link(const PeerServiceOptions& options,
                                          const v1::PeerLinkRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, request.peer()));
  if (request.refs_size() > kMaxRefs) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} references in one call; at most {} are taken",
                                 request.refs_size(), kMaxRefs));
  }
  TILEKV_RETURN_IF_ERROR(CheckSession(options, Revision{request.session_rev()}));
  std::vector<ObjectRef> refs;
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
    refs.push_back(ref);
  }
  TILEKV_ASSIGN_OR_RETURN(
      std::vector<LinkResult> results,
      options.objects->Link(request.domain(), refs, Revision{request.session_rev()}));
  v1::PeerLinkResponse response;
  response.set_store_uuid(options.objects->store_uuid());
  for (const LinkResult& result : results) {
    response.add_present(result.present);
    response.add_trusted(result.trusted);
  }
  return response;
}

absl::StatusOr<v1::PeerReportDamageResponse> ReportDamage(
    const PeerServiceOptions& options, const v1::PeerReportDamageRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(ObjectId id, ObjectId::FromBytes(request.id()));
  TILEKV_RETURN_IF_ERROR(options.objects->MarkSuspect(request.domain(), id));
  absl::StatusOr<bool> good = options.objects->Verify(request.domain(), id);
  v1::PeerReportDamageResponse response;
  if (absl::IsNotFound(good.status())) return response;  // it is gone: nothing is left to look at
  TILEKV_RETURN_IF_ERROR(good.status());
  response.set_good(*good);
  return response;
}

absl::StatusOr<std::unique_ptr<MessageSource>> SourceOf(PeerContext& peers,
                                                        const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  std::string text;
  for (Bytes piece : PiecesOf(message, slices)) text += AsText(piece);
  v1::ReadCopyRequest request;
  if (!request.ParseFromString(text)) {
    return MakeError(Reason::kInvalidArgument, "malformed request");
  }
  return CopySource::Create(peers.options, peers.pool, request);
}

using RoundMethods = v1::Peer::WithCallbackMethod_HeldPartitions<
    v1::Peer::WithCallbackMethod_StoreRoundPart<v1::Peer::WithCallbackMethod_SweepRound<
        v1::Peer::WithCallbackMethod_CountGarbage<v1::Peer::Service>>>>;
using RepairMethods = v1::Peer::WithCallbackMethod_Digests<
    v1::Peer::WithCallbackMethod_ListPartition<v1::Peer::WithCallbackMethod_Offer<
        v1::Peer::WithCallbackMethod_ConfirmDrop<v1::Peer::WithCallbackMethod_ListCopies<
            v1::Peer::WithCallbackMethod_VerifyCopies<RoundMethods>>>>>>;
using PeerMethods = v1::Peer::WithRawCallbackMethod_PutCopy<
    v1::Peer::WithRawCallbackMethod_ReadCopy<v1::Peer::WithCallbackMethod_Link<
        v1::Peer::WithCallbackMethod_ReportDamage<RepairMethods>>>>;

class GrpcPeerService final : public PeerMethods {
 public:
  explicit GrpcPeerService(PeerContext& peers) : peers_(peers) {}

  grpc::ServerUnaryReactor* Link(grpc::CallbackServerContext* call,
                                 const v1::PeerLinkRequest* request,
                                 v1::PeerLinkResponse* response) override {
    auto work = [this, request](const CallContext&) {
      return tilekv::Link(peers_.options, *request);
    };
    return Answer("PeerLink", *call, peers_.short_calls, *request, work, response);
  }
  grpc::ServerUnaryReactor* ReportDamage(grpc::CallbackServerContext* call,
                                         const v1::PeerReportDamageRequest* request,
                                         v1::PeerReportDamageResponse* response) override {
    auto work = [this, request](const CallContext&) {
      return tilekv::ReportDamage(peers_.options, *request);
    };
    return Answer("PeerReportDamage", *call, peers_.long_calls, *request, work, response);
  }

#define TILEKV_PEER_CALL(Name, Request, Response, Executor)                                     \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* call, const v1::Request* request, \
                                 v1::Response* response) override {                             \
    auto work = [this, request](const CallContext& context) {                                   \
      return tilekv::Name(peers_.options, *request, context);                                   \
    };                                                                                          \
    return Answer(#Name, *call, peers_.Executor, *request, work, response);                     \
  }
  TILEKV_PEER_CALL(HeldPartitions, HeldPartitionsRequest, HeldPartitionsResponse, rounds)
  TILEKV_PEER_CALL(StoreRoundPart, RoundPartRequest, StoreRoundPartResponse, rounds)
  TILEKV_PEER_CALL(SweepRound, SweepRoundRequest, SweepRoundResponse, rounds)
  TILEKV_PEER_CALL(CountGarbage, RoundPartRequest, SweepRoundResponse, rounds)
  TILEKV_PEER_CALL(Digests, DigestsRequest, DigestsResponse, repair)
  TILEKV_PEER_CALL(ListPartition, ListPartitionRequest, ListPartitionResponse, repair)
  TILEKV_PEER_CALL(Offer, TouchedRefsRequest, OfferResponse, repair)
  TILEKV_PEER_CALL(ConfirmDrop, TouchedRefsRequest, ConfirmDropResponse, repair)
  TILEKV_PEER_CALL(ListCopies, CopiesAfterRequest, ListPartitionResponse, repair)
  TILEKV_PEER_CALL(VerifyCopies, CopiesAfterRequest, VerifyCopiesResponse, long_calls)
#undef TILEKV_PEER_CALL

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PutCopy(
      grpc::CallbackServerContext* call) override {
    auto reactor = std::make_shared<CopyReactor>(peers_, *call);
    reactor->KeepUntilDone();
    reactor->Begin(peers_.small_copies);
    return reactor.get();
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadCopy(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* request) override {
    return SendingReactor::Start(peers_.Served(), *call, "ReadCopy", SourceOf(peers_, *request));
  }

 private:
  template <typename Request, typename Response, typename Work>
  grpc::ServerUnaryReactor* Answer(const char* name, grpc::CallbackServerContext& call,
                                   Executor& executor, const Request& request, Work work,
                                   Response* response) {
    auto* reactor = new UnaryReactor<Response>(peers_.metrics, peers_.slow_calls, call, name);
    reactor->Start(peers_.calls, executor, request.ByteSizeLong(), std::move(work), response);
    return reactor;
  }

  PeerContext& peers_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPeerService(PeerContext& peers) {
  return std::make_unique<GrpcPeerService>(peers);
}

}  // namespace tilekv
