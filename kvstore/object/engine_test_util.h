// Directories and damage for tests of the engine.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kvstore/base/random.h"
#include "kvstore/object/local_engine.h"

namespace tilekv {

// A directory of its own below the test's temporary one, removed at the end.
class TestDirectory {
 public:
  TestDirectory()
      : path_(testing::TempDir() + "tilekv-" + HexEncode(AsBytes(Random::System()->Bytes(8)))) {}
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const std::string path_;
};

inline void FlipBitInFile(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  char byte = 0;
  file.get(byte);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good()) << path;
}

// How many payload files there are.
inline size_t CountPayloadFiles(const std::string& directory) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory + "/payload")) {
    count += entry.is_regular_file();
  }
  return count;
}

}  // namespace tilekv
