// Any number of readers of a store's directory beside its writer, while it writes, deletes and
// collects.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/engine_test_util.h"

namespace tilekv {
namespace {

constexpr int kReaders = 4;
constexpr int kKeys = 6;
constexpr int kRounds = 40;

// Small, large and inline ones, told apart by their first bytes; the rest follows from these.
std::string ContentOf(int key, int round) {
  const size_t kSizes[] = {20, 3'000, 70'000, 200'000};
  std::string head = "key " + std::to_string(key) + " round " + std::to_string(round) + " ";
  std::string content = head;
  while (content.size() < kSizes[(key + round) % 4]) content += head;
  return content;
}

// Empty: the content is one that the writer wrote under this key.
std::string WhatIsWrong(int key, const std::string& content) {
  for (int round = 0; round < kRounds; ++round) {
    if (content == ContentOf(key, round)) return {};
  }
  return "not written by anybody: " + content.substr(0, 40);
}

// Opens the store again and again, reads all keys, and counts what it found.
void ReadUntil(const std::string& directory, const std::atomic<bool>& done, int& found,
               std::string& wrong) {
  while (!done && wrong.empty()) {
    OpenOptions options;
    options.read_only = true;
    auto store = OpenEmbeddedStore(directory, options);
    if (!store.ok()) {
      wrong = "open: " + ErrorText(store.status());
      return;
    }
    for (int i = 0; i < 5 * kKeys && wrong.empty(); ++i) {
      int key = i % kKeys;
      auto value = (*store)->Get(std::to_string(key));
      if (!value.ok()) {
        wrong = "get: " + ErrorText(value.status());
      } else if (value->has_value()) {
        wrong = WhatIsWrong(key, (*value)->content);
        ++found;
      }
    }
    auto page = (*store)->List({});
    if (!page.ok()) wrong = "list: " + ErrorText(page.status());
  }
}

TEST(StoreReaders, SeeWholeValuesOrNoneWhileTheWriterWritesDeletesAndCollects) {
  TestDirectory directory;
  auto writer = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::atomic<bool> done{false};
  std::vector<int> found(kReaders);
  std::vector<std::string> wrong(kReaders);
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] { ReadUntil(directory.path(), done, found[i], wrong[i]); });
  }
  uint64_t deleted = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      auto put = (*writer)->Put(std::to_string(key), ContentOf(key, round));
      EXPECT_TRUE(put.ok()) << put.status();
    }
    EXPECT_TRUE((*writer)->Delete(std::to_string(round % kKeys)).ok());
    auto collected = (*writer)->node().Collect({});
    EXPECT_TRUE(collected.ok()) << collected.status();
    if (collected.ok()) deleted += collected->deleted_objects();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  for (int i = 0; i < kReaders; ++i) {
    EXPECT_EQ(wrong[i], "") << "reader " << i;
    EXPECT_GT(found[i], 0) << "reader " << i;
  }
  EXPECT_GT(deleted, 0u);
}

// As a loss of power does it to the newest log of the database: its size is there, and its last
// bytes are not.
void TearLog(const std::string& directory) {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".log") newest = std::max(newest, entry.path().string());
  }
  constexpr std::streamoff kTornBytes = 30;
  std::fstream log(newest, std::ios::in | std::ios::out | std::ios::binary);
  log.seekp(-kTornBytes, std::ios::end);
  log << std::string(kTornBytes, '\0');
  ASSERT_TRUE(log.flush().good()) << newest;
}

// Relative paths and sizes of all files.
std::map<std::string, uint64_t> FilesIn(const std::string& directory) {
  std::map<std::string, uint64_t> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files[entry.path()] = entry.file_size();
  }
  return files;
}

TEST(StoreReaders, ReadAStoreWhoseLogsAreTornAndFollowTheWriterThatMendsThem) {
  TestDirectory directory;
  {
    auto writer = OpenEmbeddedStore(directory.path());
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int key : {0, 1, 2}) {
      ASSERT_TRUE((*writer)->Put(std::to_string(key), ContentOf(key, 0)).ok());
    }
  }
  // What a writer writes last of all, when it closes: its counts, and the end of its session.
  TearLog(directory / "index");
  TearLog(directory / "catalog");
  auto before = FilesIn(directory.path());
  OpenOptions read_only;
  read_only.read_only = true;
  auto reader = OpenEmbeddedStore(directory.path(), read_only);
  ASSERT_TRUE(reader.ok()) << reader.status();
  auto expect_values = [](KvStore& store) {
    for (int key : {0, 1, 2}) {
      auto value = store.Get(std::to_string(key));
      ASSERT_TRUE(value.ok() && value->has_value()) << key << ": " << value.status();
      EXPECT_EQ((*value)->content, ContentOf(key, 0));
    }
  };
  expect_values(**reader);
  EXPECT_EQ(FilesIn(directory.path()), before);

  auto writer = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  expect_values(**writer);
  ASSERT_TRUE((*writer)->Put("later", ContentOf(3, 1)).ok());
  auto later = (*reader)->Get("later");
  ASSERT_TRUE(later.ok() && later->has_value()) << later.status();
  EXPECT_EQ((*later)->content, ContentOf(3, 1));
  expect_values(**reader);
}

}  // namespace
}  // namespace tilekv
