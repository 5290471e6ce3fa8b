// What can be checked on the copies of a store without reading their content: that rows, files and
// small contents belong together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/file_system.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Kinds of problems that are not all alike to who repairs: the copy itself is sound; its bytes are
// bad, beyond doubt.
inline constexpr std::string_view kIndexProblem = "index";
inline constexpr std::string_view kPayloadProblem = "payload";

struct CopyCheckParts {
  FileSystem* file_system = nullptr;
  ObjectIndex* index = nullptr;
  std::string directory;
  std::string store_uuid;
  // Before a problem is believed: what the rows say by now.
  std::function<absl::Status()> refresh;
};

struct CopyCheckResult {
  StoreUsage counted;       // of all rows, as StoreUsage has them
  absl::Status unreadable;  // not OK: not of all, the index does not give some of them
};

// Goes through all rows of the domain that can be read but those that are quarantined already.
// `found` is told of each whose file is gone, cannot be read, is too short or another's, whose
// small content is gone, cannot be read or does not hash to its id, or whose file's number is not
// the row's in the index. Rows that changed meanwhile are none of them.
using BadCopyFound = std::function<absl::Status(const ObjectRow& row, const CopyProblem& problem)>;
absl::StatusOr<CopyCheckResult> CheckAllCopies(const CopyCheckParts& parts, Domain domain,
                                               const BadCopyFound& found,
                                               const CallContext& context);

// The problem that the index itself is.
CopyProblem IndexDamaged(const absl::Status& error);

// For whoever goes on behind rows that cannot be read: ids are hashes, and a few such steps are as
// far as from one to the next of so many. None: there are none above.
std::optional<ObjectId> StepAbove(const std::optional<ObjectId>& after, uint64_t objects);

}  // namespace tilekv
