#include "tensor_chunking/slice.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kFewest = std::numeric_limits<int64_t>::min();

std::vector<uint64_t> Indices(const SliceDim& dim) {
  std::vector<uint64_t> out;
  for (uint64_t k = 0; k < dim.count; ++k) {
    out.push_back(static_cast<uint64_t>(static_cast<int64_t>(dim.start) +
                                        static_cast<int64_t>(k) * dim.step));
  }
  return out;
}

// By the definition: walk from one end, and take what lies between the bounds.
std::vector<uint64_t> ReferenceIndices(std::optional<int64_t> start, std::optional<int64_t> stop,
                                       int64_t step, int64_t size) {
  auto from_end = [&](int64_t value) { return value < 0 ? value + size : value; };
  std::vector<uint64_t> out;
  if (step > 0) {
    int64_t first = start.has_value() ? std::max<int64_t>(0, from_end(*start)) : 0;
    int64_t end = stop.has_value() ? from_end(*stop) : size;
    for (int64_t i = 0; i < size; ++i) {
      if (i >= first && i < end && (i - first) % step == 0) out.push_back(i);
    }
  } else {
    int64_t first = start.has_value() ? std::min(size - 1, from_end(*start)) : size - 1;
    int64_t end = stop.has_value() ? std::max<int64_t>(-1, from_end(*stop)) : -1;
    for (int64_t i = size - 1; i >= 0; --i) {
      if (i <= first && i > end && (first - i) % -step == 0) out.push_back(i);
    }
  }
  return out;
}

std::string Bound(const std::optional<int64_t>& value) {
  return value.has_value() ? fmt::format("{}", *value) : "";
}

TEST(Slice, TakesWhatTheDefinitionSaysForEverySmallRange) {
  int cases = 0;
  for (int64_t size = 0; size <= 7; ++size) {
    for (int64_t step : {-9, -3, -2, -1, 1, 2, 3, 9}) {
      for (int64_t a = -10; a <= 10; ++a) {
        for (int64_t b = -10; b <= 10; ++b) {
          // 10 stands for a bound that is not given.
          std::optional<int64_t> start, stop;
          if (a < 10) start = a;
          if (b < 10) stop = b;
          std::string text = fmt::format("{}:{}:{}", Bound(start), Bound(stop), step);
          auto slice = ResolveSlice(text, Shape{static_cast<uint64_t>(size)});
          ASSERT_TRUE(slice.ok()) << text;
          ASSERT_EQ(Indices(slice->dims[0]), ReferenceIndices(start, stop, step, size))
              << text << " of " << size;
          EXPECT_EQ(slice->result_shape, Shape{slice->dims[0].count});
          ++cases;
        }
      }
    }
  }
  EXPECT_GT(cases, 20000);
}

TEST(Slice, ClampsBoundsBeyond64Bits) {
  const Shape shape{10};
  EXPECT_THAT(Indices(ResolveSlice("-99999999999999999999:99999999999999999999:4", shape)->dims[0]),
              ElementsAre(0, 4, 8));
  EXPECT_THAT(Indices(ResolveSlice("99999999999999999999::-99999999999999999999", shape)->dims[0]),
              ElementsAre(9));
  std::vector<SliceItem> items = {SliceItem::Range(kMost, kFewest, kFewest)};
  EXPECT_THAT(Indices(ResolveSlice(items, shape)->dims[0]), ElementsAre(9));
  items = {SliceItem::Range(kFewest, kMost, kMost)};
  EXPECT_THAT(Indices(ResolveSlice(items, shape)->dims[0]), ElementsAre(0));
}

TEST(Slice, IsRightBeyond32Bits) {
  const uint64_t k32 = uint64_t{1} << 32;
  auto slice = ResolveSlice("-2:, ::-4294967296", Shape{k32 + 1, 1});
  ASSERT_TRUE(slice.ok());
  EXPECT_EQ(slice->dims[0], (SliceDim{k32 - 1, 1, 2, 0}));
  slice = ResolveSlice("::-4294967296", Shape{k32 * 2});
  ASSERT_TRUE(slice.ok());
  EXPECT_EQ(slice->dims[0], (SliceDim{k32 * 2 - 1, -static_cast<int64_t>(k32), 2, 0}));
}

struct Golden {
  const char* text;
  Shape shape;
  Shape result;
};

