#include "kvstore/value_put.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr size_t kRequestIdBytes = 16;
// Content of other sources up to here is read first, so that it can be sent again.
constexpr uint64_t kKeptBytes = kTransferChunkBytes;

// What one try took of a source. With its end not reached, no transaction was sent.
class WatchedSource : public ByteSource {
 public:
  explicit WatchedSource(ByteSource& source) : source_(source) {}
  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    taken_ = true;
    absl::StatusOr<uint64_t> read = source_.Read(out);
    ended_ = ended_ || (read.ok() && *read == 0);
    return read;
  }
  std::optional<uint64_t> length() const override { return source_.length(); }
  bool taken() const { return taken_; }
  bool ended() const { return ended_; }

 private:
  ByteSource& source_;
  bool taken_ = false;
  bool ended_ = false;
};

// What was read already, then the rest.
class ChainedSource : public ByteSource {
 public:
  ChainedSource(Bytes begun, ByteSource& rest) : begun_(begun), rest_(rest) {}
  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    TILEKV_ASSIGN_OR_RETURN(uint64_t read, begun_.Read(out));
    return read > 0 ? absl::StatusOr<uint64_t>(read) : rest_.Read(out);
  }
  std::optional<uint64_t> length() const override { return rest_.length(); }

 private:
  SpanSource begun_;
  ByteSource& rest_;
};

// Fills `out` as far as the source goes.
absl::StatusOr<uint64_t> ReadFull(ByteSource& source, MutableBytes out) {
  uint64_t filled = 0;
  while (filled < out.size()) {
    TILEKV_ASSIGN_OR_RETURN(uint64_t read, source.Read(out.subspan(filled)));
    if (read == 0) break;
    filled += read;
  }
  return filled;
}

PutResult ToResult(const v1::PutValueOutcome& outcome) {
  return {outcome.applied(), outcome.version(), outcome.length()};
}

}  // namespace

void SetCondition(const WriteCondition& condition, v1::Condition* message) {
  switch (condition.kind) {
    case WriteCondition::Kind::kNone:
      break;
    case WriteCondition::Kind::kAbsent:
      message->set_absent(true);
      break;
    case WriteCondition::Kind::kVersion:
      message->set_version(condition.version);
      break;
  }
}

absl::StatusOr<PutResult> ValuePut::Send(v1::PutValueHeader header, ByteSource* source,
                                         const CallContext& context) {
  auto* span = dynamic_cast<SpanSource*>(source);
  RetryPolicy policy(retry_, context);
  bool unknown = false;  // a try ended without an answer after it may have sent its transaction
  while (true) {
    std::optional<SpanSource> copy;
    if (span != nullptr) copy.emplace(*span);
    SpanSource nothing{Bytes()};
    WatchedSource watched(copy                ? *copy
                          : source != nullptr ? *source
                                              : static_cast<ByteSource&>(nothing));
    std::optional<Revision> fixed;
    auto result = node_.PutValue(
        header, source == nullptr ? nullptr : &watched,
        [&fixed](Revision compare) { fixed = compare; }, context);
    if (result.ok()) return ToResult(*result);
    Reason reason = GetReason(result.status());
    bool sent = fixed && (source == nullptr || watched.ended());
    bool definite = reason == Reason::kOverloaded || reason == Reason::kSessionLost;
    if (sent && (reason == Reason::kNodeUnavailable || reason == Reason::kDeadlineExceeded ||
                 reason == Reason::kCancelled)) {
      unknown = true;
      header.set_compare(fixed->value);
    }
    bool readable = span != nullptr || source == nullptr || !watched.taken();
    // A root's session is the caller's: when it is lost, a new try finds nothing else.
    bool again = reason == Reason::kNodeUnavailable || reason == Reason::kOverloaded ||
                 (definite && !header.has_root());
    if (again && readable && policy.TryAgain(result.status())) continue;
    if (reason == Reason::kOutcomeUnknown) return result.status();
    if (!unknown) return policy.Outcome(result.status());
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("key '{}': the write may have happened or not: {}",
                                 Printable(header.key()), ErrorText(result.status())));
  }
}

