// What differs between versions of a model whose small tensors share packs.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/write_commit.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Contents = std::map<std::string, std::string>;

// U8 tensors of these contents.
WriteInput InputOf(const Contents& contents) {
  WriteInput input;
  for (const auto& [name, content] : contents) {
    input.tensors.push_back({.name = name,
                             .dtype = DType::kU8,
                             .shape = {content.size()},
                             .read = [content = content](uint64_t offset, MutableBytes out) {
                               std::memcpy(out.data(), content.data() + offset, out.size());
                               return absl::OkStatus();
                             }});
  }
  return input;
}

class ModelDiffTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<ModelReader> Written(const absl::StatusOr<WriteReport>& report) {
    EXPECT_TRUE(report.ok()) << report.status();
    auto reader = ModelReader::Open(
        *store_, {.name = "m", .version = std::to_string(report->version.record().number())});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }
  std::unique_ptr<ModelReader> Write(const Contents& contents) {
    return Written(WriteModel(*store_, {.name = "m"}, InputOf(contents)));
  }

  std::unique_ptr<KvStore> store_;
};

const TileRef& TileOf(const ModelReader& reader, std::string_view name) {
  return reader.manifest().Find(name)->tiles.at(0);
}

std::vector<std::string> Names(const ModelDiff& diff) {
  std::vector<std::string> names;
  for (const DiffRow& row : diff.rows) names.push_back(row.tensor);
  return names;
}

// One pack holds all: none of these names ends one.
Contents SmallTensors() {
  Contents contents;
  for (int i = 0; i < 4; ++i) contents["t" + std::to_string(i)] = std::string(1000 + i, 'a' + i);
  return contents;
}

TEST_F(ModelDiffTest, ListsOnlyThePackedTensorThatChanged) {
  Contents contents = SmallTensors();
  auto older = Write(contents);
  contents["t1"][77] = '!';
  auto newer = Write(contents);
  for (const auto& [name, content] : contents) {  // the case in question: all in one pack, replaced
    ASSERT_EQ(TileOf(*older, name).object, TileOf(*older, "t0").object);
    ASSERT_NE(TileOf(*newer, name).object, TileOf(*older, name).object);
  }
  ModelDiff diff = *DiffModels(*older, *newer);
  ASSERT_THAT(Names(diff), ElementsAre("t1"));
  EXPECT_EQ(diff.rows[0].kind, DiffRow::Kind::kChanged);
  EXPECT_EQ(diff.rows[0].changed_tiles, 1u);
  EXPECT_EQ(diff.rows[0].changed_bytes, 1001u);
  EXPECT_EQ(diff.same_tensors, 3u);
  EXPECT_TRUE(DiffModels(*newer, *newer)->same());
}

TEST_F(ModelDiffTest, TensorsThatMoveInTheirPackAreTheSame) {
  Contents contents = SmallTensors();
  auto older = Write(contents);
  contents["t0"] += std::string(100, 'x');
  contents.erase("t2");
  auto newer = Write(contents);
  ASSERT_NE(TileOf(*newer, "t3").offset_bytes, TileOf(*older, "t3").offset_bytes);
  EXPECT_THAT(Names(*DiffModels(*older, *newer)), ElementsAre("t0", "t2"));
}

TEST_F(ModelDiffTest, ATensorThatGainsANeighbourInItsPackIsTheSame) {
  Contents contents = {{"t1", std::string(1000, 'a')}};
  auto older = Write(contents);
  ASSERT_FALSE(TileOf(*older, "t1").is_part());
  contents["t0"] = "new";
  auto newer = Write(contents);
  ASSERT_TRUE(TileOf(*newer, "t1").is_part());
  EXPECT_THAT(Names(*DiffModels(*older, *newer)), ElementsAre("t0"));
  EXPECT_THAT(Names(*DiffModels(*newer, *older)), ElementsAre("t0"));
}

TEST_F(ModelDiffTest, AnUpdateOfAPackedTensorKeepsItsNeighboursContent) {
  Contents contents = SmallTensors();
  auto older = Write(contents);
  const std::string patch = "patched";
  auto newer =
      Written(UpdateSlice(*store_, {.name = "m"}, "t2", "10:17", AsBytes(std::string_view(patch))));
  contents["t2"].replace(10, patch.size(), patch);
  EXPECT_THAT(Names(*DiffModels(*older, *newer)), ElementsAre("t2"));
  for (const auto& [name, content] : contents) {
    std::vector<uint8_t> out(content.size());
    ASSERT_TRUE(newer->ReadTensor(name, out).ok());
    EXPECT_EQ(AsText(out), content) << name;
  }
  // The same content gives the same manifest, whichever way it was written.
  auto rewritten = Write(contents);
  EXPECT_EQ(rewritten->version().record().root().id(), newer->version().record().root().id());
  EXPECT_THAT(VerifyModel(*newer)->damages, IsEmpty());
}

TEST_F(ModelDiffTest, VerifyFindsAPartWithTheHashOfAnother) {
  auto older = Write(SmallTensors());
  Manifest manifest = older->manifest();
  manifest.tensors[1].tiles[0].part_hash = manifest.tensors[2].tiles[0].part_hash;
  auto newer = Written(CommitInSession(
      *store_, {.name = "m"}, {}, {.tensors = 4, .logical_bytes = manifest.logical_bytes()},
      [&](WriteSession& session) -> absl::StatusOr<CommitTrees> {
        TILEKV_ASSIGN_OR_RETURN(auto trees, EncodeManifest(manifest, kDefaultMaxObjectBytes));
        TILEKV_RETURN_IF_ERROR(session.PutEncoded(trees));
        return CommitTrees{.root = trees.back().ref};
      }));
  VerifyReport report = *VerifyModel(*newer);
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].where, "tensor 't1', tile 0 of 1");
  EXPECT_THAT(report.damages[0].text, HasSubstr("the 1001 bytes at 1024 of object"));
}

}  // namespace
}  // namespace tilekv
