#include "kvstore/object/copy_check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/stored_copy.h"
#include "kvstore/object/usage_counter.h"

namespace tilekv {
namespace {

constexpr size_t kRowsAtOnce = 1'024;  // looked at between two looks at the index

// None where the row's copy is as the row says.
absl::StatusOr<std::optional<CopyProblem>> FindProblem(const CopyCheckParts& parts, Domain domain,
                                                       const ObjectRow& row) {
  auto problem = [&row](std::string_view kind, std::string text) {
    return CopyProblem{.kind = std::string(kind), .id = row.ref.id, .text = std::move(text)};
  };
  absl::Status opened;
  if (row.file_number == 0) {
    auto value = parts.index->GetContent(domain, row.ref.id);
    if (GetReason(value.status()) == Reason::kDataLoss) {
      return problem("unreadable", ErrorText(value.status()));
    }
    TILEKV_RETURN_IF_ERROR(value.status());
    if (!value->has_value()) return problem("no-payload", "its content is not in the index");
    auto copy = OpenSmallContent(**std::move(value), row, nullptr);
    // Its leaves were recomputed from what it holds, so they tell.
    opened = copy.ok() ? VerifyLeafTable(row.ref, (*copy)->leaves()) : copy.status();
  } else {
    std::string path = PayloadPath(parts.directory, row.file_number);
    opened = OpenPayload(parts.file_system, path, parts.store_uuid, domain, row, nullptr).status();
    if (absl::IsNotFound(opened)) {
      return problem("no-payload", fmt::format("its file {} is gone", row.file_number));
    }
    auto named = parts.index->IsNamed(row.file_number);
    if (opened.ok() && GetReason(named.status()) == Reason::kDataLoss) {
      return problem("unreadable", ErrorText(named.status()));
    }
    TILEKV_RETURN_IF_ERROR(named.status());
    if (opened.ok() && !*named) {
      return problem(kIndexProblem,
                     fmt::format("its file {} has no name in the index and would be taken "
                                 "for one that nobody needs",
                                 row.file_number));
    }
  }
  if (opened.ok()) return std::nullopt;
  if (GetReason(opened) != Reason::kDataLoss) return opened;
  return problem(IsUnreadable(opened) ? "unreadable" : kPayloadProblem,
                 std::string(opened.message().data(), opened.message().size()));
}

absl::Status CheckRow(const CopyCheckParts& parts, Domain domain, const ObjectRow& row,
                      const BadCopyFound& found) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CopyProblem> problem, FindProblem(parts, domain, row));
  if (!problem) return absl::OkStatus();
  // Deleted or replaced between the two looks?
  if (parts.refresh != nullptr) TILEKV_RETURN_IF_ERROR(parts.refresh());
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> now, parts.index->Get(domain, row.ref.id));
  if (!now || now->file_number != row.file_number) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(problem, FindProblem(parts, domain, *now));
  return problem ? found(*now, *problem) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<CopyCheckResult> CheckAllCopies(const CopyCheckParts& parts, Domain domain,
                                               const BadCopyFound& found,
                                               const CallContext& context) {
  UsageCounter counter;
  CopyCheckResult result;
  std::optional<ObjectId> after;
  while (true) {
    std::vector<ObjectRow> rows;
    absl::Status scanned = parts.index->Scan(domain, after, [&rows](const ObjectRow& row) {
      rows.push_back(row);
      return rows.size() < kRowsAtOnce;
    });
    if (!scanned.ok() && GetReason(scanned) != Reason::kDataLoss) return scanned;
    if (!scanned.ok()) result.unreadable.Update(scanned);  // keeps the first
    if (!rows.empty()) {
      after = rows.back().ref.id;
    } else if (!scanned.ok()) {
      after = StepAbove(after, parts.index->EstimateRows());
    }
    if (rows.empty() && (scanned.ok() || !after.has_value())) break;
    TILEKV_RETURN_IF_ERROR(context.Check());
    for (const ObjectRow& row : rows) {
      TILEKV_RETURN_IF_ERROR(context.Check());
      counter.Replace(std::nullopt, row);
      if (row.state == RowState::kQuarantined) continue;
      TILEKV_RETURN_IF_ERROR(CheckRow(parts, domain, row, found));
    }
  }
  result.counted = counter.Get();
  return result;
}

CopyProblem IndexDamaged(const absl::Status& error) {
  return {.kind = std::string(kIndexProblem),
          .id = std::nullopt,
          .text = fmt::format("{}; 'tilekv store fsck --rebuild-index' makes it anew",
                              ErrorText(error))};
}

std::optional<ObjectId> StepAbove(const std::optional<ObjectId>& after, uint64_t objects) {
  constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();
  const uint64_t step = std::max<uint64_t>(kEnd / (4 * objects + 4), 1);
  uint64_t place = after.has_value() ? after->Prefix64() : 0;
  if (place > kEnd - step) return std::nullopt;
  std::string head;
  AppendBe64(head, place + step);
  ObjectId above;
  std::copy(head.begin(), head.end(), above.bytes.begin());
  return above;
}

}  // namespace tilekv
