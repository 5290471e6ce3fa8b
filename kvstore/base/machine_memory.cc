#include "kvstore/base/machine_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "kvstore/base/defaults.h"

namespace tilekv {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> ParseNumber(std::string_view text) {
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  auto result = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

// A limit in a file; none where it is "max", or there is no such file.
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return kUnlimited;
  return ParseNumber(line).value_or(kUnlimited);
}

// Of a group and those above it: each holds for all below. In a container the path may be that of
// the machine; what can be seen is then the root, which is walked to in any case.
uint64_t LimitOfGroup(const std::string& mount, std::string group, const char* file) {
  uint64_t least = kUnlimited;
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    least = std::min(least, LimitIn(mount + group + "/" + file));
    if (group.empty()) return least;
    size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

uint64_t CgroupLimit(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  uint64_t least = kUnlimited;
  // "4:memory:/group" of version 1, "0::/group" of version 2.
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      for (const char* unified : {"", "/unified"}) {
        least = std::min(least, LimitOfGroup(mount + unified, group, "memory.max"));
      }
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, LimitOfGroup(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t InstalledMemory(const std::string& root) {
  constexpr std::string_view kTotal = "MemTotal:";
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kTotal, 0) != 0) continue;
    std::optional<uint64_t> kib = ParseNumber(std::string_view(line).substr(kTotal.size()));
    if (kib.has_value()) return *kib * kKiB;
  }
  return kUnlimited;
}

}  // namespace

uint64_t MachineMemoryBytes(const std::string& root) {
  uint64_t least = std::min(InstalledMemory(root), CgroupLimit(root));
  return least == kUnlimited ? 0 : least;
}

uint64_t ClientMemoryFor(uint64_t machine_bytes) {
  return std::clamp(machine_bytes / kClientMemoryShare, kLeastMemoryBytes,
                    kGreatestDefaultClientMemoryBytes);
}

uint64_t DefaultClientMemoryBytes() {
  static const uint64_t bytes = ClientMemoryFor(MachineMemoryBytes());
  return bytes;
}

}  // namespace tilekv
