#include "kvstore/object/incoming_content.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"

namespace tilekv {
namespace {

absl::Status Invalid(std::string text) { return MakeError(Reason::kInvalidArgument, text); }

absl::Status MoreThanDeclared(uint64_t declared) {
  return Invalid(fmt::format("the content goes on past its declared {} bytes", declared));
}

}  // namespace

std::optional<uint64_t> DeclaredLength(const PutSpec& spec) {
  if (spec.expected.has_value()) return spec.expected->length;
  return spec.length;
}

absl::Status CheckPutSpec(const PutSpec& spec, uint64_t max_object_bytes) {
  if (spec.level > kMaxLevel) {
    return Invalid(fmt::format("level {} is above {}", spec.level, kMaxLevel));
  }
  if (spec.expected.has_value() && spec.expected->level != spec.level) {
    return Invalid(
        fmt::format("the object's level is {}, the put's {}", spec.expected->level, spec.level));
  }
  if (spec.expected.has_value() && spec.length.has_value() &&
      *spec.length != spec.expected->length) {
    return Invalid(fmt::format("the object has {} bytes, the put declares {}",
                               spec.expected->length, *spec.length));
  }
  std::optional<uint64_t> length = DeclaredLength(spec);
  if (length.has_value() && *length > max_object_bytes) {
    return ObjectTooLarge(*length, max_object_bytes);
  }
  if (!IsKnownEncoding(spec.encoding)) {
    return Invalid(fmt::format("encoding '{}' is not known here", EncodingName(spec.encoding)));
  }
  if (spec.encoding.kind != EncodingKind::kNone && !length.has_value()) {
    return Invalid("a coded put declares the length of its content");
  }
  return absl::OkStatus();
}

IncomingContent::IncomingContent(const PutSpec& spec, uint64_t max_object_bytes,
                                 std::shared_ptr<BufferPool> pool)
    : spec_(spec),
      max_object_bytes_(max_object_bytes),
      declared_length_(DeclaredLength(spec)),
      pool_(std::move(pool)) {
  if (spec_.encoding.kind != EncodingKind::kNone) codec_ = *NewBlockCodec(spec_.encoding);
  if (spec_.level > 0) tree_.emplace(spec_.level);
}

absl::Status IncomingContent::Append(Bytes stored, std::span<const uint32_t> table) {
  if (codec_ == nullptr) {
    if (!table.empty()) return Invalid("content that is not coded has no block table");
    TILEKV_RETURN_IF_ERROR(AppendContent(stored));
    stored_length_ += stored.size();
    return absl::OkStatus();
  }
  for (uint32_t entry : table) {
    uint64_t length = entry & ~kRawBlockBit;
    if (length > stored.size()) return Invalid("a coded put comes in whole blocks");
    TILEKV_RETURN_IF_ERROR(AppendBlock(stored.first(length), entry));
    stored = stored.subspan(length);
  }
  if (!stored.empty()) return Invalid("a coded put comes in whole blocks");
  return absl::OkStatus();
}

absl::Status IncomingContent::AppendBlock(Bytes stored, uint32_t entry) {
  uint64_t start = hasher_.length();
  if (start >= *declared_length_) return MoreThanDeclared(*declared_length_);
  if (!block_) block_ = pool_->Get(kBlockBytes);
  MutableBytes content{block_.data(), std::min(kBlockBytes, *declared_length_ - start)};
  // What a reader will refuse is never stored.
  TILEKV_RETURN_IF_ERROR(CheckBlockEntry(block_table_.size(), content.size(), entry));
  TILEKV_RETURN_IF_ERROR(codec_->Decode(stored, entry, content));
  TILEKV_RETURN_IF_ERROR(AppendContent(content));
  stored_length_ += stored.size();
  block_table_.push_back(entry);
  return absl::OkStatus();
}

absl::Status IncomingContent::AppendContent(Bytes content) {
  uint64_t length = hasher_.length();
  if (declared_length_.has_value()) {
    if (content.size() > *declared_length_ - length) return MoreThanDeclared(*declared_length_);
  } else if (content.size() > max_object_bytes_ - length) {
    return ObjectGrewTooLarge(max_object_bytes_);
  }
  hasher_.Update(content);
  if (tree_) tree_->Add(content);
  return absl::OkStatus();
}

absl::StatusOr<ObjectRef> IncomingContent::Finish() {
  uint64_t length = hasher_.length();
  if (declared_length_.has_value() && length != *declared_length_) {
    return Invalid(fmt::format("the content ended after {} of {} bytes", FormatCount(length),
                               FormatCount(*declared_length_)));
  }
  leaves_ = hasher_.Finish();
  ObjectRef ref{
      .id = IdFromLeaves(spec_.level, length, leaves_), .level = spec_.level, .length = length};
  if (spec_.expected.has_value() && ref.id != spec_.expected->id) {
    return ObjectDamaged(*spec_.expected,
                         fmt::format("the bytes that came hash to {}", ref.id.Short()));
  }
  if (tree_) TILEKV_RETURN_IF_ERROR(tree_->Finish(length));
  return ref;
}

}  // namespace tilekv
