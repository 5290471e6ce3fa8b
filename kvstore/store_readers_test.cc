// Any number of readers of a store's directory beside its writer, while it writes, deletes and
// collects.
#include <atomic>
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

}  // namespace
}  // namespace tilekv
