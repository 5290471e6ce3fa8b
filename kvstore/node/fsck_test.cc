#include "kvstore/node/fsck.h"

#include "gmock/gmock.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

class FsckTest : public NodeTest {
 protected:
  v1::FsckResponse Fsck(bool verify_content = false) {
    v1::FsckRequest request;
    request.set_verify_content(verify_content);
    auto response = node_->Fsck(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return *response;
  }
  std::vector<std::string> Kinds(const v1::FsckResponse& response) {
    std::vector<std::string> kinds;
    for (const v1::FsckProblem& problem : response.problems()) kinds.push_back(problem.kind());
    return kinds;
  }
};

TEST_F(FsckTest, AWholeStoreHasNoProblems) {
  Import("m", "tile");
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5000, 'x')).ok());
  ASSERT_TRUE(PutValue(HeaderOf("inline"), "x").ok());
  v1::FsckResponse response = Fsck(true);
  EXPECT_EQ(response.problem_count(), 0u) << response.DebugString();
  EXPECT_EQ(response.versions(), 1u);
  EXPECT_EQ(response.values(), 2u);
  EXPECT_EQ(response.objects(), 4u);
}

TEST_F(FsckTest, AMissingObjectIsNamedWithWhoNeedsIt) {
  ObjectRef root = Import("m", "tile");
  ASSERT_TRUE(*objects_.DeleteBelow(kDefaultDomain, root.id, Revision::Of(9, 0)));
  v1::FsckResponse response = Fsck();
  ASSERT_EQ(response.problem_count(), 1u);
  EXPECT_EQ(response.problems(0).kind(), "missing");
  EXPECT_EQ(response.problems(0).where(), "default/m@1");
  EXPECT_THAT(response.problems(0).text(), testing::HasSubstr(root.id.Hex()));
}

