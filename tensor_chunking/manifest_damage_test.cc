// Manifests that nobody vouches for: every cut, and thousands of changed bytes, decode to an error
// or to a manifest that is right in itself.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/test_manifest.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLimit = kDefaultMaxObjectBytes;

absl::Status DecodeAny(const ObjectRef& ref, Bytes content) {
  if (ref.level == kManifestRootLevel) return DecodeManifestRoot(content).status();
  if (ref.level == kManifestPageLevel) return DecodeManifestPage(content).status();
  if (ref.level == kTileListLevel) return DecodeTileList(content).status();
  return DecodeMetadata(content).status();
}

std::vector<EncodedObject> SomeObjects(uint64_t seed) {
  SeededRandom random(seed);
  Manifest manifest = RandomManifest(random, 12);
  manifest.tensors.push_back(FakeTensor("zzz.huge", 300, 77));
  return *EncodeManifest(manifest, kLeastMaxObjectBytes);
}

TEST(ManifestDamage, EveryCutIsAnError) {
  for (uint64_t seed : {41, 42, 43}) {
    for (const EncodedObject& object : SomeObjects(seed)) {
      ASSERT_TRUE(DecodeAny(object.ref, AsBytes(object.content)).ok());
      for (size_t at = 0; at < object.content.size(); at += 1 + at / 50) {
        absl::Status status = DecodeAny(object.ref, AsBytes(object.content).first(at));
        ASSERT_EQ(GetReason(status), Reason::kDataLoss) << at;
      }
      std::string longer = object.content + '\0';
      EXPECT_FALSE(DecodeAny(object.ref, AsBytes(longer)).ok());
    }
  }
}

TEST(ManifestDamage, BytesLeftOverAreAnError) {
  for (const EncodedObject& object : SomeObjects(46)) {
    if (object.ref.level == 0) continue;
    Tree tree = *DecodeTree(object.ref.level, AsBytes(object.content));
    tree.opaque += '\0';
    EXPECT_THAT(ErrorText(DecodeAny(object.ref, AsBytes(EncodeTree(tree)))),
                HasSubstr("1 bytes are left over"));
  }
}

