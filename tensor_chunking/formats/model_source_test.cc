#include "tensor_chunking/formats/model_source.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/formats/golden_files.h"
#include "tensor_chunking/formats/test_folder.h"

namespace tilekv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

absl::StatusOr<ModelSource> Open(const std::string& path, const SourceOptions& options = {}) {
  return OpenModelSource(*FileSystem::Posix(), path, options);
}
std::string ErrorOf(const std::string& path, const SourceOptions& options = {}) {
  absl::Status status = Open(path, options).status();
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}

std::vector<std::string> TensorNames(const ModelSource& source) {
  std::vector<std::string> names;
  for (size_t i = 0; i < source.tensor_count(); ++i) names.emplace_back(source.tensor(i).name);
  return names;
}
template <typename Files>
std::vector<std::string> Paths(const Files& files) {
  std::vector<std::string> paths;
  for (const auto& file : files) paths.push_back(file.path);
  return paths;
}
std::string Content(const ModelSource& source, size_t tensor) {
  std::string out(source.tensor(tensor).length_bytes, '\0');
  absl::Status status =
      source.ReadTensor(tensor, 0, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

// Two shards and their index.
constexpr char kFirst[] = "model-00001-of-00002.safetensors";
constexpr char kSecond[] = "model-00002-of-00002.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kGoodIndex[] =
    R"({"metadata":{"total_size":5},"weight_map":{"b":"model-00001-of-00002.safetensors",
    "c":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors"}})";

class ShardedModel : public ::testing::Test {
 protected:
  ShardedModel() {
    folder_.Write(kFirst, SafetensorsFile({{"b", "bb"}, {"c", "c"}}));
    folder_.Write(kSecond, SafetensorsFile({{"a", "aa"}}));
    folder_.Write(kIndex, kGoodIndex);
  }
  TestFolder folder_;
};

// --- single files ---

TEST(ModelSource, OpensOneSafetensorsFile) {
  TestFolder folder;
  folder.Write("m.safetensors", SafetensorsFile({{"a", "xy"}, {"b", ""}}, R"({"format":"pt"})"));
  folder.Write("config.json", "{}");
  auto source = Open(folder.Path("m.safetensors"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("a", "b"));
  EXPECT_EQ(Content(*source, 0), "xy");
  EXPECT_EQ(Content(*source, 1), "");
  EXPECT_THAT(Paths(source->files()), ElementsAre("m.safetensors"));
  EXPECT_THAT(source->side_files(), IsEmpty());
  EXPECT_EQ(source->metadata().at("format"), "pt");
  EXPECT_EQ(source->tensor_bytes(), 2u);
}

TEST(ModelSource, KeepsTheHeaderOnlyWhereItCannotBeDerived) {
  TestFolder folder;
  auto header_of = [&](const std::string& content) {
    folder.Write("m.safetensors", content);
    auto source = Open(folder.Path("m.safetensors"));
    EXPECT_TRUE(source.ok()) << source.status();
    return source->files()[0].header;
  };
  EXPECT_EQ(header_of(SafetensorsFile({{"a", "x"}, {"b", "y"}})), "");
  EXPECT_EQ(header_of(SafetensorsFile({{"a", "x"}}, R"({"k":"v"})")), "");
  std::string other_order = SafetensorsFile({{"b", "x"}, {"a", "y"}});
  EXPECT_EQ(header_of(other_order), other_order.substr(0, other_order.size() - 2));
  std::string no_keys = SafetensorsFile({{"a", "x"}}, "{}");
  EXPECT_EQ(header_of(no_keys), no_keys.substr(0, no_keys.size() - 1));
}

TEST(ModelSource, OpensOneNpyFileUnderItsStem) {
  TestFolder folder;
  folder.Write("weights.v1.npy", golden::FromHex(golden::kNpyFortranBig));
  auto source = Open(folder.Path("weights.v1.npy"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("weights.v1"));
  SourceTensor tensor = source->tensor(0);
  EXPECT_TRUE(tensor.read_by_boxes);
  std::string content = Content(*source, 0);
  for (uint16_t i = 0; i < 24; ++i) {
    EXPECT_EQ(LoadLe<uint16_t>(reinterpret_cast<const uint8_t*>(&content[i * 2])), i);
  }
}

TEST(ModelSource, AFileWithoutATellingNameIsKnownByItsContent) {
  TestFolder folder;
  folder.Write("blobs/0123", SafetensorsFile({{"a", "x"}}));
  folder.Write("blobs/4567", golden::FromHex(golden::kNpy2x3));
  folder.Write("blobs/89ab", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_TRUE(Open(folder.Path("blobs/0123")).ok());
  EXPECT_TRUE(Open(folder.Path("blobs/4567")).ok());
  EXPECT_THAT(ErrorOf(folder.Path("blobs/89ab")), HasSubstr("Git-LFS"));
}

TEST(ModelSource, AMissingPathIsNotFound) {
  TestFolder folder;
  EXPECT_EQ(GetReason(Open(folder.Path("none")).status()), Reason::kNotFound);
}

TEST(ModelSource, ADtypeIsPassedToRawNpyFiles) {
  TestFolder folder;
  folder.Write("w.npy", golden::FromHex(golden::kNpyBfloat16));
  EXPECT_THAT(ErrorOf(folder.Path("w.npy")), HasSubstr("BF16"));
  EXPECT_EQ(Open(folder.Path("w.npy"), {.dtypes = {{"*", DType::kBF16}}})->tensor(0).dtype,
            DType::kBF16);
}

// --- sharded models ---

TEST_F(ShardedModel, OpensAsOneListInNameOrder) {
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Content(*source, 0), "aa");
  EXPECT_EQ(Content(*source, 2), "c");
  EXPECT_THAT(Paths(source->files()), ElementsAre(kFirst, kSecond));
  EXPECT_EQ(source->index()->path, kIndex);
  EXPECT_EQ(source->index()->content, kGoodIndex);
  EXPECT_THAT(source->side_files(), IsEmpty());
  EXPECT_THAT(source->warnings(), IsEmpty());
  EXPECT_THAT(source->files()[0].header, Not(IsEmpty()));
}

TEST_F(ShardedModel, AFolderPathMayEndInSlashes) { EXPECT_TRUE(Open(folder_.Path() + "//").ok()); }

TEST_F(ShardedModel, ShardNamesThatLeaveTheFolderAreRefused) {
  TestFolder outside;
  outside.Write("w.safetensors", SafetensorsFile({{"a", "x"}}));
  for (const std::string& shard :
       {std::string("../w.safetensors"), outside.Path("w.safetensors"),
        std::string("sub/../../w.safetensors"), std::string("./model.safetensors"),
        std::string("..\\\\w.safetensors"), std::string("")}) {
    folder_.Write(kIndex, fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", shard));
    EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr("outside the model's folder")) << shard;
  }
}

TEST_F(ShardedModel, AListedShardThatIsMissingIsRefusedWithTheList) {
  std::filesystem::remove(folder_.Path(kSecond));
  EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr(fmt::format("not there: '{}'", kSecond)));
}

TEST_F(ShardedModel, ATensorThatIsNotInItsShardIsRefusedWithTheList) {
  folder_.Write(kSecond, SafetensorsFile({{"z", "aa"}}));
  std::string error = ErrorOf(folder_.Path());
  EXPECT_THAT(error, HasSubstr(fmt::format("none of the shards: 'a' in '{}'", kSecond)));
  EXPECT_THAT(error, HasSubstr(fmt::format("does not name: 'z' in '{}'", kSecond)));
}

TEST_F(ShardedModel, ATensorInAnotherShardThanNamedIsRefused) {
  folder_.Write(kFirst, SafetensorsFile({{"a", "aa"}, {"c", "c"}}));
  folder_.Write(kSecond, SafetensorsFile({{"b", "bb"}}));
  EXPECT_THAT(ErrorOf(folder_.Path()),
              HasSubstr(fmt::format("another shard than named: 'a' in '{}'", kSecond)));
}

TEST_F(ShardedModel, ATensorInTwoShardsIsRefused) {
  folder_.Write(kSecond, SafetensorsFile({{"a", "aa"}, {"b", "bb"}}));
  EXPECT_THAT(ErrorOf(folder_.Path()),
              HasSubstr(fmt::format("'b' in '{}' and '{}'", kFirst, kSecond)));
}

TEST_F(ShardedModel, ATensorTwiceInTheIndexIsRefused) {
  folder_.Write(kIndex, R"({"weight_map":{"a":"x.safetensors","\u0061":"y.safetensors"}})");
  EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr("twice: 'a'"));
}

TEST_F(ShardedModel, AWrongTotalSizeIsAWarning) {
  std::string index = kGoodIndex;
  index.replace(index.find(":5}"), 3, ":6}");
  folder_.Write(kIndex, index);
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->warnings(), ElementsAre(HasSubstr("6 bytes (total_size), but they have 5")));
  EXPECT_EQ(source->tensor_bytes(), 5u);
}

TEST_F(ShardedModel, AnIndexThatIsNoneIsRefused) {
  for (const char* index :
       {"", "[]", "{}", R"({"weight_map":{}})", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":["x"]}})", R"({"weight_map":{"a":{}}})", R"({"weight_map":1})",
        R"({"weight_map":{"a":"b"},"weight_map":{}})", R"({"weight_map":)",
        "version https://git-lfs.github.com/spec/v1\n"}) {
    folder_.Write(kIndex, index);
    EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr(kIndex)) << index;
  }
}

