#include "tensor_chunking/formats/tensor_file.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/golden_files.h"
#include "tensor_chunking/formats/safetensors_index.h"
#include "tensor_chunking/formats/tensor_file_writer.h"
#include "tensor_chunking/formats/test_folder.h"
#include "tensor_chunking/shape.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A safetensors file read into views and contents.
struct Parsed {
  explicit Parsed(std::string bytes) : file(std::move(bytes)) {
    uint64_t length = *SafetensorsHeaderLength(AsBytes(file), file.size(), "f");
    head = file.substr(0, kSafetensorsLengthBytes + length);
    header = *ParseSafetensorsHeader(std::string_view(head).substr(kSafetensorsLengthBytes),
                                     file.size(), "f");
    for (uint32_t index : header.by_name) {
      TensorInfo info = header.tensors[index];
      views.push_back(info);
      contents.push_back(file.substr(header.data_start + info.begin, info.end - info.begin));
    }
  }
  std::optional<uint32_t> Find(std::string_view name) const {
    for (uint32_t i = 0; i < views.size(); ++i) {
      if (views[i].name == name) return i;
    }
    return std::nullopt;
  }
  std::string file;
  std::string head;
  SafetensorsHeader header;
  std::vector<TensorView> views;  // by name
  std::vector<std::string> contents;
};

absl::Status WriteAll(const std::string& path, TensorFilePlan plan,
                      const std::vector<std::string>& contents, bool overwrite = false) {
  TILEKV_ASSIGN_OR_RETURN(auto writer, TensorFileWriter::Create(*FileSystem::Posix(), path,
                                                                std::move(plan), overwrite));
  // Back to front, in pieces of three bytes.
  for (size_t slot = writer->plan().slots.size(); slot-- > 0;) {
    const std::string& content = contents[writer->plan().slots[slot].tensor];
    for (size_t at = 0; at < content.size(); at += 3) {
      TILEKV_RETURN_IF_ERROR(writer->Write(
          slot, at, AsBytes(content).subspan(at, std::min<size_t>(3, content.size() - at))));
    }
  }
  return writer->Finish();
}

TEST(TensorFile, WritesTheReferenceWritersFileByteForByte) {
  for (const char* hex : {golden::kEveryDtype, golden::kNames, golden::kOnlyMetadata,
                          golden::kNothing, golden::kEmptyMetadata}) {
    TestFolder folder;
    Parsed parsed(golden::FromHex(hex));
    auto plan = PlanSafetensorsFile(parsed.views, parsed.header.metadata);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->file_bytes(), parsed.file.size());
    absl::Status written = WriteAll(folder.Path("m"), *plan, parsed.contents);
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_EQ(folder.Read("m"), parsed.file);
    EXPECT_THAT(folder.Names(), ElementsAre("m"));
  }
}

TEST(TensorFile, WritesAFileOfAnyWriterAsItWas) {
  TestFolder folder;
  Parsed parsed(SafetensorsFile({{"b", "12345"}, {"a", "6"}, {"\\u0063", ""}},
                                "{ \"z\" : \"1\", \"a\":\"2\"}"));
  auto plan = PlanSafetensorsFileAsItWas(parsed.head, parsed.views,
                                         [&](std::string_view name) { return parsed.Find(name); });
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->has_value());
  absl::Status written = WriteAll(folder.Path("m"), **plan, parsed.contents);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(folder.Read("m"), parsed.file);
}

TEST(TensorFile, AChangedModelDoesNotFitItsOldHeader) {
  Parsed parsed(SafetensorsFile({{"b", "12345"}, {"a", "6"}}));
  auto plan_with = [&](const std::vector<TensorView>& views) {
    auto plan = PlanSafetensorsFileAsItWas(parsed.head, views,
                                           [&](std::string_view name) -> std::optional<uint32_t> {
                                             for (uint32_t i = 0; i < views.size(); ++i) {
                                               if (views[i].name == name) return i;
                                             }
                                             return std::nullopt;
                                           });
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->has_value();
  };
  EXPECT_TRUE(plan_with(parsed.views));
  const Shape other = {6};
  EXPECT_FALSE(plan_with({parsed.views[0]}));
  EXPECT_FALSE(plan_with({parsed.views[0], {"b", DType::kU8, other}}));
  EXPECT_FALSE(plan_with({parsed.views[0], {"b", DType::kI8, parsed.views[1].shape}}));
}

