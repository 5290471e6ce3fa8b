// What nodes tell each other for repair. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/base/revision.h"
#include "kvstore/node/round.h"
#include "kvstore/object/object_store.h"
#include "kvstore/placement/map_version.h"

namespace tilekv {

// Of the good rows that one store has of a partition. Two stores with equal digests hold the same
// objects with the same revisions.
struct PartitionDigest {
  uint64_t objects = 0;
  uint64_t content_bytes = 0;
  // Two sums modulo 2^64 over all rows: of the first and of the second 8 bytes (little-endian) of
  // the BLAKE3 hash of id (32 bytes) and touched_rev (8 bytes, little-endian).
  std::array<uint64_t, 2> sums{};

  friend bool operator==(const PartitionDigest&, const PartitionDigest&) = default;
};

struct DigestAnswer {
  PlacementVersion placement;            // of the node that answers
  std::vector<PartitionDigest> digests;  // of the first partitions that were asked for
};

// A row as others see it.
struct PartitionRow {
  ObjectRef ref;
  Revision touched_rev;
  RowState state = RowState::kGood;

  friend bool operator==(const PartitionRow&, const PartitionRow&) = default;
};

struct PartitionPage {
  std::vector<PartitionRow> rows;  // kMaxRepairBatch at most
  bool end = false;                // there are no more behind them
};

enum class OfferOutcome : uint8_t {
  kHas = 1,        // a good copy; its revision is at least the offered one by now
  kWants = 2,      // it will pull it
  kNotNow = 3,     // it lacks it, and has no room to pull it or to note it: to be offered again
  kNotOwner = 4,   // it does not own it
  kCollected = 5,  // it lacks it, and its round's list has it not; see OfferAnswer::round
};

struct OfferAnswer {
  PlacementVersion placement;          // of the node that answers
  std::vector<OfferOutcome> outcomes;  // in the order of the offer
  // Where there is a kCollected: by which round. Such a copy may be deleted where the catalog has
  // this round in force, and the copy's revision is still below its fence.
  std::optional<RoundName> round;
};

struct DropAnswer {
  PlacementVersion placement;   // of the node that answers
  std::string store_uuid;       // copies are counted by store
  std::vector<bool> confirmed;  // in the order of the question
};

// Of a step of verifying copies.
struct VerifyAnswer {
  uint64_t copies = 0;
  uint64_t bytes = 0;    // of content
  uint64_t damaged = 0;  // of the copies
  // The next step begins above this id. None: that was the last.
  std::optional<ObjectId> next_after;
};

}  // namespace tilekv