TEST(ManifestDamage, ChangedBytesAreAnErrorOrARightManifest) {
  SeededRandom random(44);
  int refused = 0;
  for (const EncodedObject& object : SomeObjects(45)) {
    for (int i = 0; i < 20'000; ++i) {
      std::string content = object.content;
      for (uint64_t n = 1 + random.Below(3); n > 0; --n) {
        size_t at = random.Below(2) == 0 ? random.Below(content.size())
                                         : content.size() - 1 - random.Below(content.size() / 2);
        content[at] = static_cast<char>(random.Below(3) == 0 ? 0xff : random.Next());
      }
      absl::Status status = DecodeAny(object.ref, AsBytes(content));
      if (status.ok()) {
        if (object.ref.level != kManifestPageLevel) continue;
        std::vector<TensorEntry> entries = *DecodeManifestPage(AsBytes(content));
        for (const TensorEntry& entry : entries) {
          ASSERT_TRUE(CheckTensor(entry, Reason::kDataLoss).ok());
        }
        continue;
      }
      ++refused;
      ASSERT_EQ(GetReason(status), Reason::kDataLoss) << ErrorText(status);
    }
  }
  EXPECT_GT(refused, 10'000);
}

// Every field of one page by itself, wrong.
TEST(ManifestDamage, NamesTheTensorAndTheFault) {
  Manifest manifest;
  manifest.tensors.push_back(FakeTensor("weight", 2, 1));
  const std::string good = (*EncodeManifest(manifest, kLimit))[0].content;
  // Behind the table: head 4, count 4, name 10, kind, dtype, rank, form, size 8, tile size 8,
  // tiles.
  const size_t entry = kTreeHeaderBytes + 2 * kTreeChildBytes + 8;
  const size_t kind = entry + 10, tiles = kind + 4 + 16;
  auto with = [&](size_t at, char value) {
    std::string content = good;
    content[at] = value;
    return ErrorText(DecodeManifestPage(AsBytes(content)).status());
  };
  EXPECT_EQ(with(kind, 0), "OK");
  EXPECT_THAT(with(entry - 8, 2), HasSubstr("version 2 is not known"));
  EXPECT_THAT(with(entry - 5, 1), HasSubstr("must be zero"));
  EXPECT_THAT(with(entry - 1, 127), HasSubstr("a count of"));
  EXPECT_THAT(with(entry - 4, 2), HasSubstr("ends too early"));
  EXPECT_THAT(with(entry + 3, 127), HasSubstr("ends too early"));
  EXPECT_THAT(with(kind, 2), HasSubstr("tensor 'weight': entry kind 2"));
  EXPECT_THAT(with(kind + 1, 23), HasSubstr("tensor 'weight': dtype 23"));
  EXPECT_THAT(with(kind + 2, 65), HasSubstr("tensor 'weight'"));
  EXPECT_THAT(with(kind + 3, 2), HasSubstr("tensor 'weight': its tiles are in form 2"));
  EXPECT_THAT(with(kind + 4, 3), HasSubstr("tensor 'weight'"));
  EXPECT_THAT(with(kind + 11, 127), HasSubstr("tensor 'weight'"));
  EXPECT_THAT(with(kind + 12, 0), HasSubstr("tensor 'weight'"));
  EXPECT_THAT(with(tiles, 3), HasSubstr("tensor 'weight': tile form 3 is not known"));
  EXPECT_THAT(with(tiles + 1, 1), HasSubstr("tensor 'weight': child 1 of 2 where 0"));
  EXPECT_THAT(with(tiles + 6, 0), HasSubstr("1 of its 2 children are not named"));
  EXPECT_THAT(with(tiles + 6, 9), HasSubstr("child 9 of 2"));
  const size_t length = kTreeHeaderBytes + 32;  // of the first child
  EXPECT_THAT(with(length, 5), HasSubstr("tensor 'weight': tile 0 is 5 bytes instead of 4"));
  EXPECT_THAT(with(7, 5), HasSubstr("its type is 5 instead of 3"));
  EXPECT_EQ(with(kTreeHeaderBytes, 5),
            "OK");  // another object: the store knows whether it is there
}

TEST(ManifestDamage, NamesTheFaultOfAPart) {
  Manifest manifest;
  manifest.tensors.push_back(FakeTensor("bias", 1, 1));
  manifest.tensors[0].tiles[0] = FakePart(FakeRef(1, 100), 64, 4);
  const std::string good = (*EncodeManifest(manifest, kLimit))[0].content;
  // Behind the entry: form, child 4, offset 8, length 8, hash 16.
  const size_t tile = good.size() - (1 + 4 + 8 + 8 + 16);
  auto with = [&](size_t at, const std::string& bytes) {
    std::string content = good;
    content.replace(at, bytes.size(), bytes);
    return ErrorText(DecodeManifestPage(AsBytes(content)).status());
  };
  EXPECT_EQ(with(tile, "\2"), "OK");
  EXPECT_THAT(with(tile + 5, "\x61"),
              HasSubstr("tensor 'bias': tile 0 takes 4 bytes at 97 of an object of 100"));
  EXPECT_THAT(with(tile + 13, "\3"), HasSubstr("tensor 'bias': tile 0 is 3 bytes instead of 4"));
  EXPECT_THAT(with(tile + 5, std::string("\0\0\0\0\0\0\0\0\x64", 9)),
              HasSubstr("tensor 'bias': a whole object in the form of a part"));
  EXPECT_THAT(with(tile + 21, std::string(16, '\0')),
              HasSubstr("tensor 'bias': tile 0 is a part of an object, without a hash"));
}

TEST(ManifestDamage, AllocatesNoMoreThanItIsGiven) {
  // A page that claims 2^60 elements in tiles of one, and a list of 2^32 - 1 tiles.
  Tree page{kManifestPageLevel, TreeType::kManifestPage, {}, {}};
  AppendLe<uint32_t>(page.opaque, 1);
  AppendLe<uint32_t>(page.opaque, 1);
  AppendText(page.opaque, "w");
  page.opaque += std::string("\0\x05\x01\0", 4);
  AppendLe<uint64_t>(page.opaque, uint64_t{1} << 60);
  AppendLe<uint64_t>(page.opaque, 1);
  EXPECT_THAT(ErrorText(DecodeManifestPage(AsBytes(EncodeTree(page))).status()),
              HasSubstr("tensor 'w': 1152921504606846976 tiles in its last 0 bytes"));
  Tree list{kTileListLevel, TreeType::kTileList, {}, {}};
  AppendLe<uint32_t>(list.opaque, 1);
  AppendLe<uint64_t>(list.opaque, 0);
  AppendLe<uint32_t>(list.opaque, ~uint32_t{0});
  EXPECT_THAT(ErrorText(DecodeTileList(AsBytes(EncodeTree(list))).status()),
              HasSubstr("a count of 4294967295"));
}

TEST(ManifestDamage, PagesThatAreNotTheRootsAreRefused) {
  Manifest a, b;
  a.tensors = {FakeTensor("x", 1, 1), FakeTensor("y", 1, 2)};
  b.tensors = {FakeTensor("x", 2, 1), FakeTensor("y", 1, 2)};
  auto objects_a = *EncodeManifest(a, kLimit), objects_b = *EncodeManifest(b, kLimit);
  ManifestRoot root = *DecodeManifestRoot(AsBytes(objects_a.back().content));
  auto page_a = *DecodeManifestPage(AsBytes(objects_a[0].content));
  auto page_b = *DecodeManifestPage(AsBytes(objects_b[0].content));
  EXPECT_TRUE(AssembleManifest(root, {page_a}).ok());
  EXPECT_THAT(ErrorText(AssembleManifest(root, {page_b}).status()),
              HasSubstr("12 bytes, its root says 8"));
  EXPECT_FALSE(AssembleManifest(root, {}).ok());
  EXPECT_FALSE(AssembleManifest(root, {page_a, page_a}).ok());
  page_a.pop_back();
  EXPECT_FALSE(AssembleManifest(root, {page_a}).ok());
  EXPECT_FALSE(AssembleManifest(root, {{}}).ok());
}

TEST(ManifestDamage, TileListsOfAnotherTensorAreRefused) {
  Manifest manifest;
  manifest.tensors = {FakeTensor("x", 600, 1)};
  auto objects = *EncodeManifest(manifest, kLeastMaxObjectBytes);
  TensorEntry entry = (*DecodeManifestPage(AsBytes(objects[3].content)))[0];
  auto list = [&](size_t i) { return *DecodeTileList(AsBytes(objects[i].content)); };
  TensorEntry joined = entry;
  EXPECT_TRUE(JoinTileLists({list(0), list(1), list(2)}, joined).ok());
  EXPECT_EQ(joined, manifest.tensors[0]);
  for (const auto& lists : {std::vector<TileList>{list(0), list(2), list(1)},
                            std::vector<TileList>{list(1), list(0), list(2)},
                            std::vector<TileList>{list(0), list(1)}, std::vector<TileList>{}}) {
    joined = entry;
    EXPECT_THAT(ErrorText(JoinTileLists(lists, joined)), HasSubstr("tensor 'x': "));
  }
  TileList wrong = list(1);
  wrong.tiles[3].length_bytes = 3;
  EXPECT_THAT(ErrorText(CheckTileList(entry, 1, wrong)),
              HasSubstr("tensor 'x': tile list 1 is wrong: tile 259 is 3 bytes instead of 4"));
}

}  // namespace
}  // namespace tilekv
