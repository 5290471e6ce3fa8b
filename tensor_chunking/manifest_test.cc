#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/source_files.h"
#include "tensor_chunking/test_manifest.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLimit = kDefaultMaxObjectBytes;

TEST(Manifest, ComesBackFromItsObjects) {
  SeededRandom random(31);
  for (int i = 0; i < 300; ++i) {
    Manifest manifest = RandomManifest(random, random.Below(40));
    uint64_t limit = random.Below(2) == 0 ? kLeastMaxObjectBytes : kLimit;
    auto objects = EncodeManifest(manifest, limit);
    ASSERT_TRUE(objects.ok()) << ErrorText(objects.status());
    std::set<ObjectId> written;
    for (const EncodedObject& object : *objects) {
      ASSERT_EQ(object.ref, RefOf(object.ref.level, AsBytes(object.content)));
      ASSERT_LE(object.content.size(), std::min(limit, kManifestPageBytes));
      // Children first, so that a store which checks them never sees one missing.
      std::vector<ObjectRef> children;
      if (object.ref.level > 0) {
        children = *DecodeTreeChildren(object.ref.level, AsBytes(object.content));
      }
      for (const ObjectRef& child : children) {
        bool is_side_file = child.length == 99;
        if (child.level >= 1 && !is_side_file) {
          EXPECT_TRUE(written.contains(child.id));
        }
      }
      written.insert(object.ref.id);
    }
    auto back = ReadBack(MapOf(*objects), objects->back().ref.id);
    ASSERT_TRUE(back.ok()) << ErrorText(back.status());
    ASSERT_EQ(*back, manifest);
  }
}

TEST(Manifest, IsOneRootWhenEmpty) {
  auto objects = EncodeManifest({}, kLimit);
  ASSERT_EQ(objects->size(), 1u);
  EXPECT_EQ(objects->back().ref.level, kManifestRootLevel);
  EXPECT_EQ(HexEncode(AsBytes(objects->back().content)),
            "544b5654"
            "0100"
            "03"
            "04"
            "00000000"
            "2100000000000000"
            "01000000"
            "0000000000000000"
            "0000000000000000"
            "00000000"
            "00"
            "00000000"
            "00000000");
}

// Ids and bytes of the formats: a change here makes every stored model unreadable, or its second
// import a new one.
Manifest GoldenManifest() {
  Manifest manifest;
  manifest.metadata["format"] = "pt";
  TensorEntry alias{.name = "a.tied", .alias_of = "w"};
  TensorEntry moved;
  moved.name = "m";
  moved.dtype = DType::kBF16;
  moved.shape = {2, 4};
  moved.tile_shape = {2, 4};
  moved.tiles = {FakeXor(FakeRef(3, 16), FakeRef(1, 16), FakeRef(2, 16))};
  TensorEntry w;
  w.name = "w";
  w.dtype = DType::kF32;
  w.shape = {3, 2};
  w.tile_shape = {2, 2};
  w.tiles = {WholeTile(FakeRef(4, 16)), FakePart(FakeRef(5, 200), 64, 8)};
  manifest.tensors = {alias, moved, w};
  manifest.side_files = {{"config.json", {FakeRef(6, 10), 10}}};
  return manifest;
}

TEST(Manifest, HasTheBytesOfTheGoldenVector) {
  auto objects = EncodeManifest(GoldenManifest(), kLimit);
  ASSERT_EQ(objects->size(), 2u);
  const EncodedObject& page = objects->front();
  std::string children = page.content.substr(kTreeHeaderBytes, 4 * kTreeChildBytes);
  std::string opaque = page.content.substr(kTreeHeaderBytes + 4 * kTreeChildBytes);
  EXPECT_EQ(children.substr(0, 32), FakeRef(1, 16).id.view());
  EXPECT_EQ(children.substr(48, 32), FakeRef(2, 16).id.view());
  EXPECT_EQ(children.substr(96, 32), FakeRef(4, 16).id.view());
  EXPECT_EQ(children.substr(144, 32), FakeRef(5, 200).id.view());
  EXPECT_EQ(HexEncode(AsBytes(opaque)),
            "01000000"
            "03000000"
            // a.tied, another name for w
            "06000000"
            "612e74696564"
            "01"
            "01000000"
            "77"
            // m: BF16 [2, 4], one tile, base 0 xor 1
            "01000000"
            "6d"
            "00"
            "0f"
            "02"
            "00"
            "0200000000000000"
            "0400000000000000"
            "0200000000000000"
            "0400000000000000"
            "01"
            "00000000"
            "01000000" +
                FakeRef(3, 16).id.Hex() +
                // w: F32 [3, 2] in tiles of [2, 2]
                "01000000"
                "77"
                "00"
                "12"
                "02"
                "00"
                "0300000000000000"
                "0200000000000000"
                "0200000000000000"
                "0200000000000000"
                // the whole of blob 2
                "00"
                "02000000"
                // a part of blob 3: offset, length, hash
                "02"
                "03000000"
                "4000000000000000"
                "0800000000000000" +
                IdOf(0, AsBytes("part at 64")).Hex().substr(0, 32));
  EXPECT_EQ(page.ref.id.Hex(), "21e21e4c247de19885a4555601cf703673b25d7510906a30c328b3e374e44f72");
  EXPECT_EQ(objects->back().ref.id.Hex(),
            "1e71e2bedd87494ac44973b2225aedd621e57f84ad674728b3bfe2188cb3faea");
}

