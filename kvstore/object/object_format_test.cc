// Ids, leaves, trees, encodings and payload headers as bytes. The constants are golden: a change of
// any of them makes every stored byte unreadable.
#include <gtest/gtest.h>

#include <algorithm>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/index_rows.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/payload_file.h"
#include "kvstore/object/tree.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};

// Bytes 0, 1, ... 250, 0, ...
std::string Counting(uint64_t length) {
  std::string out(length, '\0');
  for (uint64_t i = 0; i < length; ++i) out[i] = static_cast<char>(i % 251);
  return out;
}

Tree SampleTree() {
  return {.level = 2,
          .type = TreeType::kManifestPage,
          .children = {RefOf(0, AsBytes(Counting(70'000))), RefOf(1, AsBytes("tile"))},
          .opaque = "opaque"};
}

TEST(Golden, Ids) {
  struct {
    uint8_t level;
    uint64_t length;
    const char* id;
  } vectors[] = {
      {0, 0, "35b209ab477d606074f3fec78dd4289af873532e741ef63cb04c4565febf0886"},
      {0, 1, "9def919202005bea18e877029d92aab976b60b3cd9bfcc47582ff1d403f35076"},
      {0, 65'536, "33b156a6fd114e7b26a289118be00a764b7ed3ecc7ddb187130cfdcb03723191"},
      {0, 65'537, "3eb73b628eb863a445fe2acf9f04d6aea659192f873a9ac554509f85641142c6"},
      {0, 1'000'000, "57fe409ac0ded5416aa83f831460fab72701eb16e8ed296aca99a66097b1e324"},
      {3, 1'000'000, "f13e9cc45a03ffebbf7127bbae3e5dae61bbba4e009fd0b2e6f06effa1d40f7a"},
  };
  for (const auto& vector : vectors) {
    EXPECT_EQ(IdOf(vector.level, AsBytes(Counting(vector.length))).Hex(), vector.id);
  }
}

TEST(Golden, Tree) {
  std::string content = EncodeTree(SampleTree());
  EXPECT_EQ(HexEncode(AsBytes(content)),
            "544b565401000203020000000600000000000000b68bb825c493a3303dc4fc15a47b1d59e9fc7c37"
            "9e5bfdcb32a76bd2d648512070110100000000000000000000000000acd5fd70adc2f4d715c39968"
            "ec12744cb8d22c6952e624646b6b6ee1a64a1abc040000000000000001000000000000006f706171"
            "7565");
  EXPECT_EQ(IdOf(2, AsBytes(content)).Hex(),
            "8e8c720f43c2b7e91631015507c6a28555d183beff544ae2ed969d4a7914d126");
}

TEST(Golden, PayloadHeader) {
  PayloadHeader header{.domain = 0,
                       .store_uuid = "00112233445566778899aabbccddeeff",
                       .number = 77,
                       .ref = RefOf(0, AsBytes(Counting(1'000'000))),
                       .encoding = kZstd,
                       .stored_length = 654'321};
  std::vector<uint8_t> bytes(kPayloadHeaderBytes);
  EncodePayloadHeader(header, bytes);
  EXPECT_EQ(HexEncode(Bytes(bytes).first(112)),
            "544b565001000001000000000000000000112233445566778899aabbccddeeff4d00000000000000"
            "57fe409ac0ded5416aa83f831460fab72701eb16e8ed296aca99a66097b1e32440420f0000000000"
            "f1fb090000000000f10b0a0000000000f10d0a000000000000100a0000000000");
  EXPECT_EQ(HexEncode(Bytes(bytes).last(32)),
            "d65d9b851c1e05e652de7ced4e4d17749fceb05334ca50531be9f07a1eecfb97");
  EXPECT_TRUE(std::all_of(bytes.begin() + 112, bytes.end() - 32, [](uint8_t b) { return b == 0; }));
  auto decoded = DecodePayloadHeader(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, header);
}

TEST(Golden, IndexRow) {
  ObjectRow row{.ref = {.level = 3, .length = 0x0102030405060708},
                .state = RowState::kSuspect,
                .encoding = kZstd,
                .stored_length = 0x1112131415161718,
                .file_number = 0x2122232425262728,
                .touched_rev = {0x3132333435363738},
                .verified_at_micros = 0x4142434445464748};
  EXPECT_EQ(HexEncode(AsBytes(EncodeRow(row))),
            "0102030100000000"
            "0807060504030201"
            "1817161514131211"
            "2827262524232221"
            "3837363534333231"
            "4847464544434241");
  EXPECT_EQ(HexEncode(AsBytes(NumberKey(258))), "6e0000000000000102");
  EXPECT_EQ(HexEncode(AsBytes(RowKey(7, ObjectId{}))).substr(0, 14), "6f000000070000");
}

TEST(ObjectHash, GivesTheSameLeavesInWhateverPiecesContentComes) {
  std::string content = Counting(5 * kLeafBytes + 17);
  LeafTable whole;
  HashLeaves(AsBytes(content), whole);
  SeededRandom random(1);
  for (uint64_t most : {uint64_t{3}, uint64_t{1000}, kLeafBytes, 3 * kLeafBytes}) {
    LeafHasher hasher;
    for (uint64_t at = 0; at < content.size();) {
      uint64_t take = std::min<uint64_t>(1 + random.Below(most), content.size() - at);
      hasher.Update(AsBytes(content).subspan(at, take));
      at += take;
    }
    EXPECT_EQ(hasher.length(), content.size());
    EXPECT_EQ(hasher.Finish(), whole);
  }
  EXPECT_EQ(whole.size(), 6u);
}

TEST(ObjectHash, NamesLevelAndLengthToo) {
  LeafTable leaves;
  HashLeaves(AsBytes("content"), leaves);
  ObjectId id = IdFromLeaves(0, 7, leaves);
  EXPECT_NE(IdFromLeaves(1, 7, leaves), id);
  EXPECT_NE(IdFromLeaves(0, 8, leaves), id);
  EXPECT_EQ(ObjectId::FromHex(id.Hex())->Hex(), id.Hex());
  EXPECT_FALSE(ObjectId::FromHex("12").ok());
  EXPECT_FALSE(ObjectId::FromHex(std::string(63, 'a') + "g").ok());
}

TEST(Tree, ComesBackAsItWas) {
  Tree tree = SampleTree();
  Tree back = *DecodeTree(2, AsBytes(EncodeTree(tree)));
  EXPECT_EQ(back.type, tree.type);
  EXPECT_EQ(back.children, tree.children);
  EXPECT_EQ(back.opaque, tree.opaque);
  EXPECT_EQ(*DecodeTreeChildren(2, AsBytes(EncodeTree(tree))), tree.children);
}

TEST(Tree, RefusesEveryMalformedOne) {
  const std::string good = EncodeTree(SampleTree());
  auto refused = [](const std::string& bytes, uint8_t level = 2) {
    return GetReason(DecodeTreeChildren(level, AsBytes(bytes)).status()) ==
               Reason::kInvalidArgument &&
           GetReason(DecodeTree(level, AsBytes(bytes)).status()) == Reason::kInvalidArgument;
  };
  auto with = [&](size_t at, uint8_t value) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(value);
    return bytes;
  };
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_TRUE(refused(good.substr(0, length))) << length;
  }
  EXPECT_TRUE(refused(good + "x"));
  EXPECT_TRUE(refused(good, 1));                         // another level than the id says
  EXPECT_TRUE(refused(with(0, 'X')));                    // magic
  EXPECT_TRUE(refused(with(4, 9)));                      // version
  EXPECT_TRUE(refused(with(8, 3)));                      // more children than bytes
  EXPECT_TRUE(refused(with(11, 0xff)));                  // more than any tree has
  EXPECT_TRUE(refused(with(19, 0xff)));                  // an opaque length that wraps
  EXPECT_TRUE(refused(with(kTreeHeaderBytes + 40, 2)));  // a child of its own level
  EXPECT_TRUE(refused(with(kTreeHeaderBytes + 41, 1)));  // padding
  EXPECT_TRUE(refused(with(kTreeHeaderBytes + 44, 1)));
  EXPECT_TRUE(refused(with(6, 0), 0));
  EXPECT_TRUE(refused(with(6, 5), 5));
}

TEST(Tree, IsCheckedByItsHeadAlone) {
  Tree tree = SampleTree();
  tree.opaque = std::string(10'000, 'o');
  std::string bytes = EncodeTree(tree);
  std::string head = bytes.substr(0, TreeBytes(2, 0));
  EXPECT_TRUE(DecodeTreeHead(2, AsBytes(head), bytes.size()).ok());
  EXPECT_FALSE(DecodeTreeHead(2, AsBytes(head), bytes.size() + 1).ok());
  EXPECT_FALSE(DecodeTreeHead(2, AsBytes(head).first(head.size() - 1), bytes.size()).ok());
}

TEST(Tree, IsCheckedAlikeWholeAndInPiecesOfAnySize) {
  Tree tree = SampleTree();
  tree.opaque = std::string(100, 'o');
  const std::string sound = EncodeTree(tree);
  std::vector<std::string> cases{sound,
                                 sound + "x",
                                 sound.substr(0, sound.size() - 1),
                                 sound.substr(0, 50),
                                 sound.substr(0, 10),
                                 ""};
  for (size_t at = 0; at < TreeBytes(2, 0); ++at) {
    cases.push_back(sound);
    cases.back()[at] ^= 1;
  }
  for (const std::string& bytes : cases) {
    const bool good = DecodeTree(2, AsBytes(bytes)).ok();
    for (size_t piece : {1, 7, 20, 48, 1'000}) {
      TreeCheck check(2);
      for (size_t at = 0; at < bytes.size(); at += piece) {
        check.Add(AsBytes(std::string_view(bytes).substr(at, piece)));
      }
      EXPECT_EQ(check.Finish(bytes.size()).ok(), good) << bytes.size() << " in pieces of " << piece;
    }
  }
  TreeCheck first(2);
  first.Add(AsBytes(sound));
  EXPECT_TRUE(first.Finish(sound.size()).ok());
}

TEST(Payload, RefusesEveryFlippedBitOfItsHeader) {
  PayloadHeader header{.store_uuid = "00112233445566778899aabbccddeeff",
                       .number = 1,
                       .ref = RefOf(0, AsBytes(Counting(100'000))),
                       .stored_length = 100'000};
  std::vector<uint8_t> bytes(kPayloadHeaderBytes);
  EncodePayloadHeader(header, bytes);
  for (size_t at = 0; at < bytes.size(); at += at < 128 ? 1 : 97) {
    bytes[at] ^= 0x10;
    EXPECT_FALSE(DecodePayloadHeader(bytes).ok()) << at;
    bytes[at] ^= 0x10;
  }
  EXPECT_TRUE(DecodePayloadHeader(bytes).ok());
  EXPECT_FALSE(DecodePayloadHeader(Bytes(bytes).first(100)).ok());
  EXPECT_FALSE(DecodePayloadHeader(std::vector<uint8_t>(kPayloadHeaderBytes)).ok());
}

TEST(CoverRange, GivesWholeLeavesAndWholeBlocks) {
  ObjectRow raw{.ref = {.length = 1'000'000}, .stored_length = 1'000'000};
  CoveringRange cover = *CoverRange(raw, {}, 70'000, 1);
  EXPECT_EQ(cover.stored_offset, kLeafBytes);
  EXPECT_EQ(cover.stored_length, kLeafBytes);
  cover = *CoverRange(raw, {}, 999'999, 1);
  EXPECT_EQ(cover.content_offset + cover.content_length, 1'000'000u);
  EXPECT_EQ(CoverRange(raw, {}, 500, 0)->stored_length, 0u);
  EXPECT_FALSE(CoverRange(raw, {}, 999'999, 2).ok());
  EXPECT_FALSE(CoverRange(raw, {}, UINT64_MAX, 2).ok());

  ObjectRow coded{.ref = {.length = 3 * kBlockBytes}, .encoding = kZstd, .stored_length = 600};
  std::vector<uint32_t> table = {100, 200, 300};
  cover = *CoverRange(coded, table, kBlockBytes - 1, 2);
  EXPECT_EQ(cover.first_block, 0u);
  EXPECT_EQ(cover.block_count, 2u);
  EXPECT_EQ(cover.stored_length, 300u);
  cover = *CoverRange(coded, table, 2 * kBlockBytes, 1);
  EXPECT_EQ(cover.stored_offset, 300u);
  EXPECT_FALSE(CoverRange(coded, std::vector<uint32_t>{100, 200}, 0, 1).ok());
  EXPECT_FALSE(CoverRange(coded, std::vector<uint32_t>{100, 200, 301}, 0, 1).ok());
  EXPECT_FALSE(CoverRange(coded, std::vector<uint32_t>{0, 300, 300}, 0, 1).ok());
  EXPECT_FALSE(CoverRange(coded, std::vector<uint32_t>{100, 200, 300 | kRawBlockBit}, 0, 1).ok());
}

}  // namespace
}  // namespace tilekv
