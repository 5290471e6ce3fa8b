#include "kvstore/catalog/etcd/etcd_endpoints.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr char kDefaultPort[] = "2379";
constexpr size_t kMaxClusterNameBytes = 64;

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// HOST:PORT of what is left of an endpoint behind its scheme; empty when it is none.
std::string Target(std::string_view rest) {
  if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  if (rest.empty() || rest.find_first_of("/?#@ \t") != std::string_view::npos) return "";
  size_t colon = rest.rfind(':');
  bool ipv6 = rest.front() == '[';
  if (ipv6 && (colon == std::string_view::npos || colon < rest.find(']'))) {
    colon = std::string_view::npos;
  }
  if (colon == std::string_view::npos) return fmt::format("{}:{}", rest, kDefaultPort);
  uint32_t port = 0;
  std::string_view digits = rest.substr(colon + 1);
  bool good = absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &port);
  return good && port > 0 && port < 65'536 && colon > 0 ? std::string(rest) : "";
}

}  // namespace

absl::StatusOr<EtcdEndpoints> ParseEtcdEndpoints(const std::vector<std::string>& endpoints) {
  EtcdEndpoints parsed;
  for (const std::string& endpoint : endpoints) {
    std::string_view rest = endpoint;
    bool tls = TakePrefix(rest, "https://");
    if (!tls) TakePrefix(rest, "http://");
    std::string target = Target(rest);
    if (target.empty()) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("'{}' is not an address of etcd; give http://HOST:2379 or https://HOST:2379",
                      Printable(endpoint)));
    }
    if (!parsed.targets.empty() && tls != parsed.tls) {
      return MakeError(Reason::kInvalidArgument,
                       "the members of an etcd are reached by https, or none of them is");
    }
    parsed.tls = tls;
    parsed.targets.push_back(std::move(target));
    parsed.text += (parsed.text.empty() ? "" : ",") + Printable(endpoint);
  }
  if (!parsed.targets.empty()) return parsed;
  return MakeError(Reason::kInvalidArgument, "no address of etcd was given");
}

std::vector<std::string> SplitEndpoints(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

absl::Status CheckClusterName(std::string_view name) {
  auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kMaxClusterNameBytes &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' is not the name of a cluster: 1 to {} of A-Z a-z 0-9 . _ -",
                               Printable(name), kMaxClusterNameBytes));
}

std::string ClusterPrefix(std::string_view name) { return fmt::format("/tilekv/{}/", name); }

}  // namespace tilekv