TEST_F(FsckTest, DamageIsFoundWhereContentIsRead) {
  Import("m", std::string(100'000, 't'));
  ObjectRef tile = RefOf(0, AsBytes(std::string(100'000, 't')));
  objects_.FlipBit(kDefaultDomain, tile.id, 70'000);
  EXPECT_EQ(Fsck().problem_count(), 0u);
  EXPECT_THAT(Kinds(Fsck(true)), testing::ElementsAre("damaged"));
  EXPECT_THAT(Kinds(Fsck()), testing::ElementsAre("damaged")) << "it is quarantined now";
}

TEST_F(FsckTest, WhatANameNeedsAndNobodyHasIsLostWhatNoNameNeedsIsNot) {
  ObjectRef root = Import("m", "tile");
  ObjectRef garbage = PutObject(Begin().session_rev(), 0, std::string(100'000, 'g'));
  objects_.FlipBit(kDefaultDomain, root.id, 30);
  objects_.FlipBit(kDefaultDomain, garbage.id, 30);
  v1::FsckResponse response = Fsck(true);
  ASSERT_EQ(response.problem_count(), 2u) << response.DebugString();
  EXPECT_EQ(response.lost_count(), 1u);
  EXPECT_EQ(response.problems(0).where(), "default/m@1");
  EXPECT_TRUE(response.problems(0).lost());
  EXPECT_THAT(response.problems(1).text(), testing::HasSubstr("no name needs it"));
  EXPECT_FALSE(response.problems(1).lost());
}

TEST_F(FsckTest, EveryNameThatNeedsWhatIsGoneIsNamedAndTheObjectIsCountedOnce) {
  ObjectRef shared = Import("m", "tile");
  v1::BeginSessionResponse session = Begin();
  ASSERT_TRUE(node_->Commit(CommitOf(session, shared, "n"))->applied()) << "the same trees";
  // A root of its own over the same tile.
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  tree.opaque = "other";
  tree.children.push_back(PutObject(session.session_rev(), 0, "tile"));
  ObjectRef root = PutObject(session.session_rev(), 3, EncodeTree(tree));
  ASSERT_TRUE(node_->Commit(CommitOf(session, root, "o"))->applied());
  Import("p", "another tile");
  ASSERT_TRUE(*objects_.DeleteBelow(kDefaultDomain, RefOf(0, AsBytes(std::string("tile"))).id,
                                    Revision::Of(9, 0)));
  v1::FsckResponse response = Fsck();
  std::vector<std::string> names;
  for (const v1::FsckProblem& problem : response.problems()) {
    EXPECT_TRUE(problem.lost());
    names.push_back(problem.where());
  }
  EXPECT_THAT(names, testing::ElementsAre("default/m@1", "default/n@1", "default/o@1"));
  EXPECT_EQ(response.lost_count(), 1u);
  EXPECT_EQ(response.problem_count(), 3u);
  EXPECT_EQ(response.objects(), 9u) << "each is looked at once";
}

TEST_F(FsckTest, ANameThatLostVeryMuchDoesNotKeepOthersOutOfTheList) {
  v1::BeginSessionResponse session = Begin();
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  for (int i = 0; i < 1'200; ++i) {
    tree.children.push_back(PutObject(session.session_rev(), 0, std::to_string(i)));
  }
  ObjectRef root = PutObject(session.session_rev(), 3, EncodeTree(tree));
  ASSERT_TRUE(node_->Commit(CommitOf(session, root, "a"))->applied());
  for (const ObjectRef& ref : tree.children) {
    ASSERT_TRUE(*objects_.DeleteBelow(kDefaultDomain, ref.id, Revision::Of(9, 0)));
  }
  ObjectRef other = Import("b", "tile");
  ASSERT_TRUE(*objects_.DeleteBelow(kDefaultDomain, other.id, Revision::Of(9, 0)));
  v1::FsckResponse response = Fsck();
  EXPECT_EQ(response.lost_count(), 1'201u);
  EXPECT_EQ(response.problem_count(), 1'201u);
  ASSERT_GT(response.problems_size(), 0);
  EXPECT_EQ(response.problems().rbegin()->where(), "default/b@1");
}

TEST_F(FsckTest, RepairSetsHeadsRightAndTakesTagsOfWhatIsGone) {
  Import("m", "tile");
  v1::TagRecord tag;
  tag.set_number(7);
  v1::ModelHead head;
  head.set_next_version(1);
  ASSERT_TRUE(
      catalog_
          .Txn({.compares = {},
                .writes = {CatalogWrite::Put(TagKey("default", "m", "t"), tag.SerializeAsString()),
                           CatalogWrite::Put(HeadKey("default", "m"), head.SerializeAsString())}})
          .ok());
  v1::FsckRequest request;
  request.set_repair(true);
  v1::FsckResponse response = *node_->Fsck(request);
  EXPECT_EQ(response.problem_count(), 2u);
  EXPECT_EQ(response.repaired_count(), 2u) << response.DebugString();
  EXPECT_EQ(Fsck().problem_count(), 0u);
  Import("m", "another");
  EXPECT_EQ(Fsck().problem_count(), 0u) << "version 2 was next";
  EXPECT_EQ(Fsck().versions(), 2u);
}

TEST_F(FsckTest, RecordsThatContradictEachOtherAreFound) {
  Import("m", "tile");
  v1::TagRecord tag;
  tag.set_number(7);
  v1::ModelHead head;
  head.set_next_version(2);
  ASSERT_TRUE(
      catalog_
          .Txn({.compares = {},
                .writes = {CatalogWrite::Put(TagKey("default", "m", "t"), tag.SerializeAsString()),
                           CatalogWrite::Put(HeadKey("default", "m"), head.SerializeAsString()),
                           CatalogWrite::Put(ValueKey("k"), "\xff\xff")}})
          .ok());
  EXPECT_THAT(Kinds(Fsck()), testing::ElementsAre("record", "record", "record"));
}

}  // namespace
}  // namespace tilekv
