// An index's files, for tests that damage them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"

namespace tilekv {

// Of an index that nobody has open: what its logs hold goes into tables.
inline void MoveIntoTables(const std::string& index) {
  rocksdb::Options options;
  options.compression = rocksdb::kNoCompression;
  std::vector<rocksdb::ColumnFamilyDescriptor> names = {
      {rocksdb::kDefaultColumnFamilyName, options}, {"inline", options}};
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, index, names, &families, &opened).ok());
  std::unique_ptr<rocksdb::DB> db(opened);
  for (rocksdb::ColumnFamilyHandle* family : families) {
    EXPECT_TRUE(db->Flush({}, family).ok());
    EXPECT_TRUE(db->DestroyColumnFamilyHandle(family).ok());
  }
}

// The largest first. Of small contents that is the table of contents, and the next that of rows.
inline std::vector<std::string> FilesOfIndex(const std::string& index,
                                             const std::string& extension) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(index)) {
    if (entry.path().extension() == extension) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::filesystem::file_size(a) > std::filesystem::file_size(b);
  });
  return paths;
}

}  // namespace tilekv
