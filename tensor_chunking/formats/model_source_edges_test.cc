// Sizes beyond 32 bits, memory for headers, names: edges of models on disk.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/formats/test_folder.h"

namespace tilekv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<ModelSource> Open(const std::string& path, const SourceOptions& options = {}) {
  return OpenModelSource(*FileSystem::Posix(), path, options);
}

TEST(ModelSource, TensorsOf2To31And2To32BytesAreReadWhereTheyAre) {
  // One sparse file: only the last byte of each tensor is not zero.
  const uint64_t sizes[] = {(uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 32) + 1};
  std::string json = "{";
  uint64_t end = 0;
  std::vector<uint64_t> ends;
  for (uint64_t size : sizes) {
    json += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})",
                        ends.empty() ? "" : ",", ends.size(), size, end, end + size);
    ends.push_back(end += size);
  }
  json += "}";
  std::string head;
  AppendLe<uint64_t>(head, json.size());
  head += json;
  TestFolder folder;
  folder.Write("m.safetensors", head);
  {
    std::fstream file(folder.Path("m.safetensors"),
                      std::ios::in | std::ios::out | std::ios::binary);
    for (size_t i = 0; i < ends.size(); ++i) {
      file.seekp(static_cast<std::streamoff>(head.size() + ends[i] - 1));
      file.put(static_cast<char>('a' + i));
    }
    ASSERT_TRUE(file.flush());
  }
  auto source = Open(folder.Path("m.safetensors"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->tensor_bytes(), end);
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(source->tensor(i).length_bytes, sizes[i]);
    uint8_t last[2] = {};
    ASSERT_TRUE(source->ReadTensor(i, sizes[i] - 2, last).ok());
    EXPECT_EQ(last[0], 0);
    EXPECT_EQ(last[1], 'a' + i);
  }
}

TEST(ModelSource, AnArrayOfMoreThan2To32BytesIsReadWhereItIs) {
  std::string head = *BuildNpyHeader(DType::kU8, Shape{(uint64_t{1} << 32) + 1});
  TestFolder folder;
  folder.Write("w.npy", head);
  {
    std::fstream file(folder.Path("w.npy"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(head.size() + (uint64_t{1} << 32)));
    file.put('z');
    ASSERT_TRUE(file.flush());
  }
  auto source = Open(folder.Path("w.npy"));
  ASSERT_TRUE(source.ok()) << source.status();
  uint8_t last = 0;
  ASSERT_TRUE(source->ReadTensor(0, uint64_t{1} << 32, {&last, 1}).ok());
  EXPECT_EQ(last, 'z');
}

TEST(ModelSource, HeadersThatNeedMoreMemoryThanThereIsAreRefusedWithTheNeed) {
  TestFolder folder;
  std::vector<NamedBytes> tensors;
  for (int i = 0; i < 2'000; ++i) tensors.push_back({fmt::format("tensor.{}", i), "x"});
  folder.Write("a.safetensors", SafetensorsFile(tensors));
  absl::Status status = Open(folder.Path(), {.memory_bytes = 64 * kKiB}).status();
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_THAT(ErrorText(status), AllOf(HasSubstr("a.safetensors"), HasSubstr("--memory")));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_GT(source->memory_bytes(), 0u);
}

TEST(ModelSource, TwoUnicodeFormsOfOneLetterAreTwoTensors) {
  TestFolder folder;
  folder.Write("m.safetensors", SafetensorsFile({{"e\u0301", "a"}, {"\u00e9", "b"}}));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensor_count(), 2u);
  EXPECT_EQ(source->tensor(0).name, "e\u0301");
  EXPECT_EQ(source->tensor(1).name, "\u00e9");
}

}  // namespace
}  // namespace tilekv
