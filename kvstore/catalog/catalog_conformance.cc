#include "kvstore/catalog/catalog_conformance.h"

#include <map>
#include <thread>

#include "fmt/format.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/txn_check.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CatalogConformance);

Revision CatalogConformance::Write(std::vector<CatalogWrite> writes,
                                   std::vector<Compare> compares) {
  absl::StatusOr<TxnResult> result =
      catalog_->Txn({.compares = std::move(compares), .writes = std::move(writes)});
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_TRUE(result->applied);
  return result->revision;
}

std::string CatalogConformance::ValueOf(const std::string& key) {
  auto entry = catalog_->Get(key);
  EXPECT_TRUE(entry.ok()) << entry.status();
  return entry.ok() && entry->has_value() ? (*entry)->value : "-";
}

TEST_P(CatalogConformance, BeginsWithALineOfTheFirstEpoch) {
  auto entry = catalog_->Get(kLineKey);
  ASSERT_TRUE(entry.ok() && entry->has_value());
  v1::LineRecord line;
  ASSERT_TRUE(line.ParseFromString((*entry)->value));
  EXPECT_EQ(line.epoch(), kFirstEpoch);
  EXPECT_EQ(line.line_id().size(), 16u);
  EXPECT_EQ((*entry)->mod_revision, Revision::Of(kFirstEpoch, 1));
}

TEST_P(CatalogConformance, KeepsWhoMadeAndWhoLastWroteAKey) {
  Revision made = Write({CatalogWrite::Put("a", "1")});
  Revision changed = Write({CatalogWrite::Put("a", "2")});
  EXPECT_LT(made, changed);
  auto entry = catalog_->Get("a");
  ASSERT_TRUE(entry.ok() && entry->has_value());
  EXPECT_EQ((*entry)->value, "2");
  EXPECT_EQ((*entry)->create_revision, made);
  EXPECT_EQ((*entry)->mod_revision, changed);

  Write({CatalogWrite::Delete("a")});
  Revision again = Write({CatalogWrite::Put("a", "3")});
  EXPECT_EQ((*catalog_->Get("a"))->create_revision, again);
}

