#include "client/cli/explain.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tilekv {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

ExplainedRun OneSecondFrom(const std::string& uri) {
  return {.store_uri = uri, .seconds = 1, .bytes = 1 << 20, .memory_bytes = 64 << 20};
}

TEST(Explain, NamesTheNodeThatARemoteLoadWaitedFor) {
  ReadStats stats{.asked_bytes = 100, .received_bytes = 100};
  stats.times = {.fetch_nanos = 71 * kSecond, .verify_nanos = 29 * kSecond};
  Explanation told = ExplainRead(OneSecondFrom("tilekv://n1:7070"), stats, 0);
  EXPECT_EQ(told.limit,
            "the network or the node: 71 % of the time was spent waiting for node n1:7070");
  ASSERT_EQ(told.parts.size(), 2U);
  EXPECT_DOUBLE_EQ(ShareOf(told, told.parts[1]), 0.29);
}

TEST(Explain, AnEmbeddedStoreHasADiskAndNoNode) {
  ReadStats stats;
  stats.times.fetch_nanos = kSecond;
  EXPECT_EQ(ExplainRead(OneSecondFrom("file:/store"), stats, 0).limit,
            "the disk: 100 % of the time was spent reading the store's disk");
}

TEST(Explain, VerifyingThatTakesMostOfTheTimeCanBeLeftOut) {
  ReadStats stats;
  stats.times = {.fetch_nanos = kSecond, .verify_nanos = 2 * kSecond};
  Explanation told = ExplainRead(OneSecondFrom("file:/store"), stats, 0);
  EXPECT_THAT(told.limit, HasSubstr("the processor: 67 %"));
  EXPECT_THAT(told.advice, ElementsAre(HasSubstr("--no-verify")));
}

TEST(Explain, MemoryIsTheLimitOnlyWhereTheDestinationIsNotSlow) {
  ReadStats stats{.budget_nanos = 5 * kSecond};
  stats.times.fetch_nanos = kSecond;
  Explanation memory = ExplainRead(OneSecondFrom("file:/store"), stats, kSecond / 10);
  EXPECT_THAT(memory.limit, HasSubstr("memory: "));
  EXPECT_THAT(memory.advice, ElementsAre("more --memory: it was 64 MiB"));
  Explanation slow = ExplainRead(OneSecondFrom("file:/store"), stats, kSecond * 9 / 10);
  EXPECT_EQ(slow.limit, "the destination: 90 % of the time was spent writing the destination");
}

TEST(Explain, ReadingMuchMoreThanAskedSpeaksForAnotherLayout) {
  ReadStats stats{.asked_bytes = 100, .received_bytes = 250};
  stats.times.fetch_nanos = kSecond;
  EXPECT_THAT(ExplainRead(OneSecondFrom("file:/store"), stats, 0).advice,
              Contains(HasSubstr("2.5 times the bytes")));
  stats.received_bytes = 105;
  EXPECT_THAT(ExplainRead(OneSecondFrom("file:/store"), stats, 0).advice,
              Not(Contains(HasSubstr("times the bytes"))));
}

TEST(Explain, AnImportNamesWhatItsThreadsDid) {
  WriteCost cost;
  cost.put_nanos = 3 * kSecond;
  cost.source_nanos = kSecond;
  cost.put = {.sent_bytes = 7, .retries = 2};
  Explanation told = ExplainWrite(OneSecondFrom("tilekv://n1:7070"), cost);
  EXPECT_EQ(told.limit,
            "the network or the node's disk: 75 % of the time was spent sending to node n1:7070 "
            "until it was on its disk");
  std::string text = ExplanationText(told);
  EXPECT_THAT(text, HasSubstr("sent 7 B"));
  EXPECT_THAT(text, HasSubstr("2 calls tried again"));
  EXPECT_EQ(ExplanationJson(told)["parts"][0]["part"], "put");
}

TEST(Explain, NothingThatTookTimeHasNoLimit) {
  Explanation told = ExplainRead({}, {}, 0);
  EXPECT_EQ(told.limit, "");
  EXPECT_THAT(told.advice, IsEmpty());
  EXPECT_THAT(ExplanationText(told), HasSubstr("asked for 0 B"));
}

}  // namespace
}  // namespace tilekv