TEST(TileRef, TellsEqualContentWhereverItIsStored) {
  const std::string first(500, 'a'), second(300, 'b');
  const std::string pack = first + second, other_pack = second + first;
  const ObjectRef in_pack = RefOf(0, AsBytes(pack)), in_other = RefOf(0, AsBytes(other_pack));
  TileRef part = TileWithin(in_pack, AsBytes(pack), 500, 300);
  TileRef moved = TileWithin(in_other, AsBytes(other_pack), 0, 300);
  TileRef alone = WholeTile(RefOf(0, AsBytes(second)));
  EXPECT_TRUE(part.SameContent(moved));
  EXPECT_TRUE(part.SameContent(alone));
  EXPECT_TRUE(alone.SameContent(part));
  EXPECT_FALSE(part == moved);
  EXPECT_FALSE(part.SameContent(TileWithin(in_pack, AsBytes(pack), 200, 300)));
  EXPECT_FALSE(part.SameContent(TileWithin(in_pack, AsBytes(pack), 500, 299)));
  EXPECT_FALSE(part.SameContent(WholeTile(in_pack)));
  EXPECT_FALSE(alone.SameContent(WholeTile(RefOf(0, AsBytes(first)))));
  // What base and xor make is the same content as a blob of its id.
  EXPECT_TRUE(FakeXor(alone.object, FakeRef(1, 300), FakeRef(2, 300)).SameContent(alone));
  EXPECT_TRUE(FakeXor(alone.object, FakeRef(1, 300), FakeRef(2, 300)).SameContent(part));
  // All of a blob is a whole.
  EXPECT_EQ(TileWithin(alone.object, AsBytes(second), 0, 300), alone);
}

