#include "kvstore/node/commit.h"

#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/commit_tree.h"
#include "kvstore/node/node_test_util.h"
#include "kvstore/node/tree_walk.h"

namespace tilekv {
namespace {

class CommitTest : public NodeTest {
 protected:
  v1::VersionRecord RecordOf(const std::string& name, uint64_t number) {
    v1::VersionRecord record;
    auto entry = catalog_.Get(VersionKey("default", name, number));
    bool there = entry.ok() && entry->has_value();
    EXPECT_TRUE(there && record.ParseFromString((*entry)->value));
    return record;
  }
};

TEST_F(CommitTest, WritesATreeFromWhichTheNameCanBeRebuilt) {
  Import("m", "tile one");
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "tile two");
  ObjectRef sources = PutRoot(session.session_rev(), "headers");
  v1::CommitRequest request = CommitOf(session, root, "m");
  ObjectRefToWire(sources, request.mutable_sources());
  request.mutable_base()->set_ns("default");
  request.mutable_base()->set_name("m");
  request.mutable_base()->set_number(1);
  request.set_message("why");
  request.set_author("who");
  request.set_logical_bytes(8);
  ASSERT_TRUE(node_->Commit(request)->applied());

  v1::VersionRecord record = RecordOf("m", 2);
  EXPECT_EQ(record.base_number(), 1u);
  NodeOptions options;
  options.clock = &clock_;
  NodeContext context(objects_, catalog_, options);
  ASSERT_TRUE(context.Start().ok());
  auto tree = ReadTree(context, *ObjectRefFromWire(record.commit()));
  ASSERT_TRUE(tree.ok()) << tree.status();
  auto commit = ParseCommitTree(*tree);
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_EQ(commit->root, root);
  EXPECT_EQ(commit->sources, sources);
  EXPECT_EQ(commit->number, 2u);
  EXPECT_EQ(commit->commit_id, request.commit_id());
  EXPECT_EQ(commit->previous_commit_id, RecordOf("m", 1).commit_id());
  EXPECT_EQ(commit->line_id, context.line_id());
  EXPECT_EQ(commit->base_name, "m");
  EXPECT_EQ(commit->message, "why");
  EXPECT_EQ(commit->created_micros, clock_.WallMicros());
}

TEST_F(CommitTest, AnAppendTakesTheNextNumberWhenAnotherCommitsInBetween) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "mine");
  Once("commit.before_transaction", [this] { Import("m", "theirs"); });
  auto response = node_->Commit(CommitOf(session, root, "m"));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->applied());
  EXPECT_EQ(response->version().record().number(), 2u);
}

TEST_F(CommitTest, AConditionIsLookedAtAgainWhenAnotherCommitsInBetween) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "mine");
  v1::CommitRequest request = CommitOf(session, root, "m");
  request.mutable_if_latest()->set_absent(true);
  Once("commit.before_transaction", [this] { Import("m", "theirs"); });
  auto response = node_->Commit(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->applied());
  EXPECT_EQ(response->latest_found(), 1u);
}

TEST_F(CommitTest, TwoTriesOfOneCommitAtOnceMakeOneVersion) {
  uint64_t number = 0;
  // The other try is done before this one reads the head, or before it sends its transaction.
  for (const char* step : {"commit.linked", "commit.before_transaction"}) {
    v1::BeginSessionResponse session = Begin();
    ObjectRef root = PutRoot(session.session_rev(), "mine");
    v1::CommitRequest request = CommitOf(session, root, "m");
    Once(step, [&] { EXPECT_TRUE(node_->Commit(request)->applied()); });
    auto response = node_->Commit(request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_TRUE(response->applied());
    EXPECT_EQ(response->version().record().number(), ++number) << step;
    EXPECT_FALSE((*catalog_.Get(VersionKey("default", "m", number + 1))).has_value()) << step;
  }
}

TEST_F(CommitTest, ASessionThatEndsInBetweenFailsTheTransaction) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "mine");
  Once("commit.before_transaction", [&] {
    v1::EndSessionRequest end;
    end.set_token(session.token());
    EXPECT_TRUE(node_->EndSession(end).ok());
    EXPECT_TRUE(node_->Collect({}).ok());
  });
  EXPECT_EQ(GetReason(node_->Commit(CommitOf(session, root, "m")).status()), Reason::kSessionLost);
  EXPECT_FALSE((*catalog_.Get(HeadKey("default", "m"))).has_value());
  EXPECT_FALSE(IsThere(root));
}

