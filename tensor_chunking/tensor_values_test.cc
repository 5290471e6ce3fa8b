#include "tensor_chunking/tensor_values.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {
namespace {

// Another store, whose reads of objects are counted.
class CountingStore : public KvStore {
 public:
  explicit CountingStore(KvStore& base) : base_(base) {}

  absl::StatusOr<PutResult> Put(std::string_view key, ByteSource& source,
                                const PutOptions& options) override {
    return base_.Put(key, source, options);
  }
  absl::StatusOr<std::optional<ValueInfo>> Get(std::string_view key, ByteSink& sink,
                                               const ByteRange& range,
                                               const CallContext& context) override {
    return base_.Get(key, sink, range, context);
  }
  absl::StatusOr<std::optional<ValueInfo>> Stat(std::string_view key,
                                                const CallContext& context) override {
    return base_.Stat(key, context);
  }
  absl::StatusOr<DeleteResult> Delete(std::string_view key, const WriteCondition& condition,
                                      const CallContext& context) override {
    return base_.Delete(key, condition, context);
  }
  absl::StatusOr<ValuePage> List(const ListOptions& options, const CallContext& context) override {
    return base_.List(options, context);
  }
  absl::StatusOr<std::vector<std::optional<Value>>> BatchGet(const std::vector<std::string>& keys,
                                                             const CallContext& context) override {
    return base_.BatchGet(keys, context);
  }
  absl::StatusOr<std::vector<PutResult>> BatchPut(const std::vector<BatchPutEntry>& entries,
                                                  const CallContext& context) override {
    return base_.BatchPut(entries, context);
  }
  absl::StatusOr<std::unique_ptr<UploadSession>> BeginSession(const std::string& holder,
                                                              const CallContext& context) override {
    return base_.BeginSession(holder, context);
  }
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                           const CallContext& context) override {
    ++reads_;
    return base_.ReadObjects(reads, stats, context);
  }
  NodeService& node() override { return base_.node(); }
  absl::StatusOr<uint64_t> MaxObjectBytes(const CallContext& context) override {
    return base_.MaxObjectBytes(context);
  }
  const std::string& uri() const override { return base_.uri(); }

  int reads() const { return reads_; }

 private:
  KvStore& base_;
  std::atomic<int> reads_{0};
};

// `count` numbers, all of them `value`.
TensorSource Constant(const std::string& name, uint64_t count, float value) {
  return {.name = name,
          .dtype = DType::kF32,
          .shape = {count},
          .read = [value](uint64_t, MutableBytes out) {
            for (size_t at = 0; at < out.size(); at += sizeof value) {
              std::memcpy(out.data() + at, &value, sizeof value);
            }
            return absl::OkStatus();
          }};
}

class TensorStatsTest : public testing::Test {
 protected:
  void Write(const WriteInput& input) {
    auto report = WriteModel(*store_, name_, input, {.tile_bytes = kMiB});
    ASSERT_TRUE(report.ok()) << report.status();
  }
  std::vector<TensorStats> Visit(const std::vector<std::string>& tensors) {
    std::vector<TensorStats> all;
    auto reader = *ModelReader::Open(counting_, name_, {.memory_bytes = 16 * kMiB});
    reads_ = counting_.reads();
    absl::Status status = VisitTensorStats(*reader, tensors, [&](const TensorStats& stats) {
      all.push_back(stats);
      return absl::OkStatus();
    });
    reads_ = counting_.reads() - reads_;
    EXPECT_TRUE(status.ok()) << status;
    return all;
  }

  const ModelName name_{.ns = "t", .name = "m"};
  std::unique_ptr<KvStore> store_ = *OpenMemoryStore();
  CountingStore counting_{*store_};
  int reads_ = 0;  // of the last visit
};

TEST_F(TensorStatsTest, ManySmallTensorsAreReadTogether) {
  WriteInput input;
  for (int i = 0; i < 2'000; ++i) {
    input.tensors.push_back(Constant(fmt::format("t{:04}", i), 256, static_cast<float>(i)));
  }
  Write(input);
  std::vector<TensorStats> all = Visit({});
  ASSERT_EQ(all.size(), 2'000U);
  for (int i = 0; i < 2'000; ++i) {
    EXPECT_EQ(all[i].tensor, input.tensors[i].name);
    EXPECT_EQ(all[i].stats.count, 256U);
    EXPECT_EQ(all[i].stats.mean, i);
  }
  EXPECT_LE(reads_, 20);
}

TEST_F(TensorStatsTest, ComeInTheOrderAskedForWhateverIsBetweenThem) {
  WriteInput input;
  input.tensors = {Constant("large", kMiB, 3), Constant("empty", 0, 0), Constant("small", 5, 7)};
  input.tensors.push_back(Constant("complex", 2, 1));
  input.tensors.back().dtype = DType::kC64;
  input.aliases = {{"other", "small"}};
  Write(input);
  std::vector<TensorStats> all = Visit({"small", "complex", "large", "empty", "other", "large"});
  ASSERT_EQ(all.size(), 6U);
  std::vector<std::string> names;
  std::vector<uint64_t> counts;
  for (const TensorStats& one : all) {
    names.push_back(one.tensor);
    counts.push_back(one.stats.count);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"small", "complex", "large", "empty", "other", "large"}));
  EXPECT_EQ(counts, (std::vector<uint64_t>{5, 0, kMiB, 0, 5, kMiB}));
  EXPECT_FALSE(all[1].numeric);
  EXPECT_EQ(all[0].stats.greatest, 7);
  EXPECT_EQ(all[4].stats.greatest, 7);
  EXPECT_EQ(all[5].stats.greatest, 3);
  // Nothing that can be counted is no wish for all of it.
  EXPECT_FALSE(Visit({"complex"})[0].numeric);
  EXPECT_EQ(reads_, 0);
}

}  // namespace
}  // namespace tilekv
