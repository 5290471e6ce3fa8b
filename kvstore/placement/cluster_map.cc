#include "kvstore/placement/cluster_map.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/placement/map_check.h"

namespace tilekv {
namespace {

absl::Status Damaged(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("the catalog's cluster map: {}", what));
}

// All that owners are a function of, and nothing else (docs/formats.md, "Cluster map").
uint64_t PlacementHash(const ClusterSettings& settings, const std::vector<MapNode>& nodes) {
  std::string text;
  AppendLe<uint32_t>(text, settings.replication);
  AppendLe<uint32_t>(text, settings.partition_bits);
  for (const MapNode& node : nodes) {
    AppendText(text, node.id);
    AppendText(text, node.host);
    AppendText(text, node.zone);
    AppendLe<uint32_t>(text, node.weight_milli);
    AppendLe<uint8_t>(text, static_cast<uint8_t>(node.state));
  }
  return LoadLe<uint64_t>(Blake3(AsBytes(text)).data());
}

MapNode NodeOf(const v1::ClusterMapNode& record) {
  return {.id = record.id(),
          .store_uuid = record.store_uuid(),
          .host = record.host(),
          .zone = record.zone(),
          .weight_milli = record.weight_milli(),
          .address = record.address(),
          .state = static_cast<NodeState>(record.state()),
          .automatic_out = record.automatic_out(),
          .maintenance = record.maintenance()};
}

// Digits of `text`, at least one, as a number; false where there is anything else.
bool ParseDigits(std::string_view text, uint32_t& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string_view NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kIn:
      return "in";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kOut:
      return "out";
  }
  return "unknown";
}

absl::StatusOr<ClusterMap> ClusterMap::Make(uint16_t epoch, std::string_view cluster_uuid,
                                            std::string_view cluster_name,
                                            const ClusterSettings& settings) {
  v1::ClusterMapRecord record;
  const uint64_t version = MapVersion::Of(epoch, 1).value;
  record.set_version(version);
  record.set_placement_version(version);
  record.set_cluster_uuid(std::string(cluster_uuid));
  record.set_cluster_name(std::string(cluster_name));
  record.set_feature_level(kFeatureLevel);
  record.set_replication(settings.replication);
  record.set_min_copies(settings.min_copies);
  record.set_max_object_bytes(settings.max_object_bytes);
  record.set_partition_bits(settings.partition_bits);
  record.set_out_after_seconds(settings.out_after_s);
  record.set_repair_bytes_per_second(settings.repair_bytes_per_second);
  return FromRecord(record);
}

absl::StatusOr<ClusterMap> ClusterMap::FromRecord(const v1::ClusterMapRecord& record) {
  TILEKV_RETURN_IF_ERROR(CheckClusterMapRecord(record));
  ClusterMap map;
  map.bytes_ = record.SerializeAsString();
  map.hash_ = Blake3(AsBytes(map.bytes_));
  map.version_ = {record.version()};
  map.cluster_uuid_ = record.cluster_uuid();
  map.cluster_name_ = record.cluster_name();
  map.feature_level_ = record.feature_level();
  map.settings_ = {.replication = record.replication(),
                   .min_copies = record.min_copies(),
                   .max_object_bytes = record.max_object_bytes(),
                   .partition_bits = record.partition_bits(),
                   .out_after_s = record.out_after_seconds(),
                   .repair_bytes_per_second = record.repair_bytes_per_second()};
  for (const v1::ClusterMapNode& node : record.nodes()) map.nodes_.push_back(NodeOf(node));
  map.placement_version_ = {{record.placement_version()}, PlacementHash(map.settings_, map.nodes_)};
  return map;
}

absl::StatusOr<ClusterMap> ClusterMap::Parse(std::string_view bytes) {
  v1::ClusterMapRecord record;
  if (bytes.size() > kMaxClusterMapBytes ||
      !record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Damaged(fmt::format("its {} bytes are no record of one", bytes.size()));
  }
  // Before the rest, in which a later program may see other things.
  if (record.feature_level() > kFeatureLevel) {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("the cluster map has feature level {}; this program knows level "
                                 "{}: use a later TileKV",
                                 record.feature_level(), kFeatureLevel));
  }
  absl::StatusOr<ClusterMap> map = FromRecord(record);
  if (!map.ok()) return Damaged(std::string(map.status().message()));
  // The catalog's own bytes, whoever wrote them.
  map->bytes_ = bytes;
  map->hash_ = Blake3(AsBytes(bytes));
  return map;
}

const MapNode* ClusterMap::Find(std::string_view id) const {
  auto at =
      std::lower_bound(nodes_.begin(), nodes_.end(), id,
                       [](const MapNode& node, std::string_view name) { return node.id < name; });
  return at != nodes_.end() && at->id == id ? &*at : nullptr;
}

const MapNode* ClusterMap::FindStore(std::string_view store_uuid) const {
  auto at = std::find_if(nodes_.begin(), nodes_.end(),
                         [&](const MapNode& node) { return node.store_uuid == store_uuid; });
  return at != nodes_.end() ? &*at : nullptr;
}

size_t ClusterMap::CountIn() const {
  return std::count_if(nodes_.begin(), nodes_.end(),
                       [](const MapNode& node) { return node.state == NodeState::kIn; });
}

absl::StatusOr<uint32_t> ParseWeight(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole_text = text.substr(0, point);
  uint32_t whole = 0, thousandths = 0;
  bool good = ParseDigits(whole_text, whole) && whole <= kMaxNodeWeight;
  if (good && point < text.size()) {
    std::string digits(text.substr(point + 1));
    good = !digits.empty() && digits.size() <= 3;
    digits.resize(3, '0');
    good = good && ParseDigits(digits, thousandths);
  }
  const uint32_t weight_milli = good ? whole * 1'000 + thousandths : 0;
  if (weight_milli >= 1 && weight_milli <= kMaxNodeWeight * 1'000) return weight_milli;
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("weight '{}': it has to be 0.001 to {}, with up to three decimals; a "
                  "node that shall own nothing is drained",
                  Printable(text), kMaxNodeWeight));
}

std::string FormatWeight(uint32_t weight_milli) {
  std::string text = fmt::format("{}.{:03}", weight_milli / 1'000, weight_milli % 1'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace tilekv
