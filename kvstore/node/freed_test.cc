#include "kvstore/node/freed.h"

#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/node/node_test_util.h"
#include "kvstore/node/references.h"

namespace tilekv {
namespace {

class FreedTest : public NodeTest {
 protected:
  FreedTest() : context_(objects_, catalog_, {.clock = &clock_, .random = &random_}) {
    EXPECT_TRUE(context_.Start().ok());
  }

  Revision Now() { return *catalog_.CurrentRevision(); }
  // Of what was in use at `since`.
  uint64_t Freed(Revision since) {
    std::unique_ptr<CatalogSnapshot> snapshot = *catalog_.Snapshot();
    LiveList live({}, kCollectMemoryBytes);
    TreeWalk walk(context_);
    TreeVisitor visitor;
    visitor.visit = [&live](const ObjectRef& ref) { return live.Add(ref).ok(); };
    auto add = [&](const v1::ObjectRef& ref) {
      return walk.Walk(*ObjectRefFromWire(ref), visitor);
    };
    EXPECT_TRUE(VisitVersions(*snapshot, [&](const VersionEntry& version) {
                  return add(version.record.commit());
                }).ok());
    EXPECT_TRUE(VisitValueObjects(*snapshot, [&](const ValueEntry& value) {
                  return add(value.record.object());
                }).ok());
    EXPECT_TRUE(live.Finish().ok());
    auto freed = FreedBytes(context_, *snapshot, since, live, walk, {});
    EXPECT_TRUE(freed.ok()) << freed.status();
    return *freed;
  }
  void Delete(const std::string& name) {
    v1::DeleteVersionsRequest request;
    request.set_ns("default");
    request.set_name(name);
    request.set_all(true);
    request.set_now(true);
    EXPECT_EQ(node_->DeleteVersions(request)->deleted_size(), 1);
  }
  // The objects of a model that share nothing with others but a tile.
  uint64_t TreeBytes(const ObjectRef& root) {
    uint64_t commits = 0;
    EXPECT_TRUE(objects_
                    .Scan(kDefaultDomain, std::nullopt,
                          [&](const ObjectRow& row) {
                            if (row.ref.level == 4) commits = row.ref.length;
                            return true;
                          })
                    .ok());
    return root.length + commits;
  }

  NodeContext context_;
};

TEST_F(FreedTest, APurgedModelFreesAllThatItAloneNeeded) {
  ObjectRef root = Import("m", std::string(10'000, 't'));
  Revision since = Now();
  EXPECT_EQ(Freed(since), 0u);
  Delete("m");
  EXPECT_EQ(Freed(since), 10'000 + TreeBytes(root));
}

TEST_F(FreedTest, ATileThatAnotherModelNeedsIsNotFreed) {
  std::string tile(10'000, 't');
  ASSERT_TRUE(PutValue(HeaderOf("k"), tile).ok());
  ObjectRef root = Import("m", tile);
  Revision since = Now();
  Delete("m");
  EXPECT_EQ(Freed(since), TreeBytes(root));
  v1::DeleteValueRequest remove;
  remove.set_key("k");
  ASSERT_TRUE(node_->DeleteValue(remove)->applied());
  EXPECT_EQ(Freed(since), 10'000 + TreeBytes(root)) << "once";
}

TEST_F(FreedTest, ANameMadeLaterFreesNothing) {
  Revision since = Now();
  Import("m", std::string(10'000, 't'));
  Delete("m");
  EXPECT_EQ(Freed(since), 0u);
}

TEST_F(FreedTest, AModelThatWasMovedAndPurgedSinceFreesWhatItNeeded) {
  ObjectRef root = Import("m", std::string(10'000, 't'));
  Revision since = Now();
  v1::MoveModelRequest move;
  move.set_ns("default");
  move.set_name("m");
  move.set_new_ns("default");
  move.set_new_name("n");
  ASSERT_TRUE(node_->MoveModel(move).ok());
  EXPECT_EQ(Freed(since), 0u) << "it is in use";
  Delete("n");
  EXPECT_EQ(Freed(since), 10'000 + TreeBytes(root));
}

TEST_F(FreedTest, EveryOverwriteFreesWhatWasThereBefore) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'a')).ok());
  ASSERT_TRUE(PutValue(HeaderOf("l"), std::string(6'000, 'b')).ok());
  Revision since = Now();
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'a')).ok());
  EXPECT_EQ(Freed(since), 0u) << "the same is in use still";
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(7'000, 'c')).ok());
  ASSERT_TRUE(PutValue(HeaderOf("k"), "in its record").ok());
  EXPECT_EQ(Freed(since), 5'000u);
  v1::BatchPutRequest batch;
  batch.set_request_id(random_.Bytes(16));
  batch.add_items()->set_key("l");
  ASSERT_TRUE(node_->BatchPut(batch, nullptr, {}).ok());
  EXPECT_EQ(Freed(since), 11'000u);
}

TEST_F(FreedTest, ARetriedOverwriteFreesToo) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'a')).ok());
  Revision since = Now();
  v1::PutValueHeader retry = HeaderOf("k");
  retry.set_compare(since.value);
  ASSERT_TRUE(PutValue(retry, "in its record")->applied());
  EXPECT_EQ(Freed(since), 5'000u);
}

TEST_F(FreedTest, KeysWrittenTogetherThatNeededTheSameFreeItOnce) {
  v1::BatchPutRequest batch;
  batch.set_request_id(random_.Bytes(16));
  for (const char* key : {"k", "l"}) {
    batch.add_items()->set_key(key);
    batch.mutable_items()->rbegin()->set_content(std::string(5'000, 'a'));
  }
  ASSERT_TRUE(node_->BatchPut(batch, nullptr, {}).ok());
  Revision since = Now();
  for (auto& item : *batch.mutable_items()) item.set_content("in its record");
  batch.set_request_id(random_.Bytes(16));
  auto again = node_->BatchPut(batch, nullptr, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Freed(since), 5'000u);
}

TEST_F(FreedTest, WhereATreeIsDamagedTheBytesOfTheVersionCount) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "tile");
  v1::CommitRequest commit = CommitOf(session, root, "m");
  commit.set_logical_bytes(700'000);
  ASSERT_TRUE(node_->Commit(commit)->applied());
  Revision since = Now();
  objects_.FlipBit(kDefaultDomain, root.id, 30);
  Delete("m");
  EXPECT_EQ(Freed(since), 700'000 + TreeBytes(root)) << "the tile is behind the damage";
}

TEST_F(FreedTest, WhatARoundHasReadIsRemoved) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'a')).ok());
  ASSERT_TRUE(PutValue(HeaderOf("l"), std::string(6'000, 'b')).ok());
  Revision since = Now();
  ASSERT_TRUE(PutValue(HeaderOf("k"), "in its record").ok());
  Revision read = Now();
  ASSERT_TRUE(PutValue(HeaderOf("l"), "in its record").ok());
  EXPECT_EQ(Freed(since), 11'000u);
  ASSERT_TRUE(RemoveFreed(context_, read).ok());
  EXPECT_EQ(Freed(since), 6'000u);
}

}  // namespace
}  // namespace tilekv
