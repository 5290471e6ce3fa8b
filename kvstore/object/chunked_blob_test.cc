#include "kvstore/object/chunked_blob.h"

#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

std::vector<ValueChunk> Chunks(uint8_t level, size_t count) {
  std::vector<ValueChunk> chunks;
  for (size_t i = 0; i < count; ++i) {
    std::string content(i + 1, 'x');
    chunks.push_back({RefOf(level, AsBytes(content)), level == 0 ? i + 1 : 100 * (i + 1)});
  }
  return chunks;
}

TEST(ChunkedBlob, IsReadBackAsItWas) {
  for (uint8_t level : {1, 2}) {
    std::vector<ValueChunk> chunks = Chunks(level - 1, 5);
    Tree tree = EncodeValueChunks(level, chunks);
    auto value = DecodeValueChunks(*DecodeTree(level, AsBytes(EncodeTree(tree))));
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value->content_bytes, level == 1 ? 15u : 1500u);
    ASSERT_EQ(value->chunks.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(value->chunks[i].ref, chunks[i].ref);
      EXPECT_EQ(value->chunks[i].content_bytes, chunks[i].content_bytes);
    }
  }
  EXPECT_EQ(DecodeValueChunks(EncodeValueChunks(1, {}))->content_bytes, 0u);
}

TEST(ChunkedBlob, RefusesLengthsThatDoNotAddUp) {
  Tree tree = EncodeValueChunks(1, Chunks(0, 3));
  tree.opaque[0] ^= 1;
  EXPECT_FALSE(DecodeValueChunks(tree).ok());
  tree = EncodeValueChunks(2, Chunks(1, 3));
  tree.opaque[8] ^= 1;
  EXPECT_FALSE(DecodeValueChunks(tree).ok());
  tree = EncodeValueChunks(2, Chunks(1, 3));
  tree.opaque.pop_back();
  EXPECT_FALSE(DecodeValueChunks(tree).ok());
  tree = EncodeValueChunks(2, Chunks(1, 1));
  tree.children[0].level = 0;
  EXPECT_FALSE(DecodeValueChunks(tree).ok());
  tree = EncodeValueChunks(1, Chunks(0, 1));
  tree.type = TreeType::kTileList;
  EXPECT_FALSE(DecodeValueChunks(tree).ok());
}

TEST(ChunkedBlob, AFullTreeIsWithinTheLimit) {
  for (uint64_t limit : {kLeastMaxObjectBytes, kDefaultMaxObjectBytes}) {
    uint64_t one = MaxValueChunks(1, limit), two = MaxValueChunks(2, limit);
    EXPECT_LE(TreeBytes(one, 8), limit);
    EXPECT_LE(TreeBytes(two, 8 + 8 * two), limit);
    EXPECT_TRUE(one == kMaxChildren || TreeBytes(one + 1, 8) > limit);
    EXPECT_TRUE(two == kMaxChildren || TreeBytes(two + 1, 16 + 8 * two) > limit);
  }
}

}  // namespace
}  // namespace tilekv