TEST_F(ShardedModel, OtherThingsInAnIndexArePassedOver) {
  std::string index = kGoodIndex;
  index.replace(1, 0, R"("x":[{"weight_map":{"q":1}},null,-1],"y":{"weight_map":{"q":"../z"}},)");
  index.replace(index.find("\"total_size\""), 0,
                R"("total_parameters":1.5,"more":{"total_size":[7]},)");
  folder_.Write(kIndex, index);
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->warnings(), IsEmpty());
}

TEST_F(ShardedModel, ADamagedShardIsAnErrorBeforeAnythingElse) {
  std::string shard = folder_.Read(kSecond);
  folder_.Write(kSecond, shard.substr(0, shard.size() - 1));
  EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr(kSecond));
}

TEST_F(ShardedModel, SafetensorsFilesThatTheIndexDoesNotNameAreLeftOutUnlessIncluded) {
  folder_.Write("consolidated.safetensors", SafetensorsFile({{"a", "aa"}}));
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_THAT(Paths(source->left_out()), ElementsAre("consolidated.safetensors"));
  EXPECT_THAT(source->left_out()[0].why, HasSubstr("not named by the index"));
  source = Open(folder_.Path(), {.include = {"consolidated*"}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("consolidated.safetensors"));
}

TEST_F(ShardedModel, ShardsMayBeInSubfolders) {
  folder_.Write("part/w.safetensors", SafetensorsFile({{"q", "q"}}));
  folder_.Write(kIndex, R"({"weight_map":{"q":"part/w.safetensors"}})");
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->files()), ElementsAre("part/w.safetensors"));
  EXPECT_EQ(Content(*source, 0), "q");
}

