#include "kvstore/node/collector.h"

#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

class CollectorTest : public NodeTest {
 protected:
  void Delete(const std::string& name, bool now = false) {
    v1::DeleteVersionsRequest request;
    request.set_ns("default");
    request.set_name(name);
    request.set_all(true);
    request.set_now(now);
    EXPECT_EQ(node_->DeleteVersions(request)->deleted_size(), 1);
  }
  bool Undelete(const std::string& name, uint64_t number) {
    v1::UndeleteVersionRequest request;
    request.set_ns("default");
    request.set_name(name);
    request.set_number(number);
    return node_->UndeleteVersion(request)->restored();
  }
};

TEST_F(CollectorTest, ADeletedVersionIsPurgedWhenItsGraceIsOver) {
  ObjectRef root = Import("m", "tile");
  Delete("m");
  clock_.Advance((kDeleteGrace_s - 1) * kSecondMicros);
  EXPECT_EQ(node_->Collect({})->purged_versions(), 0u);
  EXPECT_TRUE(IsThere(root));
  clock_.Advance(kSecondMicros);
  v1::CollectRequest dry;
  dry.set_dry_run(true);
  v1::CollectResponse would = *node_->Collect(dry);
  EXPECT_EQ(would.purged_versions(), 1u);
  EXPECT_EQ(would.deleted_objects(), 3u) << "tile, root, commit";
  EXPECT_TRUE(IsThere(root));
  v1::CollectResponse round = *node_->Collect({});
  EXPECT_EQ(round.purged_versions(), 1u);
  EXPECT_EQ(round.deleted_objects(), 3u);
  EXPECT_FALSE(IsThere(root));
  EXPECT_EQ(node_->Fsck({})->problem_count(), 0u) << "the head's counts too";
}

TEST_F(CollectorTest, UndeleteBringsBackWhatIsNotPurgedHoweverOftenItWasCollected) {
  ObjectRef root = Import("m", "tile");
  Delete("m");
  clock_.Advance((kDeleteGrace_s - 1) * kSecondMicros);
  EXPECT_EQ(node_->Collect({})->deleted_objects(), 0u);
  EXPECT_TRUE(Undelete("m", 1));
  clock_.Advance(kDeleteGrace_s * kSecondMicros);
  EXPECT_EQ(node_->Collect({})->deleted_objects(), 0u) << "it has no grace any more, it is live";
  EXPECT_TRUE(IsThere(root));
  EXPECT_EQ(node_->Fsck({})->problem_count(), 0u);
}

TEST_F(CollectorTest, AnUndeleteBetweenReadingARecordAndItsPurgeWins) {
  ObjectRef root = Import("m", "tile");
  Delete("m");
  clock_.Advance(kDeleteGrace_s * kSecondMicros);
  bool restored = false;
  Once("collector.before_purge", [&] { restored = Undelete("m", 1); });
  v1::CollectResponse round = *node_->Collect({});
  EXPECT_TRUE(restored);
  EXPECT_EQ(round.purged_versions(), 0u);
  EXPECT_TRUE(IsThere(root));
  EXPECT_EQ(node_->Fsck({})->problem_count(), 0u);
}

TEST_F(CollectorTest, AVersionThatIsDeletedAgainMeanwhileHasItsWholeGraceAgain) {
  ObjectRef root = Import("m", "tile");
  Delete("m");
  clock_.Advance(kDeleteGrace_s * kSecondMicros);
  Once("collector.before_purge", [&] {
    EXPECT_TRUE(Undelete("m", 1));
    Delete("m");
  });
  EXPECT_EQ(node_->Collect({})->purged_versions(), 0u);
  EXPECT_TRUE(IsThere(root));
  EXPECT_TRUE(Undelete("m", 1));
}

