// Files of the caller: values go in from them and come out into them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/stream.h"

namespace tilekv {

using ByteProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// `path`, or standard input for "-". The length is known for a regular file; one that changes while
// it is read is INVALID_FILE at its end. NOT_FOUND, PERMISSION_DENIED; CANCELLED by the context,
// also while a pipe is waited for.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenLocalSource(const std::string& path,
                                                            const CallContext& context,
                                                            ByteProgress progress = nullptr);

// A file that appears whole or not at all: written beside its path, synced, renamed by Commit;
// without Commit nothing stays. A device or a pipe is written directly.
class LocalSink : public ByteSink {
 public:
  virtual absl::Status Commit() = 0;
};
// INVALID_ARGUMENT for a directory, and where `path` exists and `overwrite` is not set.
absl::StatusOr<std::unique_ptr<LocalSink>> OpenLocalSink(const std::string& path, bool overwrite,
                                                         const CallContext& context,
                                                         ByteProgress progress = nullptr,
                                                         uint64_t total_bytes = 0);

}  // namespace tilekv