TEST_F(ShardedModel, ExcludingTheIndexImportsTheShardsByName) {
  folder_.Write(kIndex, R"({"weight_map":{"q":"none.safetensors"}})");
  auto source = Open(folder_.Path(), {.exclude = {"*.index.json"}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(source->index().has_value());
  EXPECT_THAT(Paths(source->left_out()), ElementsAre(kIndex));
}

TEST_F(ShardedModel, WithoutAnIndexATensorInTwoFilesIsRefused) {
  std::filesystem::remove(folder_.Path(kIndex));
  EXPECT_TRUE(Open(folder_.Path()).ok());
  folder_.Write("model.fp16.safetensors", SafetensorsFile({{"a", "a"}}));
  EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr("'a' in 'model-00002-of-00002.safetensors' and "
                                                 "'model.fp16.safetensors'"));
  EXPECT_TRUE(Open(folder_.Path(), {.exclude = {"*.fp16.*"}}).ok());
}

TEST_F(ShardedModel, TwoIndexesOfOtherNamesAreRefused) {
  std::filesystem::rename(folder_.Path(kIndex), folder_.Path("a.safetensors.index.json"));
  EXPECT_TRUE(Open(folder_.Path()).ok());
  folder_.Write("b.safetensors.index.json", kGoodIndex);
  EXPECT_THAT(ErrorOf(folder_.Path()), HasSubstr("2 indexes"));
  folder_.Write(kIndex, kGoodIndex);
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->index()->path, kIndex);
  EXPECT_THAT(Paths(source->left_out()),
              ElementsAre("a.safetensors.index.json", "b.safetensors.index.json"));
}

