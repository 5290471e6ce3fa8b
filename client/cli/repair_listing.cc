#include "client/cli/repair_listing.h"

#include <algorithm>
#include <vector>

#include "client/cli/cluster_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kvstore/base/sizes.h"

namespace tilekv {
namespace {

std::string Counted(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", FormatCount(count), what, count == 1 ? "" : "s");
}

}  // namespace

Json RepairJson(const v1::RepairStatus& repair) {
  Json json;
  json["complete"] = repair.complete();
  json["owned_partitions"] = repair.owned_partitions();
  json["short_partitions"] = repair.short_partitions();
  json["unanswered_partitions"] = repair.unanswered_partitions();
  json["foreign_partitions"] = repair.foreign_partitions();
  json["objects_left"] = repair.objects_to_pull();
  json["bytes_left"] = repair.bytes_to_pull();
  json["missing_objects"] = repair.missing_objects();
  json["bytes_per_second"] = repair.pulled_bytes_per_second();
  json["waiting_seconds"] = repair.waiting_seconds();
  return json;
}

ClusterRepair RepairOf(const v1::ClusterStatusResponse& status) {
  ClusterRepair all;
  all.complete = status.nodes_size() > 0;
  for (const v1::ClusterNodeStatus& node : status.nodes()) {
    const v1::RepairStatus& repair = node.registration().repair();
    if (!node.registered()) {
      all.complete = false;
      continue;
    }
    all.complete &= repair.complete() && repair.objects_to_pull() == 0 &&
                    repair.foreign_partitions() == 0 &&
                    repair.placement_version() == status.map().placement_version();
    all.objects_left += repair.objects_to_pull();
    all.bytes_left += repair.bytes_to_pull();
    all.missing_objects += repair.missing_objects();
    all.foreign_partitions += repair.foreign_partitions();
    all.short_partitions += repair.short_partitions();
    all.bytes_per_second += repair.pulled_bytes_per_second();
    if (repair.pulled_bytes_per_second() > 0) {
      all.seconds_left = std::max<uint64_t>(
          all.seconds_left, repair.bytes_to_pull() / repair.pulled_bytes_per_second());
    }
  }
  return all;
}

Json RepairJson(const ClusterRepair& repair) {
  Json json;
  json["complete"] = repair.complete;
  json["objects_left"] = repair.objects_left;
  json["bytes_left"] = repair.bytes_left;
  json["missing_objects"] = repair.missing_objects;
  json["foreign_partitions"] = repair.foreign_partitions;
  json["short_partitions"] = repair.short_partitions;
  json["bytes_per_second"] = repair.bytes_per_second;
  json["seconds_left"] = repair.seconds_left;
  return json;
}

std::string RepairText(const Output& out, const ClusterRepair& repair) {
  if (repair.complete) return "complete";
  std::vector<std::string> parts;
  if (repair.objects_left > 0) {
    parts.push_back(fmt::format("{} in {} to copy", FormatSize(repair.bytes_left),
                                Counted(repair.objects_left, "object")));
    if (repair.bytes_per_second > 0) {
      parts.push_back(FormatSize(repair.bytes_per_second) + "/s");
    }
    if (repair.seconds_left > 0) {
      parts.push_back(FormatSeconds(static_cast<int64_t>(repair.seconds_left)) + " left");
    }
  }
  if (repair.missing_objects > 0) {
    parts.push_back(out.style().Red(
        fmt::format("no copy found of {}", Counted(repair.missing_objects, "object"))));
  }
  if (repair.foreign_partitions > 0) {
    parts.push_back(
        fmt::format("copies of {} to give away", Counted(repair.foreign_partitions, "partition")));
  }
  if (parts.empty()) parts.emplace_back("nodes are comparing what they hold");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tilekv
