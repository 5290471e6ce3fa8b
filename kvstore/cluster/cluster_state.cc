#include "kvstore/cluster/cluster_state.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

constexpr int64_t kRetry_nanos = 1'000'000'000;

std::string HashOf(const ClusterMap& map) { return HexEncode(map.hash()); }

absl::Status GoneBack(std::string text) {
  return MakeError(Reason::kCatalogRewound,
                   fmt::format("{}: the catalog has gone back to an earlier state, or is another "
                               "one. This node goes on with the newer map",
                               text));
}

// Against what the node has acted on, in this life or one before.
absl::Status CheckNotBack(const SeenMap& seen, const std::string& line_id, const ClusterMap& map) {
  if (map.version() < seen.version) {
    return GoneBack(fmt::format("the cluster map has version {:#x}, this node has acted on {:#x}",
                                map.version().value, seen.version.value));
  }
  if (map.version() == seen.version && HashOf(map) != seen.hash) {
    return GoneBack(
        fmt::format("the cluster map of version {:#x} is not the one that this node "
                    "has acted on",
                    map.version().value));
  }
  if (seen.version.value > 0 && map.version().epoch() == seen.version.epoch() &&
      seen.line_id != line_id) {
    return GoneBack("the catalog is on another line of the same epoch");
  }
  return absl::OkStatus();
}

NodeIds IdsOf(const Registrations& registered) {
  NodeIds ids;
  for (const auto& [id, registration] : registered) ids.insert(id);
  return ids;
}

std::string Joined(const std::vector<std::string>& ids) {
  std::string text;
  for (const std::string& id : ids) text += (text.empty() ? "" : ", ") + id;
  return text;
}

}  // namespace

ClusterState::ClusterState(MapStore& maps, ClusterFile& file, ClusterStateOptions options)
    : maps_(maps), file_(file), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<ClusterState>> ClusterState::Create(MapStore& maps,
                                                                   ClusterFile& file,
                                                                   const StoredMap& first,
                                                                   ClusterStateOptions options) {
  std::unique_ptr<ClusterState> state(new ClusterState(maps, file, std::move(options)));
  TILEKV_RETURN_IF_ERROR(state->Accept(first));
  state->Publish({});
  return state;
}

std::shared_ptr<const ClusterPicture> ClusterState::picture() {
  MutexLock lock(mutex_);
  return picture_;
}

template <typename Add>
void ClusterState::Post(Add add) {
  {
    MutexLock lock(mutex_);
    add(events_);
  }
  if (options_.wake != nullptr) options_.wake();
}

void ClusterState::OnUpdate(const CatalogUpdate& update) {
  Post([&](Events& events) {
    // What came before is in it, or is over.
    if (update.everything) events.updates.clear();
    events.updates.push_back(update);
  });
}

void ClusterState::OnMap(const StoredMap& stored) {
  Post([&](Events& events) { events.map = stored; });
}

void ClusterState::OnCatalogLost() {
  Post([](Events& events) { events.catalog_answers = false; });
}

void ClusterState::OnCatalogAnswers() {
  Post([](Events& events) { events.catalog_answers = true; });
}

void ClusterState::Notice(const std::string& text) {
  if (text == told_) return;
  told_ = text;
  if (options_.notice != nullptr) options_.notice(text);
}

std::optional<int64_t> ClusterState::Step() {
  Events events;
  {
    MutexLock lock(mutex_);
    std::swap(events, events_);
  }
  TakeEvents(std::move(events));
  if (unsaved_.has_value()) TakeMap(StoredMap(*unsaved_));
  MembershipDecision decision = membership_.Decide(options_.clock->MonotonicNanos());
  bool again = unsaved_.has_value();
  if (decision.proposal.has_value()) {
    again |= !Propose(decision);
    decision = membership_.Decide(options_.clock->MonotonicNanos());
    again |= decision.proposal.has_value();
  }
  Publish(decision);
  if (!again) return decision.next_nanos;
  return std::min(decision.next_nanos.value_or(INT64_MAX),
                  options_.clock->MonotonicNanos() + kRetry_nanos);
}

void ClusterState::TakeEvents(Events events) {
  for (const CatalogUpdate& update : events.updates) TakeUpdate(update);
  if (events.map.has_value()) TakeMap(*events.map);
  if (!events.catalog_answers.has_value()) return;
  if (!*events.catalog_answers) {
    changed_ |= catalog_answers_;
    catalog_answers_ = false;
    membership_.OnCatalogLost();
  } else if (!catalog_answers_ && listed_) {
    changed_ = true;
    catalog_answers_ = true;
    membership_.OnListing(IdsOf(registered_), options_.clock->MonotonicNanos());
  }
}

