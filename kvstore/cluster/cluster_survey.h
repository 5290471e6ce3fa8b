// What all nodes of a cluster hold, merged (kvstore/node/copy_survey.h), and how they and the map
// are.
//
// Each node of the map, in any state, is asked for its rows page by page; the pages are merged in
// order of id, so that memory is a page a node whatever the number of objects. A node that does not
// answer is left out from there on, and said so: what only it holds then counts as not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kvstore/base/executor.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/peer.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/copy_survey.h"

namespace tilekv {

// Thread-safe. Everything that it refers to outlives it.
class ClusterSurvey : public CopySurvey {
 public:
  // `local`: this node's own disk. `admin` may be null: nodes are not looked at. `executor`: where
  // several nodes are asked at once; who waits works too.
  ClusterSurvey(ObjectStore& local, Peers& peers, ClusterView& view, ClusterAdmin* admin,
                Executor& executor)
      : local_(local), peers_(peers), view_(view), admin_(admin), executor_(executor) {}

  absl::Status CheckNodes(const std::function<void(v1::ClusterFinding)>& found,
                          const CallContext& context) override;
  absl::Status VerifyAll(Domain domain, v1::ClusterCheckResponse& response,
                         const CallContext& context) override;
  absl::Status ForEachObject(Domain domain,
                             const std::function<absl::Status(const SurveyedObject&)>& visit,
                             v1::ClusterCheckResponse& response,
                             const CallContext& context) override;
  uint32_t wanted_copies() override;
  uint32_t min_copies() override;

 private:
  class Listing;

  static SurveyedObject TakeObject(const std::vector<std::unique_ptr<Listing>>& listings,
                                   const ObjectId& id, const Placement& placement);

  ObjectStore& local_;
  Peers& peers_;
  ClusterView& view_;
  ClusterAdmin* const admin_;
  Executor& executor_;
};

}  // namespace tilekv