TEST_P(CatalogConformance, WritesAllOrNothing) {
  Revision a = Write({CatalogWrite::Put("a", "1")});
  auto result =
      catalog_->Txn({.compares = {Compare::Mod("a", a), Compare::Exists("b")},
                     .writes = {CatalogWrite::Put("a", "2"), CatalogWrite::Put("c", "2")}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->applied);
  EXPECT_EQ(result->failed_compare, 1u);
  EXPECT_EQ(result->revision, a);
  EXPECT_EQ(ValueOf("a"), "1");
  EXPECT_EQ(ValueOf("c"), "-");
  EXPECT_EQ(*catalog_->CurrentRevision(), a);
}

TEST_P(CatalogConformance, EveryKindOfCompareHoldsAndFailsAsItShould) {
  Revision made = Write({CatalogWrite::Put("a", "1")});
  Revision changed = Write({CatalogWrite::Put("a", "2")});
  auto holds = [&](Compare compare) {
    auto result = catalog_->Txn({.compares = {std::move(compare)}, .writes = {}});
    EXPECT_TRUE(result.ok());
    return result.ok() && result->applied;
  };
  EXPECT_TRUE(holds(Compare::Absent("b")));
  EXPECT_FALSE(holds(Compare::Absent("a")));
  EXPECT_TRUE(holds(Compare::Exists("a")));
  EXPECT_FALSE(holds(Compare::Exists("b")));
  EXPECT_TRUE(holds(Compare::Mod("a", changed)));
  EXPECT_FALSE(holds(Compare::Mod("a", made)));
  EXPECT_FALSE(holds(Compare::Mod("b", made)));
  EXPECT_TRUE(holds(Compare::Mod("b", {})));
  EXPECT_TRUE(holds(Compare::Created("a", made)));
  EXPECT_FALSE(holds(Compare::Created("a", changed)));
  EXPECT_FALSE(holds(Compare::Created("b", {})));
}

TEST_P(CatalogConformance, RefusesAKeyWrittenTwiceInOneTransaction) {
  auto result = catalog_->Txn(
      {.compares = {}, .writes = {CatalogWrite::Put("a", "1"), CatalogWrite::Delete("a")}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValueOf("a"), "-");
}

TEST_P(CatalogConformance, ListsByteOrderedPagesThatCanBeResumed) {
  for (int i = 0; i < 7; ++i) Write({CatalogWrite::Put(fmt::format("x/{}", i), "v")});
  Write({CatalogWrite::Put(std::string("x/\xff"), "v"), CatalogWrite::Put("x0", "v"),
         CatalogWrite::Put("w", "v")});
  std::vector<std::string> keys;
  std::string start = "x/";
  bool more = true;
  while (more) {
    auto page = catalog_->List(start, PrefixEnd("x/"), 3);
    ASSERT_TRUE(page.ok());
    ASSERT_LE(page->entries.size(), 3u);
    EXPECT_EQ(page->revision, *catalog_->CurrentRevision());
    for (const CatalogEntry& entry : page->entries) keys.push_back(entry.key);
    more = page->more;
    if (more) start = keys.back() + '\0';
  }
  ASSERT_EQ(keys.size(), 8u);
  EXPECT_EQ(keys.front(), "x/0");
  EXPECT_EQ(keys.back(), "x/\xff");
  EXPECT_FALSE(catalog_->List("a", "", 1).ok());
  EXPECT_FALSE(catalog_->List("a", "b", 0).ok());
}

TEST_P(CatalogConformance, ASnapshotStaysAtItsRevision) {
  Revision before = Write({CatalogWrite::Put("a", "1"), CatalogWrite::Put("b", "1")});
  auto snapshot = catalog_->Snapshot();
  ASSERT_TRUE(snapshot.ok());
  Write({CatalogWrite::Put("a", "2"), CatalogWrite::Delete("b"), CatalogWrite::Put("c", "2")});
  EXPECT_EQ((*snapshot)->revision(), before);
  EXPECT_EQ((*(*snapshot)->Get("a"))->value, "1");
  EXPECT_TRUE((*(*snapshot)->Get("b")).has_value());
  auto page = (*snapshot)->List("a", "d", 10);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->entries.size(), 2u);
  EXPECT_EQ(page->revision, before);
  EXPECT_EQ(ValueOf("c"), "2");
}

TEST_P(CatalogConformance, ALeaseTakesItsKeysWithItWhenItsTimeIsOver) {
  auto lease = catalog_->Grant(10);
  ASSERT_TRUE(lease.ok());
  Write({CatalogWrite::Put("s/1", "x", *lease), CatalogWrite::Put("s/2", "x", *lease),
         CatalogWrite::Put("other", "x")});
  clock_.Advance(9'000'000);
  EXPECT_EQ(ValueOf("s/1"), "x");
  EXPECT_TRUE(*catalog_->KeepAlive(*lease, 10));
  clock_.Advance(9'000'000);
  EXPECT_EQ(ValueOf("s/1"), "x");
  Revision before = *catalog_->CurrentRevision();
  clock_.Advance(1'000'000);
  EXPECT_FALSE(*catalog_->KeepAlive(*lease, 10));
  EXPECT_EQ(ValueOf("s/1"), "-");
  EXPECT_EQ(ValueOf("s/2"), "-");
  EXPECT_EQ(ValueOf("other"), "x");
  EXPECT_EQ(*catalog_->CurrentRevision(), before.Next()) << "both keys go in one transaction";
}

TEST_P(CatalogConformance, AnEndedLeaseIsSeenByTheNextTransactionAndListing) {
  auto lease = catalog_->Grant(10);
  Write({CatalogWrite::Put("s/1", "x", *lease)});
  clock_.Advance(11'000'000);
  auto result = catalog_->Txn({.compares = {Compare::Exists("s/1")}, .writes = {}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->applied);
  EXPECT_TRUE(catalog_->List("s/", "s0", 10)->entries.empty());
  auto late = catalog_->Txn({.compares = {}, .writes = {CatalogWrite::Put("s/2", "x", *lease)}});
  EXPECT_FALSE(late.ok());
}

TEST_P(CatalogConformance, ARevokedLeaseTakesItsKeysAtOnceAndNoOthers) {
  auto first = catalog_->Grant(10);
  auto second = catalog_->Grant(10);
  Write({CatalogWrite::Put("a", "1", *first), CatalogWrite::Put("b", "1", *first)});
  Write({CatalogWrite::Put("b", "2", *second)});  // goes over to the second
  ASSERT_TRUE(catalog_->Revoke(*first).ok());
  EXPECT_EQ(ValueOf("a"), "-");
  EXPECT_EQ(ValueOf("b"), "2");
  Write({CatalogWrite::Put("b", "3")});  // with no lease any more
  ASSERT_TRUE(catalog_->Revoke(*second).ok());
  EXPECT_EQ(ValueOf("b"), "3");
  EXPECT_TRUE(catalog_->Revoke(12345).ok());
}

// Random transactions, against a model that is a map: same outcomes, same contents, same revisions.
TEST_P(CatalogConformance, BehavesAsAMapWithRevisions) {
  const uint64_t seed = Random::System()->Next();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  SeededRandom random(seed);
  struct Row {
    std::string value;
    Revision create, mod;
  };
  std::map<std::string, Row> model;
  Revision revision = *catalog_->CurrentRevision();
  std::string begin = "p/", end = PrefixEnd(begin);
  auto key = [&] { return fmt::format("p/{}", random.Below(12)); };
  for (int step = 0; step < 400; ++step) {
    CatalogTxn txn;
    std::optional<size_t> expect_failed;
    for (size_t i = random.Below(3); i > 0; --i) {
      std::string k = key();
      auto row = model.find(k);
      Revision seen = row == model.end() || random.Below(8) == 0 ? Revision{} : row->second.mod;
      Compare compare = Compare::Mod(k, seen);
      bool holds = row == model.end() ? seen.value == 0 : row->second.mod == seen;
      if (!holds && !expect_failed) expect_failed = txn.compares.size();
      txn.compares.push_back(compare);
    }
    std::map<std::string, std::optional<std::string>> writes;
    for (size_t i = random.Below(4); i > 0; --i) {
      writes[key()] =
          random.Below(3) == 0 ? std::nullopt : std::optional(std::to_string(random.Below(1000)));
    }
    for (auto& [k, v] : writes) txn.writes.push_back({k, v});
    auto result = catalog_->Txn(txn);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->applied, !expect_failed.has_value());
    ASSERT_EQ(result->failed_compare, expect_failed);
    if (result->applied) {
      revision = revision.Next();
      for (auto& [k, v] : writes) {
        if (!v) {
          model.erase(k);
          continue;
        }
        auto [row, made] = model.try_emplace(k);
        if (made) row->second.create = revision;
        row->second.mod = revision;
        row->second.value = *v;
      }
    }
    ASSERT_EQ(result->revision, revision);
    auto page = catalog_->List(begin, end, 100);
    ASSERT_TRUE(page.ok());
    ASSERT_EQ(page->entries.size(), model.size());
    auto at = model.begin();
    for (const CatalogEntry& entry : page->entries) {
      ASSERT_EQ(entry.key, at->first);
      ASSERT_EQ(entry.value, at->second.value);
      ASSERT_EQ(entry.create_revision, at->second.create);
      ASSERT_EQ(entry.mod_revision, at->second.mod);
      ++at;
    }
  }
}

TEST_P(CatalogConformance, ConcurrentCompareAndSetLosesNoIncrement) {
  constexpr int kThreads = 4, kIncrements = 50;
  Write({CatalogWrite::Put("n", "0")});
  std::vector<std::thread> threads;
  std::vector<std::vector<uint64_t>> revisions(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int done = 0; done < kIncrements;) {
        auto entry = catalog_->Get("n");
        ASSERT_TRUE(entry.ok() && entry->has_value());
        auto result = catalog_->Txn(
            {.compares = {Compare::Mod("n", (*entry)->mod_revision)},
             .writes = {CatalogWrite::Put("n", std::to_string(std::stoi((*entry)->value) + 1))}});
        ASSERT_TRUE(result.ok());
        if (!result->applied) continue;
        revisions[t].push_back(result->revision.value);
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ValueOf("n"), std::to_string(kThreads * kIncrements));
  std::vector<uint64_t> all;
  for (auto& mine : revisions) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "each has its own revision";
}

}  // namespace tilekv
