#include "kvstore/cluster/node_registry.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// Whether the figures alone differ.
bool SameButFigures(v1::NodeRegistration a, v1::NodeRegistration b) {
  for (v1::NodeRegistration* one : {&a, &b}) {
    // Whether it holds anything decides whether it may be removed.
    one->set_objects(one->objects() > 0 ? 1 : 0);
    one->clear_stored_bytes();
    one->clear_disk_total_bytes();
    one->clear_disk_available_bytes();
  }
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace

std::optional<v1::NodeRegistration> ParseRegistration(std::string_view value) {
  v1::NodeRegistration registration;
  if (!registration.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return std::nullopt;
  }
  if (registration.address().empty() || registration.store_uuid().empty()) return std::nullopt;
  return registration;
}

NodeRegistry::NodeRegistry(Catalog& catalog, ClusterFile& file, const NodeRegistryOptions& options,
                           std::function<v1::NodeRegistration()> describe)
    : catalog_(catalog),
      file_(file),
      options_(options),
      describe_(std::move(describe)),
      key_(NodeKey(options.node_id)) {}

absl::Status NodeRegistry::Beat() {
  absl::Status beaten = file_.Beat();
  // A full disk is no failed one; its blocks are there, unless its file system writes elsewhere.
  if (!beaten.ok() && GetReason(beaten) != Reason::kStoreFull) return beaten;
  if (lease_ != 0) {
    TILEKV_ASSIGN_OR_RETURN(bool alive, catalog_.KeepAlive(lease_, options_.lease_s));
    if (!alive) lease_ = 0;
  }
  if (lease_ == 0) return Register();
  const v1::NodeRegistration now = describe_();
  if (!IsDue(now)) return absl::OkStatus();
  return Write(now);
}

absl::Status NodeRegistry::Register() {
  written_.reset();
  revision_ = {};
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog_.Get(key_));
  const v1::NodeRegistration now = describe_();
  if (entry.has_value()) {
    const auto other = ParseRegistration(entry->value);
    if (other.has_value() && other->store_uuid() != now.store_uuid()) {
      return MakeError(
          Reason::kStoreMismatch,
          fmt::format("a node with the store {} at {} is registered as '{}' already: stop it, or "
                      "give this one another --node-id",
                      Printable(other->store_uuid()), Printable(other->address()),
                      Printable(options_.node_id)));
    }
    revision_ = entry->mod_revision;  // of this node's life before, whose lease goes on
  }
  TILEKV_ASSIGN_OR_RETURN(lease_, catalog_.Grant(options_.lease_s));
  ++leases_;
  return Write(now);
}

bool NodeRegistry::IsDue(const v1::NodeRegistration& now) const {
  if (!written_.has_value() || !SameButFigures(*written_, now)) return true;
  const int64_t age_nanos = options_.clock->MonotonicNanos() - written_nanos_;
  return age_nanos >= options_.figures_every_s * kNanosPerSecond &&
         now.SerializeAsString() != written_->SerializeAsString();
}

absl::Status NodeRegistry::Write(const v1::NodeRegistration& now) {
  CatalogTxn txn;
  txn.compares = {Compare::Mod(key_, revision_)};
  txn.writes = {CatalogWrite::Put(key_, now.SerializeAsString(), lease_)};
  absl::StatusOr<TxnResult> result = catalog_.Txn(txn);
  if (result.ok() && result->applied) {
    written_ = now;
    revision_ = result->revision;
    written_nanos_ = options_.clock->MonotonicNanos();
    return absl::OkStatus();
  }
  // What is there now is to be looked at, under a new lease: this one goes, with what it has.
  absl::Status revoked = Leave();
  if (!result.ok()) return result.status();
  TILEKV_RETURN_IF_ERROR(revoked);
  return MakeError(
      Reason::kNodeUnavailable,
      fmt::format("the registration of '{}' has changed meanwhile", Printable(options_.node_id)));
}

absl::Status NodeRegistry::Leave() {
  if (lease_ == 0) return absl::OkStatus();
  return catalog_.Revoke(std::exchange(lease_, 0));
}

}  // namespace tilekv
