#include "kvstore/node/recoding.h"

#include <optional>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/codec_choice.h"
#include "kvstore/object/recode.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// A step ends with the object that brings it past one of these.
constexpr uint64_t kStepContentBytes = 128 * kMiB;
constexpr uint64_t kStepRows = 4'096;
constexpr int kMaxRefs = 1'024;

bool IsRecoded(const ObjectRow& row) {
  return row.ref.level == 0 && row.state == RowState::kGood &&
         row.ref.length >= kInlineContentBytes;
}

class Step {
 public:
  Step(NodeContext& node, Codec codec, bool dry_run) : node_(node), codec_(codec), dry_(dry_run) {}

  absl::Status Take(const ObjectRow& row) {
    auto outcome = RecodeObject(node_.objects, *node_.pool, node_.domain, row.ref.id, codec_, dry_);
    if (absl::IsNotFound(outcome.status())) return absl::OkStatus();  // gone, or another by now
    response_.set_objects(response_.objects() + 1);
    response_.set_content_bytes(response_.content_bytes() + row.ref.length);
    if (GetReason(outcome.status()) == Reason::kDataLoss) {
      response_.set_damaged(response_.damaged() + 1);
      outcome =
          RecodeOutcome{.stored_before = row.stored_length, .stored_after = row.stored_length};
    }
    TILEKV_RETURN_IF_ERROR(outcome.status());
    response_.set_changed(response_.changed() + (outcome->changed ? 1 : 0));
    response_.set_stored_before(response_.stored_before() + outcome->stored_before);
    response_.set_stored_after(response_.stored_after() + outcome->stored_after);
    return absl::OkStatus();
  }
  v1::RecodeResponse& response() { return response_; }

 private:
  NodeContext& node_;
  const Codec codec_;
  const bool dry_;
  v1::RecodeResponse response_;
};

absl::StatusOr<std::optional<ObjectId>> IdFrom(const std::string& text) {
  if (text.empty()) return std::optional<ObjectId>();
  ObjectId id;
  if (text.size() != id.bytes.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("an object id has 32 bytes, not {}", text.size()));
  }
  std::copy(text.begin(), text.end(), id.bytes.begin());
  return std::optional<ObjectId>(id);
}

}  // namespace

absl::StatusOr<v1::RecodeResponse> RunRecode(NodeContext& node, const v1::RecodeRequest& request,
                                             const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(Codec codec, ParseCodec(request.codec()));
  if (request.refs_size() > kMaxRefs) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{} objects in one call; at most {} are taken", request.refs_size(), kMaxRefs));
  }
  Step step(node, codec, request.dry_run());
  std::vector<ObjectRow> rows;
  bool more = false;
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, node.objects.Stat(node.domain, ref.id));
    if (row.has_value() && row->ref == ref && IsRecoded(*row)) rows.push_back(*row);
  }
  if (request.refs().empty()) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectId> after, IdFrom(request.after()));
    uint64_t seen = 0;
    uint64_t bytes = 0;
    ObjectId last;
    TILEKV_RETURN_IF_ERROR(node.objects.Scan(node.domain, after, [&](const ObjectRow& row) {
      more = seen == kStepRows || bytes >= kStepContentBytes;
      if (more) return false;
      ++seen;
      last = row.ref.id;
      if (!IsRecoded(row)) return true;
      rows.push_back(row);
      bytes += row.ref.length;
      return true;
    }));
    if (more) step.response().set_next(last.bytes.data(), last.bytes.size());
  }
  for (const ObjectRow& row : rows) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_RETURN_IF_ERROR(step.Take(row));
  }
  return step.response();
}

}  // namespace tilekv