TEST_F(CommitTest, ABasePurgedInBetweenFailsTheTransaction) {
  ObjectRef old_root = Import("m", "shared");
  v1::BeginSessionResponse session = Begin();
  v1::CommitRequest request = CommitOf(session, old_root, "other");
  request.mutable_base()->set_ns("default");
  request.mutable_base()->set_name("m");
  request.mutable_base()->set_number(1);
  Once("commit.before_transaction", [this] {
    v1::DeleteVersionsRequest remove;
    remove.set_ns("default");
    remove.set_name("m");
    remove.add_numbers(1);
    remove.set_now(true);
    EXPECT_EQ(node_->DeleteVersions(remove)->deleted_size(), 1);
    // Nothing of the base was linked in this session: it goes.
    EXPECT_GT(node_->Collect({})->deleted_objects(), 0u);
  });
  EXPECT_EQ(GetReason(node_->Commit(request).status()), Reason::kNotFound);
  EXPECT_FALSE((*catalog_.Get(HeadKey("default", "other"))).has_value());
}

TEST_F(CommitTest, TreesOfTheBaseAreNotReadAgain) {
  ObjectRef root = Import("m", "tile");
  auto row = objects_.Stat(kDefaultDomain, root.id);
  v1::BeginSessionResponse session = Begin();
  v1::CommitRequest request = CommitOf(session, root, "m");
  request.mutable_base()->set_ns("default");
  request.mutable_base()->set_name("m");
  request.mutable_base()->set_number(1);
  ASSERT_TRUE(node_->Commit(request)->applied());
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, root.id))->touched_rev, (*row)->touched_rev);
  request.clear_base();
  request.set_commit_id(random_.Bytes(16));
  ASSERT_TRUE(node_->Commit(request)->applied());
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, root.id))->touched_rev.value, session.session_rev());
}

TEST_F(CommitTest, ADamagedTreeIsMissing) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "tile");
  objects_.FlipBit(kDefaultDomain, root.id, 30);
  auto response = node_->Commit(CommitOf(session, root, "m"));
  EXPECT_EQ(GetReason(response.status()), Reason::kTooFewCopies);
  EXPECT_THAT(std::string(response.status().message()), testing::HasSubstr(root.id.Hex()));
}

TEST_F(CommitTest, AMessageThatIsNotTextIsRefusedBecauseItsRecordCouldNotBeRead) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "tile");
  v1::CommitRequest request = CommitOf(session, root, "m");
  request.set_message("caf\xe9");
  EXPECT_EQ(GetReason(node_->Commit(request).status()), Reason::kInvalidArgument);
  request.set_message("caf\xc3\xa9");
  request.set_author("caf\xe9");
  EXPECT_EQ(GetReason(node_->Commit(request).status()), Reason::kInvalidArgument);
  request.set_author("who");
  EXPECT_TRUE(node_->Commit(request)->applied());
}

TEST_F(CommitTest, ADamagedRecordHidesNoOtherModelAndCanBePurged) {
  Import("a", "tile");
  Import("b", "older");
  Import("b", "newer");
  ASSERT_TRUE(
      catalog_
          .Txn({.compares = {}, .writes = {CatalogWrite::Put(VersionKey("default", "b", 2), "?")}})
          .ok());
  auto listed = node_->ListModels({});
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->models_size(), 2);
  EXPECT_EQ(listed->models(1).latest().record().number(), 2u);
  v1::ResolveVersionRequest resolve;
  resolve.set_ns("default");
  resolve.set_name("b");
  EXPECT_EQ(GetReason(node_->ResolveVersion(resolve).status()), Reason::kDataLoss);

  v1::DeleteVersionsRequest remove;
  remove.set_ns("default");
  remove.set_name("b");
  remove.add_numbers(2);
  EXPECT_EQ(GetReason(node_->DeleteVersions(remove).status()), Reason::kDataLoss);
  remove.set_now(true);
  auto removed = node_->DeleteVersions(remove);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(removed->deleted_size(), 1);
  EXPECT_EQ(node_->ResolveVersion(resolve)->version().record().number(), 1u);
  EXPECT_EQ(node_->Fsck({})->problem_count(), 0u);
}

TEST_F(CommitTest, AnIdThatWasUsedForAnotherRootIsRefused) {
  v1::BeginSessionResponse session = Begin();
  v1::CommitRequest request = CommitOf(session, PutRoot(session.session_rev(), "one"), "m");
  ASSERT_TRUE(node_->Commit(request)->applied());
  ObjectRefToWire(PutRoot(session.session_rev(), "two"), request.mutable_root());
  EXPECT_EQ(GetReason(node_->Commit(request).status()), Reason::kInvalidArgument);
}

TEST_F(CommitTest, AnotherLineStopsEverythingThatWrites) {
  ASSERT_TRUE(
      catalog_.Txn({.compares = {}, .writes = {CatalogWrite::Put(kLineKey, "other")}}).ok());
  EXPECT_EQ(GetReason(node_->BeginSession({}).status()), Reason::kCatalogRewound);
  EXPECT_EQ(GetReason(PutValue(HeaderOf("k"), "v").status()), Reason::kCatalogRewound);
}

}  // namespace
}  // namespace tilekv
