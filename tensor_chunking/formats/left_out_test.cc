// What a model's folder holds beside its weights: what is left out, what it is called, and what is
// advised where nothing else is there.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/formats/test_folder.h"

namespace tilekv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";

absl::StatusOr<ModelSource> Open(const std::string& path, const SourceOptions& options = {}) {
  return OpenModelSource(*FileSystem::Posix(), path, options);
}
std::string ErrorOf(const std::string& path, const SourceOptions& options = {}) {
  absl::Status status = Open(path, options).status();
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}
template <typename Files>
std::vector<std::string> Paths(const Files& files) {
  std::vector<std::string> paths;
  for (const auto& file : files) paths.push_back(file.path);
  return paths;
}

TEST(LeftOut, PicklesAreRefusedWithTheWayToConvert) {
  TestFolder folder;
  for (const char* name : {"pytorch_model.bin", "m.pt", "m.pth", "m.ckpt"}) {
    folder.Write(name, "PK\x03\x04");
    std::string error = ErrorOf(folder.Path(name));
    EXPECT_THAT(error, HasSubstr("never unpickled")) << name;
    EXPECT_THAT(error, HasSubstr("safetensors")) << name;
  }
}

TEST(LeftOut, WeightsOfOtherFormatsAreLeftOutAndListedWithSizes) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("pytorch_model.bin", "12345");
  folder.Write("pytorch_model.bin.index.json", "{}");
  folder.Write("onnx/model.onnx", "123");
  folder.Write("m.gguf", "1");
  folder.Write("tf_model.h5", "12");
  folder.Write("a.PT", "");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->side_files(), IsEmpty());
  EXPECT_THAT(Paths(source->left_out()),
              ElementsAre("a.PT", "m.gguf", "onnx/model.onnx", "pytorch_model.bin",
                          "pytorch_model.bin.index.json", "tf_model.h5"));
  EXPECT_EQ(source->left_out()[3].size_bytes, 5u);
}

TEST(LeftOut, IncludeTakesLeftOutFilesAsSideFiles) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("onnx/model.onnx", "123");
  folder.Write("pytorch_model.bin", "12345");
  auto source = Open(folder.Path(), {.include = {"*.onnx"}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->side_files()), ElementsAre("onnx/model.onnx"));
  EXPECT_THAT(Paths(source->left_out()), ElementsAre("pytorch_model.bin"));
}

TEST(LeftOut, ExcludedFilesAndFoldersAreLeftOutWithTheirSizes) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("logs/a.txt", "123");
  folder.Write("logs/deep/b.txt", "45");
  folder.Write("README.md", "1");
  auto source = Open(folder.Path(), {.exclude = {"logs", "*.md"}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->left_out()), ElementsAre("README.md", "logs/"));
  EXPECT_EQ(source->left_out()[1].size_bytes, 5u);
}

TEST(LeftOut, HiddenFoldersAreLeftOutAndHiddenFilesTravel) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write(".git/lfs/objects/xx", "123");
  folder.Write(".gitattributes", "");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->side_files()), ElementsAre(".gitattributes"));
  EXPECT_THAT(Paths(source->left_out()), ElementsAre(".git/"));
}

TEST(LeftOut, AFolderWithNothingToImportSaysWhatThereIs) {
  TestFolder folder;
  EXPECT_THAT(ErrorOf(folder.Path()), HasSubstr("among its 0 files"));
  folder.Write("config.json", "{}");
  EXPECT_THAT(ErrorOf(folder.Path()), HasSubstr("among its 1 files"));
  folder.Write("pytorch_model.bin", "12345");
  std::string error = ErrorOf(folder.Path());
  EXPECT_THAT(error, HasSubstr("'pytorch_model.bin' (5 B"));
  EXPECT_THAT(error, HasSubstr("torch.load"));
  folder.Write("unet/model.safetensors", SafetensorsFile({{"a", "x"}}));
  EXPECT_THAT(ErrorOf(folder.Path()), HasSubstr("sub-folder 'unet'"));
}

