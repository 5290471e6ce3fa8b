// Reading a file as the disk has it: what the page cache holds says nothing about the disk.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/file_system.h"

namespace tilekv {

// An existing file, for reading only. With direct I/O where the file system takes it: reads that
// are not aligned to kDirectIoAlignBytes go through a pooled buffer. Else the page cache is asked
// to forget the file before the first read and after the last.
absl::StatusOr<std::unique_ptr<File>> OpenUncached(FileSystem* fs, const std::string& path,
                                                   std::shared_ptr<BufferPool> pool);

}  // namespace tilekv
