// docs/limits.md says what kvstore/base/defaults.h says.
#include <cctype>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"

namespace tilekv {
namespace {

struct Row {
  std::string value;
  std::string constant;
};

// Rows of the form `| what | value | `constant` |`.
std::vector<Row> ReadRows() {
  static const std::regex kRow(R"(\|[^|]*\| *([^|]*[^| ]) *\| *`(k[A-Za-z0-9_]+)` *\|)");
  std::ifstream file(TILEKV_SOURCE_DIR "/docs/limits.md");
  std::vector<Row> rows;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, kRow)) rows.push_back({match[1], match[2]});
  }
  return rows;
}

// "64 KiB", "1,024 bytes", "2 %", "10 min", "7 days", "8" in bytes, seconds, milliseconds or plain
// numbers.
std::optional<uint64_t> ParseValue(const std::string& text) {
  static const std::regex kValue(R"(([0-9,]+)( (.+))?)");
  static const std::map<std::string, uint64_t> kUnits = {
      {"", 1},   {"bytes", 1}, {"%", 1},    {"KiB", kKiB}, {"MiB", kMiB},      {"GiB", kGiB},
      {"ms", 1}, {"s", 1},     {"min", 60}, {"h", 3600},   {"days", 24 * 3600}};
  std::smatch match;
  if (!std::regex_match(text, match, kValue)) return std::nullopt;
  const auto unit = kUnits.find(match[3]);
  if (unit == kUnits.end()) return std::nullopt;
  std::string digits;
  for (char c : match[1].str()) {
    if (std::isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return std::stoull(digits) * unit->second;
}

#define TILEKV_LIMIT(constant) \
  { #constant, static_cast < uint64_t>(constant) }
const std::map<std::string, uint64_t>& Constants() {
  static const std::map<std::string, uint64_t> kConstants = {
      TILEKV_LIMIT(kCollectEvery_s),
      TILEKV_LIMIT(kCollectHoldBytes),
      TILEKV_LIMIT(kCollectHoldPercent),
      TILEKV_LIMIT(kCollectorLease_s),
      TILEKV_LIMIT(kCollectMemoryBytes),
      TILEKV_LIMIT(kRoundNodes),
      TILEKV_LIMIT(kRoundPartBytes),
      TILEKV_LIMIT(kScrubLeastBytesPerSecond),
      TILEKV_LIMIT(kScrubPeriod_s),
      TILEKV_LIMIT(kDefaultMaxObjectBytes),
      TILEKV_LIMIT(kLeastMaxObjectBytes),
      TILEKV_LIMIT(kGreatestMaxObjectBytes),
      TILEKV_LIMIT(kLeafBytes),
      TILEKV_LIMIT(kBlockBytes),
      TILEKV_LIMIT(kMaxLevel),
      TILEKV_LIMIT(kMaxChildren),
      TILEKV_LIMIT(kInlineContentBytes),
      TILEKV_LIMIT(kMaxKeyBytes),
      TILEKV_LIMIT(kInlineValueBytes),
      TILEKV_LIMIT(kLocalInlineValueBytes),
      TILEKV_LIMIT(kMaxBatchOperations),
      TILEKV_LIMIT(kMaxBatchBytes),
      TILEKV_LIMIT(kPutsAtOnce),
      TILEKV_LIMIT(kMaxGroupedPuts),
      TILEKV_LIMIT(kGroupedPutBytes),
      TILEKV_LIMIT(kMaxListPageEntries),
      TILEKV_LIMIT(kChunkBytes),
      TILEKV_LIMIT(kMaxNameBytes),
      TILEKV_LIMIT(kMaxTensorNameBytes),
      TILEKV_LIMIT(kMaxRank),
      TILEKV_LIMIT(kDefaultTileBytes),
      TILEKV_LIMIT(kPackBelowBytes),
      TILEKV_LIMIT(kMaxPackBytes),
      TILEKV_LIMIT(kMinBandedBytes),
      TILEKV_LIMIT(kManifestPageBytes),
      TILEKV_LIMIT(kMaxSafetensorsHeaderBytes),
      TILEKV_LIMIT(kMaxJsonDepth),
      TILEKV_LIMIT(kDefaultServerMemoryBytes),
      TILEKV_LIMIT(kClientMemoryShare),
      TILEKV_LIMIT(kGreatestDefaultClientMemoryBytes),
      TILEKV_LIMIT(kLeastMemoryBytes),
      TILEKV_LIMIT(kTransferChunkBytes),
      TILEKV_LIMIT(kMaxReceiveBytes),
      TILEKV_LIMIT(kDefaultPort),
      TILEKV_LIMIT(kDefaultHttpPort),
      TILEKV_LIMIT(kReservePercent),
      TILEKV_LIMIT(kReserveMinBytes),
      TILEKV_LIMIT(kReserveMaxBytes),
      TILEKV_LIMIT(kBallastBytes),
      TILEKV_LIMIT(kBallastOnDisksOverBytes),
      TILEKV_LIMIT(kSessionLease_s),
      TILEKV_LIMIT(kSessionDetachedLease_s),
      TILEKV_LIMIT(kSessionMax_s),
      TILEKV_LIMIT(kDeleteGrace_s),
      TILEKV_LIMIT(kVerifiedFor_s),
      TILEKV_LIMIT(kDefaultReplication),
      TILEKV_LIMIT(kMaxReplication),
      TILEKV_LIMIT(kDefaultMinCopies),
      TILEKV_LIMIT(kDefaultPartitionBits),
      TILEKV_LIMIT(kMaxPartitionBits),
      TILEKV_LIMIT(kMaxClusterNodes),
      TILEKV_LIMIT(kMaxNodeIdBytes),
      TILEKV_LIMIT(kMaxNodePlaceBytes),
      TILEKV_LIMIT(kMaxNodeWeight),
      TILEKV_LIMIT(kMaxClusterMapBytes),
      TILEKV_LIMIT(kDefaultOutAfter_s),
      TILEKV_LIMIT(kGreatestOutAfter_s),
      TILEKV_LIMIT(kAutomaticOutPercent),
      TILEKV_LIMIT(kDefaultRepairBytesPerSecond),
      TILEKV_LIMIT(kLeastRepairBytesPerSecond),
      TILEKV_LIMIT(kRepairRoundEvery_s),
      TILEKV_LIMIT(kRepairPullsAtOnce),
      TILEKV_LIMIT(kMaxRepairList),
      TILEKV_LIMIT(kMaxRepairBatch),
      TILEKV_LIMIT(kDropAnswerCounts_ms),
      TILEKV_LIMIT(kCopyStall_ms),
      TILEKV_LIMIT(kHedgeReadAfter_ms),
      TILEKV_LIMIT(kPeerCall_ms),
      TILEKV_LIMIT(kNodeLease_s),
      TILEKV_LIMIT(kHeartbeatEvery_ms),
      TILEKV_LIMIT(kNodeFiguresEvery_s),
      TILEKV_LIMIT(kEtcdQuotaBytes),
      TILEKV_LIMIT(kEtcdWarnPercent),
      TILEKV_LIMIT(kEtcdRefusePercent),
      TILEKV_LIMIT(kEtcdLookEvery_s),
      TILEKV_LIMIT(kEtcdTimeout_ms),
      TILEKV_LIMIT(kEtcdTry_ms),
      TILEKV_LIMIT(kEtcdTxnOperations),
      TILEKV_LIMIT(kEtcdRequestBytes),
      TILEKV_LIMIT(kEtcdGroupTransactions),
      TILEKV_LIMIT(kEtcdGroupBytes),
      TILEKV_LIMIT(kRetryFor_s),
      TILEKV_LIMIT(kProgressTimeout_s),
      TILEKV_LIMIT(kOverloadedRetry_s),
      TILEKV_LIMIT(kTransferQueue_s),
      TILEKV_LIMIT(kSlowCall_ms),
      TILEKV_LIMIT(kSlowCallLinesPerMinute),
      TILEKV_LIMIT(kSlowClient_s),
      TILEKV_LIMIT(kStalledTransfer_s),
      TILEKV_LIMIT(kLeastTransferBytes),
      TILEKV_LIMIT(kSlowClientWaits_s),
      TILEKV_LIMIT(kShortReadBytes),
      TILEKV_LIMIT(kMaxWaitingReads),
      TILEKV_LIMIT(kMaxWaitingCalls),
      TILEKV_LIMIT(kHandshakeTimeout_s),
      TILEKV_LIMIT(kMaxHttpConnections),
      TILEKV_LIMIT(kHttpTimeout_s),
      TILEKV_LIMIT(kMaxExplicitTiles),
      TILEKV_LIMIT(kLeastExplicitTileBytes),
  };
  return kConstants;
}
#undef TILEKV_LIMIT

TEST(Limits, EveryNumberInTheDocsIsTheConstants) {
  for (const Row& row : ReadRows()) {
    const auto constant = Constants().find(row.constant);
    ASSERT_NE(constant, Constants().end())
        << row.constant << " stands in docs/limits.md and is not checked by this test";
    EXPECT_EQ(ParseValue(row.value), std::optional<uint64_t>(constant->second))
        << row.constant << " is documented as " << row.value;
  }
}

TEST(Limits, EveryConstantIsInTheDocsOnce) {
  std::vector<std::string> documented, expected;
  for (const Row& row : ReadRows()) documented.push_back(row.constant);
  for (const auto& [name, value] : Constants()) expected.push_back(name);
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(expected));
}

}  // namespace
}  // namespace tilekv
