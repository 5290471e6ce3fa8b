// The lists of the collector's rounds that a node keeps, in DIR/rounds (docs/formats.md, section
// 4): of what was in use at a round, in the parts in which they came (round_peer.h).
//
// For the sweep, and for repair: what a round found to be garbage is not copied again from a node
// that was away. A list that is gone or damaged only keeps garbage: it is left out, with a notice.
// The newest round of a domain and the one before are kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/cluster/round_peer.h"

namespace tilekv {

// Thread-safe; calls block until the disk has answered.
class RoundStore {
 public:
  // `notice` is told in a sentence what an operator should know. Reads all parts.
  static absl::StatusOr<std::unique_ptr<RoundStore>> Open(
      FileSystem& fs, const std::string& directory, std::function<void(const std::string&)> notice);

  // Durable when it returns OK. VERSION_CONFLICT: a round with a greater S is stored already.
  // INVALID_ARGUMENT: not a part as round_peer.h has it.
  absl::Status Add(const RoundPart& part);

  // The greatest fence of a round that is stored here, or was since the opening. Does not wait for
  // the disk.
  Revision fence() const { return {fence_}; }

  // Whether a copy with this id and touched_rev is refused, and by which round: the newest one
  // whose list covers the id does not have it, and the copy was not touched since that round's
  // fence. No list, no refusal; nor by a round of another line of the catalog than this one.
  absl::StatusOr<std::optional<RoundName>> RefusedBy(std::string_view line_id, Domain domain,
                                                     const ObjectId& id, Revision touched_rev);

  // The first part of this round that covers an id with this prefix or a greater one. Null: none.
  absl::StatusOr<std::shared_ptr<const RoundPart>> PartFrom(Domain domain, const RoundName& round,
                                                            uint64_t prefix);

 private:
  struct StoredPart {
    std::vector<PrefixRange> ranges;
    std::string path;
  };
  struct StoredRound {
    RoundName name;
    std::map<uint64_t, StoredPart> parts;  // by where they begin
  };
  using Rounds = std::vector<StoredRound>;  // of a domain, the newest last

  RoundStore(FileSystem& fs, std::string directory, std::function<void(const std::string&)> notice)
      : fs_(fs), directory_(std::move(directory)), notice_(std::move(notice)) {}
  absl::Status Load();
  std::string PathOf(const RoundPart& part) const;
  // The round of this name, made where it is not there: then the oldest goes. Null: a later one is
  // here.
  StoredRound* FindOrAdd(Domain domain, const RoundName& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const StoredRound& round);
  void RaiseFence(Revision fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part at this place, as it is on the disk. Null: it is damaged or gone, and is left out from
  // now on.
  absl::StatusOr<std::shared_ptr<const RoundPart>> ReadPart(StoredRound& round, uint64_t begin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FileSystem& fs_;
  const std::string directory_;
  const std::function<void(const std::string&)> notice_;
  std::atomic<uint64_t> fence_{0};
  Mutex mutex_;
  std::map<Domain, Rounds> rounds_ ABSL_GUARDED_BY(mutex_);
  // The part that was read last.
  std::string read_path_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const RoundPart> read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
