#include "kvstore/node/commit_tree.h"

#include "gtest/gtest.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

CommitTree Example() {
  CommitTree commit;
  commit.number = 3;
  commit.commit_id = "0123456789abcdef";
  commit.line_id = "LINELINELINELINE";
  commit.previous_commit_id = "fedcba9876543210";
  commit.created_micros = 1'700'000'000'000'000;
  commit.logical_bytes = 324'000'000;
  commit.tensor_count = 1;
  commit.base_number = 2;
  commit.ns = "default";
  commit.name = "gpt";
  commit.base_ns = "default";
  commit.base_name = "gpt";
  commit.message = "second thoughts";
  commit.author = "me";
  commit.root = RefOf(3, AsBytes("root"));
  commit.sources = RefOf(3, AsBytes("sources"));
  return commit;
}

TEST(CommitTree, IsReadBackAsItWas) {
  CommitTree commit = Example();
  EXPECT_EQ(*ParseCommitTree(ToTree(commit)), commit);
  commit.sources.reset();
  commit.message.clear();
  EXPECT_EQ(*ParseCommitTree(ToTree(commit)), commit);
}

// The bytes are hashed: they never change.
TEST(CommitTree, HasTheBytesOfTheFormatsPage) {
  Tree tree = ToTree(Example());
  EXPECT_EQ(HexEncode(AsBytes(tree.opaque)),
            "01000000000000000300000000000000303132333435363738396162636465664c494e454c494e45"
            "4c494e454c494e456665646362613938373635343332313000401e18240a060000d94f1300000000"
            "010000000000000002000000000000000700000064656661756c7403000000677074070000006465"
            "6661756c74030000006770740f0000007365636f6e642074686f7567687473020000006d65");
  std::string content = EncodeTree(tree);
  EXPECT_EQ(IdOf(kCommitTreeLevel, AsBytes(content)).Hex(),
            "8692220bacfc3a068380a5141e828110c120783087c444a9f1330a869abb5a43");
}

TEST(CommitTree, RefusesEveryCutAndEveryStrangeByteInItsHead) {
  Tree tree = ToTree(Example());
  for (size_t length = 0; length < tree.opaque.size(); ++length) {
    Tree cut = tree;
    cut.opaque.resize(length);
    EXPECT_FALSE(ParseCommitTree(cut).ok()) << length;
  }
  for (size_t at = 0; at < 8; ++at) {
    Tree strange = tree;
    strange.opaque[at] ^= 0x40;
    EXPECT_FALSE(ParseCommitTree(strange).ok()) << at;
  }
  Tree longer = tree;
  longer.opaque += '\0';
  EXPECT_FALSE(ParseCommitTree(longer).ok());
  Tree other = tree;
  other.type = TreeType::kManifestRoot;
  EXPECT_FALSE(ParseCommitTree(other).ok());
  other = tree;
  other.children.clear();
  EXPECT_FALSE(ParseCommitTree(other).ok());
}

}  // namespace
}  // namespace tilekv
