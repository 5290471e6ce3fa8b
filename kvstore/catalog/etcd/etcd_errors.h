// What etcd's and gRPC's errors mean. A pure function.
#pragma once

#include <string_view>

#include "kvstore/catalog/etcd/etcd_rpc.h"

namespace tilekv {

struct EtcdError {
  Reply reply;
  bool bad_token = false;  // ask for a new one and try again
  bool no_auth = false;    // etcd knows no users
};

// `code` is gRPC's, not OK; `endpoints` for the message.
EtcdError ExplainEtcdError(int code, std::string_view message, std::string_view endpoints);

}  // namespace tilekv
