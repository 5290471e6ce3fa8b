// What a node knows of its cluster, and what it does about it by itself.
//
// 1. It follows the cluster map and the registrations of all nodes, as a watch on ClusterRange()
//    tells them, and gives the placement to whoever asks.
// 2. A map is acted on once its version is durable in the node's cluster file. One that is older,
//    of the same version with other content, or of another cluster is never acted on: the catalog
//    has gone back, which is told. After a start the map read first is held to the same.
// 3. It runs Membership, and writes what that proposes where the map is still the one it saw.
//
// Events come from any thread and wait; one thread calls Step, which does what is due. Everything
// else is thread-safe and does not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/catalog/catalog_watch.h"
#include "kvstore/cluster/cluster_file.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/map_store.h"
#include "kvstore/cluster/node_registry.h"
#include "kvstore/placement/membership.h"

namespace tilekv {

// All of it at one moment. Immutable once it is shared.
struct ClusterPicture {
  std::shared_ptr<const Placement> placement;
  Registrations registered;
  bool catalog_answers = false;  // since when it does not, `registered` may be old
  // Nodes of the map that are not registered, while the catalog answers: since when, on the clock
  // of the options.
  std::map<std::string, int64_t, std::less<>> missing_since_nanos;
  std::vector<MembershipDecision::Held> held;

  const ClusterMap& map() const { return placement->map(); }
};

struct ClusterStateOptions {
  std::string node_id;
  Clock* clock = Clock::System();
  // From Step: placement or registrations are others now.
  std::function<void(const ClusterPicture& picture)> changed;
  // From Step: in a sentence, what an operator should know.
  std::function<void(const std::string& text)> notice;
  // From any event, so that Step is called soon.
  std::function<void()> wake;
};

class ClusterState : public ClusterView {
 public:
  // `first` is the map as read just now. Maps and file outlive the state. CATALOG_REWOUND where
  // the file knows of a newer one.
  static absl::StatusOr<std::unique_ptr<ClusterState>> Create(MapStore& maps, ClusterFile& file,
                                                              const StoredMap& first,
                                                              ClusterStateOptions options);

  const std::string& node_id() const override { return options_.node_id; }
  std::shared_ptr<const Placement> placement() override { return picture()->placement; }
  std::shared_ptr<const ClusterPicture> picture();

  // --- events
  void OnUpdate(const CatalogUpdate& update);
  // A map that somebody has just read or written.
  void OnMap(const StoredMap& stored);
  void OnCatalogLost();
  void OnCatalogAnswers();

  // What is due. Returns when it is to be called again at the latest, on the clock; none: after the
  // next event.
  std::optional<int64_t> Step();

 private:
  struct Events {
    std::vector<CatalogUpdate> updates;
    std::optional<StoredMap> map;
    std::optional<bool> catalog_answers;
  };

  ClusterState(MapStore& maps, ClusterFile& file, ClusterStateOptions options);
  template <typename Add>
  void Post(Add add);
  void Notice(const std::string& text);

  // --- of Step's thread
  void TakeEvents(Events events);
  void TakeUpdate(const CatalogUpdate& update);
  void TakeEntry(const CatalogEntry& entry);
  void TakeMap(const StoredMap& stored);
  // OK: it, or a newer one, is acted on.
  absl::Status Accept(const StoredMap& stored);
  // False: it could not be tried, and is to be tried again.
  bool Propose(const MembershipDecision& decision);
  void Publish(const MembershipDecision& decision);

  MapStore& maps_;
  ClusterFile& file_;
  const ClusterStateOptions options_;

  // --- of Step's thread
  Membership membership_;
  StoredMap stored_;
  std::shared_ptr<const Placement> placement_;
  std::optional<StoredMap> unsaved_;  // newer than what is acted on, and not durable yet
  Registrations registered_;
  bool listed_ = false;  // everything was told once
  bool catalog_answers_ = false;
  bool changed_ = true;  // since the last picture
  std::string told_;     // the last notice, not to be repeated

  Mutex mutex_;
  Events events_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ClusterPicture> picture_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
