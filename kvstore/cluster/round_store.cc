#include "kvstore/cluster/round_store.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/round_part_format.h"

namespace tilekv {
namespace {

constexpr size_t kRoundsKept = 2;  // of a domain
constexpr std::string_view kSuffix = ".list";

bool Covers(const std::vector<PrefixRange>& ranges, uint64_t prefix) {
  // The last one that begins at the prefix or below.
  auto after =
      std::upper_bound(ranges.begin(), ranges.end(), prefix,
                       [](uint64_t sought, const PrefixRange& r) { return sought < r.first; });
  return after != ranges.begin() && std::prev(after)->Contains(prefix);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoundStore>> RoundStore::Open(
    FileSystem& fs, const std::string& directory, std::function<void(const std::string&)> notice) {
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(directory));
  const size_t slash = directory.rfind('/');
  TILEKV_RETURN_IF_ERROR(fs.SyncDirectory(slash == 0 ? "/" : directory.substr(0, slash)));
  auto store = std::unique_ptr<RoundStore>(new RoundStore(fs, directory, std::move(notice)));
  TILEKV_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status RoundStore::Load() {
  MutexLock lock(mutex_);
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(directory_));
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", directory_, name);
    if (!std::string_view(name).ends_with(kSuffix)) {
      TILEKV_RETURN_IF_ERROR(fs_.Unlink(path));  // unfinished
      continue;
    }
    TILEKV_ASSIGN_OR_RETURN(std::string file, ReadFile(fs_, path, kMaxRoundFileBytes));
    absl::StatusOr<RoundPart> part = DecodePart(file);
    StoredRound* round = part.ok() ? FindOrAdd(part->domain, part->round) : nullptr;
    if (!part.ok() && notice_ != nullptr) {
      notice_(fmt::format("'{}' is left out: {}. What it is for is kept until the next round",
                          Printable(path), ErrorText(part.status())));
    }
    if (round == nullptr) {
      TILEKV_RETURN_IF_ERROR(fs_.Unlink(path));
      continue;
    }
    const uint64_t begin = part->ranges.front().first;
    round->parts[begin] = {std::move(part->ranges), path};
    RaiseFence(round->name.fence);
  }
  return absl::OkStatus();
}

std::string RoundStore::PathOf(const RoundPart& part) const {
  return fmt::format("{}/{:08x}-{:016x}-{}-{:016x}{}", directory_, part.domain,
                     part.round.snapshot.value, HexEncode(AsBytes(part.round.id)),
                     part.ranges.front().first, kSuffix);
}

void RoundStore::Remove(const StoredRound& round) {
  // One that stays is found, and removed, when the store is opened.
  for (const auto& [begin, part] : round.parts) fs_.Unlink(part.path).IgnoreError();
}

RoundStore::StoredRound* RoundStore::FindOrAdd(Domain domain, const RoundName& name) {
  Rounds& rounds = rounds_[domain];
  const auto same = [&](const StoredRound& round) { return round.name == name; };
  if (auto found = std::find_if(rounds.begin(), rounds.end(), same); found != rounds.end()) {
    return &*found;
  }
  if (!rounds.empty() && rounds.back().name.snapshot > name.snapshot) return nullptr;
  if (rounds.size() == kRoundsKept) {
    Remove(rounds.front());
    rounds.erase(rounds.begin());
  }
  return &rounds.emplace_back(StoredRound{.name = name, .parts = {}});
}

absl::Status RoundStore::Add(const RoundPart& part) {
  TILEKV_RETURN_IF_ERROR(CheckPart(part));
  const std::string path = PathOf(part);
  const uint64_t begin = part.ranges.front().first;
  MutexLock lock(mutex_);
  StoredRound* round = FindOrAdd(part.domain, part.round);
  if (round == nullptr || round != &rounds_[part.domain].back()) {
    return MakeError(Reason::kVersionConflict, "the lists of a later round are here already");
  }
  auto next = round->parts.lower_bound(begin);
  const bool again = next != round->parts.end() && next->first == begin;
  if (again && next->second.ranges == part.ranges) return absl::OkStatus();
  const bool below =
      next != round->parts.begin() && std::prev(next)->second.ranges.back().last >= begin;
  const bool above = next != round->parts.end() && next->first <= part.ranges.back().last;
  if (below || above) {
    return MakeError(Reason::kInvalidArgument,
                     "a part of a round's lists covers what another one covers");
  }
  TILEKV_RETURN_IF_ERROR(WriteFileAtomically(fs_, path, EncodePart(part)));
  round->parts[begin] = {part.ranges, path};
  RaiseFence(part.round.fence);
  return absl::OkStatus();
}

void RoundStore::RaiseFence(Revision fence) { fence_ = std::max<uint64_t>(fence_, fence.value); }

absl::StatusOr<std::shared_ptr<const RoundPart>> RoundStore::ReadPart(StoredRound& round,
                                                                      uint64_t begin) {
  const StoredPart& stored = round.parts.at(begin);
  if (read_ != nullptr && read_path_ == stored.path) return read_;
  absl::StatusOr<std::string> file = ReadFile(fs_, stored.path, kMaxRoundFileBytes);
  absl::StatusOr<RoundPart> part = file.ok() ? DecodePart(*file) : file.status();
  const bool whole = part.ok() && part->round == round.name && part->ranges == stored.ranges;
  if (!whole) {
    if (GetReason(part.status()) == Reason::kOverloaded) return part.status();
    if (notice_ != nullptr) {
      notice_(fmt::format("'{}' is left out from now on: {}", Printable(stored.path),
                          part.ok() ? "it is another part" : ErrorText(part.status())));
    }
    round.parts.erase(begin);
    return nullptr;
  }
  read_path_ = stored.path;
  read_ = std::make_shared<const RoundPart>(*std::move(part));
  return read_;
}

absl::StatusOr<std::optional<RoundName>> RoundStore::RefusedBy(std::string_view line_id,
                                                               Domain domain, const ObjectId& id,
                                                               Revision touched_rev) {
  const uint64_t prefix = id.Prefix64();
  MutexLock lock(mutex_);
  auto found = rounds_.find(domain);
  if (found == rounds_.end()) return std::nullopt;
  for (auto round = found->second.rbegin(); round != found->second.rend(); ++round) {
    if (round->name.line_id != line_id) continue;
    auto after = round->parts.upper_bound(prefix);
    if (after == round->parts.begin()) continue;
    const auto at = std::prev(after);
    if (!Covers(at->second.ranges, prefix)) continue;
    if (touched_rev >= round->name.fence) return std::nullopt;
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<const RoundPart> part, ReadPart(*round, at->first));
    if (part == nullptr ||
        std::binary_search(part->prefixes.begin(), part->prefixes.end(), prefix)) {
      return std::nullopt;
    }
    return round->name;
  }
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const RoundPart>> RoundStore::PartFrom(Domain domain,
                                                                      const RoundName& round,
                                                                      uint64_t prefix) {
  MutexLock lock(mutex_);
  for (StoredRound& stored : rounds_[domain]) {
    if (stored.name != round) continue;
    for (auto at = stored.parts.begin(); at != stored.parts.end();) {
      const uint64_t begin = (at++)->first;
      if (stored.parts.at(begin).ranges.back().last < prefix) continue;
      TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<const RoundPart> part, ReadPart(stored, begin));
      if (part != nullptr) return part;
    }
  }
  return nullptr;
}

}  // namespace tilekv
