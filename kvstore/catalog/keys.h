// Keys of catalog records, and ranges of them. The table of all keys: docs/formats.md, "Catalog
// records". Namespaces and names are valid ones (kvstore/node/model_name.h): they hold no '/'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/catalog/catalog.h"

namespace tilekv {

struct KeyRange {
  std::string start;
  std::string end;
};

inline constexpr char kLineKey[] = "line";
inline constexpr char kRoundKey[] = "round";
inline constexpr char kCollectorKey[] = "collector";
inline constexpr char kClusterMapKey[] = "map";
// Of an object that a name needed since this revision and needs no longer. `id` is raw bytes.
std::string FreedKey(Revision since, std::string_view id);
KeyRange FreedRange();

std::string ValueKey(std::string_view key);
// Keys that begin with `prefix` and are above `after`; empty: all.
KeyRange ValueRange(std::string_view prefix, std::string_view after = {});
// The user's key in the catalog's.
std::string_view UserKey(std::string_view value_key);

std::string HeadKey(std::string_view ns, std::string_view name);
// Heads whose "NS/NAME" begins with `prefix` and is above `after`.
KeyRange HeadRange(std::string_view prefix = {}, std::string_view after = {});
std::string VersionKey(std::string_view ns, std::string_view name, uint64_t number);
// Versions with numbers in [from, end); end 0: no end.
KeyRange VersionRange(std::string_view ns, std::string_view name, uint64_t from = 0,
                      uint64_t end = 0);
// All versions of all models.
KeyRange AllVersionsRange();
std::string TagKey(std::string_view ns, std::string_view name, std::string_view tag);
KeyRange TagRange(std::string_view ns, std::string_view name);

// `token` and `commit_id` are raw bytes.
std::string SessionKey(std::string_view token);
KeyRange SessionRange();
std::string CommitKey(std::string_view commit_id);
KeyRange CommitRange();

// Registration of a node of a cluster.
std::string NodeKey(std::string_view id);
// The node that a registration is of.
std::string_view NodeOfKey(std::string_view node_key);
KeyRange NodeRange();
// The cluster map and all registrations, and nothing else: what nodes watch.
KeyRange ClusterRange();

// What a head's, a version's or a tag's key names; `last` is the tag, or the 8 bytes of the number.
struct ModelKeyParts {
  std::string ns;
  std::string name;
  std::string last;
  uint64_t number = 0;  // of a version's key
};
// None when the key is not of that form.
std::optional<ModelKeyParts> ParseModelKey(std::string_view key);

}  // namespace tilekv
