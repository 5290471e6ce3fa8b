#include "kvstore/value_put.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/node/model_records.h"
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

// A call that only ends by itself: what others wait for must not depend on one caller's patience.
bool IsUnbounded(const CallContext& context) {
  return context.cancel == nullptr && context.deadline_ns == CallContext().deadline_ns;
}

bool IsWorthAWait(const absl::Status& failed) {
  Reason reason = GetReason(failed);
  return reason == Reason::kNodeUnavailable || reason == Reason::kOverloaded;
}

absl::Status Overtaken(std::string_view key) {
  return MakeError(
      Reason::kVersionConflict,
      fmt::format("key '{}' was written by another while this put came, and its source "
                  "cannot be read twice; nothing was written: put it again",
                  Printable(key)));
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

ValuePut::ValuePut(NodeService& node, const RetryOptions& retry, BufferPool& pool, bool grouped)
    : node_(node), retry_(retry), pool_(pool) {
  if (!grouped) return;
  group_.emplace(
      kPutsAtOnce, [this] { return retry_.random->Bytes(kRequestIdBytes); },
      [this](const v1::BatchPutRequest& request, std::vector<uint64_t>& compares) {
        return SendBatch(request, compares, {});
      });
}

absl::StatusOr<std::vector<PutResult>> ValuePut::SendBatch(const v1::BatchPutRequest& request,
                                                           std::vector<uint64_t>& compares,
                                                           const CallContext& context) {
  compares.clear();
  auto fixed = [&compares](const std::vector<uint64_t>& told) {
    compares = told;
    return absl::OkStatus();
  };
  TILEKV_ASSIGN_OR_RETURN(v1::BatchPutResponse response, node_.BatchPut(request, fixed, context));
  std::vector<PutResult> results;
  for (const v1::PutValueOutcome& outcome : response.outcomes()) {
    results.push_back(ToResult(outcome));
  }
  return results;
}

absl::StatusOr<PutResult> ValuePut::Send(v1::PutValueHeader header, ByteSource* source,
                                         const CallContext& context, const PutGroup::Result& tried,
                                         const std::function<void()>& in_trouble) {
  auto* span = dynamic_cast<SpanSource*>(source);
  RetryPolicy policy(retry_, context);
  auto try_again = [&](const absl::Status& failed) {
    if (in_trouble) in_trouble();
    return policy.TryAgain(failed);
  };
  // A try ended without an answer after it may have sent its transaction.
  bool unknown = tried.compare.has_value();
  if (unknown) {
    header.set_request_id(tried.request_id);
    header.set_compare(tried.compare->value);
  }
  auto ended = [&](const absl::Status& failed) {
    if (GetReason(failed) == Reason::kOutcomeUnknown) return failed;
    if (!unknown) return policy.Outcome(failed);
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("key '{}': the write may have happened or not: {}",
                                 Printable(header.key()), ErrorText(failed)));
  };
  if (IsWorthAWait(tried.failed) && !try_again(tried.failed)) return ended(tried.failed);
  for (int overtaken = 0; overtaken < kMaxTransactionTries;) {
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
    bool readable = span != nullptr || source == nullptr || !watched.taken();
    if (result.ok()) {
      PutResult put = ToResult(*result);
      if (!CameBetween(header.condition(), put)) return put;
      if (!readable) return Overtaken(header.key());
      ++overtaken;
      header.set_request_id(retry_.random->Bytes(kRequestIdBytes));
      continue;
    }
    Reason reason = GetReason(result.status());
    bool sent = fixed && (source == nullptr || watched.ended());
    if (sent && (reason == Reason::kNodeUnavailable || reason == Reason::kDeadlineExceeded ||
                 reason == Reason::kCancelled)) {
      unknown = true;
      header.set_compare(fixed->value);
    }
    // A root's session is the caller's: when it is lost, a new try finds nothing else.
    bool again =
        IsWorthAWait(result.status()) || (reason == Reason::kSessionLost && !header.has_root());
    if (again && readable && try_again(result.status())) continue;
    return ended(result.status());
  }
  return TooManyTries(fmt::format("key '{}'", Printable(header.key())));
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
  auto* span = dynamic_cast<SpanSource*>(&source);
  if (group_ && span != nullptr && PutGroup::Takes(header.length()) &&
      IsUnbounded(options.context)) {
    std::string content(header.length(), '\0');
    SpanSource copy = *span;
    TILEKV_ASSIGN_OR_RETURN(
        uint64_t read, copy.Read({reinterpret_cast<uint8_t*>(content.data()), content.size()}));
    // A source that was read from before has less: its put fails as any other of the kind.
    if (read == content.size()) {
      PutGroup::Put put{.key = key, .content = content, .condition = &header.condition()};
      return group_->Run(
          put, [&](const PutGroup::Result& tried, const std::function<void()>& in_trouble) {
            return Send(header, &source, options.context, tried, in_trouble);
          });
    }
  }
  if (!small || span != nullptr) {
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
  std::vector<PutResult> results(entries.size());
  std::vector<size_t> open;  // of the entries, in the order of the batch
  for (size_t i = 0; i < entries.size(); ++i) open.push_back(i);
  for (int tries = 0; tries < kMaxTransactionTries; ++tries) {
    v1::BatchPutRequest request;
    request.set_request_id(retry_.random->Bytes(kRequestIdBytes));
    for (size_t i : open) {
      v1::BatchPutItem& item = *request.add_items();
      item.set_key(entries[i].key);
      item.set_content(entries[i].content);
      SetCondition(entries[i].condition, item.mutable_condition());
    }
    absl::StatusOr<std::vector<PutResult>> sent = SendAgain(request, context);
    if (!sent.ok() && tries > 0) {
      return MakeError(
          Reason::kOutcomeUnknown,
          fmt::format("of {} values of the batch {} were written or not met; the "
                      "others were not, or may have been: {}",
                      entries.size(), entries.size() - open.size(), ErrorText(sent.status())));
    }
    if (!sent.ok()) return sent.status();
    std::vector<size_t> overtaken;
    for (size_t i = 0; i < open.size(); ++i) {
      results[open[i]] = (*sent)[i];
      if (CameBetween(request.items(static_cast<int>(i)).condition(), (*sent)[i])) {
        overtaken.push_back(open[i]);
      }
    }
    if (overtaken.empty()) return results;
    open = std::move(overtaken);
  }
  return TooManyTries("a batch of keys");
}

absl::StatusOr<std::vector<PutResult>> ValuePut::SendAgain(v1::BatchPutRequest request,
                                                           const CallContext& context) {
  RetryPolicy policy(retry_, context);
  while (true) {
    std::vector<uint64_t> fixed;
    absl::StatusOr<std::vector<PutResult>> result = SendBatch(request, fixed, context);
    if (result.ok()) return result;
    Reason reason = GetReason(result.status());
    // From here on a failed compare may be the work of the first try.
    if (reason == Reason::kNodeUnavailable && !fixed.empty()) {
      request.mutable_compares()->Assign(fixed.begin(), fixed.end());
    }
    bool again = IsWorthAWait(result.status()) || reason == Reason::kSessionLost;
    if (again && policy.TryAgain(result.status())) continue;
    if (reason == Reason::kOutcomeUnknown) return result.status();
    if (request.compares_size() == 0) return policy.Outcome(result.status());
    return MakeError(Reason::kOutcomeUnknown,
                     fmt::format("some of the batch may have been written, or all, or none: {}",
                                 ErrorText(result.status())));
  }
}

}  // namespace tilekv
