#include "kvstore/catalog/etcd/etcd_errors.h"

#include <string>

#include "fmt/format.h"
#include "kvstore/base/revision.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/catalog.h"

namespace tilekv {
namespace {

// gRPC's codes are Abseil's.
using absl::StatusCode;

EtcdError Refused(Reason reason, std::string text, bool again = false,
                  Refusal refusal = Refusal::kOther) {
  return {{Fate::kRefused, again, refusal, MakeError(reason, std::move(text))}};
}

EtcdError Lost(Fate fate, std::string_view message, std::string_view endpoints) {
  return {{fate, true, Refusal::kOther,
           MakeError(Reason::kNodeUnavailable,
                     fmt::format("the catalog's etcd at {} does not answer ({}); see that most of "
                                 "its members run and can be reached",
                                 endpoints, Printable(message)))}};
}

}  // namespace

EtcdError ExplainEtcdError(int code, std::string_view message, std::string_view endpoints) {
  auto says = [message](std::string_view part) {
    return message.find(part) != std::string_view::npos;
  };
  std::string text = fmt::format("etcd at {}: {}", endpoints, Printable(message));
  if (says("invalid auth token") || says("revision of auth store is old")) {
    EtcdError error = Refused(Reason::kUnauthenticated, std::move(text), /*again=*/true);
    error.bad_token = true;
    return error;
  }
  switch (static_cast<StatusCode>(code)) {
    case StatusCode::kInvalidArgument:
      if (says("authentication failed") || says("user name is empty")) {
        EtcdError error = Refused(Reason::kUnauthenticated, text + "; give its user and password");
        error.bad_token = says("user name is empty");
        return error;
      }
      return Refused(Reason::kInvalidArgument, std::move(text));
    case StatusCode::kNotFound:
      if (says("lease not found")) {
        return Refused(Reason::kSessionLost, "the lease of what was to be written has ended", false,
                       Refusal::kLeaseNotFound);
      }
      return Refused(Reason::kInternal, std::move(text));
    case StatusCode::kFailedPrecondition:
      if (says("lease already exists")) {
        return Refused(Reason::kInternal, std::move(text), false, Refusal::kLeaseExists);
      }
      if (says("authentication is not enabled")) {
        EtcdError error = Refused(Reason::kUnauthenticated, std::move(text));
        error.no_auth = true;
        return error;
      }
      return Refused(Reason::kInternal, std::move(text));
    case StatusCode::kOutOfRange:
      if (says("compacted")) {
        return Refused(Reason::kOverloaded, std::move(text), false, Refusal::kCompacted);
      }
      if (says("future revision")) {
        return Refused(Reason::kCatalogRewound,
                       text + "; etcd has gone back to an earlier state of itself");
      }
      return Refused(Reason::kInvalidArgument, std::move(text));
    case StatusCode::kResourceExhausted:
      if (says("database space exceeded")) {
        return Refused(Reason::kStoreFull,
                       text +
                           ". etcd's quota is used up. Remove names, compact and defragment it "
                           "('etcdctl compact', 'etcdctl defrag') or raise its "
                           "--quota-backend-bytes, then 'etcdctl alarm disarm'");
      }
      if (says("too many requests")) {
        return Refused(Reason::kOverloaded, std::move(text), /*again=*/true);
      }
      return Refused(Reason::kInternal, std::move(text));
    case StatusCode::kPermissionDenied:
      return Refused(Reason::kPermissionDenied,
                     text + "; its user needs to read and write the keys of the cluster");
    case StatusCode::kUnauthenticated:
      return Refused(Reason::kUnauthenticated, std::move(text));
    case StatusCode::kDataLoss:
      return Refused(Reason::kDataLoss, text + "; its members do not hold the same");
    case StatusCode::kUnimplemented:
      return Refused(Reason::kInternal, text + "; it is not an etcd of version 3.4 or later");
    case StatusCode::kUnavailable:
      if (says("no leader") || says("not capable")) {
        return Lost(Fate::kRefused, message, endpoints);
      }
      if (says("failed to connect to all addresses")) {
        return Lost(Fate::kNotSent, message, endpoints);
      }
      return Lost(Fate::kUnknown, message, endpoints);
    default:
      return Lost(Fate::kUnknown, message, endpoints);
  }
}

}  // namespace tilekv
