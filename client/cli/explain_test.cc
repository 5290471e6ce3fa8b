#include "client/cli/explain.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tilekv {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

double SumOfShares(const Explanation::Block& block) {
  double sum = 0;
  for (const Explanation::Part& part : block.parts) sum += ShareOf(block, part);
  return sum;
}

ExplainedRun OneSecondFrom(const std::string& uri) {
  return {.store_uri = uri, .seconds = 1, .bytes = 1 << 20, .memory_bytes = 64 << 20};
}

TEST(Explain, NamesTheNodeThatARemoteLoadWaitedFor) {
  ReadStats stats{.asked_bytes = 100, .received_bytes = 100};
  stats.times = {.fetch_nanos = 71 * kSecond, .verify_nanos = 29 * kSecond};
  Explanation told = ExplainRead(OneSecondFrom("tilekv://n1:7070"), stats, 0);
  EXPECT_EQ(told.limit,
            "the network or the node: 71 % of the time was spent waiting for node n1:7070");
  ASSERT_EQ(told.blocks.size(), 1U);
  ASSERT_EQ(told.blocks[0].parts.size(), 2U);
  EXPECT_DOUBLE_EQ(ShareOf(told.blocks[0], told.blocks[0].parts[1]), 0.29);
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
  EXPECT_EQ(slow.limit,
            "the destination: 90 % of the writing thread's time was spent writing the destination");
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
  EXPECT_THAT(text, HasSubstr("sent 7 B; 1.0 MiB of content, 1.0 MiB/s"));
  EXPECT_THAT(text, HasSubstr("2 calls tried again"));
  EXPECT_EQ(ExplanationJson(told)["parts"][0]["part"], "put");
}

TEST(Explain, WhereMostIsInNoPartTheLargestPartIsNamedButNoLimit) {
  ReadStats stats;
  stats.times.verify_nanos = kSecond / 5;
  ExplainedRun run = OneSecondFrom("file:/store");
  run.threads = 2;
  Explanation told = ExplainRead(run, stats, 0);
  ASSERT_EQ(told.blocks.size(), 1U);
  const Explanation::Block& block = told.blocks[0];
  ASSERT_EQ(block.parts.size(), 2U);
  EXPECT_EQ(block.parts[1].key, "rest");
  EXPECT_NEAR(ShareOf(block, block.parts[1]), 0.9, 0.001);
  EXPECT_EQ(told.limit,
            "not known: the largest part was verifying (the processor) with 10 % of the time, and "
            "90 % is the rest");
  EXPECT_THAT(told.advice, IsEmpty());
  EXPECT_THAT(ExplanationText(told), HasSubstr("on nothing of this"));
}

TEST(Explain, ARunThatIsTooShortToTellSaysHowShort) {
  WriteCost cost{.hash_nanos = kSecond / 100};
  ExplainedRun run = OneSecondFrom("file:/store");
  run.threads = 2;
  run.seconds = 0.037;
  EXPECT_EQ(ExplainWrite(run, cost).limit,
            "not known, 0.037 s are too short to tell: the largest part was hashing (the "
            "processor) with 14 % of the time, and 86 % is the rest");
}