TEST_F(CollectorTest, WhatWasPurgedCannotBeUndeleted) {
  Import("m", "tile");
  Delete("m");
  clock_.Advance(kDeleteGrace_s * kSecondMicros);
  bool restored = true;
  Once("collector.before_delete", [&] { restored = Undelete("m", 1); });
  EXPECT_EQ(node_->Collect({})->purged_versions(), 1u);
  EXPECT_FALSE(restored) << "from the purge on, before any object goes";
  EXPECT_FALSE(Undelete("m", 1));
}

TEST_F(CollectorTest, EndingSessionsFreesWhatTheyHeldAndTellsTheirClients) {
  v1::BeginSessionResponse session = Begin();
  ObjectRef root = PutRoot(session.session_rev(), "tile");
  EXPECT_EQ(node_->Collect({})->kept_by_sessions(), 2u);
  v1::CollectRequest request;
  request.set_end_sessions(true);
  v1::CollectResponse round = *node_->Collect(request);
  EXPECT_EQ(round.deleted_objects(), 2u);
  EXPECT_EQ(round.sessions_size(), 0);
  EXPECT_EQ(GetReason(node_->Commit(CommitOf(session, root, "m")).status()), Reason::kSessionLost);
  v1::LinkRequest link;
  link.set_session_rev(session.session_rev());
  EXPECT_EQ(GetReason(node_->Link(link).status()), Reason::kSessionLost);
}