TEST(TensorFile, ADamagedKeptHeaderIsAnError) {
  Parsed parsed(SafetensorsFile({{"a", "6"}}));
  auto plan = [&](std::string head) {
    return PlanSafetensorsFileAsItWas(std::move(head), parsed.views,
                                      [&](std::string_view name) { return parsed.Find(name); })
        .status();
  };
  EXPECT_EQ(GetReason(plan(parsed.head.substr(0, parsed.head.size() - 1))), Reason::kInvalidFile);
  EXPECT_EQ(GetReason(plan(parsed.head + "x")), Reason::kInvalidFile);
  EXPECT_EQ(GetReason(plan("")), Reason::kInvalidFile);
}

TEST(TensorFile, WritesNpyFilesAsNumPyDoes) {
  TestFolder folder;
  std::string file = golden::FromHex(golden::kNpy2x3);
  const Shape shape = {2, 3};
  auto plan = PlanNpyFile({"w", DType::kF32, shape});
  ASSERT_TRUE(plan.ok()) << plan.status();
  absl::Status written = WriteAll(folder.Path("w.npy"), *plan, {file.substr(128)});
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(folder.Read("w.npy"), file);
}

TEST(TensorFile, SeveralThreadsMayWrite) {
  TestFolder folder;
  const Shape shape = {4096};
  auto writer = TensorFileWriter::Create(*FileSystem::Posix(), folder.Path("w.npy"),
                                         *PlanNpyFile({"w", DType::kU8, shape}), false);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string piece(64, static_cast<char>('a' + t));
      for (uint64_t i = t; i < 64; i += 4) {
        EXPECT_TRUE((*writer)->Write(0, i * 64, AsBytes(piece)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE((*writer)->Finish().ok());
  std::string data = folder.Read("w.npy").substr((*writer)->plan().head.size());
  ASSERT_EQ(data.size(), 4096u);
  for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], 'a' + i / 64 % 4);
}

TEST(TensorFile, AnExistingFileIsKeptUnlessItMayBeOverwritten) {
  TestFolder folder;
  folder.Write("m", "old");
  Parsed parsed(SafetensorsFile({{"a", "6"}}));
  TensorFilePlan plan = *PlanSafetensorsFile(parsed.views, std::nullopt);
  absl::Status refused = WriteAll(folder.Path("m"), plan, parsed.contents);
  EXPECT_EQ(GetReason(refused), Reason::kInvalidArgument);
  EXPECT_THAT(ErrorText(refused), HasSubstr("exists already"));
  EXPECT_EQ(folder.Read("m"), "old");
  EXPECT_THAT(folder.Names(), ElementsAre("m"));
  EXPECT_TRUE(WriteAll(folder.Path("m"), plan, parsed.contents, true).ok());
  EXPECT_EQ(folder.Read("m"), parsed.file);
}

TEST(TensorFile, AFileThatComesMeanwhileIsKept) {
  TestFolder folder;
  Parsed parsed(SafetensorsFile({{"a", "6"}}));
  auto writer = TensorFileWriter::Create(*FileSystem::Posix(), folder.Path("m"),
                                         *PlanSafetensorsFile(parsed.views, std::nullopt), false);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Write(0, 0, AsBytes("6")).ok());
  folder.Write("m", "other");
  EXPECT_FALSE((*writer)->Finish().ok());
  writer->reset();
  EXPECT_EQ(folder.Read("m"), "other");
  EXPECT_THAT(folder.Names(), ElementsAre("m"));
}

