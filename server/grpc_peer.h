// Another node of the cluster over gRPC, and what its calls have in common. Pulls in gRPC.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/peer.h"
#include "tilekv/v1/peer.grpc.pb.h"

namespace tilekv {

// The node that asks. Immutable.
struct PeerCaller {
  std::string node_id;
  std::function<std::string()> line_id;
  // Held by what is on its way, which may outlive everything else here.
  std::shared_ptr<ByteBudget> copy_ahead;
  std::shared_ptr<ByteBudget> read_ahead;
};

// The connections to one node. Owned by shared_ptr: its writers and readers keep it. Thread-safe.
class GrpcPeer : public Peer, public std::enable_shared_from_this<GrpcPeer> {
 public:
  GrpcPeer(std::shared_ptr<const PeerCaller> caller, const std::string& node_id,
           const std::string& address);

  const std::string& node_id() const override { return node_id_; }
  absl::StatusOr<PeerLinkAnswer> Link(Domain domain, std::span<const ObjectRef> refs,
                                      Revision session_rev, const CallContext& context) override;
  absl::StatusOr<std::unique_ptr<CopyWriter>> NewCopy(const PutSpec& spec,
                                                      const CallContext& context) override;
  // The context's deadline is that of the opening; reads end when its caller does not want them any
  // more.
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenCopy(Domain domain, const ObjectId& id,
                                                         const CallContext& context) override;
  absl::Status ReportDamage(Domain domain, const ObjectId& id, const CallContext& context) override;

  // --- grpc_peer_repair.cc
  absl::StatusOr<DigestAnswer> Digests(Domain domain, const PlacementVersion& placement,
                                       std::span<const uint32_t> partitions,
                                       const CallContext& context) override;
  absl::StatusOr<PartitionPage> ListPartition(Domain domain, uint32_t partition,
                                              const std::optional<ObjectId>& after,
                                              const CallContext& context) override;
  absl::StatusOr<OfferAnswer> Offer(Domain domain, const PlacementVersion& placement,
                                    std::span<const TouchedRef> refs,
                                    const CallContext& context) override;
  absl::StatusOr<DropAnswer> ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                         std::span<const TouchedRef> refs,
                                         const CallContext& context) override;
  absl::StatusOr<PartitionPage> ListCopies(Domain domain, const std::optional<ObjectId>& after,
                                           const CallContext& context) override;
  absl::StatusOr<VerifyAnswer> VerifyCopies(Domain domain, const std::optional<ObjectId>& after,
                                            const CallContext& context) override;

  // --- grpc_peer_rounds.cc
  absl::StatusOr<std::vector<bool>> HeldPartitions(Domain domain, uint32_t partition_bits,
                                                   const CallContext& context) override;
  absl::Status StoreRoundPart(const RoundPart& part, const CallContext& context) override;
  absl::StatusOr<SweepAnswer> SweepRound(Domain domain, const RoundName& round,
                                         const std::optional<ObjectId>& after,
                                         const CallContext& context) override;
  absl::StatusOr<SweepAnswer> CountGarbage(const RoundPart& part,
                                           const CallContext& context) override;

  const std::string& address() const { return address_; }
  // No call that failed for want of an answer was the last one, within a time that grows with every
  // such call.
  bool is_likely_up() const;
  // It is heard of anew: what failed before says nothing any more.
  void Forget() { failures_ = 0; }

  // --- for its writers and readers ---
  const PeerCaller& caller() const { return *caller_; }
  // For people.
  const std::string& name() const { return name_; }
  v1::PeerHeader Header() const;
  // The next connection in turn, for a bulk call.
  grpc::GenericStub& NextBulk();
  // How a call ended: the same status.
  absl::Status Ended(absl::Status status);

 private:
  // An answer as it was read: what is wrong with it is said with whose it is.
  template <typename Answer>
  absl::StatusOr<Answer> Read(const char* call, absl::StatusOr<Answer> answer) const {
    if (answer.ok()) return answer;
    return MakeError(Reason::kInternal, fmt::format("node {} answered {} wrongly: {}", name_, call,
                                                    ErrorText(answer.status())));
  }

  const std::shared_ptr<const PeerCaller> caller_;
  const std::string node_id_;
  const std::string address_;
  const std::string name_;
  std::unique_ptr<v1::Peer::Stub> control_;
  std::vector<std::unique_ptr<grpc::GenericStub>> bulk_;
  std::atomic<size_t> next_{0};
  // Calls in a row without an answer, and when the last of them ended.
  std::atomic<int64_t> failures_{0};
  std::atomic<int64_t> failed_nanos_{0};
};

}  // namespace tilekv