absl::StatusOr<PutResult> ValuePut::Put(std::string_view key, ByteSource& source,
                                        const PutOptions& options) {
  TILEKV_RETURN_IF_ERROR(CheckKey(key));
  v1::PutValueHeader header;
  header.set_key(std::string(key));
  header.set_request_id(retry_.random->Bytes(kRequestIdBytes));
  SetCondition(options.condition, header.mutable_condition());
  if (source.length()) header.set_length(*source.length());
  bool small = source.length().value_or(0) <= kKeptBytes;
  if (!small || dynamic_cast<SpanSource*>(&source) != nullptr) {
    return Send(std::move(header), &source, options.context);
  }
  Buffer kept = pool_.Get(kKeptBytes);
  TILEKV_ASSIGN_OR_RETURN(uint64_t read, ReadFull(source, kept.span()));
  Bytes begun = Bytes(kept.span()).first(read);
  if (read == kKeptBytes) {
    ChainedSource chained(begun, source);
    return Send(std::move(header), &chained, options.context);
  }
  SpanSource whole(begun);
  return Send(std::move(header), &whole, options.context);
}

absl::StatusOr<PutResult> ValuePut::PutChunked(std::string_view key, ByteSource& source,
                                               UploadSession& session, uint64_t max_object_bytes,
                                               const PutOptions& options) {
  auto put_if_missing = [&](const ObjectRef& ref, Bytes content) -> absl::Status {
    TILEKV_ASSIGN_OR_RETURN(std::vector<bool> present, session.Link({&ref, 1}, options.context));
    return present[0] ? absl::OkStatus() : session.Put(ref, content, {}, options.context).status();
  };
  ChunkedBlobBuilder builder(max_object_bytes, [&](const ObjectRef& ref, std::string content) {
    return put_if_missing(ref, AsBytes(content));
  });
  Buffer buffer = pool_.Get(ChunkBytes(max_object_bytes));
  uint64_t total = 0;
  while (true) {
    TILEKV_RETURN_IF_ERROR(options.context.Check());
    TILEKV_ASSIGN_OR_RETURN(uint64_t read, ReadFull(source, buffer.span()));
    if (read == 0) break;
    total += read;
    Bytes piece = Bytes(buffer.span()).first(read);
    ObjectRef ref = RefOf(0, piece);
    TILEKV_RETURN_IF_ERROR(put_if_missing(ref, piece));
    TILEKV_RETURN_IF_ERROR(builder.Add(ref));
    if (read < buffer.size()) break;
  }
  if (source.length() && *source.length() != total) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("key '{}': {} bytes came of the declared {}", Printable(key),
                                 FormatCount(total), FormatCount(*source.length())));
  }
  TILEKV_ASSIGN_OR_RETURN(BlobChunk root, builder.Finish());
  v1::PutValueHeader header;
  header.set_key(std::string(key));
  header.set_request_id(retry_.random->Bytes(kRequestIdBytes));
  SetCondition(options.condition, header.mutable_condition());
  ObjectRefToWire(root.ref, header.mutable_root());
  header.set_root_length(total);
  header.set_token(session.token());
  header.set_session_rev(session.session_rev().value);
  return Send(std::move(header), nullptr, options.context);
}

absl::StatusOr<std::vector<PutResult>> ValuePut::PutBatch(const std::vector<BatchPutEntry>& entries,
                                                          const CallContext& context) {
  v1::BatchPutRequest request;
  request.set_request_id(retry_.random->Bytes(kRequestIdBytes));
  for (const BatchPutEntry& entry : entries) {
    v1::BatchPutItem& item = *request.add_items();
    item.set_key(entry.key);
    item.set_content(entry.content);
    SetCondition(entry.condition, item.mutable_condition());
  }
  RetryPolicy policy(retry_, context);
  while (true) {
    std::vector<uint64_t> fixed;
    auto result = node_.BatchPut(
        request,
        [&fixed](const std::vector<uint64_t>& compares) {
          fixed = compares;
          return absl::OkStatus();
        },
        context);
    if (result.ok()) {
      std::vector<PutResult> results;
      for (const v1::PutValueOutcome& outcome : result->outcomes()) {
        results.push_back(ToResult(outcome));
      }
      return results;
    }
    Reason reason = GetReason(result.status());
    // From here on a failed compare may be the work of the first try.
    if (reason == Reason::kNodeUnavailable && !fixed.empty()) {
      request.mutable_compares()->Assign(fixed.begin(), fixed.end());
    }
    bool again = reason == Reason::kNodeUnavailable || reason == Reason::kOverloaded;
    if (again && policy.TryAgain(result.status())) continue;
    if (reason == Reason::kOutcomeUnknown) return result.status();
    if (request.compares_size() == 0) return policy.Outcome(result.status());
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("some of the batch may have been written, or all, or none: {}",
                                 ErrorText(result.status())));
  }
}

}  // namespace tilekv