void ClusterState::TakeUpdate(const CatalogUpdate& update) {
  const int64_t now_nanos = options_.clock->MonotonicNanos();
  if (update.everything) registered_.clear();
  for (const CatalogEntry& entry : update.entries) TakeEntry(entry);
  for (const std::string& key : update.deleted) {
    if (key == kClusterMapKey) {
      Notice(
          "the catalog's record of the cluster map is gone; this node goes on with the last one");
      continue;
    }
    registered_.erase(std::string(NodeOfKey(key)));
    membership_.OnGone(NodeOfKey(key), now_nanos);
  }
  changed_ = true;
  if (!update.everything) return;
  listed_ = true;
  catalog_answers_ = true;
  membership_.OnListing(IdsOf(registered_), now_nanos);
}

void ClusterState::TakeEntry(const CatalogEntry& entry) {
  if (entry.key == kClusterMapKey) {
    absl::StatusOr<StoredMap> stored = MapStore::FromEntry(entry);
    if (stored.ok()) return TakeMap(*stored);
    return Notice(
        fmt::format("the cluster map cannot be read; this node goes on with the last "
                    "one: {}",
                    ErrorText(stored.status())));
  }
  const std::string id(NodeOfKey(entry.key));
  std::optional<v1::NodeRegistration> registration = ParseRegistration(entry.value);
  if (!registration.has_value()) return;
  registered_[id] = *std::move(registration);
  membership_.OnRegistered(id, options_.clock->MonotonicNanos());
}

void ClusterState::TakeMap(const StoredMap& stored) {
  if (absl::Status accepted = Accept(stored); !accepted.ok()) Notice(ErrorText(accepted));
}

absl::Status ClusterState::Accept(const StoredMap& stored) {
  const ClusterMap& map = *stored.map;
  if (stored_.map != nullptr) {
    // A late answer.
    if (stored.revision <= stored_.revision) return absl::OkStatus();
    if (map.cluster_uuid() != stored_.map->cluster_uuid()) {
      return GoneBack("the cluster map is that of another cluster");
    }
  }
  const SeenMap seen = file_.seen();
  const std::string line_id = HexEncode(AsBytes(maps_.line_id()));
  TILEKV_RETURN_IF_ERROR(CheckNotBack(seen, line_id, map));
  const SeenMap next{line_id, map.version(), HashOf(map)};
  if (!(next == seen)) {
    if (absl::Status saved = file_.Save(next); !saved.ok()) {
      unsaved_ = stored;
      return WithContext(saved, "a newer cluster map cannot be acted on before it is noted");
    }
  }
  unsaved_.reset();
  if (stored_.map != nullptr && stored_.map->Find(node_id()) != nullptr &&
      map.Find(node_id()) == nullptr) {
    Notice("this node was removed from the cluster: others ask it for nothing any more; stop it");
  }
  stored_ = stored;
  placement_ = std::make_shared<const Placement>(stored.map);
  membership_.OnMap(stored.map, options_.clock->MonotonicNanos());
  changed_ = true;
  return absl::OkStatus();
}

bool ClusterState::Propose(const MembershipDecision& decision) {
  absl::StatusOr<bool> written = maps_.Replace(stored_, *decision.proposal);
  if (!written.ok()) {
    Notice(fmt::format("the cluster map cannot be changed: {}", ErrorText(written.status())));
    return false;
  }
  if (*written && !decision.marked_out.empty()) {
    Notice(fmt::format("marked out, as missing for {} s: {}", stored_.map->settings().out_after_s,
                       Joined(decision.marked_out)));
  }
  if (*written && !decision.marked_in.empty()) {
    Notice(fmt::format("in again: {}", Joined(decision.marked_in)));
  }
  absl::StatusOr<std::optional<StoredMap>> now = maps_.Read();
  if (!now.ok() || !now->has_value()) return false;
  TakeMap(**now);
  return true;
}

void ClusterState::Publish(const MembershipDecision& decision) {
  auto picture = std::make_shared<ClusterPicture>();
  picture->placement = placement_;
  picture->registered = registered_;
  picture->catalog_answers = catalog_answers_;
  picture->missing_since_nanos = membership_.missing_since_nanos();
  picture->held = decision.held;
  for (const MembershipDecision::Held& held : decision.held) {
    Notice(fmt::format("node '{}' is missing and not marked out: {}", held.id,
                       AutomaticOutText(held.why)));
  }
  {
    MutexLock lock(mutex_);
    picture_ = picture;
  }
  if (std::exchange(changed_, false) && options_.changed != nullptr) options_.changed(*picture);
}

}  // namespace tilekv