TEST_F(ShardedModel, MetadataOfTheShardsIsMergedAndContradictionsAreWarnings) {
  folder_.Write(kFirst, SafetensorsFile({{"b", "bb"}, {"c", "c"}}, R"({"format":"pt","x":"1"})"));
  folder_.Write(kSecond, SafetensorsFile({{"a", "aa"}}, R"({"format":"np","y":"2"})"));
  auto source = Open(folder_.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->metadata(),
              ElementsAre(std::pair<const std::string, std::string>{"format", "pt"},
                          std::pair<const std::string, std::string>{"x", "1"},
                          std::pair<const std::string, std::string>{"y", "2"}));
  EXPECT_THAT(source->warnings(), ElementsAre(HasSubstr("'format'")));
}

// --- folders ---

TEST(ModelSource, SideFilesTravelSubfoldersIncluded) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("config.json", "{\"k\":1}");
  folder.Write("tokenizer.model", "t");
  folder.Write("1_Pooling/config.json", "{}");
  folder.Write("2_Dense/model.safetensors", SafetensorsFile({{"a", "y"}}));
  folder.Write("empty.txt", "");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("a"));
  EXPECT_THAT(Paths(source->side_files()),
              ElementsAre("1_Pooling/config.json", "2_Dense/model.safetensors", "config.json",
                          "empty.txt", "tokenizer.model"));
  std::string content(7, '\0');
  ASSERT_TRUE(source->ReadSideFile(2, 0, {reinterpret_cast<uint8_t*>(content.data()), 7}).ok());
  EXPECT_EQ(content, "{\"k\":1}");
  EXPECT_EQ(source->side_files()[2].identity.size_bytes, 7u);
}

TEST(ModelSource, ASnapshotOfLinksIntoACacheImports) {
  TestFolder cache;
  cache.Write("blobs/aa11", SafetensorsFile({{"a", "x"}}));
  cache.Write("blobs/bb22", SafetensorsFile({{"b", "y"}}));
  cache.Write("blobs/cc33", R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  cache.Write("blobs/dd44", "{}");
  cache.Link("snapshots/rev/m-1.safetensors", "../../blobs/aa11");
  cache.Link("snapshots/rev/m-2.safetensors", "../../blobs/bb22");
  cache.Link("snapshots/rev/model.safetensors.index.json", "../../blobs/cc33");
  cache.Link("snapshots/rev/sub/config.json", "../../../blobs/dd44");
  auto source = Open(cache.Path("snapshots/rev"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("a", "b"));
  EXPECT_EQ(Content(*source, 1), "y");
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("sub/config.json"));
  auto file = Open(cache.Path("snapshots/rev/m-1.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->files()[0].path, "m-1.safetensors");
}

TEST(ModelSource, ALinkThatLeadsNowhereIsRefused) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Link("config.json", "../../blobs/none");
  EXPECT_THAT(ErrorOf(folder.Path()), HasSubstr("lead nowhere"));
  EXPECT_TRUE(Open(folder.Path(), {.exclude = {"config.json"}}).ok());
}

TEST(ModelSource, ALoopOfLinksIsRefused) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Link("again", ".");
  EXPECT_THAT(ErrorOf(folder.Path()), AllOf(HasSubstr("loop of links"), HasSubstr("--exclude")));
  EXPECT_TRUE(Open(folder.Path(), {.exclude = {"again"}}).ok());
}

TEST(ModelSource, NamesInCapitalsAreOfTheSameKind) {
  TestFolder folder;
  folder.Write("W.SAFETENSORS", SafetensorsFile({{"a", "x"}}));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->tensor_count(), 1u);
  EXPECT_TRUE(Open(folder.Path("W.SAFETENSORS")).ok());
}

TEST(ModelSource, TensorsThatTravelAsSideFilesAreAWarning) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("table.npy", "anything");
  folder.Write("pooling/model.safetensors", SafetensorsFile({{"b", "x"}}));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->tensor_count(), 1u);
  EXPECT_THAT(source->warnings(),
              ElementsAre(AllOf(HasSubstr("side files"), HasSubstr("'table.npy'"),
                                HasSubstr("'pooling/model.safetensors'"))));
}

TEST(ModelSource, WhatIsNotThereIsCalledSo) {
  TestFolder folder;
  absl::Status status = Open(folder.Path("none")).status();
  EXPECT_EQ(GetReason(status), Reason::kNotFound);
  EXPECT_THAT(ErrorText(status), HasSubstr("none' is not there"));
}

