#include "kvstore/object/chunked_blob.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

std::vector<BlobChunk> Chunks(uint8_t level, size_t count) {
  std::vector<BlobChunk> chunks;
  for (size_t i = 0; i < count; ++i) {
    std::string content(i + 1, 'x');
    chunks.push_back({RefOf(level, AsBytes(content)), level == 0 ? i + 1 : 100 * (i + 1)});
  }
  return chunks;
}

absl::StatusOr<ChunkedBlob> Decode(const Tree& tree) {
  return DecodeChunkedBlob(tree, Reason::kDataLoss);
}

TEST(ChunkedBlob, IsReadBackAsItWas) {
  for (uint8_t level : {1, 2}) {
    std::vector<BlobChunk> chunks = Chunks(level - 1, 5);
    std::string content = EncodeTree(EncodeChunkedBlob(level, chunks));
    auto blob = DecodeChunkedBlob(level, AsBytes(content), Reason::kDataLoss);
    ASSERT_TRUE(blob.ok()) << blob.status();
    EXPECT_EQ(blob->content_bytes, level == 1 ? 15u : 1500u);
    ASSERT_EQ(blob->chunks.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(blob->chunks[i].ref, chunks[i].ref);
      EXPECT_EQ(blob->chunks[i].content_bytes, chunks[i].content_bytes);
    }
  }
  EXPECT_EQ(Decode(EncodeChunkedBlob(1, {}))->content_bytes, 0u);
}

TEST(ChunkedBlob, RefusesLengthsThatDoNotAddUp) {
  Tree tree = EncodeChunkedBlob(1, Chunks(0, 3));
  tree.opaque[0] ^= 1;
  EXPECT_THAT(ErrorText(Decode(tree).status()), HasSubstr("its chunks have 6 bytes, not the 7"));
  tree = EncodeChunkedBlob(2, Chunks(1, 3));
  tree.opaque[8] ^= 1;
  EXPECT_FALSE(Decode(tree).ok());
  tree.opaque.replace(8, 16, std::string(16, '\xff'));
  EXPECT_THAT(ErrorText(Decode(tree).status()), HasSubstr("2^64"));
  tree = EncodeChunkedBlob(2, Chunks(1, 3));
  tree.opaque.pop_back();
  EXPECT_THAT(ErrorText(Decode(tree).status()), HasSubstr("31 opaque bytes, not 32"));
}

