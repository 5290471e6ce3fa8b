#include "kvstore/cluster/copy_listing.h"

#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// A slow disk reads so much within the time of a call.
constexpr uint64_t kVerifyStepBytes = 256 * kMiB;

}  // namespace

absl::StatusOr<PartitionPage> ListCopies(ObjectStore& objects, Domain domain,
                                         const std::optional<ObjectId>& after) {
  PartitionPage page{.rows = {}, .end = true};
  TILEKV_RETURN_IF_ERROR(objects.Scan(domain, after, [&page](const ObjectRow& row) {
    page.end = page.rows.size() < kMaxRepairBatch;
    if (page.end) page.rows.push_back({row.ref, row.touched_rev, row.state});
    return page.end;
  }));
  return page;
}

absl::StatusOr<VerifyAnswer> VerifyCopies(ObjectStore& objects, Domain domain,
                                          const std::optional<ObjectId>& after,
                                          const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(PartitionPage page, ListCopies(objects, domain, after));
  VerifyAnswer answer;
  for (size_t i = 0; i < page.rows.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    const ObjectRef& ref = page.rows[i].ref;
    const absl::StatusOr<bool> good = objects.Verify(domain, ref.id);
    if (GetReason(good.status()) != Reason::kNotFound) {
      TILEKV_RETURN_IF_ERROR(good.status());
      ++answer.copies;
      answer.bytes += ref.length;
      if (!*good) ++answer.damaged;
    }
    const bool last = page.end && i + 1 == page.rows.size();
    if (!last && (answer.bytes >= kVerifyStepBytes || i + 1 == page.rows.size())) {
      answer.next_after = ref.id;
      return answer;
    }
  }
  return answer;
}

}  // namespace tilekv
