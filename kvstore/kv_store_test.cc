#include "kvstore/kv_store.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store_conformance.h"

namespace tilekv {
namespace {

class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = testing::TempDir() + "/storeXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct StoreInDirectory {
  TempDirectory directory;
  std::unique_ptr<KvStore> store;
};

std::shared_ptr<KvStore> MakeEmbedded(uint64_t max_object_bytes) {
  auto held = std::make_shared<StoreInDirectory>();
  OpenOptions options;
  options.max_object_bytes = max_object_bytes;
  auto store = OpenEmbeddedStore(held->directory.path(), options);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return nullptr;
  held->store = *std::move(store);
  return std::shared_ptr<KvStore>(held, held->store.get());
}

std::shared_ptr<KvStore> MakeMemory(uint64_t max_object_bytes) {
  auto store = OpenMemoryStore(max_object_bytes);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? std::shared_ptr<KvStore>(*std::move(store)) : nullptr;
}

TEST(EmbeddedStore, KeepsEverythingOverAReopening) {
  TempDirectory directory;
  std::string big(300'000, 'b');
  uint64_t version = 0;
  {
    auto store = OpenEmbeddedStore(directory.path());
    ASSERT_TRUE(store.ok()) << store.status();
    version = (*store)->Put("small", "s")->version;
    ASSERT_TRUE((*store)->Put("big", big).ok());
  }
  auto store = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*(*store)->Get("small"))->info.version, version);
  EXPECT_TRUE((*(*store)->Get("big"))->content == big);
  EXPECT_EQ((*store)->uri(), "file:" + directory.path());
}

TEST(EmbeddedStore, ReadingNeverCreates) {
  TempDirectory directory;
  std::string missing = directory.path() + "/none";
  auto store = OpenEmbeddedStore(missing, {.read_only = true});
  EXPECT_EQ(GetReason(store.status()), Reason::kNotFound);
  store = OpenEmbeddedStore(missing, {.create_if_missing = false});
  EXPECT_EQ(GetReason(store.status()), Reason::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST(EmbeddedStore, AReaderBesideTheWriterSeesWhatItWrote) {
  TempDirectory directory;
  auto writer = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Put("a", std::string(100'000, 'a')).ok());
  auto reader = OpenEmbeddedStore(directory.path(), {.read_only = true});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*(*reader)->Get("a"))->content.size(), 100'000u);
  ASSERT_TRUE((*writer)->Put("b", std::string(200'000, 'b')).ok());
  EXPECT_EQ((*(*reader)->Get("b"))->content.size(), 200'000u);
  // Replaced and collected under the reader: it finds the new value.
  ASSERT_TRUE((*writer)->Put("a", std::string(150'000, 'c')).ok());
  ASSERT_TRUE((*writer)->node().Collect({}).ok());
  EXPECT_EQ((*(*reader)->Get("a"))->content.size(), 150'000u);
  EXPECT_EQ(GetReason((*reader)->Put("a", "x").status()), Reason::kPermissionDenied);
  EXPECT_EQ(GetReason((*reader)->BeginSession("x").status()), Reason::kPermissionDenied);
}

TEST(EmbeddedStore, ASecondWriterIsRefused) {
  TempDirectory directory;
  auto first = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(GetReason(OpenEmbeddedStore(directory.path()).status()), Reason::kStoreLocked);
}

TEST(EmbeddedStore, AnotherLimitThanTheStoresIsRefusedNamingBoth) {
  TempDirectory directory;
  { ASSERT_TRUE(OpenEmbeddedStore(directory.path(), {.max_object_bytes = 1 * kMiB}).ok()); }
  auto store = OpenEmbeddedStore(directory.path(), {.max_object_bytes = 2 * kMiB});
  EXPECT_EQ(GetReason(store.status()), Reason::kStoreMismatch);
  store = OpenEmbeddedStore(directory.path());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(*(*store)->MaxObjectBytes(), 1 * kMiB);
}

TEST(EmbeddedStore, AStoreThatLostItsCatalogIsNotGivenAnEmptyOne) {
  TempDirectory directory;
  {
    auto store = OpenEmbeddedStore(directory.path());
    ASSERT_TRUE((*store)->Put("a", std::string(kInlineContentBytes, 'a')).ok());
  }
  std::filesystem::remove_all(directory.path() + "/catalog");
  auto store = OpenEmbeddedStore(directory.path());
  EXPECT_EQ(GetReason(store.status()), Reason::kDataLoss);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Memory, KvStoreConformance,
                         testing::Values(StoreMaker{"memory", MakeMemory}));
INSTANTIATE_TEST_SUITE_P(Embedded, KvStoreConformance,
                         testing::Values(StoreMaker{"embedded", MakeEmbedded}));

}  // namespace tilekv
