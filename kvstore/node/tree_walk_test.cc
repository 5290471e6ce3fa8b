#include "kvstore/node/tree_walk.h"

#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

class TreeWalkTest : public NodeTest {
 protected:
  TreeWalkTest() : context_(objects_, catalog_, {}) { EXPECT_TRUE(context_.Start().ok()); }
  ObjectRef PutTreeOf(uint32_t children, uint64_t opaque_bytes) {
    Tree tree;
    tree.type = TreeType::kManifestPage;
    for (uint32_t i = 0; i < children; ++i) {
      ObjectRef child;
      child.id.bytes[0] = static_cast<uint8_t>(i);
      child.length = i;
      tree.children.push_back(child);
    }
    tree.opaque = std::string(opaque_bytes, 'o');
    return PutObject(Begin().session_rev(), 1, EncodeTree(tree));
  }

  NodeContext context_;
};

TEST_F(TreeWalkTest, ChildrenAreReadWithoutTheOpaquePart) {
  ObjectRef tree = PutTreeOf(3, 300'000);
  objects_.FlipBit(kDefaultDomain, tree.id, 200'000);
  auto children = ReadTreeChildren(context_, tree);
  ASSERT_TRUE(children.ok()) << children.status();
  EXPECT_EQ(children->size(), 3u);
  EXPECT_EQ(GetReason(ReadTree(context_, tree).status()), Reason::kDataLoss);
}

TEST_F(TreeWalkTest, ATableLongerThanTheFirstReadIsReadWhole) {
  ObjectRef tree = PutTreeOf(5'000, 100'000);
  auto children = ReadTreeChildren(context_, tree);
  ASSERT_TRUE(children.ok()) << children.status();
  ASSERT_EQ(children->size(), 5'000u);
  EXPECT_EQ(children->back().length, 4'999u);
}

TEST_F(TreeWalkTest, DamageInTheTableIsMet) {
  ObjectRef tree = PutTreeOf(5'000, 100'000);
  objects_.FlipBit(kDefaultDomain, tree.id, 200'000);
  EXPECT_EQ(GetReason(ReadTreeChildren(context_, tree).status()), Reason::kDataLoss);
}

}  // namespace
}  // namespace tilekv
