// Whether the etcd behind a catalog is still the one, and on the line, that the catalog was opened
// on. Revisions of linearizable answers only grow; one that does not, or a line record that has
// changed, is noticed here and remembered for ever: the catalog writes no more. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace tilekv {

class LineGuard {
 public:
  // CATALOG_REWOUND once either has happened.
  absl::Status Check() const;

  // The greatest revision of etcd that has been seen: to be taken before a request is sent.
  int64_t Seen() const { return seen_; }
  // An answer of this revision to a request sent when `seen` was the greatest.
  void Answered(int64_t seen, int64_t revision);
  void LineChanged() { line_changed_ = true; }

 private:
  std::atomic<int64_t> seen_{0};
  std::atomic<bool> went_back_{false};
  std::atomic<bool> line_changed_{false};
};

}  // namespace tilekv