TEST(Manifest, KeepsTilesOfVeryLargeTensorsInLists) {
  EXPECT_EQ(TilesPerList(kLimit), 4096u);
  EXPECT_EQ(TilesPerList(kLeastMaxObjectBytes), 256u);
  EXPECT_FALSE(TilesAreListed(239));
  EXPECT_TRUE(TilesAreListed(240));
  Manifest manifest;
  manifest.tensors.push_back(FakeTensor("huge", 10'000, 1));
  auto objects = EncodeManifest(manifest, kLimit);
  ASSERT_EQ(objects->size(), 5u);  // three lists, a page, the root
  auto page = DecodeManifestPage(AsBytes((*objects)[3].content));
  ASSERT_TRUE(page->front().is_listed());
  EXPECT_EQ(page->front().tile_lists.size(), 3u);
  TileList last = *DecodeTileList(AsBytes((*objects)[2].content));
  EXPECT_EQ(last.first_tile, 8192u);
  EXPECT_EQ(last.tiles.size(), 1808u);
  EXPECT_TRUE(CheckTileList(page->front(), 2, last).ok());
  EXPECT_FALSE(CheckTileList(page->front(), 1, last).ok());

  // Not read, the lists stand as they are: the same page and root.
  Manifest unread;
  unread.tensors = *page;
  auto again = EncodeManifest(unread, kLimit);
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ(again->back().ref, objects->back().ref);
  EXPECT_THAT(ErrorText(EncodeManifest(unread, kLeastMaxObjectBytes).status()),
              HasSubstr("tensor 'huge': its lists of 4096 tiles must be read"));

  // A changed tile changes its list and nothing of the others.
  manifest.tensors[0].tiles[9000].object = FakeRef(42, 4);
  auto changed = EncodeManifest(manifest, kLimit);
  EXPECT_EQ((*changed)[1].ref, (*objects)[1].ref);
  EXPECT_NE((*changed)[2].ref, (*objects)[2].ref);
}

std::set<ObjectId> Ids(const std::vector<EncodedObject>& objects) {
  std::set<ObjectId> ids;
  for (const EncodedObject& object : objects) ids.insert(object.ref.id);
  return ids;
}

size_t CountNew(const std::vector<EncodedObject>& before, const std::vector<EncodedObject>& after) {
  std::set<ObjectId> old = Ids(before);
  return static_cast<size_t>(std::count_if(after.begin(), after.end(), [&](const auto& object) {
    return !old.contains(object.ref.id);
  }));
}

Manifest ManyTensors(int count) {
  Manifest manifest;
  for (int i = 0; i < count; ++i) {
    manifest.tensors.push_back(FakeTensor(fmt::format("model.layers.{:06}.weight", i), 1, i));
  }
  return manifest;
}

TEST(Manifest, OfAHundredThousandTensorsHasPagesThatChangesDoNotDisturb) {
  for (uint64_t limit : {kLimit, kLeastMaxObjectBytes}) {
    const int count = limit == kLimit ? 100'000 : 30'000;
    Manifest manifest = ManyTensors(count);
    auto objects = EncodeManifest(manifest, limit);
    ASSERT_TRUE(objects.ok()) << ErrorText(objects.status());
    EXPECT_GT(objects->size(), 50u);
    for (const EncodedObject& object : *objects) {
      EXPECT_LE(object.content.size(), std::min(limit, kManifestPageBytes));
    }
    EXPECT_EQ(Ids(*EncodeManifest(manifest, limit)), Ids(*objects));
    auto back = ReadBack(MapOf(*objects), objects->back().ref.id);
    ASSERT_TRUE(back.ok()) << ErrorText(back.status());
    EXPECT_EQ(*back, manifest);

    // Renamed in place, moved to the front, taken out: the pages around it, and the root.
    Manifest changed = manifest;
    changed.tensors[count / 2].name += ".renamed";
    EXPECT_LE(CountNew(*objects, *EncodeManifest(changed, limit)), 4u);
    changed = manifest;
    changed.tensors.erase(changed.tensors.begin() + count / 2);
    EXPECT_LE(CountNew(*objects, *EncodeManifest(changed, limit)), 4u);
    changed.tensors.insert(changed.tensors.begin(), FakeTensor("first", 1, count / 2));
    EXPECT_LE(CountNew(*objects, *EncodeManifest(changed, limit)), 6u);
  }
}

TEST(Manifest, FindsPagesAndTensorsByName) {
  Manifest manifest = ManyTensors(5000);
  manifest.tensors.push_back(TensorEntry{.name = "tied", .alias_of = "model.layers.000007.weight"});
  auto objects = EncodeManifest(manifest, kLimit);
  ManifestRoot root = *DecodeManifestRoot(AsBytes(objects->back().content));
  EXPECT_EQ(root.entries, 5001u);
  EXPECT_EQ(root.logical_bytes, 20'000u);
  ASSERT_GT(root.pages.size(), 3u);
  EXPECT_FALSE(root.PageOf("a").has_value());
  EXPECT_EQ(root.PageOf(root.pages[2].first_name), 2u);
  EXPECT_EQ(root.PageOf(root.pages[2].first_name + "x"), 2u);
  EXPECT_EQ(root.PageOf("zzz"), root.pages.size() - 1);
  EXPECT_EQ(manifest.FindTensor("tied")->name, "model.layers.000007.weight");
  EXPECT_EQ(manifest.Find("tiee"), nullptr);
}

TEST(Manifest, RefusesWhatIsNotRightAndNamesTheTensor) {
  auto error = [](const auto& change) {
    Manifest manifest = GoldenManifest();
    change(manifest);
    auto objects = EncodeManifest(manifest, kLimit);
    EXPECT_EQ(GetReason(objects.status()), Reason::kInvalidArgument);
    return ErrorText(objects.status());
  };
  EXPECT_THAT(error([](Manifest& m) { std::swap(m.tensors[0], m.tensors[1]); }),
              HasSubstr("tensor 'a.tied': it stands after 'm'"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[1].name = "w"; }), HasSubstr("tensor 'w'"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[0].alias_of = "v"; }),
              HasSubstr("alias of 'v', which is not there"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[0].alias_of = "a.tied"; }),
              HasSubstr("an alias itself"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles.pop_back(); }),
              HasSubstr("tensor 'w': 1 tiles instead of 2"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles[1].length_bytes = 9; }),
              HasSubstr("tensor 'w': tile 1 is 9 bytes instead of 8"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles[1].offset_bytes = 193; }),
              HasSubstr("takes 8 bytes at 193 of an object of 200"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles[1].offset_bytes = ~uint64_t{0}; }),
              HasSubstr("of an object of 200"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles[1].part_hash = {}; }),
              HasSubstr("tile 1 is a part of an object, without a hash"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tiles[0].part_hash[5] = 1; }),
              HasSubstr("tile 0 is a whole object, with the hash of a part"));
  EXPECT_THAT(error([](Manifest& m) {
                m.tensors[1].tiles[0].object.length = 32;
                m.tensors[1].tiles[0].part_hash[0] = 1;
              }),
              HasSubstr("tile 0 is a part of what base and xor make"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[2].tile_shape = {2, 3}; }), HasSubstr("'w'"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[1].name = std::string("x\0y", 3); }),
              HasSubstr("NUL"));
  EXPECT_THAT(error([](Manifest& m) { m.tensors[1].name = "m\xff"; }), HasSubstr("UTF-8"));
  EXPECT_THAT(error([](Manifest& m) {
                m.tensors[1].tiles[0].parts =
                    std::make_shared<XorParts>(XorParts{FakeRef(1, 16), FakeRef(2, 15)});
              }),
              HasSubstr("is made of an object of level 0 and 15 bytes"));
  for (const char* path : {"", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\\b"}) {
    EXPECT_THAT(error([&](Manifest& m) { m.side_files[0].path = path; }), HasSubstr("path '"));
  }
  EXPECT_THAT(error([](Manifest& m) { m.side_files[0].content.length_bytes = 11; }),
              HasSubstr("side file 'config.json'"));
}

