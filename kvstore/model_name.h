// Names of models and stores, as people and programs write them: the one parser for CLI, C++,
// Python and gateways.
//
//     MODEL = [NS/]NAME[@VERSION]     NS, NAME: 1 to 96 of [A-Za-z0-9._-], no `--` or `..`; NS is
//     `default` where none is given VERSION = number | tag (begins with a letter) | latest (the
//     default) | `b3:` and 8 or more hexadecimal digits STORE = tilekv://HOST[:7070][,HOST...] |
//     file:DIR | DIR in one string: tilekv://HOST:7070/NS/NAME@VERSION, tilekv:///NS/NAME (store
//     from the environment), DIR#NS/NAME
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tilekv {

inline constexpr char kDefaultNamespace[] = "default";

struct ModelName {
  std::string ns = kDefaultNamespace;
  std::string name;
  std::string version;  // "" means latest

  // INVALID_ARGUMENT says which part is wrong and what is allowed.
  static absl::StatusOr<ModelName> Parse(std::string_view text);
  // "NAME" in the default namespace, else "NS/NAME"; "@VERSION" where there is one. Parse gives it
  // back.
  std::string ToString() const;
  friend bool operator==(const ModelName&, const ModelName&) = default;
};

// Of a namespace or a model.
absl::Status CheckName(std::string_view kind, std::string_view name);
// A tag begins with a letter, is not "latest", and is otherwise like a name.
absl::Status CheckTag(std::string_view tag);

enum class VersionKind { kLatest, kNumber, kTag, kDigest };
struct VersionSelector {
  VersionKind kind = VersionKind::kLatest;
  uint64_t number = 0;
  std::string text;  // the tag, or the digest's digits in lower case
};
absl::StatusOr<VersionSelector> ParseVersion(std::string_view version);

struct StoreUri {
  enum class Kind { kNodes, kDirectory, kMemory };
  Kind kind = Kind::kDirectory;
  std::vector<std::string> hosts;  // "HOST:PORT", at least one, for kNodes
  std::string directory;

  static absl::StatusOr<StoreUri> Parse(std::string_view text);
  std::string ToString() const;
};

// A model with its store in one string.
struct QualifiedModel {
  std::optional<StoreUri> store;  // none: from the environment or the command line
  ModelName model;

  static absl::StatusOr<QualifiedModel> Parse(std::string_view text);
};

}  // namespace tilekv
