#include "kvstore/cluster/round_part_format.h"

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

constexpr std::string_view kMagic = "tilekv-round 1\n";
constexpr size_t kNameBytes = 16;  // of a round's id, of a line's
constexpr size_t kCheckBytes = sizeof(LeafHash);

absl::Status Damaged(const char* what) { return MakeError(Reason::kDataLoss, what); }

absl::Status NotAPart(const char* what) { return MakeError(Reason::kInvalidArgument, what); }

}  // namespace

absl::Status CheckPart(const RoundPart& part) {
  if (part.round.id.size() != kNameBytes || part.round.line_id.size() != kNameBytes) {
    return NotAPart("a round and its line have names of 16 bytes");
  }
  const uint64_t bytes =
      part.ranges.size() * sizeof(PrefixRange) + part.prefixes.size() * sizeof(uint64_t);
  if (part.ranges.empty() || bytes > kRoundPartBytes) {
    return NotAPart("a part of a round's lists covers nothing, or is too large");
  }
  for (size_t i = 0; i < part.ranges.size(); ++i) {
    const PrefixRange& range = part.ranges[i];
    if (range.first > range.last || (i > 0 && part.ranges[i - 1].last >= range.first)) {
      return NotAPart("the ranges of a part of a round's lists are not in order");
    }
  }
  auto range = part.ranges.begin();
  for (size_t i = 0; i < part.prefixes.size(); ++i) {
    const uint64_t prefix = part.prefixes[i];
    while (range != part.ranges.end() && range->last < prefix) ++range;
    if (range == part.ranges.end() || !range->Contains(prefix) ||
        (i > 0 && part.prefixes[i - 1] >= prefix)) {
      return NotAPart("a part of a round's lists is not in order, or has what it does not cover");
    }
  }
  return absl::OkStatus();
}

std::string EncodePart(const RoundPart& part) {
  std::string file(kMagic);
  AppendLe<uint32_t>(file, part.domain);
  AppendLe(file, part.round.snapshot.value);
  AppendLe(file, part.round.fence.value);
  file += part.round.line_id;
  file += part.round.id;
  AppendLe<uint32_t>(file, static_cast<uint32_t>(part.ranges.size()));
  AppendLe<uint32_t>(file, static_cast<uint32_t>(part.prefixes.size()));
  for (const PrefixRange& range : part.ranges) {
    AppendLe(file, range.first);
    AppendLe(file, range.last);
  }
  for (uint64_t prefix : part.prefixes) AppendLe(file, prefix);
  file += AsText(Blake3(AsBytes(file)));
  return file;
}

absl::StatusOr<RoundPart> DecodePart(std::string_view file) {
  if (file.size() < kMagic.size() + kCheckBytes || file.substr(0, kMagic.size()) != kMagic) {
    return Damaged("it does not begin as a part of a round's lists");
  }
  const std::string_view body = file.substr(0, file.size() - kCheckBytes);
  if (AsText(Blake3(AsBytes(body))) != file.substr(body.size())) {
    return Damaged("its check does not hold");
  }
  ByteReader reader(AsBytes(body.substr(kMagic.size())));
  RoundPart part;
  part.domain = reader.Read<uint32_t>();
  part.round.snapshot.value = reader.Read<uint64_t>();
  part.round.fence.value = reader.Read<uint64_t>();
  part.round.line_id = AsText(reader.Take(kNameBytes));
  part.round.id = AsText(reader.Take(kNameBytes));
  const uint64_t ranges = reader.Read<uint32_t>();
  const uint64_t prefixes = reader.Read<uint32_t>();
  if (reader.rest().size() != ranges * sizeof(PrefixRange) + prefixes * sizeof(uint64_t)) {
    return Damaged("it has not as many ranges and prefixes as it says");
  }
  part.ranges.reserve(ranges);
  for (uint64_t i = 0; i < ranges; ++i) {
    PrefixRange& range = part.ranges.emplace_back();
    range.first = reader.Read<uint64_t>();
    range.last = reader.Read<uint64_t>();
  }
  part.prefixes.reserve(prefixes);
  for (uint64_t i = 0; i < prefixes; ++i) part.prefixes.push_back(reader.Read<uint64_t>());
  if (!CheckPart(part).ok()) return Damaged("its ranges and prefixes are not in order");
  return part;
}

}  // namespace tilekv
