// What the nodes of a cluster hold, for whoever checks it. kvstore/cluster answers.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "kvstore/base/call_context.h"
#include "kvstore/object/object_id.h"
#include "kvstore/object/object_store.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// The copies of one object at all nodes that answered. Counted by store: nodes that answer for one
// disk are one.
struct SurveyedObject {
  ObjectRef ref;             // of the first good copy, or of the first one
  uint32_t good = 0;         // copies that count
  uint32_t at_owners = 0;    // of these
  uint32_t suspect = 0;      // are read last, and still read
  uint32_t quarantined = 0;  // are given to nobody
  uint32_t elsewhere = 0;    // at nodes that do not own it, in any state
  bool differs = false;      // copies of other lengths or levels, which cannot all be this object
};

// Thread-safe and blocking.
class CopySurvey {
 public:
  virtual ~CopySurvey() = default;

  // Findings about the nodes and the map, as this node sees them: `found` gets each.
  virtual absl::Status CheckNodes(const std::function<void(v1::ClusterFinding)>& found,
                                  const CallContext& context) = 0;
  // Every node reads all its copies, and takes those that are damaged out of use; adds to the
  // response how many were read and damaged, and who did not do it all.
  virtual absl::Status VerifyAll(Domain domain, v1::ClusterCheckResponse& response,
                                 const CallContext& context) = 0;
  // Every object that any node holds, in ascending order of id, by pages of each node. Adds to the
  // response which nodes did not give all of theirs. An error of `visit` ends it.
  virtual absl::Status ForEachObject(
      Domain domain, const std::function<absl::Status(const SurveyedObject&)>& visit,
      v1::ClusterCheckResponse& response, const CallContext& context) = 0;
  // How many copies there should be: the replication, or as many as nodes are in.
  virtual uint32_t wanted_copies() = 0;
  virtual uint32_t min_copies() = 0;
};

}  // namespace tilekv
