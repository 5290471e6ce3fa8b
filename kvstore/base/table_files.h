// The files in which a database keeps what it has sorted: for who reads them all from the disk now
// and then, as nobody else does. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace tilekv {

struct TableFile {
  uint64_t number = 0;  // never used twice; what is written later has a higher one
  uint64_t bytes = 0;
  std::string path;
};

class TableFiles {
 public:
  virtual ~TableFiles() = default;
  // The one with the lowest number above this; none: there are no more.
  virtual std::optional<TableFile> After(uint64_t number) = 0;
  // Reads all of it, past the page cache where the file system lets it, and checks every block.
  // DATA_LOSS: it is damaged; NOT_FOUND: it was replaced meanwhile; else it could not be read.
  virtual absl::Status Check(const TableFile& file) = 0;
};

}  // namespace tilekv
