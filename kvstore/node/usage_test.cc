#include "kvstore/node/usage.h"

#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

using UsageTest = NodeTest;

v1::FindReferrersRequest AskFor(const std::vector<ObjectRef>& refs) {
  v1::FindReferrersRequest request;
  for (const ObjectRef& ref : refs) ObjectRefToWire(ref, request.add_refs());
  return request;
}

TEST_F(UsageTest, ReferrersAreCountedAndAHundredOfThemNamed) {
  ObjectRef root = Import("m", "tile");
  for (int i = 1; i < 103; ++i) Import("m", "tile");
  ObjectRef other_root = Import("other", "other tile");
  ObjectRef tile = RefOf(0, AsBytes("tile"));
  ObjectRef absent = RefOf(0, AsBytes("absent"));
  auto found = node_->FindReferrers(AskFor({tile, absent, other_root, tile, root}));
  ASSERT_TRUE(found.ok()) << found.status();
  for (int index : {0, 3, 4}) {
    EXPECT_EQ(found->objects(index).version_count(), 103u);
    EXPECT_EQ(found->objects(index).versions_size(), 100);
  }
  EXPECT_EQ(found->objects(1).version_count(), 0u);
  ASSERT_EQ(found->objects(2).versions_size(), 1);
  EXPECT_EQ(found->objects(2).versions(0).name(), "other");
}

TEST_F(UsageTest, QuestionsAboutObjectsAreBounded) {
  std::vector<ObjectRef> many(kMaxBatchOperations + 1, RefOf(0, AsBytes("x")));
  EXPECT_EQ(GetReason(node_->FindReferrers(AskFor(many)).status()), Reason::kInvalidArgument);
  v1::LocateRequest locate;
  *locate.mutable_refs() = AskFor(many).refs();
  EXPECT_EQ(GetReason(node_->Locate(locate).status()), Reason::kInvalidArgument);
}

TEST_F(UsageTest, AReportOfDamageTakesABadCopyOutOfUseAndLeavesAGoodOne) {
  uint64_t session_rev = Begin().session_rev();
  ObjectRef good = PutObject(session_rev, 0, "good");
  ObjectRef bad = PutObject(session_rev, 0, std::string(100'000, 'b'));
  objects_.FlipBit(kDefaultDomain, bad.id, 70'000);
  v1::ReportDamageRequest report;
  for (const ObjectRef& ref : {good, bad, RefOf(0, AsBytes("absent"))}) {
    ObjectRefToWire(ref, report.add_refs());
  }
  auto told = node_->ReportDamage(report);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_TRUE(told->good(0));
  EXPECT_FALSE(told->good(1));
  EXPECT_FALSE(told->good(2));
  v1::LinkRequest link;
  link.set_session_rev(session_rev);
  for (const ObjectRef& ref : {good, bad}) ObjectRefToWire(ref, link.add_refs());
  auto linked = node_->Link(link);
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_TRUE(linked->present(0));
  EXPECT_FALSE(linked->present(1)) << "storing it again heals";
}

}  // namespace
}  // namespace tilekv