TEST(TensorFile, NothingIsLeftOfAFileThatWasNotFinished) {
  TestFolder folder;
  Parsed parsed(SafetensorsFile({{"a", "66"}}));
  TensorFilePlan plan = *PlanSafetensorsFile(parsed.views, std::nullopt);
  {
    auto writer = TensorFileWriter::Create(*FileSystem::Posix(), folder.Path("m"), plan, false);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Write(0, 0, AsBytes("6")).ok());
    EXPECT_EQ(GetReason((*writer)->Finish()), Reason::kInternal);
  }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(TensorFile, AFolderIsNoDestination) {
  TestFolder folder;
  EXPECT_EQ(GetReason(WriteAll(folder.Path(), *PlanSafetensorsFile({}, std::nullopt), {}, true)),
            Reason::kInvalidArgument);
}

TEST(TensorFile, AStreamHasTheSameBytes) {
  Parsed parsed(golden::FromHex(golden::kNames));
  StringSink sink;
  TensorStreamWriter stream(sink, *PlanSafetensorsFile(parsed.views, parsed.header.metadata));
  ASSERT_TRUE(stream.Begin().ok());
  EXPECT_EQ(GetReason(stream.Finish()), Reason::kInternal);
  for (const TensorFilePlan::Slot& slot : stream.plan().slots) {
    ASSERT_TRUE(stream.Append(AsBytes(parsed.contents[slot.tensor])).ok());
  }
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(sink.text(), parsed.file);
}

// --- shards ---

std::vector<std::string> ShardTexts(const ShardPlan& plan) {
  std::vector<std::string> texts;
  for (const ShardPlan::Shard& shard : plan.shards) {
    texts.push_back(fmt::format("{}: {}", shard.file_name, fmt::join(shard.tensors, " ")));
  }
  return texts;
}

TEST(Shards, OneFileNeedsNoIndex) {
  const Shape shape = {1};
  std::vector<TensorView> tensors = {{"a", DType::kU8, shape}, {"b", DType::kU8, shape}};
  for (uint64_t limit : {0, 20}) {
    ShardPlan plan = PlanShards(tensors, {10, 10}, limit);
    EXPECT_THAT(ShardTexts(plan), ElementsAre("model.safetensors: 0 1"));
    EXPECT_EQ(plan.index_name, "");
  }
  EXPECT_THAT(ShardTexts(PlanShards({}, {}, 5)), ElementsAre("model.safetensors: "));
}

TEST(Shards, AFileIsFilledUpToTheLimitAndALargerTensorIsAlone) {
  const Shape shape = {1};
  std::vector<TensorView> tensors;
  std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  for (const std::string& name : names) tensors.push_back({name, DType::kU8, shape});
  ShardPlan plan = PlanShards(tensors, {6, 4, 11, 0, 1}, 10);
  EXPECT_THAT(ShardTexts(plan), ElementsAre("model-00001-of-00003.safetensors: 2",
                                            "model-00002-of-00003.safetensors: 0 1 3",
                                            "model-00003-of-00003.safetensors: 4"));
  EXPECT_EQ(plan.index_name, "model.safetensors.index.json");
  EXPECT_EQ(plan.index_content, R"({
  "metadata": {
    "total_size": 22
  },
  "weight_map": {
    "a": "model-00002-of-00003.safetensors",
    "b": "model-00002-of-00003.safetensors",
    "c": "model-00001-of-00003.safetensors",
    "d": "model-00002-of-00003.safetensors",
    "e": "model-00003-of-00003.safetensors"
  }
}
)");
}

TEST(Shards, AnIndexIsEscapedAsPythonDoes) {
  // json.dumps({"metadata": {"total_size": 1}, "weight_map": {...}}, indent=2, sort_keys=True) +
  // "\n"
  std::string name = "q\"\\/\x07\x7f\u2028\u00e9\U0001F600\n";
  std::string index = BuildSafetensorsIndex({{name, "s"}}, 1);
  EXPECT_THAT(index, HasSubstr(R"("q\"\\/\u0007\u007f\u2028\u00e9\ud83d\ude00\n": "s")"));
  auto parsed = ParseSafetensorsIndex(index, "i");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->entries[0].tensor, name);
  EXPECT_EQ(parsed->total_size, 1u);
  EXPECT_EQ(BuildSafetensorsIndex({}, 0),
            "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n");
}

}  // namespace
}  // namespace tilekv
