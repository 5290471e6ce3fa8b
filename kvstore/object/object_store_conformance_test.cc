#include "kvstore/object/object_store_conformance.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/index_rows.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/payload_directory.h"

namespace tilekv {
namespace {

class MemoryHarness : public StoreHarness {
 public:
  explicit MemoryHarness(uint64_t max_object_bytes) : store_(max_object_bytes) {}
  ObjectStore& store() override { return store_; }
  bool Reopen() override { return false; }
  void FlipBit(const ObjectId& id, uint64_t stored_offset) override {
    store_.FlipBit(kDefaultDomain, id, stored_offset);
  }

 private:
  MemoryObjectStore store_;
};

class LocalHarness : public StoreHarness {
 public:
  explicit LocalHarness(uint64_t max_object_bytes) : max_object_bytes_(max_object_bytes) {
    Reopen();
  }
  ObjectStore& store() override { return *engine_; }
  bool Reopen() override {
    engine_.reset();
    auto engine = LocalEngine::Open({.directory = directory_.path(),
                                     .create_if_missing = true,
                                     .max_object_bytes = max_object_bytes_});
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    return true;
  }
  void FlipBit(const ObjectId& id, uint64_t stored_offset) override {
    ObjectRow row = **engine_->Stat(kDefaultDomain, id);
    if (row.file_number != 0) {
      return FlipBitInFile(PayloadPath(directory_.path(), row.file_number),
                           kPayloadHeaderBytes + stored_offset);
    }
    FlipBitInIndex(row, stored_offset);
    Reopen();
  }

 private:
  // RocksDB's own checksums would notice a bit on the disk first; this is damage before them.
  void FlipBitInIndex(const ObjectRow& row, uint64_t stored_offset) {
    engine_.reset();
    StoreHealth health(nullptr);
    auto index = *ObjectIndex::OpenWriter(directory_ / "index", false, nullptr, &health);
    std::string content = **index->GetContent(kDefaultDomain, row.ref.id);
    content[content.size() - row.stored_length + stored_offset] ^= 1;
    ObjectIndex::Batch batch(*index);
    batch.PutContent(kDefaultDomain, row.ref.id, content);
    ASSERT_TRUE(index->WriteSynced(batch).ok());
  }

  const uint64_t max_object_bytes_;
  TestDirectory directory_;
  std::unique_ptr<LocalEngine> engine_;
};

template <typename Harness>
std::unique_ptr<StoreHarness> Make(uint64_t max_object_bytes) {
  return std::make_unique<Harness>(max_object_bytes);
}

INSTANTIATE_TEST_SUITE_P(Engines, ObjectStoreConformance,
                         testing::Values(ConformanceParam{"Memory", Make<MemoryHarness>},
                                         ConformanceParam{"Local", Make<LocalHarness>}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilekv
