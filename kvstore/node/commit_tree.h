// The tree that every version has: what a name's history can be rebuilt from when the catalog is
// lost. Layout: docs/formats.md, "Commit tree". Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/object/tree.h"

namespace tilekv {

struct CommitTree {
  uint64_t number = 0;
  std::string commit_id;           // 16 bytes
  std::string line_id;             // 16 bytes
  std::string previous_commit_id;  // 16 bytes; zeros: none
  int64_t created_micros = 0;
  uint64_t logical_bytes = 0;
  uint64_t tensor_count = 0;
  uint64_t base_number = 0;  // 0: no base
  std::string ns;
  std::string name;
  std::string base_ns;
  std::string base_name;
  std::string message;
  std::string author;
  ObjectRef root;
  std::optional<ObjectRef> sources;

  friend bool operator==(const CommitTree&, const CommitTree&) = default;
};

inline constexpr uint8_t kCommitTreeLevel = 4;
inline constexpr size_t kCommitIdBytes = 16;

// Ids have 16 bytes (checked).
Tree ToTree(const CommitTree& commit);
// INVALID_ARGUMENT: not a commit, a later version, or damaged.
absl::StatusOr<CommitTree> ParseCommitTree(const Tree& tree);

}  // namespace tilekv