TEST(Slice, GivesTheShapesThatNumPyGives) {
  const std::vector<Golden> golden = {
      {"", {3, 4}, {3, 4}},
      {"...", {3, 4}, {3, 4}},
      {"0:2, ::-1", {3, 4}, {2, 4}},
      {"0:10, ::-1", {3, 4}, {3, 4}},
      {"-3:", {10, 2}, {3, 2}},
      {"5", {10, 2}, {2}},
      {"5,", {10, 2}, {2}},
      {"-1,-1", {10, 2}, {}},
      {"..., 0", {2, 3, 4}, {2, 3}},
      {"0, ..., 0", {2, 3, 4}, {3}},
      {"1, ..., 1, 2", {2, 3, 4}, {}},
      {"None", {3}, {1, 3}},
      {"..., None", {3}, {3, 1}},
      {"newaxis, 2, None, :2, None", {3, 4}, {1, 1, 2, 1}},
      {"None, ...", {}, {1}},
      {"...", {}, {}},
      {"", {}, {}},
      {"2:2", {3}, {0}},
      {"5:1", {9, 2}, {0, 2}},
      {":, 7:", {2, 3}, {2, 0}},
      {"::2, ::3", {5, 7}, {3, 3}},
      {":", {0, 2}, {0, 2}},
      {"None:None:None", {4}, {4}},
  };
  for (const Golden& row : golden) {
    auto slice = ResolveSlice(row.text, row.shape);
    ASSERT_TRUE(slice.ok()) << row.text << ErrorText(slice.status());
    EXPECT_EQ(slice->result_shape, row.result) << row.text;
  }
}

TEST(Slice, KeepsTheOrderOfAxesAroundIndicesAndNewOnes) {
  auto slice = ResolveSlice("None, 1, ::2, None, -1:", Shape{3, 5, 7});
  ASSERT_TRUE(slice.ok());
  EXPECT_EQ(slice->dims[0], (SliceDim{1, 1, 1, -1}));
  EXPECT_EQ(slice->dims[1], (SliceDim{0, 2, 3, 1}));
  EXPECT_EQ(slice->dims[2], (SliceDim{6, 1, 1, 3}));
  EXPECT_EQ(slice->result_shape, (Shape{1, 3, 1, 1}));
}

TEST(Slice, RefusesWhatNumPyRefusesAndNamesIt) {
  auto error = [](const char* text, const Shape& shape) {
    auto slice = ResolveSlice(text, shape);
    EXPECT_EQ(GetReason(slice.status()), Reason::kInvalidArgument) << text;
    return ErrorText(slice.status());
  };
  EXPECT_THAT(error("0, 10", {3, 10}), HasSubstr("index 10 is out of range for axis 1 of size 10"));
  EXPECT_THAT(error("-4", {3}), HasSubstr("index -4 is out of range for axis 0 of size 3"));
  EXPECT_THAT(error("0", {0}), HasSubstr("size 0"));
  EXPECT_THAT(error("99999999999999999999", {3}), HasSubstr("out of range"));
  EXPECT_THAT(error("0", {}), HasSubstr("too many"));
  EXPECT_THAT(error("0:1, 0, 0", {3, 4}), HasSubstr("3 indices are too many"));
  EXPECT_THAT(error("..., ...", {3}), HasSubstr("at most one"));
  EXPECT_THAT(error("::0", {3}), HasSubstr("step of axis 0 is zero"));
  for (const char* text : {",", "1,,2", "a", "1.5", "1:2:3:4", "....", "0x1", "--1", "+-1", "1 2",
                           "+ 1", "none", "1:a", "'1'", "\n,\n"}) {
    EXPECT_THAT(error(text, {9, 9, 9}), HasSubstr("slice item")) << text;
  }
  for (const char* text : {"[0,1]", "[[0, 1]]", "[1", "1]", "0, [1]"}) {
    EXPECT_THAT(error(text, {9, 9}), HasSubstr("brackets")) << text;
  }
  std::string axes = "None";
  for (int i = 0; i < 64; ++i) axes += ",None";
  EXPECT_THAT(error(axes.c_str(), {3}), HasSubstr("at most 64"));
}

TEST(Shard, DividesAsArraySplitDoes) {
  // 10 over 4: 3, 3, 2, 2.
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {{0, 3}, {3, 3}, {6, 2}, {8, 2}};
  for (uint64_t rank = 0; rank < 4; ++rank) {
    auto shard = ShardSlice(Shape{5, 10}, rank, 4, -1);
    ASSERT_TRUE(shard.ok());
    EXPECT_EQ(shard->dims[0], (SliceDim{0, 1, 5, 0}));
    EXPECT_EQ(shard->dims[1], (SliceDim{expected[rank].first, 1, expected[rank].second, 1}));
    EXPECT_EQ(shard->result_shape, (Shape{5, expected[rank].second}));
  }
}

TEST(Shard, CoversEverySizeOnce) {
  for (uint64_t size = 0; size < 40; ++size) {
    for (uint64_t world = 1; world < 12; ++world) {
      uint64_t next = 0;
      for (uint64_t rank = 0; rank < world; ++rank) {
        auto shard = ShardSlice(Shape{size}, rank, world, 0);
        EXPECT_EQ(shard->dims[0].start, next);
        next += shard->dims[0].count;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(Shard, RefusesRanksAndAxesThatAreNotThere) {
  EXPECT_FALSE(ShardSlice(Shape{4}, 2, 2, 0).ok());
  EXPECT_FALSE(ShardSlice(Shape{4}, 0, 0, 0).ok());
  EXPECT_FALSE(ShardSlice(Shape{4}, 0, 1, 1).ok());
  EXPECT_FALSE(ShardSlice(Shape{4}, 0, 1, -2).ok());
  EXPECT_FALSE(ShardSlice(Shape{}, 0, 1, 0).ok());
}

}  // namespace
}  // namespace tilekv