TEST(ChunkedBlob, RefusesOtherTreesForTheReasonOfItsCaller) {
  Tree tree = EncodeChunkedBlob(2, Chunks(1, 1));
  tree.children[0].level = 0;
  EXPECT_EQ(GetReason(Decode(tree).status()), Reason::kDataLoss);
  tree = EncodeChunkedBlob(1, Chunks(0, 1));
  tree.type = TreeType::kTileList;
  EXPECT_EQ(GetReason(Decode(tree).status()), Reason::kDataLoss);
  EXPECT_EQ(GetReason(DecodeChunkedBlob(tree, Reason::kInvalidArgument).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(DecodeChunkedBlob(1, AsBytes("no tree"), Reason::kDataLoss).status()),
            Reason::kDataLoss);
}

TEST(ChunkedBlob, AFullTreeIsWithinTheLimit) {
  for (uint64_t limit : {kLeastMaxObjectBytes, kDefaultMaxObjectBytes}) {
    uint64_t one = MaxChunks(1, limit), two = MaxChunks(2, limit);
    EXPECT_LE(TreeBytes(one, 8), limit);
    EXPECT_LE(TreeBytes(two, 8 + 8 * two), limit);
    EXPECT_TRUE(one == kMaxChildren || TreeBytes(one + 1, 8) > limit);
    EXPECT_TRUE(two == kMaxChildren || TreeBytes(two + 1, 16 + 8 * two) > limit);
  }
}

// Every tree that a builder put, by its id; children before parents.
class BuiltTrees {
 public:
  explicit BuiltTrees(uint64_t limit)
      : limit_(limit), builder_(limit, [this](const ObjectRef& ref, std::string content) {
          Put(ref, std::move(content));
          return absl::OkStatus();
        }) {}

  ChunkedBlobBuilder& builder() { return builder_; }
  size_t size() const { return trees_.size(); }
  ChunkedBlob Decoded(const ObjectRef& ref) const {
    return *DecodeChunkedBlob(ref.level, AsBytes(trees_.at(ref.id)), Reason::kDataLoss);
  }
  std::vector<ObjectRef> Pieces(const BlobChunk& whole) const {
    std::vector<ObjectRef> pieces;
    for (const BlobChunk& chunk : Decoded(whole.ref).chunks) {
      if (chunk.ref.level == 0) {
        pieces.push_back(chunk.ref);
        continue;
      }
      EXPECT_EQ(Decoded(chunk.ref).content_bytes, chunk.content_bytes);
      std::vector<ObjectRef> below = Pieces(chunk);
      pieces.insert(pieces.end(), below.begin(), below.end());
    }
    return pieces;
  }

 private:
  void Put(const ObjectRef& ref, std::string content) {
    EXPECT_EQ(ref, RefOf(ref.level, AsBytes(content)));
    EXPECT_LE(content.size(), limit_);
    if (ref.level == 2) {
      const std::vector<ObjectRef> children = *DecodeTreeChildren(2, AsBytes(content));
      for (const ObjectRef& child : children) {
        EXPECT_TRUE(trees_.contains(child.id));
      }
    }
    trees_[ref.id] = std::move(content);
  }

  const uint64_t limit_;
  std::map<ObjectId, std::string> trees_;
  ChunkedBlobBuilder builder_;
};

ObjectRef Piece(uint64_t number) {
  ObjectRef ref = RefOf(0, AsBytes(std::to_string(number)));
  ref.length = 100 + number;
  return ref;
}

TEST(ChunkedBlobBuilder, UsesTwoLevelsOnlyWhereOneDoesNotHold) {
  const uint64_t limit = kLeastMaxObjectBytes, most = MaxChunks(1, limit);
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, most, most + 1, 3 * most, 3 * most + 5}) {
    BuiltTrees trees(limit);
    std::vector<ObjectRef> pieces;
    uint64_t length = 0;
    for (uint64_t i = 0; i < count; ++i) {
      pieces.push_back(Piece(i));
      length += pieces.back().length;
      ASSERT_TRUE(trees.builder().Add(pieces.back()).ok());
    }
    auto whole = trees.builder().Finish();
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->ref.level, count <= most ? 1 : 2);
    EXPECT_EQ(whole->content_bytes, length);
    EXPECT_EQ(trees.Decoded(whole->ref).content_bytes, length);
    EXPECT_EQ(trees.size(), count <= most ? 1 : 1 + CeilDiv(count, most));
    EXPECT_EQ(trees.Pieces(*whole), pieces);
  }
}

TEST(ChunkedBlobBuilder, SaysWhenTwoLevelsDoNotHoldTheContent) {
  const uint64_t limit = kLeastMaxObjectBytes;
  const uint64_t most = MaxChunks(1, limit) * MaxChunks(2, limit);
  auto build = [&](uint64_t count) {
    ChunkedBlobBuilder builder(limit,
                               [](const ObjectRef&, std::string) { return absl::OkStatus(); });
    const ObjectRef piece = Piece(1);
    absl::Status status;
    for (uint64_t i = 0; i < count && status.ok(); ++i) status = builder.Add(piece);
    return status.ok() ? builder.Finish().status() : status;
  };
  EXPECT_TRUE(build(most).ok());
  EXPECT_EQ(GetReason(build(most + 1)), Reason::kObjectTooLarge);
}

TEST(ChunkedBlobBuilder, EndsWithTheErrorOfThePut) {
  ChunkedBlobBuilder builder(kLeastMaxObjectBytes, [](const ObjectRef&, std::string) {
    return MakeError(Reason::kNodeUnavailable, "gone");
  });
  ASSERT_TRUE(builder.Add(Piece(1)).ok());
  EXPECT_EQ(GetReason(builder.Finish().status()), Reason::kNodeUnavailable);
}

}  // namespace
}  // namespace tilekv