TEST(ModelSource, AGitLfsPointerOrAWebPageUnderAWeightsNameIsCalledByItsName) {
  TestFolder folder;
  folder.Write("model-1.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("model-2.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_THAT(ErrorOf(folder.Path()),
              AllOf(HasSubstr("'model-2.safetensors'"), HasSubstr("a Git-LFS pointer")));
  folder.Write("model-2.safetensors", "<!DOCTYPE html><html>");
  EXPECT_THAT(ErrorOf(folder.Path()),
              AllOf(HasSubstr("'model-2.safetensors'"), HasSubstr("a web page")));
}

TEST(ModelSource, ASideFileThatIsAGitLfsPointerIsAWarning) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->warnings(), ElementsAre(HasSubstr("Git-LFS pointers")));
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("tokenizer.json"));
}

TEST(ModelSource, NamesThatCannotBeKeptAreRefused) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("a\\b.txt", "");
  EXPECT_THAT(ErrorOf(folder.Path()), HasSubstr("cannot be kept"));
}

TEST(ModelSource, AFolderOfNpyFilesIsAModel) {
  TestFolder folder;
  folder.Write("w1.npy", golden::FromHex(golden::kNpy2x3));
  folder.Write("b1.npy", golden::FromHex(golden::kNpyScalar));
  folder.Write("params.json", "{}");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(TensorNames(*source), ElementsAre("b1", "w1"));
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("params.json"));
}

TEST(ModelSource, NpyFilesBesideSafetensorsAreSideFiles) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("stats.npy", golden::FromHex(golden::kNpy2x3));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("stats.npy"));
}

// --- reading ---

TEST(ModelSource, AChangedFileIsNoticed) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "xy"}}));
  folder.Write("config.json", "{}");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->VerifyUnchanged().ok());
  // The same size and the time put back: another inode, or at least another time of change.
  auto time = std::filesystem::last_write_time(folder.Path("model.safetensors"));
  folder.Write("copy", SafetensorsFile({{"a", "xz"}}));
  std::filesystem::rename(folder.Path("copy"), folder.Path("model.safetensors"));
  std::filesystem::last_write_time(folder.Path("model.safetensors"), time);
  absl::Status changed = source->VerifyUnchanged();
  EXPECT_EQ(GetReason(changed), Reason::kInvalidFile);
  EXPECT_THAT(ErrorText(changed), HasSubstr("'model.safetensors'"));
  EXPECT_THAT(ErrorText(changed), Not(HasSubstr("'config.json'")));
  std::filesystem::remove(folder.Path("config.json"));
  EXPECT_THAT(ErrorText(source->VerifyUnchanged()), HasSubstr("'config.json' (gone)"));
}

TEST(ModelSource, AFileCutWhileItIsReadIsAnError) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "xyz"}}));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  std::filesystem::resize_file(folder.Path("model.safetensors"),
                               source->files()[0].identity.size_bytes - 1);
  std::string out(3, '\0');
  absl::Status status = source->ReadTensor(0, 0, {reinterpret_cast<uint8_t*>(out.data()), 3});
  EXPECT_EQ(GetReason(status), Reason::kInvalidFile);
}

TEST(ModelSource, MoreFilesThanMayBeOpenAreReadAll) {
  TestFolder folder;
  constexpr size_t kFiles = kMaxOpenSourceFiles + 10;
  for (size_t i = 0; i < kFiles; ++i) {
    folder.Write(
        fmt::format("{:03}.safetensors", i),
        SafetensorsFile({{fmt::format("t{:03}", i), std::string(1, static_cast<char>(i))}}));
  }
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensor_count(), kFiles);
  for (size_t round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kFiles; ++i) {
      ASSERT_EQ(Content(*source, i), std::string(1, static_cast<char>(i)));
    }
  }
}

TEST(ModelSource, TenThousandTensorsOfManyFilesComeInOrder) {
  TestFolder folder;
  std::vector<NamedBytes> even;
  std::vector<NamedBytes> odd;
  for (int i = 0; i < 10'000; ++i) {
    (i % 2 == 0 ? even : odd).push_back({fmt::format("t{:05}", i), std::string(1, 'a')});
  }
  folder.Write("even.safetensors", SafetensorsFile(even));
  folder.Write("odd.safetensors", SafetensorsFile(odd));
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  for (size_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(source->tensor(i).name, fmt::format("t{:05}", i));
  }
}

}  // namespace
}  // namespace tilekv
