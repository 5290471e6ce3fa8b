// LiveList: what a collector's round has found in use, as sorted 8-byte prefixes of ids (a chance
// hit only keeps garbage), each once. Objects of one partition lie together, since a partition is
// the top bits of the same prefix.
//
// An external sort: what does not fit into the memory given is sorted, written to scratch files and
// merged at the end. Without a scratch directory everything stays in memory. Not thread-safe; a
// finished list may be read by several cursors at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

// Where files may lie that nobody needs after this process. `directory` is made when it is first
// needed; empty: there is none.
struct ScratchSpace {
  FileSystem* file_system = nullptr;
  std::string directory;
};

class LiveList {
 public:
  LiveList(ScratchSpace scratch, uint64_t memory_bytes);

  absl::Status Add(const ObjectRef& ref);
  // Sorts and counts. Nothing is added after it. What is in `except`, a finished list, is left out.
  absl::Status Finish(const LiveList* except = nullptr);

  // After Finish. Objects that differ in more than their first 8 bytes, and the sum of lengths.
  uint64_t objects() const { return objects_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t spilled_files() const { return spilled_files_; }

  // Reads the finished list from its beginning. The list outlives it.
  class Cursor {
   public:
    explicit Cursor(const LiveList& list) : list_(list) {}
    // The least prefix of the list that is this one or greater. What is asked for is in ascending
    // order, here and below.
    absl::StatusOr<std::optional<uint64_t>> AtLeast(uint64_t prefix);
    // Whether an object with this prefix is in the list.
    absl::StatusOr<bool> Contains(uint64_t prefix);

   private:
    absl::Status Fill();

    const LiveList& list_;
    uint64_t next_ = 0;  // of the list, the first that is not in `buffer_`
    size_t at_ = 0;
    std::vector<uint64_t> buffer_;
  };

 private:
  struct Entry {
    uint64_t prefix = 0;
    uint64_t length = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct Run {
    std::unique_ptr<File> file;
    uint64_t entries = 0;
  };
  class RunReader;

  void SortEntries();
  absl::Status Spill();
  // The runs as one, each entry once, through `take`.
  template <typename Take>
  absl::Status Merge(Take take);
  absl::Status MergeRuns();
  absl::StatusOr<std::unique_ptr<File>> NewFile();
  void Count(const Entry& entry);

  const ScratchSpace scratch_;
  const size_t max_entries_;
  std::vector<Entry> entries_;
  std::vector<Run> runs_;
  uint64_t spilled_files_ = 0;

  uint64_t objects_ = 0;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> prefixes_;  // the list, where nothing was spilled
  std::unique_ptr<File> list_;      // else
};

}  // namespace tilekv