TEST(Manifest, SaysWhenANameOutgrowsAPage) {
  Manifest manifest;
  manifest.tensors.push_back(FakeTensor(std::string(65'536, 'n'), 1, 1));
  EXPECT_TRUE(EncodeManifest(manifest, kLimit).ok());
  auto objects = EncodeManifest(manifest, kLeastMaxObjectBytes);
  EXPECT_EQ(GetReason(objects.status()), Reason::kObjectTooLarge);
  EXPECT_THAT(ErrorText(objects.status()), HasSubstr("the manifest entry of tensor 'nnn"));
}

TEST(StoredContent, HoldsWhatIsInMemory) {
  std::string text(200'000, 'x');
  std::vector<EncodedObject> objects;
  StoredContent small = *EncodeInMemory(text, kLimit, objects);
  EXPECT_EQ(small.ref, RefOf(0, AsBytes(text)));
  StoredContent large = *EncodeInMemory(text, kLeastMaxObjectBytes, objects);
  EXPECT_EQ(large.ref.level, 1);
  EXPECT_EQ(large.length_bytes, text.size());
  EXPECT_EQ(objects.size(), 1u + 4 + 1);
}

TEST(SourceFiles, ComeBackFromTheirObject) {
  SourceFiles sources;
  sources.files = {{"model-1.safetensors", SourceKind::kSafetensors, 1000, {FakeRef(1, 80), 80}},
                   {"sub/model-2.safetensors",
                    SourceKind::kSafetensors,
                    uint64_t{1} << 33,
                    {FakeRef(2, 500, 1), 900'000}}};
  auto object = EncodeSourceFiles(sources, kLimit);
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(object->ref.level, kSourceFilesLevel);
  EXPECT_EQ(*DecodeSourceFiles(AsBytes(object->content)), sources);
  sources.index = {"model.safetensors.index.json", {FakeRef(3, 50), 50}};
  object = EncodeSourceFiles(sources, kLimit);
  EXPECT_EQ(*DecodeSourceFiles(AsBytes(object->content)), sources);
  EXPECT_EQ(object->ref.id.Hex(),
            "721d8091f4a7792ec2ddd1370ecd713ca967b197feea8ab072f16d78c25b73f3");
  EXPECT_EQ(GetReason(EncodeSourceFiles(sources, 300).status()), Reason::kObjectTooLarge);
  for (size_t at = 0; at < object->content.size(); ++at) {
    EXPECT_FALSE(DecodeSourceFiles(AsBytes(object->content.substr(0, at))).ok());
  }
  sources.files[0].length_bytes = 79;
  EXPECT_EQ(GetReason(EncodeSourceFiles(sources, kLimit).status()), Reason::kInvalidArgument);
  sources.files[0] = {"z", SourceKind::kSafetensors, 1000, {FakeRef(1, 80), 80}};
  EXPECT_FALSE(EncodeSourceFiles(sources, kLimit).ok());
}

}  // namespace
}  // namespace tilekv
