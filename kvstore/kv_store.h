// KvStore: a TileKV store as its users see it, wherever it is: in memory, in a directory, on a
// node, on a cluster.
//
// Blocking and thread-safe: parallelism is the caller's threads. Sizes are bytes. A missing key or
// an unmet condition is a result; what comes as a status is an error with a reason
// (kvstore/base/status.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/machine_memory.h"
#include "kvstore/base/stream.h"
#include "kvstore/node/node_service.h"
#include "kvstore/node/value_errors.h"

namespace tilekv {

// What must be there for a write to happen. Versions are revisions of the key; 0 is the same as
// absent.
struct WriteCondition {
  enum class Kind { kNone, kAbsent, kVersion };
  Kind kind = Kind::kNone;
  uint64_t version = 0;

  static WriteCondition None() { return {}; }
  static WriteCondition Absent() { return {Kind::kAbsent, 0}; }
  static WriteCondition Version(uint64_t version) { return {Kind::kVersion, version}; }
};

struct PutOptions {
  WriteCondition condition;
  // A value above the object limit is refused (OBJECT_TOO_LARGE) unless this is set: it is then
  // stored as chunks and a tree.
  bool chunked = false;
  CallContext context;
};
struct PutResult {
  bool applied = false;
  uint64_t version = 0;  // the new version, or the one found (0: the key is absent)
  uint64_t length = 0;
};
struct DeleteResult {
  bool applied = false;  // false: the condition was not met
  bool existed = false;
  uint64_t version_found = 0;
};
struct ValueInfo {
  std::string key;
  uint64_t version = 0;
  uint64_t length = 0;
  int64_t modified_micros = 0;
  bool chunked = false;
};
struct Value {
  ValueInfo info;
  std::string content;
};
struct ByteRange {
  uint64_t offset = 0;
  std::optional<uint64_t> length;  // none: to the end. Cut at the value's end.
};
struct ListOptions {
  std::string prefix;
  std::string after;   // resume: keys above this one
  uint32_t limit = 0;  // 0: a full page
};
struct ValuePage {
  std::vector<ValueInfo> values;  // in order of key, bytewise
  bool more = false;
};
struct BatchPutEntry {
  std::string key;
  std::string content;
  WriteCondition condition;
};

// Makes new versions. Objects put or linked in a session are safe from the collector until it ends;
// nothing is visible before Commit, and after it everything is. Thread-safe. Destroying it ends the
// session.
class UploadSession {
 public:
  virtual ~UploadSession() = default;
  // Which are present, in order (any count: sent in batches). SESSION_LOST: open a new session,
  // link, send the rest.
  virtual absl::StatusOr<std::vector<bool>> Link(std::span<const ObjectRef> refs,
                                                 const CallContext& context = {}) = 0;
  // Sends content that the caller has hashed. True: stored; false: it was there. Coded with
  // `encoding` where that gains. What it cost is added to `stats`, where that is not null.
  virtual absl::StatusOr<bool> Put(const ObjectRef& ref, Bytes content,
                                   const Encoding& encoding = {}, const CallContext& context = {},
                                   PutStats* stats = nullptr) = 0;
  // Token, revision and commit id are filled in here. The id is the commit's own: as long as it is
  // not known whether the commit has happened, committing the same root to the same name again
  // makes no second version. Once it was applied or refused, the next commit is a new one; a
  // session makes any number.
  virtual absl::StatusOr<v1::CommitResponse> Commit(v1::CommitRequest request,
                                                    const CallContext& context = {}) = 0;
  virtual const std::string& token() const = 0;
  virtual Revision session_rev() const = 0;
};

class KvStore {
 public:
  virtual ~KvStore() = default;

  // --- plain values ---
  virtual absl::StatusOr<PutResult> Put(std::string_view key, ByteSource& source,
                                        const PutOptions& options = {}) = 0;
  absl::StatusOr<PutResult> Put(std::string_view key, std::string_view content,
                                const PutOptions& options = {}) {
    SpanSource source(AsBytes(content));
    return Put(key, source, options);
  }
  // Streams the range into `sink`, verified piece by piece: bytes are given to the sink only after
  // they were checked.
  virtual absl::StatusOr<std::optional<ValueInfo>> Get(std::string_view key, ByteSink& sink,
                                                       const ByteRange& range = {},
                                                       const CallContext& context = {}) = 0;
  absl::StatusOr<std::optional<Value>> Get(std::string_view key, const ByteRange& range = {});
  virtual absl::StatusOr<std::optional<ValueInfo>> Stat(std::string_view key,
                                                        const CallContext& context = {}) = 0;
  virtual absl::StatusOr<DeleteResult> Delete(std::string_view key,
                                              const WriteCondition& condition = {},
                                              const CallContext& context = {}) = 0;
  virtual absl::StatusOr<ValuePage> List(const ListOptions& options,
                                         const CallContext& context = {}) = 0;
  // In order; none where the key is absent. At most kMaxBatchOperations keys and kMaxBatchBytes of
  // contents.
  virtual absl::StatusOr<std::vector<std::optional<Value>>> BatchGet(
      const std::vector<std::string>& keys, const CallContext& context = {}) = 0;
  // Each entry by itself, not all or none. The same limits.
  virtual absl::StatusOr<std::vector<PutResult>> BatchPut(const std::vector<BatchPutEntry>& entries,
                                                          const CallContext& context = {}) = 0;

  // --- objects and sessions ---
  virtual absl::StatusOr<std::unique_ptr<UploadSession>> BeginSession(
      const std::string& holder, const CallContext& context = {}) = 0;
  virtual absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats = nullptr,
                                   const CallContext& context = {}) = 0;
  // The whole content of one object.
  absl::StatusOr<std::string> ReadObject(const ObjectRef& ref, const CallContext& context = {});

  // --- models and administration: the node's calls, with safe retries ---
  virtual NodeService& node() = 0;
  // Limits of the store, asked once and remembered.
  virtual absl::StatusOr<uint64_t> MaxObjectBytes(const CallContext& context = {}) = 0;
  // As the user wrote it: "tilekv://127.0.0.1:7070", "file:/data".
  virtual const std::string& uri() const = 0;
};

// A store in this process's memory, for tests and trials.
absl::StatusOr<std::unique_ptr<KvStore>> OpenMemoryStore(
    uint64_t max_object_bytes = kDefaultMaxObjectBytes);

struct OpenOptions {
  std::optional<uint64_t>
      max_object_bytes;    // of a store to be created, or to be checked against an existing one
  bool read_only = false;  // never creates; beside a writer
  bool create_if_missing = true;
  uint64_t memory_bytes = DefaultClientMemoryBytes();
};
// A store in a directory, without a server.
absl::StatusOr<std::unique_ptr<KvStore>> OpenEmbeddedStore(const std::string& directory,
                                                           const OpenOptions& options = {});

}  // namespace tilekv