TEST(LeftOut, AGitLfsPointerIsCalledSoWhateverItsNamePromises) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  const std::vector<std::string> names = {"m.ckpt", "m.gguf", "m.pt", "m.zip", "pytorch_model.bin"};
  for (const std::string& name : names) folder.Write(name, kPointer);
  folder.Write("real.bin", "a file");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->left_out().size(), names.size() + 1);
  for (const LeftOutFile& file : source->left_out()) {
    bool pointer = file.path != "real.bin";
    EXPECT_EQ(file.why.find("a Git-LFS pointer") == 0, pointer) << file.path << ": " << file.why;
    EXPECT_EQ(file.why.find("pickle") == file.why.npos, pointer) << file.path << ": " << file.why;
  }
}

TEST(LeftOut, AGitLfsPointerAloneIsToBePulledAndNotToBeConverted) {
  TestFolder folder;
  folder.Write("config.json", "{}");
  folder.Write("pytorch_model.bin", kPointer);
  for (const std::string& path : {folder.Path(), folder.Path("pytorch_model.bin")}) {
    EXPECT_THAT(ErrorOf(path),
                AllOf(HasSubstr("pytorch_model.bin'"), HasSubstr("a Git-LFS pointer"),
                      HasSubstr("Run 'git lfs pull'"), Not(HasSubstr("torch.load")),
                      Not(HasSubstr("pickle"))));
  }
  // Beside a real one both remedies stand.
  folder.Write("adapter.pt", "a file");
  EXPECT_THAT(ErrorOf(folder.Path()),
              AllOf(HasSubstr("Run 'git lfs pull'"), HasSubstr("torch.load")));
}

TEST(LeftOut, AWebPageUnderTheNameOfOtherWeightsIsCalledSo) {
  TestFolder folder;
  folder.Write("pytorch_model.bin", "<!DOCTYPE html><html>");
  EXPECT_THAT(ErrorOf(folder.Path()), AllOf(HasSubstr("a web page"), Not(HasSubstr("torch.load"))));
}

TEST(LeftOut, ExportedProgramsAndZipArchivesAreListedAsOtherWeightsAre) {
  TestFolder folder;
  folder.Write("model.safetensors", SafetensorsFile({{"a", "x"}}));
  folder.Write("model.pt2", "PK");
  folder.Write("weights.zip", "PK");
  auto source = Open(folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(Paths(source->left_out()), ElementsAre("model.pt2", "weights.zip"));
  EXPECT_THAT(source->side_files(), IsEmpty());
  EXPECT_THAT(ErrorOf(folder.Path("model.pt2")), HasSubstr("torch.export.load"));
  EXPECT_THAT(ErrorOf(folder.Path("weights.zip")), HasSubstr("Unpack it"));
}

TEST(LeftOut, IncludedFilesAloneMakeNoModelAndAreNamed) {
  TestFolder folder;
  folder.Write("pytorch_model.bin", "12345");
  folder.Write("m.gguf", "1");
  std::string error = ErrorOf(folder.Path(), {.include = {"*.bin"}});
  EXPECT_THAT(error, HasSubstr("Included, but files beside tensors make no model alone: "
                               "'pytorch_model.bin' (5 B"));
  EXPECT_THAT(error, HasSubstr("Not imported: 'm.gguf' (1 B"));
  EXPECT_THAT(error, HasSubstr("tilekv kv put KEY FILE --chunked"));
  EXPECT_THAT(error, HasSubstr("torch.load"));
  EXPECT_THAT(ErrorOf(folder.Path()), Not(HasSubstr("Included")));
}

TEST(LeftOut, AFolderOfWhatIsOnlyHiddenEndsWithoutAnAdvice) {
  TestFolder folder;
  folder.Write(".git/HEAD", "123");
  EXPECT_THAT(ErrorOf(folder.Path()), EndsWith("a hidden folder)"));
}

}  // namespace
}  // namespace tilekv
