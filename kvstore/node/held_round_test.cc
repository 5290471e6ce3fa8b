// When so much is gone that a person has to look first.
#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/collector.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

class HeldRoundTest : public NodeTest {
 protected:
  HeldRoundTest() {
    holding_ = NewNode();
    garbage_ = PutObject(Begin().session_rev(), 0, "garbage");
    clock_.Advance(kSessionLease_s * kSecondMicros);
  }
  std::unique_ptr<LocalNode> NewNode() {
    NodeOptions options;
    options.clock = &clock_;
    options.random = &random_;
    options.holds_rounds = true;
    return *LocalNode::Create(objects_, catalog_, options);
  }

  // A value whose object is said to be so large. Nothing reads it.
  void Name(const std::string& key, uint64_t bytes, const std::string& object = "") {
    v1::ValueRecord record;
    record.set_length(bytes);
    ObjectRef ref = RefOf(0, AsBytes(object.empty() ? key : object));
    ref.length = bytes;
    ObjectRefToWire(ref, record.mutable_object());
    Write(CatalogWrite::Put(ValueKey(key), record.SerializeAsString()));
  }
  // Its record is gone, and no transaction of ours took it.
  void Lose(const std::string& key) { Write(CatalogWrite::Delete(ValueKey(key))); }
  void Delete(const std::string& key) {
    v1::DeleteValueRequest request;
    request.set_key(key);
    ASSERT_TRUE(holding_->DeleteValue(request)->applied());
  }
  v1::CollectResponse Collect() {
    auto round = holding_->Collect({});
    EXPECT_TRUE(round.ok()) << round.status();
    return *round;
  }
  absl::StatusOr<v1::CollectResponse> Confirm(const std::string& round) {
    v1::CollectRequest request;
    request.set_confirm(round);
    return holding_->Collect(request);
  }
  // 90 GiB in use, of which 30 are lost and found missing; the name of the round.
  std::string LoseAThird() {
    Name("a", 30 * kGiB);
    Name("b", 20 * kGiB);
    Name("c", 40 * kGiB);
    EXPECT_FALSE(Collect().held());
    garbage_ = PutObject(Begin().session_rev(), 0, "more garbage");
    clock_.Advance(kSessionLease_s * kSecondMicros);
    Lose("a");
    v1::CollectResponse round = Collect();
    EXPECT_TRUE(round.held());
    EXPECT_EQ(round.unexplained_bytes(), 30 * kGiB);
    EXPECT_EQ(round.round().size(), 16u);
    return round.round();
  }

  std::unique_ptr<LocalNode> holding_;
  ObjectRef garbage_;

 private:
  void Write(CatalogWrite write) {
    ASSERT_TRUE(catalog_.Txn({.compares = {}, .writes = {std::move(write)}}).ok());
  }
};

TEST_F(HeldRoundTest, ALossThatNothingExplainsIsHeldUntilItIsConfirmedByName) {
  std::string name = LoseAThird();
  EXPECT_TRUE(IsThere(garbage_));
  EXPECT_TRUE(holding_->collection_held());
  EXPECT_EQ(Collect().round(), name) << "it keeps its name";

  EXPECT_EQ(GetReason(Confirm("another").status()), Reason::kInvalidArgument);
  EXPECT_TRUE(IsThere(garbage_));
  EXPECT_FALSE(Confirm(name)->held());
  EXPECT_FALSE(IsThere(garbage_));
  EXPECT_FALSE(holding_->collection_held());
  EXPECT_FALSE(Collect().held());
  EXPECT_EQ(GetReason(Confirm(name).status()), Reason::kInvalidArgument) << "it is over";
}

TEST_F(HeldRoundTest, AFurtherLossIsHeldUnderAnotherName) {
  std::string first = LoseAThird();
  Lose("b");
  v1::CollectResponse round = Collect();
  EXPECT_TRUE(round.held());
  EXPECT_EQ(round.unexplained_bytes(), 50 * kGiB) << "since the last round that ended";
  EXPECT_NE(round.round(), first);
  EXPECT_EQ(GetReason(Confirm(first).status()), Reason::kInvalidArgument);
  EXPECT_TRUE(IsThere(garbage_));
  EXPECT_FALSE(Confirm(round.round())->held());
  EXPECT_FALSE(IsThere(garbage_));
}

TEST_F(HeldRoundTest, AConfirmationIsForWhatWasLostWhenTheNameWasGiven) {
  std::string first = LoseAThird();
  Lose("b");
  v1::CollectResponse confirmed = *Confirm(first);
  EXPECT_TRUE(confirmed.held());
  EXPECT_NE(confirmed.round(), first);
  EXPECT_TRUE(IsThere(garbage_));
}

TEST_F(HeldRoundTest, WhatIsAddedWhileARoundIsHeldDoesNotHideAFurtherLoss) {
  std::string first = LoseAThird();
  Name("d", 11 * kGiB);
  EXPECT_EQ(Collect().round(), first);
  Lose("b");
  EXPECT_TRUE(Confirm(first)->held()) << "of 71 GiB 20 are gone since";
}

