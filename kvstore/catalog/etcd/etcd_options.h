// How an etcd is reached, and which cluster's catalog in it is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"

namespace tilekv {

struct EtcdOptions {
  // http://HOST[:PORT], https://HOST[:PORT] or HOST[:PORT] of members; the port is 2379 by default.
  // All http or all https.
  std::vector<std::string> endpoints;
  std::string cluster;  // its name: CheckClusterName
  // Makes the catalog's first record where there is none; without it that is NOT_FOUND.
  bool create_if_missing = false;

  // Files in PEM, for https: who signs the members' certificates (empty: whom the system trusts),
  // and the certificate to show, with its key.
  std::string ca_file = {};
  std::string cert_file = {};
  std::string key_file = {};
  std::string user = {};  // empty: none is named
  std::string password = {};

  int64_t timeout_ms = kEtcdTimeout_ms;  // of a call, all its tries
  int64_t try_ms = kEtcdTry_ms;
  size_t txn_operations = kEtcdTxnOperations;  // etcd's --max-txn-ops
  uint64_t request_bytes = kEtcdRequestBytes;  // etcd's --max-request-bytes

  Random* random = Random::System();  // outlives the catalog
};

}  // namespace tilekv
