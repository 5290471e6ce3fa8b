#include "kvstore/catalog/keys.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"

namespace tilekv {
namespace {

constexpr char kValues[] = "k/";
constexpr char kHeads[] = "m/";
constexpr char kVersions[] = "v/";
constexpr char kTags[] = "t/";
constexpr char kSessions[] = "s/";
constexpr char kCommits[] = "commits/";
constexpr char kFreed[] = "freed/";
constexpr char kNodes[] = "nodes/";

KeyRange PrefixRange(std::string prefix) {
  std::string end = PrefixEnd(prefix);
  return {std::move(prefix), std::move(end)};
}

// Keys under root + prefix, from the first one above root + after.
KeyRange RangeAfter(std::string_view root, std::string_view prefix, std::string_view after) {
  KeyRange range = PrefixRange(fmt::format("{}{}", root, prefix));
  if (!after.empty()) {
    std::string resume = fmt::format("{}{}", root, after);
    resume.push_back('\0');  // no key holds a NUL: the next one possible
    range.start = std::max(range.start, resume);
  }
  return range;
}

std::string ModelPrefix(std::string_view root, std::string_view ns, std::string_view name) {
  return fmt::format("{}{}/{}/", root, ns, name);
}

}  // namespace

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return "\xff\xff";
  end.back() = static_cast<char>(static_cast<uint8_t>(end.back()) + 1);
  return end;
}

std::string ValueKey(std::string_view key) { return fmt::format("{}{}", kValues, key); }
KeyRange ValueRange(std::string_view prefix, std::string_view after) {
  return RangeAfter(kValues, prefix, after);
}
std::string_view UserKey(std::string_view value_key) { return value_key.substr(2); }

std::string HeadKey(std::string_view ns, std::string_view name) {
  return fmt::format("{}{}/{}", kHeads, ns, name);
}
KeyRange HeadRange(std::string_view prefix, std::string_view after) {
  return RangeAfter(kHeads, prefix, after);
}

std::string VersionKey(std::string_view ns, std::string_view name, uint64_t number) {
  std::string key = ModelPrefix(kVersions, ns, name);
  AppendBe64(key, number);
  return key;
}
KeyRange VersionRange(std::string_view ns, std::string_view name, uint64_t from, uint64_t end) {
  return {VersionKey(ns, name, from),
          end == 0 ? PrefixEnd(ModelPrefix(kVersions, ns, name)) : VersionKey(ns, name, end)};
}
KeyRange AllVersionsRange() { return PrefixRange(kVersions); }

std::string TagKey(std::string_view ns, std::string_view name, std::string_view tag) {
  return ModelPrefix(kTags, ns, name).append(tag);
}
KeyRange TagRange(std::string_view ns, std::string_view name) {
  return PrefixRange(ModelPrefix(kTags, ns, name));
}

std::string SessionKey(std::string_view token) { return kSessions + HexEncode(AsBytes(token)); }
KeyRange SessionRange() { return PrefixRange(kSessions); }
std::string CommitKey(std::string_view commit_id) {
  return kCommits + HexEncode(AsBytes(commit_id));
}
std::string NodeKey(std::string_view id) { return fmt::format("{}{}", kNodes, id); }
std::string_view NodeOfKey(std::string_view node_key) {
  return node_key.substr(std::string_view(kNodes).size());
}
KeyRange NodeRange() { return PrefixRange(kNodes); }
// No other key lies between the two.
KeyRange ClusterRange() { return {kClusterMapKey, NodeRange().end}; }

std::string FreedKey(Revision since, std::string_view id) {
  return fmt::format("{}{:016x}/{}", kFreed, since.value, HexEncode(AsBytes(id)));
}
KeyRange FreedRange() { return PrefixRange(kFreed); }
KeyRange CommitRange() { return PrefixRange(kCommits); }

std::optional<ModelKeyParts> ParseModelKey(std::string_view key) {
  if (key.size() < 2 || key[1] != '/') return std::nullopt;
  char root = key[0];
  std::string_view rest = key.substr(2);
  size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ModelKeyParts parts;
  parts.ns = rest.substr(0, slash);
  rest = rest.substr(slash + 1);
  if (root == kHeads[0]) {
    parts.name = rest;
    return parts;
  }
  slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  parts.name = rest.substr(0, slash);
  parts.last = rest.substr(slash + 1);
  if (root == kVersions[0]) {
    if (parts.last.size() != 8) return std::nullopt;
    parts.number = LoadBe64(AsBytes(parts.last).data());
    return parts;
  }
  return root == kTags[0] ? std::optional(parts) : std::nullopt;
}

}  // namespace tilekv
