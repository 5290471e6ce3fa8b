#include "client/cli/cluster_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

TEST(ClusterText, TimesAreReadAsTheyAreWritten) {
  EXPECT_EQ(*ParseSeconds("90"), 90);
  EXPECT_EQ(*ParseSeconds("90s"), 90);
  EXPECT_EQ(*ParseSeconds("10m"), 600);
  EXPECT_EQ(*ParseSeconds("2h"), 7'200);
  EXPECT_EQ(*ParseSeconds("3d"), 259'200);
  for (const char* wrong : {"", "m", "10x", "10 m", "-1", "1.5h", "10mm", "99999999999999999d"}) {
    EXPECT_EQ(GetReason(ParseSeconds(wrong).status()), Reason::kInvalidArgument) << wrong;
  }
  for (int64_t seconds : {0, 1, 59, 60, 90, 600, 3'600, 86'400, 86'401}) {
    EXPECT_EQ(*ParseSeconds(FormatSeconds(seconds)), seconds);
  }
  EXPECT_EQ(FormatSeconds(600), "10m");
}

TEST(ClusterText, OnlyWhatIsNamedIsSet) {
  auto change = ParseSettingsChange({"out-after=10m", "repair-rate=64MiB"});
  ASSERT_TRUE(change.ok());
  EXPECT_EQ(change->out_after_seconds(), 600);
  EXPECT_EQ(change->repair_bytes_per_second(), uint64_t{64} << 20);
  EXPECT_FALSE(change->has_replication());
  auto node = ParseNodeChange("n4", {"weight=2", "zone=", "maintenance=on"});
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->id(), "n4");
  EXPECT_EQ(node->weight_milli(), 2'000u);
  EXPECT_TRUE(node->has_zone());
  EXPECT_TRUE(node->maintenance());
  EXPECT_FALSE(node->has_host());
}

TEST(ClusterText, WhatCannotBeSetIsToldWithWhatCan) {
  EXPECT_THAT(ErrorText(ParseSettingsChange({"partition-bits=8"}).status()),
              HasSubstr("replication, min-copies, out-after and repair-rate"));
  EXPECT_THAT(ErrorText(ParseNodeChange("n", {"state=in"}).status()), HasSubstr("weight, zone"));
  EXPECT_THAT(ErrorText(ParseNodeChange("n", {"maintenance=yes"}).status()), HasSubstr("'on'"));
  EXPECT_FALSE(ParseSettingsChange({"replication"}).ok());
  EXPECT_FALSE(ParseSettingsChange({"replication=2", "replication=3"}).ok());
}

}  // namespace
}  // namespace tilekv
