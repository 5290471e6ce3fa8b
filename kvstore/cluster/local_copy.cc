#include "kvstore/cluster/local_copy.h"

#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

class LocalCopy : public CopyWriter {
 public:
  LocalCopy(ObjectStore& local, std::unique_ptr<ObjectWriter> writer, Revision touched_rev)
      : local_(local), writer_(std::move(writer)), touched_rev_(touched_rev) {}

  absl::Status Append(SharedBytes stored, std::span<const uint32_t> table) override {
    return writer_->Append(stored.bytes, table);
  }
  absl::StatusOr<CopyAnswer> Finish() override {
    TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer_->Finish());
    return CopyAnswer{
        .store_uuid = local_.store_uuid(), .touched_rev = touched_rev_, .stored = outcome.stored};
  }

 private:
  ObjectStore& local_;
  const std::unique_ptr<ObjectWriter> writer_;
  const Revision touched_rev_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopyWriter>> NewLocalCopy(ObjectStore& local, const PutSpec& spec) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, local.NewWriter(spec));
  return std::make_unique<LocalCopy>(local, std::move(writer), spec.touched_rev);
}

}  // namespace tilekv
