#include "kvstore/placement/map_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

absl::Status Wrong(std::string text) {
  return MakeError(Reason::kInvalidArgument, std::move(text));
}

bool IsUuid(std::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::Status CheckId(std::string_view what, std::string_view id) {
  const bool letters = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  // One that begins with '-' would be a flag on a command line.
  if (!id.empty() && id.size() <= kMaxNodeIdBytes && letters && id[0] != '-') {
    return absl::OkStatus();
  }
  return Wrong(
      fmt::format("'{}' cannot be {}: 1 to {} of [A-Za-z0-9._-], the first one no '-', are allowed",
                  Printable(id), what, kMaxNodeIdBytes));
}

absl::Status CheckUuid(std::string_view what, std::string_view uuid) {
  if (IsUuid(uuid)) return absl::OkStatus();
  return Wrong(
      fmt::format("{} is '{}', not 32 hexadecimal digits in lower case", what, Printable(uuid)));
}

absl::Status CheckPlace(std::string_view id, std::string_view what, std::string_view text) {
  const bool plain = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
  });
  if (text.size() <= kMaxNodePlaceBytes && plain && IsValidUtf8(text)) return absl::OkStatus();
  return Wrong(fmt::format(
      "node '{}': '{}' cannot be its {}: up to {} bytes of UTF-8 without spaces are allowed",
      Printable(id), Printable(text), what, kMaxNodePlaceBytes));
}

template <typename T>
absl::Status CheckRange(std::string_view what, T value, T least, T greatest) {
  if (value >= least && value <= greatest) return absl::OkStatus();
  return Wrong(fmt::format("{} is {}: it has to be {} to {}", what, value, least, greatest));
}

absl::Status CheckNode(const v1::ClusterMapNode& node) {
  const std::string id = Printable(node.id());
  TILEKV_RETURN_IF_ERROR(CheckId("a node's name", node.id()));
  TILEKV_RETURN_IF_ERROR(CheckUuid(fmt::format("the store of node '{}'", id), node.store_uuid()));
  for (const auto& [what, text] :
       {std::pair<std::string_view, std::string_view>{"host", node.host()},
        {"zone", node.zone()},
        {"address", node.address()}}) {
    TILEKV_RETURN_IF_ERROR(CheckPlace(node.id(), what, text));
  }
  if (node.host().empty() || node.address().empty()) {
    return Wrong(fmt::format("node '{}' has no {}", id, node.host().empty() ? "host" : "address"));
  }
  if (node.weight_milli() < 1 || node.weight_milli() > kMaxNodeWeight * 1'000) {
    return Wrong(fmt::format("node '{}': weight {} thousandths: it has to be 0.001 to {}", id,
                             node.weight_milli(), kMaxNodeWeight));
  }
  if (node.state() < v1::NODE_STATE_IN || node.state() > v1::NODE_STATE_OUT) {
    return Wrong(
        fmt::format("node '{}' has the unknown state {}", id, static_cast<int>(node.state())));
  }
  if (node.automatic_out() && node.state() != v1::NODE_STATE_OUT) {
    return Wrong(fmt::format("node '{}' is marked as out by itself and is not out", id));
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const v1::ClusterMapRecord& record) {
  if (static_cast<size_t>(record.nodes_size()) > kMaxClusterNodes) {
    return Wrong(
        fmt::format("{} nodes: a cluster has at most {}", record.nodes_size(), kMaxClusterNodes));
  }
  std::set<std::string_view> stores;
  std::string_view before;
  for (const v1::ClusterMapNode& node : record.nodes()) {
    TILEKV_RETURN_IF_ERROR(CheckNode(node));
    if (!before.empty() && std::string_view(node.id()) <= before) {
      return Wrong(fmt::format("node '{}' comes twice or not in order", Printable(node.id())));
    }
    before = node.id();
    if (!stores.insert(node.store_uuid()).second) {
      return Wrong(fmt::format("node '{}' has the store {}, which another node has too",
                               Printable(node.id()), node.store_uuid()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSettings(const v1::ClusterMapRecord& record) {
  TILEKV_RETURN_IF_ERROR(CheckRange("replication", record.replication(), 1u, kMaxReplication));
  TILEKV_RETURN_IF_ERROR(CheckRange("min-copies", record.min_copies(), 1u, kMaxReplication));
  if (record.min_copies() > record.replication()) {
    return Wrong(
        fmt::format("min-copies {} is above the replication of {}: lower it, or raise the "
                    "replication",
                    record.min_copies(), record.replication()));
  }
  if (record.max_object_bytes() < kLeastMaxObjectBytes ||
      record.max_object_bytes() > kGreatestMaxObjectBytes) {
    return Wrong(fmt::format("object limit {} bytes: it has to be {} to {}",
                             record.max_object_bytes(), FormatSizeShort(kLeastMaxObjectBytes),
                             FormatSizeShort(kGreatestMaxObjectBytes)));
  }
  TILEKV_RETURN_IF_ERROR(
      CheckRange("bits of a partition", record.partition_bits(), 1u, kMaxPartitionBits));
  TILEKV_RETURN_IF_ERROR(CheckRange("out-after in seconds", record.out_after_seconds(), int64_t{1},
                                    kGreatestOutAfter_s));
  if (record.repair_bytes_per_second() < kLeastRepairBytesPerSecond) {
    return Wrong(fmt::format("repair-rate {} bytes a second: it has to be at least {}",
                             record.repair_bytes_per_second(),
                             FormatSizeShort(kLeastRepairBytesPerSecond)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckClusterMapRecord(const v1::ClusterMapRecord& record) {
  if (record.placement_version() == 0 || record.placement_version() > record.version()) {
    return Wrong(fmt::format("the placement's version {:#x} is none or above the map's {:#x}",
                             record.placement_version(), record.version()));
  }
  if (record.feature_level() == 0) return Wrong("the feature level is missing");
  TILEKV_RETURN_IF_ERROR(CheckUuid("the cluster's uuid", record.cluster_uuid()));
  TILEKV_RETURN_IF_ERROR(CheckId("a cluster's name", record.cluster_name()));
  TILEKV_RETURN_IF_ERROR(CheckSettings(record));
  TILEKV_RETURN_IF_ERROR(CheckNodes(record));
  if (const size_t size_bytes = record.ByteSizeLong(); size_bytes > kMaxClusterMapBytes) {
    return Wrong(fmt::format("{} bytes: a map has at most {}", size_bytes,
                             FormatSizeShort(kMaxClusterMapBytes)));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
