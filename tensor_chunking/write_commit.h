// The frame of every write: a session, what is put in it, the commit; repeated with a new session
// when one is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/write_session.h"

namespace tilekv {

struct CommitFacts {
  uint64_t tensors = 0;
  uint64_t logical_bytes = 0;
  std::optional<v1::VersionName> base;  // what the version was made from
};
v1::VersionName VersionOf(const ModelReader& reader);

struct CommitTrees {
  ObjectRef root;
  std::optional<ObjectRef> sources;
  uint64_t tiles = 0;  // for the report
};

// `put_all` puts everything that the version needs, and names its trees. It is called again after
// SESSION_LOST, at most five times in all.
absl::StatusOr<WriteReport> CommitInSession(
    KvStore& store, const ModelName& target, const WriteOptions& options, const CommitFacts& facts,
    const std::function<absl::StatusOr<CommitTrees>(WriteSession&)>& put_all);

}  // namespace tilekv
