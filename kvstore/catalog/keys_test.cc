#include "kvstore/catalog/keys.h"

#include "gtest/gtest.h"

namespace tilekv {
namespace {

TEST(Keys, ArePrintedAsTheFormatsPageHasThem) {
  EXPECT_EQ(ValueKey("a/b"), "k/a/b");
  EXPECT_EQ(HeadKey("default", "gpt"), "m/default/gpt");
  EXPECT_EQ(VersionKey("default", "gpt", 258),
            std::string("v/default/gpt/\0\0\0\0\0\0\x01\x02", 22));
  EXPECT_EQ(TagKey("default", "gpt", "prod"), "t/default/gpt/prod");
  EXPECT_EQ(SessionKey(std::string("\x01\xfe", 2)), "s/01fe");
  EXPECT_EQ(CommitKey(std::string("\x01\xfe", 2)), "commits/01fe");
}

TEST(Keys, VersionsSortByNumber) {
  EXPECT_LT(VersionKey("a", "b", 9), VersionKey("a", "b", 10));
  EXPECT_LT(VersionKey("a", "b", 255), VersionKey("a", "b", 256));
}

TEST(Keys, ARangeHoldsExactlyWhatItSays) {
  KeyRange range = VersionRange("a", "b", 3, 5);
  auto in = [&range](const std::string& key) { return range.start <= key && key < range.end; };
  EXPECT_FALSE(in(VersionKey("a", "b", 2)));
  EXPECT_TRUE(in(VersionKey("a", "b", 3)));
  EXPECT_TRUE(in(VersionKey("a", "b", 4)));
  EXPECT_FALSE(in(VersionKey("a", "b", 5)));
  range = VersionRange("a", "b");
  EXPECT_TRUE(in(VersionKey("a", "b", ~uint64_t{0})));
  EXPECT_FALSE(in(VersionKey("a", "b0", 1)));
  range = ValueRange("x\xff",
                     "x\xff"
                     "a");
  EXPECT_FALSE(
      in(ValueKey("x\xff"
                  "a")));
  EXPECT_TRUE(
      in(ValueKey("x\xff"
                  "a\x01")));
  EXPECT_TRUE(in(ValueKey("x\xff\xff\xff")));
  EXPECT_FALSE(in(ValueKey("y")));
}

TEST(Keys, ModelKeysAreReadBack) {
  auto parts = ParseModelKey(VersionKey("ns", "a-name", 0x2f2f2f2f2f2f2f2f));
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->ns, "ns");
  EXPECT_EQ(parts->name, "a-name");
  EXPECT_EQ(parts->number, 0x2f2f2f2f2f2f2f2fu);
  EXPECT_EQ(ParseModelKey(TagKey("ns", "n", "t"))->last, "t");
  EXPECT_EQ(ParseModelKey(HeadKey("ns", "n"))->name, "n");
  EXPECT_FALSE(ParseModelKey("v/ns/n/short").has_value());
  EXPECT_FALSE(ParseModelKey("line").has_value());
}

TEST(Keys, ThePrefixEndFollowsEveryKeyOfThePrefix) {
  EXPECT_EQ(PrefixEnd("a"), "b");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff"), "\xff\xff");
}

}  // namespace
}  // namespace tilekv