TEST(Explain, TheWritingThreadHasABlockOfItsOwnAndEveryBlockIsAWhole) {
  ReadStats stats{.budget_nanos = kSecond / 2};
  stats.times = {.fetch_nanos = kSecond / 5, .verify_nanos = kSecond / 10};
  ExplainedRun run = OneSecondFrom("file:/store");
  run.threads = 2;
  Explanation told = ExplainRead(run, stats, kSecond * 3 / 4);
  ASSERT_EQ(told.blocks.size(), 2U);
  EXPECT_EQ(told.blocks[0].key, "threads");
  EXPECT_EQ(told.blocks[0].nanos, 2 * kSecond);
  EXPECT_NEAR(SumOfShares(told.blocks[0]), 1, 1e-6);
  EXPECT_EQ(told.blocks[1].key, "writer");
  EXPECT_EQ(told.blocks[1].nanos, kSecond);
  EXPECT_NEAR(SumOfShares(told.blocks[1]), 1, 1e-6);
  EXPECT_EQ(told.blocks[1].parts[0].key, "destination");
  EXPECT_THAT(told.limit, HasSubstr("the destination: 75 % of the writing thread's time"));
  const std::string text = ExplanationText(told);
  EXPECT_THAT(text, ContainsRegex("TIME OF 2 THREADS, ADDED UP +2\\.000 s +100 %\n"
                                  "waiting for memory +0\\.500 s +25 %\n"));
  EXPECT_THAT(text, ContainsRegex("TIME OF THE THREAD THAT WRITES +1\\.000 s +100 %\n"
                                  "writing the destination +0\\.750 s +75 %\n"
                                  "waiting for the others, and setting up +0\\.250 s +25 %"));
}

TEST(Explain, OfTwoRowsTheLongerHasTheLargerShare) {
  // All threads wait while one commits: its time counts for each.
  WriteCost cost{.source_nanos = kSecond * 65 / 1000, .commit_nanos = kSecond * 37 / 1000};
  ExplainedRun run = OneSecondFrom("file:/store");
  run.threads = 2;
  run.seconds = 0.115;
  Explanation told = ExplainWrite(run, cost);
  ASSERT_EQ(told.blocks.size(), 1U);
  const Explanation::Block& block = told.blocks[0];
  ASSERT_EQ(block.parts.size(), 3U);
  EXPECT_EQ(block.parts[0].key, "commit");
  EXPECT_EQ(block.parts[0].nanos, kSecond * 74 / 1000);
  EXPECT_GT(block.parts[0].nanos, block.parts[1].nanos);
  EXPECT_GT(ShareOf(block, block.parts[0]), ShareOf(block, block.parts[1]));
  EXPECT_NEAR(SumOfShares(block), 1, 1e-6);
}

TEST(Explain, ACommitThatKeepsAllThreadsWaitingIsTheLimit) {
  WriteCost cost{.hash_nanos = kSecond / 2, .commit_nanos = kSecond * 4 / 5};
  ExplainedRun run = OneSecondFrom("file:/store");
  run.threads = 4;
  EXPECT_EQ(ExplainWrite(run, cost).limit, "the disk: 80 % of the time was spent committing");
}

TEST(Explain, ASourceThatIsInflatedOrTurnedAroundIsNoSlowDisk) {
  WriteCost inflated{.source_nanos = 1, .inflate_nanos = kSecond};
  Explanation told = ExplainWrite(OneSecondFrom("file:/store"), inflated);
  EXPECT_THAT(told.limit, HasSubstr("the processor: "));
  EXPECT_THAT(told.advice, ElementsAre(HasSubstr("numpy.savez")));
  WriteCost turned{.source_nanos = 1, .turn_nanos = kSecond};
  EXPECT_THAT(ExplainWrite(OneSecondFrom("file:/store"), turned).advice,
              ElementsAre(HasSubstr("C order")));
}

TEST(Explain, PacksHaveNoLayoutThatCouldFitBetter) {
  ReadStats stats{.asked_bytes = 100, .received_bytes = 250};
  stats.times.fetch_nanos = kSecond;
  ExplainedRun run = OneSecondFrom("file:/store");
  run.packed_bytes = run.bytes;
  const std::vector<std::string> advice = ExplainRead(run, stats, 0).advice;
  EXPECT_THAT(advice, Not(Contains(HasSubstr("layout"))));
  EXPECT_THAT(advice, Contains(HasSubstr("2.5 times the bytes")));
}

TEST(Explain, NothingThatTookTimeHasNoLimit) {
  Explanation told = ExplainRead({}, {}, 0);
  EXPECT_EQ(told.limit, "");
  EXPECT_THAT(told.advice, IsEmpty());
  EXPECT_THAT(ExplanationText(told), HasSubstr("asked for 0 B"));
}

}  // namespace
}  // namespace tilekv
