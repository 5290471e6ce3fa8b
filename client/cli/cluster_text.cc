#include "client/cli/cluster_text.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "client/cli/arguments.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {
namespace {

struct Unit {
  char letter;
  int64_t seconds;
};
constexpr std::array kUnits = {Unit{'d', 86'400}, Unit{'h', 3'600}, Unit{'m', 60}, Unit{'s', 1}};

absl::Status Bad(std::string text) { return MakeError(Reason::kInvalidArgument, std::move(text)); }

struct Assignment {
  std::string key;
  std::string value;
};

// KEY=VALUE words, each key once.
absl::StatusOr<std::vector<Assignment>> ParseAssignments(const std::vector<std::string>& words) {
  std::vector<Assignment> all;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Bad(fmt::format("'{}' is not KEY=VALUE", Printable(word)));
    }
    Assignment assignment{word.substr(0, equals), word.substr(equals + 1)};
    for (const Assignment& other : all) {
      if (other.key == assignment.key) {
        return Bad(fmt::format("'{}' is set twice", Printable(other.key)));
      }
    }
    all.push_back(std::move(assignment));
  }
  return all;
}

absl::StatusOr<uint32_t> ParseSmallNumber(std::string_view what, std::string_view text) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t number, ParseNumber(what, text));
  if (number <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(number);
  return Bad(fmt::format("{}: {} is too large", what, number));
}

absl::StatusOr<bool> ParseSwitch(std::string_view what, std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return Bad(fmt::format("{} is 'on' or 'off', not '{}'", what, Printable(text)));
}

}  // namespace

std::vector<ClusterSetting> ClusterSettingsOf(const v1::ClusterMapRecord& map) {
  return {
      {"replication", fmt::format("{}", map.replication()), map.replication(), true},
      {"min-copies", fmt::format("{}", map.min_copies()), map.min_copies(), true},
      {"out-after", FormatSeconds(map.out_after_seconds()), map.out_after_seconds(), true},
      {"repair-rate", FormatSizeShort(map.repair_bytes_per_second()), map.repair_bytes_per_second(),
       true},
      {"max-object-bytes", FormatSizeShort(map.max_object_bytes()), map.max_object_bytes(), false},
      {"partition-bits", fmt::format("{}", map.partition_bits()), map.partition_bits(), false},
  };
}

absl::StatusOr<v1::ClusterSettingsChange> ParseSettingsChange(
    const std::vector<std::string>& words) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<Assignment> all, ParseAssignments(words));
  v1::ClusterSettingsChange change;
  for (const auto& [key, value] : all) {
    if (key == "replication") {
      TILEKV_ASSIGN_OR_RETURN(uint32_t number, ParseSmallNumber(key, value));
      change.set_replication(number);
    } else if (key == "min-copies") {
      TILEKV_ASSIGN_OR_RETURN(uint32_t number, ParseSmallNumber(key, value));
      change.set_min_copies(number);
    } else if (key == "out-after") {
      TILEKV_ASSIGN_OR_RETURN(int64_t seconds, ParseSeconds(value));
      change.set_out_after_seconds(seconds);
    } else if (key == "repair-rate") {
      TILEKV_ASSIGN_OR_RETURN(uint64_t bytes, ParseSize(value));
      change.set_repair_bytes_per_second(bytes);
    } else {
      return Bad(
          fmt::format("'{}' cannot be set; replication, min-copies, out-after and "
                      "repair-rate can",
                      Printable(key)));
    }
  }
  return change;
}

absl::StatusOr<v1::ClusterNodeChange> ParseNodeChange(const std::string& id,
                                                      const std::vector<std::string>& words) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<Assignment> all, ParseAssignments(words));
  v1::ClusterNodeChange change;
  change.set_id(id);
  for (const auto& [key, value] : all) {
    if (key == "weight") {
      TILEKV_ASSIGN_OR_RETURN(uint32_t weight_milli, ParseWeight(value));
      change.set_weight_milli(weight_milli);
    } else if (key == "zone") {
      change.set_zone(value);
    } else if (key == "host") {
      change.set_host(value);
    } else if (key == "maintenance") {
      TILEKV_ASSIGN_OR_RETURN(bool on, ParseSwitch(key, value));
      change.set_maintenance(on);
    } else if (key == "store") {
      change.set_store_uuid(value);
    } else {
      return Bad(
          fmt::format("'{}' of a node cannot be set; weight, zone, host, maintenance and "
                      "store can",
                      Printable(key)));
    }
  }
  return change;
}

absl::StatusOr<int64_t> ParseSeconds(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, number);
  int64_t unit_seconds = at == end ? 1 : 0;
  for (const Unit& unit : kUnits) {
    if (at + 1 == end && *at == unit.letter) unit_seconds = unit.seconds;
  }
  if (error == std::errc() && unit_seconds > 0 && number >= 0 &&
      number <= std::numeric_limits<int64_t>::max() / unit_seconds) {
    return number * unit_seconds;
  }
  return Bad(fmt::format("'{}' is not a time; write 90s, 10m, 2h or 3d", Printable(text)));
}

std::string FormatSeconds(int64_t seconds) {
  for (const Unit& unit : kUnits) {
    if (seconds > 0 && seconds % unit.seconds == 0) {
      return fmt::format("{}{}", seconds / unit.seconds, unit.letter);
    }
  }
  return fmt::format("{}s", seconds);
}

}  // namespace tilekv
