#include "server/grpc_peer.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/channel_arguments.h"
#include "kvstore/grpc/grpc_call.h"
#include "kvstore/wire/object_messages.h"
#include "server/peer_copy_reader.h"
#include "server/peer_copy_writer.h"

namespace tilekv {
namespace {

// One does not fill a fast network.
constexpr int kConnections = 2;
// References of one call, as the service has it.
constexpr size_t kMaxRefs = 1'024;
// A copy of the greatest size is read in less.
constexpr int64_t kLookAt_ms = 60'000;
// How long a failure counts: the first, and at most.
constexpr int64_t kFailureCounts_ms = 5'000;
constexpr int64_t kFailureCountsAtMost_ms = 60'000;

}  // namespace

GrpcPeer::GrpcPeer(std::shared_ptr<const PeerCaller> caller, const std::string& node_id,
                   const std::string& address)
    : caller_(std::move(caller)),
      node_id_(node_id),
      address_(address),
      name_(fmt::format("'{}' ({})", Printable(node_id), Printable(address))) {
  for (int i = 0; i < kConnections; ++i) {
    auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                             BulkChannelArguments(i));
    if (i == 0) control_ = v1::Peer::NewStub(channel);
    bulk_.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
}

grpc::GenericStub& GrpcPeer::NextBulk() { return *bulk_[next_++ % bulk_.size()]; }

v1::PeerHeader GrpcPeer::Header() const {
  v1::PeerHeader header;
  header.set_line_id(caller_->line_id());
  header.set_from(caller_->node_id);
  header.set_to(node_id_);
  return header;
}

absl::Status GrpcPeer::Ended(absl::Status status) {
  const Reason reason = GetReason(status);
  if (reason == Reason::kNodeUnavailable) {
    failed_nanos_ = Clock::System()->MonotonicNanos();
    ++failures_;
  } else if (reason != Reason::kCancelled && reason != Reason::kDeadlineExceeded) {
    failures_ = 0;
  }
  return status;
}

bool GrpcPeer::is_likely_up() const {
  const int64_t failures = failures_;
  if (failures == 0) return true;
  const int64_t counts_ms = std::min(kFailureCounts_ms * failures, kFailureCountsAtMost_ms);
  return Clock::System()->MonotonicNanos() - failed_nanos_ > counts_ms * 1'000'000;
}

absl::StatusOr<PeerLinkAnswer> GrpcPeer::Link(Domain domain, std::span<const ObjectRef> refs,
                                              Revision session_rev, const CallContext& context) {
  PeerLinkAnswer answer;
  do {
    std::span<const ObjectRef> some = refs.first(std::min(refs.size(), kMaxRefs));
    refs = refs.subspan(some.size());
    v1::PeerLinkRequest request;
    *request.mutable_peer() = Header();
    request.set_domain(domain);
    request.set_session_rev(session_rev.value);
    for (const ObjectRef& ref : some) ObjectRefToWire(ref, request.add_refs());
    auto response = CallUnary<v1::PeerLinkResponse>(
        [&](grpc::ClientContext* call, v1::PeerLinkResponse* to, auto done) {
          control_->async()->Link(call, &request, to, std::move(done));
        },
        "Link", kPeerCall_ms, name_, context);
    TILEKV_RETURN_IF_ERROR(Ended(response.status()));
    const auto expected = static_cast<int>(some.size());
    if (response->present_size() != expected || response->trusted_size() != expected) {
      return MakeError(Reason::kInternal, fmt::format("node {} answered Link wrongly", name_));
    }
    answer.store_uuid = response->store_uuid();
    for (int i = 0; i < expected; ++i) {
      answer.results.push_back({response->present(i), response->trusted(i)});
    }
  } while (!refs.empty());
  return answer;
}

absl::StatusOr<std::unique_ptr<CopyWriter>> GrpcPeer::NewCopy(const PutSpec& spec,
                                                              const CallContext& context) {
  return NewPeerCopy(shared_from_this(), spec, context);
}

absl::StatusOr<std::shared_ptr<ObjectReader>> GrpcPeer::OpenCopy(Domain domain, const ObjectId& id,
                                                                 const CallContext& context) {
  return OpenPeerCopy(shared_from_this(), domain, id, context);
}

absl::Status GrpcPeer::ReportDamage(Domain domain, const ObjectId& id, const CallContext& context) {
  v1::PeerReportDamageRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  request.set_id(id.bytes.data(), id.bytes.size());
  auto response = CallUnary<v1::PeerReportDamageResponse>(
      [&](grpc::ClientContext* call, v1::PeerReportDamageResponse* to, auto done) {
        control_->async()->ReportDamage(call, &request, to, std::move(done));
      },
      "ReportDamage", kLookAt_ms, name_, context);
  return Ended(response.status());
}

}  // namespace tilekv