TEST_F(HeldRoundTest, WhatIsDeletedWhileARoundIsHeldIsNoFurtherLoss) {
  std::string first = LoseAThird();
  Delete("b");
  EXPECT_EQ(Collect().round(), first);
  EXPECT_FALSE(Confirm(first)->held());
}

TEST_F(HeldRoundTest, AHeldRoundMovesNoFence) {
  std::string name = LoseAThird();
  v1::BeginSessionResponse session = Begin();
  v1::EndSessionRequest end;
  end.set_token(session.token());
  ASSERT_TRUE(node_->EndSession(end).ok());
  v1::LinkRequest link;
  link.set_session_rev(session.session_rev());
  ASSERT_TRUE(Collect().held());
  EXPECT_TRUE(holding_->Link(link).ok()) << "of another node's session, as far as it knows";
  ASSERT_FALSE(Confirm(name)->held());
  EXPECT_EQ(GetReason(holding_->Link(link).status()), Reason::kSessionLost);
}

TEST_F(HeldRoundTest, IsHeldStillAfterARestart) {
  std::string name = LoseAThird();
  holding_ = NewNode();
  EXPECT_TRUE(holding_->collection_held());
  EXPECT_EQ(Collect().round(), name);
}

TEST_F(HeldRoundTest, ADryRunShowsWhatAHeldRoundWouldDelete) {
  Name("a", 40 * kGiB);
  ASSERT_FALSE(Collect().held());
  PutObject(Begin().session_rev(), 0, "more garbage");
  clock_.Advance(kSessionLease_s * kSecondMicros);
  Lose("a");
  v1::CollectRequest dry;
  dry.set_dry_run(true);
  v1::CollectResponse would = *holding_->Collect(dry);
  EXPECT_TRUE(would.held());
  EXPECT_EQ(would.round(), "") << "there is none yet";
  EXPECT_EQ(would.deleted_objects(), 1u);
  EXPECT_FALSE(holding_->collection_held());
}

TEST_F(HeldRoundTest, WhereNobodyWaitsTheLossIsReportedAndTheRoundGoesOn) {
  LoseAThird();
  v1::CollectResponse round = *node_->Collect({});
  EXPECT_FALSE(round.held());
  EXPECT_EQ(round.unexplained_bytes(), 30 * kGiB);
  EXPECT_FALSE(IsThere(garbage_));
}

TEST_F(HeldRoundTest, ALossWithinEitherBoundIsNotHeld) {
  Name("a", kCollectHoldBytes);
  ASSERT_FALSE(Collect().held());
  Lose("a");
  EXPECT_FALSE(Collect().held()) << "all of it, but no more than 10 GiB";
  Name("b", 80 * kGiB);
  Name("c", 20 * kGiB);
  ASSERT_FALSE(Collect().held());
  Lose("c");
  EXPECT_FALSE(Collect().held()) << "20 GiB, but no more than 20 %";
}

TEST_F(HeldRoundTest, WhatIsDeletedOrOverwrittenIsNoLoss) {
  Name("a", 40 * kGiB);
  Name("b", 40 * kGiB);
  Name("c", 40 * kGiB);
  ASSERT_FALSE(Collect().held());
  Delete("a");
  ASSERT_TRUE(PutValue(HeaderOf("b"), "in its record").ok());
  EXPECT_FALSE(Collect().held());
  // What explained one fall explains no other.
  Lose("c");
  EXPECT_TRUE(Collect().held());
}

TEST_F(HeldRoundTest, WhatOtherNamesStillNeedExplainsNothing) {
  Name("a", 40 * kGiB, "shared");
  Name("b", 40 * kGiB, "shared");
  Name("c", 40 * kGiB);
  ASSERT_FALSE(Collect().held());
  Delete("a");
  Lose("c");
  v1::CollectResponse round = Collect();
  EXPECT_TRUE(round.held());
  EXPECT_EQ(round.unexplained_bytes(), 40 * kGiB);
}

TEST_F(HeldRoundTest, WhatSeveralNamesNeededExplainsItsBytesOnce) {
  Name("a", 40 * kGiB, "shared");
  Name("b", 40 * kGiB, "shared");
  Name("c", 40 * kGiB);
  ASSERT_FALSE(Collect().held());
  Delete("a");
  Delete("b");
  Lose("c");
  EXPECT_EQ(Collect().unexplained_bytes(), 40 * kGiB);
}

TEST_F(HeldRoundTest, ANameThatCameAndWentBetweenTwoRoundsExplainsNothing) {
  Name("a", 40 * kGiB);
  Name("b", 40 * kGiB);
  ASSERT_FALSE(Collect().held());
  Name("c", 40 * kGiB);
  Delete("c");
  Lose("a");
  EXPECT_EQ(Collect().unexplained_bytes(), 40 * kGiB);
}

}  // namespace
}  // namespace tilekv