TEST_F(CollectorTest, EndingSessionsLeavesPutsByKeyAlone) {
  std::string content(5'000, 'x');
  v1::PutValueHeader header = HeaderOf("k");
  auto writer = node_->BeginPutValue(header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(AsBytes(content)).ok());
  v1::CollectRequest request;
  request.set_end_sessions(true);
  ASSERT_TRUE(node_->Collect(request).ok());
  auto outcome = (*writer)->Finish({});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(ValueOf("k"), content);
}

TEST_F(CollectorTest, ARoundRemovesTheRecordsOfWhatWasFreedThatItHasRead) {
  KeyRange range = FreedRange();
  auto records = [&] { return catalog_.List(range.start, range.end, 10)->entries.size(); };
  Import("m", "tile");
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'a')).ok());
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'b')).ok());
  Delete("m", true);
  EXPECT_EQ(records(), 2u);
  Once("collector.before_delete",
       [&] { ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(5'000, 'c')).ok()); });
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(records(), 1u) << "of what came after its snapshot";
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(records(), 0u);
}

TEST_F(CollectorTest, ACallThatIsCancelledEndsTheRoundWithinAStoreWithoutGarbage) {
  v1::BeginSessionResponse session = Begin();
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  for (int i = 0; i < 40'000; ++i) {
    tree.children.push_back(PutObject(session.session_rev(), 0, std::to_string(i)));
  }
  ObjectRef root = PutObject(session.session_rev(), 3, EncodeTree(tree));
  ASSERT_TRUE(node_->Commit(CommitOf(session, root, "m"))->applied());
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  objects_.scanned = [&](int rows) {
    if (rows == 1'000) context.cancel->Cancel();
  };
  EXPECT_EQ(GetReason(node_->Collect({}, context).status()), Reason::kCancelled);
  EXPECT_LT(objects_.rows_scanned, 20'000);
}

TEST_F(CollectorTest, CommitRecordsAreKeptTwoDays) {
  Import("m", "tile");
  KeyRange range = CommitRange();
  clock_.Advance((kCommitRecord_s - 1) * kSecondMicros);
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(catalog_.List(range.start, range.end, 10)->entries.size(), 1u);
  clock_.Advance(2 * kSecondMicros);
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(catalog_.List(range.start, range.end, 10)->entries.size(), 0u);
}

TEST_F(CollectorTest, AnUnreadableTreeEndsTheRoundAndIsNamed) {
  ObjectRef root = Import("m", "tile");
  ObjectRef garbage = PutObject(Begin().session_rev(), 0, "garbage");
  clock_.Advance(kSessionLease_s * kSecondMicros);
  objects_.FlipBit(kDefaultDomain, root.id, 30);
  absl::Status status = node_->Collect({}).status();
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr(root.id.Hex()), testing::HasSubstr("default/m@1"),
                             testing::HasSubstr("tilekv store fsck")));
  EXPECT_TRUE(IsThere(garbage)) << "nothing is deleted";
}

TEST_F(CollectorTest, AnotherRoundStopsTheSweep) {
  ObjectRef root = Import("m", "tile");
  Delete("m", true);
  v1::RoundRecord other;
  other.set_value("other");
  // Another collector's round begins at the first deletion of this one.
  bool second_done = false;
  Once("collector.before_delete", [&] {
    second_done = true;
    EXPECT_TRUE(catalog_
                    .Txn({.compares = {},
                          .writes = {CatalogWrite::Put(kRoundKey, other.SerializeAsString())}})
                    .ok());
  });
  for (int i = 0; i < 2'000; ++i) PutObject(Begin().session_rev(), 0, std::to_string(i));
  clock_.Advance(kSessionLease_s * kSecondMicros);
  absl::Status status = node_->Collect({}).status();
  EXPECT_TRUE(second_done);
  EXPECT_EQ(GetReason(status), Reason::kOverloaded) << "a batch later it is noticed";
  EXPECT_GT(objects_.Usage()->objects, 0u);
  SetCrashHandler(nullptr);
  EXPECT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(objects_.Usage()->objects, 0u);
  EXPECT_FALSE(IsThere(root));
}

TEST_F(CollectorTest, ATouchDuringTheSweepIsDecidedInTheLockedSection) {
  ObjectRef root = Import("m", "tile");
  Delete("m", true);
  Once("collector.before_delete", [&] {
    v1::BeginSessionResponse session = Begin();
    v1::LinkRequest link;
    link.set_session_rev(session.session_rev());
    ObjectRefToWire(root, link.add_refs());
    EXPECT_TRUE(node_->Link(link)->present(0));
  });
  v1::CollectResponse round = *node_->Collect({});
  EXPECT_EQ(round.kept_by_sessions(), 1u);
  EXPECT_TRUE(IsThere(root));
}

TEST_F(CollectorTest, ASecondRoundIsRefusedWhileOneRuns) {
  PutObject(Begin().session_rev(), 0, "garbage");
  clock_.Advance(kSessionLease_s * kSecondMicros);
  absl::Status second;
  Once("collector.before_delete", [&] { second = node_->Collect({}).status(); });
  EXPECT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(GetReason(second), Reason::kOverloaded);
  EXPECT_TRUE(node_->Collect({}).ok());
}

TEST_F(CollectorTest, TheFenceOutlivesTheNode) {
  v1::BeginSessionResponse session = Begin();
  PutObject(session.session_rev(), 0, "x");
  clock_.Advance(kSessionLease_s * kSecondMicros);
  ASSERT_TRUE(node_->Collect({}).ok());
  NodeOptions options;
  options.clock = &clock_;
  options.random = &random_;
  auto again = LocalNode::Create(objects_, catalog_, options);
  ASSERT_TRUE(again.ok());
  v1::LinkRequest link;
  link.set_session_rev(session.session_rev());
  EXPECT_EQ(GetReason((*again)->Link(link).status()), Reason::kSessionLost);
}

TEST_F(CollectorTest, TheFenceHoldsForSessionsOfOtherNodes) {
  NodeOptions options;
  options.clock = &clock_;
  options.random = &random_;
  auto other = LocalNode::Create(objects_, catalog_, options);
  ASSERT_TRUE(other.ok());
  v1::BeginSessionResponse session = *(*other)->BeginSession({});
  v1::LinkRequest link;
  link.set_session_rev(session.session_rev());
  EXPECT_TRUE(node_->Link(link).ok());
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_TRUE(node_->Link(link).ok()) << "it lives";
  v1::EndSessionRequest end;
  end.set_token(session.token());
  ASSERT_TRUE((*other)->EndSession(end).ok());
  ASSERT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(GetReason(node_->Link(link).status()), Reason::kSessionLost);
}

}  // namespace
}  // namespace tilekv
