#include "tensor_chunking/write_commit.h"

#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int kMostPasses = 5;

std::string Holder() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("{} pid {} write", host, getpid());
}

void SetCondition(const WriteCondition& condition, v1::Condition* proto) {
  if (condition.kind == WriteCondition::Kind::kAbsent) proto->set_absent(true);
  if (condition.kind == WriteCondition::Kind::kVersion) proto->set_version(condition.version);
}

v1::CommitRequest MakeRequest(const ModelName& target, const WriteOptions& options,
                              const CommitFacts& facts, const CommitTrees& trees) {
  v1::CommitRequest request;
  request.set_ns(target.ns);
  request.set_name(target.name);
  ObjectRefToWire(trees.root, request.mutable_root());
  if (trees.sources.has_value()) ObjectRefToWire(*trees.sources, request.mutable_sources());
  if (facts.base.has_value()) *request.mutable_base() = *facts.base;
  if (options.if_latest.kind != WriteCondition::Kind::kNone) {
    SetCondition(options.if_latest, request.mutable_if_latest());
  }
  for (const std::string& tag : options.tags) request.add_tags(tag);
  request.set_message(options.message);
  request.set_author(options.author);
  request.set_logical_bytes(facts.logical_bytes);
  request.set_tensor_count(facts.tensors);
  return request;
}

absl::StatusOr<WriteReport> OnePass(
    KvStore& store, const ModelName& target, const WriteOptions& options, const CommitFacts& facts,
    const std::function<absl::StatusOr<CommitTrees>(WriteSession&)>& put_all, WriteCounts& counts) {
  TILEKV_ASSIGN_OR_RETURN(auto upload, store.BeginSession(Holder(), options.context));
  WriteSession session(*upload, options.codec, options.context);
  absl::StatusOr<CommitTrees> trees = put_all(session);
  // What an earlier pass has sent is new all the same, though this one finds it there.
  WriteCounts sent = session.counts();
  sent.shared_objects -= std::min(sent.shared_objects, counts.new_objects);
  sent.shared_bytes -= std::min(sent.shared_bytes, counts.new_bytes);
  sent.new_objects += counts.new_objects;
  sent.new_bytes += counts.new_bytes;
  sent.cost.Add(counts.cost);
  counts = sent;
  TILEKV_RETURN_IF_ERROR(trees.status());
  if (options.before_commit != nullptr) TILEKV_RETURN_IF_ERROR(options.before_commit());
  TILEKV_RETURN_IF_ERROR(options.context.Check());
  const int64_t began_nanos = TimedScope::NowNanos();
  TILEKV_ASSIGN_OR_RETURN(
      v1::CommitResponse response,
      upload->Commit(MakeRequest(target, options, facts, *trees), options.context));
  counts.cost.commit_nanos += TimedScope::NowNanos() - began_nanos;
  return WriteReport{.applied = response.applied(),
                     .latest_found = response.latest_found(),
                     .version = response.version(),
                     .tensors = facts.tensors,
                     .tiles = trees->tiles,
                     .logical_bytes = facts.logical_bytes,
                     .new_objects = counts.new_objects,
                     .new_bytes = counts.new_bytes,
                     .shared_objects = counts.shared_objects,
                     .shared_bytes = counts.shared_bytes,
                     .cost = counts.cost};
}

}  // namespace

v1::VersionName VersionOf(const ModelReader& reader) {
  v1::VersionName name;
  name.set_ns(reader.version().ns());
  name.set_name(reader.version().name());
  name.set_number(reader.version().record().number());
  return name;
}

absl::StatusOr<WriteReport> CommitInSession(
    KvStore& store, const ModelName& target, const WriteOptions& options, const CommitFacts& facts,
    const std::function<absl::StatusOr<CommitTrees>(WriteSession&)>& put_all) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", target.ns));
  TILEKV_RETURN_IF_ERROR(CheckName("model name", target.name));
  if (!target.version.empty()) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("'{}' names a version; a new version gets its own number", target.ToString()));
  }
  for (const std::string& tag : options.tags) TILEKV_RETURN_IF_ERROR(CheckTag(tag));
  WriteCounts counts;
  for (int pass = 1;; ++pass) {
    auto report = OnePass(store, target, options, facts, put_all, counts);
    if (GetReason(report.status()) != Reason::kSessionLost || pass == kMostPasses) return report;
  }
}

}  // namespace tilekv
