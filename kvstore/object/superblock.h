// DIR/SUPERBLOCK: what makes a directory a store (docs/formats.md, section 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/random.h"

namespace tilekv {

struct Superblock {
  std::string store_uuid;  // 32 hexadecimal digits
  uint64_t max_object_bytes = 0;
  std::string cluster_uuid = {};  // 32 hexadecimal digits; empty: a store by itself

  friend bool operator==(const Superblock&, const Superblock&) = default;
};

std::string EncodeSuperblock(const Superblock& superblock);
// STORE_MISMATCH for a later format or a hash that is not ours; DATA_LOSS where the text is
// damaged.
absl::StatusOr<Superblock> DecodeSuperblock(std::string_view text);

// INVALID_ARGUMENT where the name is empty or that of a file.
absl::Status CheckStoreDirectory(FileSystem& fs, const std::string& directory);
// NOT_FOUND, with how one is made.
absl::Status NoStoreIn(const std::string& directory);
// None where the directory is missing or holds no superblock.
absl::StatusOr<std::optional<Superblock>> LoadSuperblock(FileSystem& fs,
                                                         const std::string& directory);
// STORE_MISMATCH unless the directory is missing, holds nothing but what a store begins with, or
// has become a store meanwhile.
absl::Status CheckMayBecomeStore(FileSystem& fs, const std::string& directory);
// INVALID_ARGUMENT where no store may have this limit.
absl::Status CheckObjectLimit(uint64_t max_object_bytes);
// Writes one with a new uuid, durably.
absl::StatusOr<Superblock> CreateSuperblock(FileSystem& fs, const std::string& directory,
                                            uint64_t max_object_bytes,
                                            const std::string& cluster_uuid, Random& random);
// STORE_MISMATCH naming both where another limit is asked for than the store has.
absl::Status CheckLimit(const Superblock& superblock, std::optional<uint64_t> asked_bytes);
// STORE_MISMATCH where the store is part of another cluster than this one (empty: of none).
absl::Status CheckCluster(const Superblock& superblock, const std::string& directory,
                          const std::string& cluster_uuid);

}  // namespace tilekv
