// What becomes of writes whose answers are lost, and what is never sent: on a real etcd, behind
// means that lose what they are told.
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/catalog/etcd/etcd_test_util.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

using Kind = Mishap::Kind;

EtcdProcess& Etcd() {
  static std::unique_ptr<EtcdProcess> etcd = std::make_unique<EtcdProcess>();
  return *etcd;
}

class EtcdOutcome : public testing::Test {
 protected:
  EtcdOutcome() {
    static int number = 0;
    options_ = TestOptions(Etcd(), fmt::format("outcome-{}", number++));
    options_.timeout_ms = 20'000;  // a busy machine is not what is tested
    options_.try_ms = 20'000;
    Open();
    other_ = *EtcdCatalog::Open(options_);
  }

  void Open() {
    auto rpc = std::make_unique<LossyRpc>(*MakeEtcdGrpc(options_));
    rpc_ = rpc.get();
    catalog_ = *EtcdCatalog::Open(options_, std::move(rpc));
    rpc_->Forget();
  }
  static CatalogTxn Change(const std::string& key, const std::string& value, Revision from) {
    return {.compares = {Compare::Mod(key, from)}, .writes = {CatalogWrite::Put(key, value)}};
  }
  Revision Written(const std::string& key, const std::string& value) {
    auto result = other_->Txn({.compares = {}, .writes = {CatalogWrite::Put(key, value)}});
    EXPECT_TRUE(result.ok() && result->applied) << result.status();
    return result.ok() ? result->revision : Revision{};
  }
  std::string ValueOf(const std::string& key) {
    auto entry = other_->Get(key);
    EXPECT_TRUE(entry.ok()) << entry.status();
    return entry.ok() && entry->has_value() ? (*entry)->value : "-";
  }
  Revision VersionOf(const std::string& key) { return (*other_->Get(key))->mod_revision; }

  EtcdOptions options_;
  std::unique_ptr<EtcdCatalog> catalog_;  // what is tested
  LossyRpc* rpc_ = nullptr;               // of catalog_
  std::unique_ptr<EtcdCatalog> other_;    // somebody else
};

TEST_F(EtcdOutcome, AWriteWhoseAnswerWasLostIsFoundDoneAndNotDoneTwice) {
  Revision first = Written("a", "1");
  rpc_->Next({Kind::kAnswerLost});
  auto result = catalog_->Txn(Change("a", "2", first));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);
  EXPECT_EQ(result->revision, first.Next());
  EXPECT_EQ(VersionOf("a"), first.Next());
  EXPECT_EQ(ValueOf("a"), "2");
}

TEST_F(EtcdOutcome, AWriteThatWasLostOnItsWayIsSentAgain) {
  rpc_->Next({Kind::kRequestLost});
  rpc_->Next({Kind::kNotSent});
  auto result = catalog_->Txn(Change("a", "1", {}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);
  EXPECT_EQ(ValueOf("a"), "1");
}

TEST_F(EtcdOutcome, AWriteThatOthersWroteOverIsUnknown) {
  Revision first = Written("a", "1");
  rpc_->Next({Kind::kAnswerLost, [&] { Written("a", "3"); }});
  EXPECT_EQ(GetReason(catalog_->Txn(Change("a", "2", first)).status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(ValueOf("a"), "3");
}

TEST_F(EtcdOutcome, TheSameBytesWrittenBySomebodyElseAreNotTakenForOnesOwn) {
  Revision first = Written("a", "1");
  rpc_->Next({Kind::kRequestLost, [&] { Written("a", "2"); }});
  EXPECT_EQ(GetReason(catalog_->Txn(Change("a", "2", first)).status()), Reason::kOutcomeUnknown);
}

TEST_F(EtcdOutcome, CreatingWhatIsThereAfterALostTryIsUnknownAndNotAConflict) {
  rpc_->Next({Kind::kRequestLost, [&] { Written("a", "other"); }});
  EXPECT_EQ(GetReason(catalog_->Txn(Change("a", "mine", {})).status()), Reason::kOutcomeUnknown);
}

TEST_F(EtcdOutcome, TheFirstDefiniteAnswerToTheOnlyTryMayBeAConflict) {
  Revision first = Written("a", "1");
  Revision second = Written("a", "2");
  rpc_->Next({Kind::kNotSent});  // nothing of it was ever sent
  auto result = catalog_->Txn(Change("a", "3", first));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->applied);
  EXPECT_EQ(result->failed_compare, 0u);
  EXPECT_EQ(VersionOf("a"), second);
}

TEST_F(EtcdOutcome, AWriteThatComparesNothingIsNeverSentAgain) {
  rpc_->Next({Kind::kAnswerLost, [&] { Written("a", "newer"); }});
  auto result = catalog_->Txn({.compares = {}, .writes = {CatalogWrite::Put("a", "older")}});
  EXPECT_EQ(GetReason(result.status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(rpc_->sent().size(), 1u);
  EXPECT_EQ(ValueOf("a"), "newer");
}

TEST_F(EtcdOutcome, ADeleteIsDoneWhenTheKeyIsGoneAndUnknownWhenItIsThereAgain) {
  auto gone = [&](Revision from) {
    return catalog_->Txn(
        {.compares = {Compare::Mod("a", from)}, .writes = {CatalogWrite::Delete("a")}});
  };
  Revision first = Written("a", "1");
  rpc_->Next({Kind::kAnswerLost});
  auto result = gone(first);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);

  Revision second = Written("a", "2");
  rpc_->Next({Kind::kAnswerLost, [&] { Written("a", "3"); }});
  EXPECT_EQ(GetReason(gone(second).status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(ValueOf("a"), "3");
}

TEST_F(EtcdOutcome, SeveralKeysAreOneOutcome) {
  // The second key is not compared: the first is what makes the transaction safe to send again.
  rpc_->Next({Kind::kAnswerLost});
  auto result =
      catalog_->Txn({.compares = {Compare::Absent("a")},
                     .writes = {CatalogWrite::Put("a", "1"), CatalogWrite::Put("counter", "1")}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);
  EXPECT_EQ(VersionOf("a"), result->revision);
  EXPECT_EQ(VersionOf("counter"), result->revision);
}

TEST_F(EtcdOutcome, ACheckWithoutWritesIsSimplyRepeated) {
  rpc_->Next({Kind::kAnswerLost});
  auto result = catalog_->Txn({.compares = {Compare::Exists("a")}, .writes = {}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->applied);
}

TEST_F(EtcdOutcome, WhatIsNeverAnsweredEndsWithItsTime) {
  options_.timeout_ms = 300;
  Open();
  rpc_->nothing_answers = true;
  EXPECT_EQ(GetReason(catalog_->Txn(Change("a", "1", {})).status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(GetReason(catalog_->Get("a").status()), Reason::kNodeUnavailable);
  EXPECT_EQ(GetReason(catalog_->CurrentRevision().status()), Reason::kNodeUnavailable);
  rpc_->nothing_answers = false;
  EXPECT_TRUE(catalog_->Get("a").ok());
}

TEST_F(EtcdOutcome, WhatWasNeverSentIsUnavailableAndNotUnknown) {
  options_.timeout_ms = 300;
  Open();
  for (int i = 0; i < 1'000; ++i) rpc_->Next({Kind::kNotSent});
  EXPECT_EQ(GetReason(catalog_->Txn(Change("a", "1", {})).status()), Reason::kNodeUnavailable);
}

TEST_F(EtcdOutcome, ARefusalAfterALostTryIsUnknown) {
  rpc_->Next({Kind::kRequestLost});
  rpc_->Next({Kind::kRefused});
  // With a lease it goes alone: both are of the one transaction.
  auto lease = catalog_->Grant(60);
  ASSERT_TRUE(lease.ok());
  auto result = catalog_->Txn(
      {.compares = {Compare::Absent("s")}, .writes = {CatalogWrite::Put("s", "1", *lease)}});
  EXPECT_EQ(GetReason(result.status()), Reason::kOutcomeUnknown);
}

// --- groups

// All transactions of etcd that hold others, with the keys that each of them writes.
std::vector<std::vector<std::set<std::string>>> GroupsOf(
    const std::vector<etcdserverpb::TxnRequest>& sent) {
  std::vector<std::vector<std::set<std::string>>> groups;
  for (const auto& request : sent) {
    std::vector<std::set<std::string>> group;
    for (const auto& op : request.success()) {
      if (!op.has_request_txn()) continue;
      std::set<std::string>& keys = group.emplace_back();
      for (const auto& write : op.request_txn().success()) keys.insert(write.request_put().key());
    }
    if (!group.empty()) groups.push_back(group);
  }
  return groups;
}

TEST_F(EtcdOutcome, WritersOfDisjointKeysShareTransactions) {
  constexpr int kWriters = 64, kWritesEach = 10;
  // As an etcd whose disk takes a moment; writers have gathered by then.
  rpc_->before_each_transaction = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  Revision before = *other_->CurrentRevision();
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kWritesEach; ++i) {
        auto result = catalog_->Txn(Change(fmt::format("k/{}/{}", w, i), "v", {}));
        EXPECT_TRUE(result.ok() && result->applied) << result.status();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  uint64_t transactions = other_->CurrentRevision()->value - before.value;
  EXPECT_LT(transactions, uint64_t{kWriters} * kWritesEach / 4);
  EXPECT_EQ(other_->List("k/", PrefixEnd("k/"), 1'000)->entries.size(),
            size_t{kWriters} * kWritesEach);
  for (const auto& group : GroupsOf(rpc_->sent())) {
    EXPECT_LE(group.size(), kEtcdGroupTransactions);
    std::set<std::string> all;
    for (const auto& keys : group) {
      for (const std::string& key : keys) EXPECT_TRUE(all.insert(key).second) << key;
    }
  }
}

TEST_F(EtcdOutcome, WritersOfOneKeyAreNeverInOneGroup) {
  Revision first = Written("k", "0");
  rpc_->before_each_transaction = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  std::atomic<int> won{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < 32; ++w) {
    writers.emplace_back([&, w] {
      auto result = catalog_->Txn(Change("k", std::to_string(w), first));
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok() && result->applied) ++won;
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(won, 1);
  for (const auto& group : GroupsOf(rpc_->sent())) EXPECT_EQ(group.size(), 1u);
}

TEST_F(EtcdOutcome, AGroupThatWasNotAnsweredIsSettledOneByOne) {
  constexpr int kWriters = 16;
  rpc_->before_each_transaction = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  for (int i = 0; i < 4; ++i) rpc_->Next({i % 2 == 0 ? Kind::kAnswerLost : Kind::kRequestLost});
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      auto result = catalog_->Txn(Change(fmt::format("k/{}", w), "v", {}));
      EXPECT_TRUE(result.ok() && result->applied) << result.status();
    });
  }
  for (std::thread& writer : writers) writer.join();
  auto page = other_->List("k/", PrefixEnd("k/"), 100);
  ASSERT_EQ(page->entries.size(), size_t{kWriters});
  for (const CatalogEntry& entry : page->entries) {
    EXPECT_EQ(entry.create_revision, entry.mod_revision) << entry.key << " was written twice";
  }
}

TEST_F(EtcdOutcome, LeasesAndCountersGoAlone) {
  auto lease = catalog_->Grant(60);
  ASSERT_TRUE(lease.ok());
  catalog_
      ->Txn({.compares = {Compare::Absent("s")}, .writes = {CatalogWrite::Put("s", "1", *lease)}})
      .IgnoreError();
  catalog_
      ->Txn({.compares = {Compare::Absent("a")},
             .writes = {CatalogWrite::Put("a", "1"), CatalogWrite::Put("counter", "1")}})
      .IgnoreError();
  EXPECT_EQ(rpc_->sent().size(), 2u);
  EXPECT_TRUE(GroupsOf(rpc_->sent()).empty());
}

// --- limits

TEST_F(EtcdOutcome, NothingLargerThanEtcdTakesIsSent) {
  CatalogTxn many;
  for (size_t i = 0; i <= catalog_->max_txn_operations(); ++i) {
    many.writes.push_back(CatalogWrite::Put(fmt::format("k/{}", i), "v"));
    many.compares.push_back(Compare::Absent(many.writes.back().key));
  }
  many.compares.push_back(Compare::Absent("one more"));
  many.compares.push_back(Compare::Absent("and one"));
  absl::Status status = catalog_->Txn(many).status();
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--max-txn-ops"));

  status = catalog_->Txn(Change("a", std::string(kEtcdRequestBytes, 'x'), {})).status();
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--max-request-bytes"));
  EXPECT_TRUE(rpc_->sent().empty());
}

TEST_F(EtcdOutcome, WhatIsAllowedIsTaken) {
  CatalogTxn many;
  for (size_t i = 0; i < catalog_->max_txn_operations(); ++i) {
    many.writes.push_back(CatalogWrite::Put(fmt::format("k/{}", i), "v"));
    many.compares.push_back(Compare::Absent(many.writes.back().key));
  }
  // What a node adds to it: a session, and the line.
  many.compares.push_back(Compare::Absent("session"));
  many.compares.push_back(Compare::Mod(kLineKey, (*catalog_->Get(kLineKey))->mod_revision));
  auto result = catalog_->Txn(many);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);
  result = catalog_->Txn(many);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failed_compare, 0u);
  // All of it is read back when it does not apply.
  result = catalog_->Txn(Change("large", std::string(kEtcdRequestBytes - 16 * kKiB, 'x'), {}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->applied);
  result = catalog_->Txn(Change("large", std::string(kEtcdRequestBytes - 16 * kKiB, 'y'), {}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->applied);
}

// --- line

TEST_F(EtcdOutcome, AnotherLineStopsWritesForEverAndReadsGoOn) {
  Written("a", "1");
  auto line = *other_->Get(kLineKey);
  ASSERT_TRUE(line.has_value());
  ASSERT_TRUE(other_->Txn(Change(kLineKey, line->value, line->mod_revision))->applied);
  EXPECT_EQ(GetReason(catalog_->Txn(Change("b", "1", {})).status()), Reason::kCatalogRewound);
  EXPECT_EQ(GetReason(catalog_->CheckWritable()), Reason::kCatalogRewound);
  rpc_->Forget();
  EXPECT_EQ(GetReason(catalog_->Txn(Change("b", "1", {})).status()), Reason::kCatalogRewound);
  EXPECT_TRUE(rpc_->sent().empty());
  EXPECT_EQ((*catalog_->Get("a"))->value, "1");
  EXPECT_EQ(ValueOf("b"), "-");
}

TEST_F(EtcdOutcome, AnEtcdWhoseRevisionsGoBackIsNotWrittenToAnyMore) {
  Written("a", "1");
  EXPECT_TRUE(catalog_->Get("a").ok());
  EXPECT_TRUE(catalog_->CheckWritable().ok());
  rpc_->revision_shift = -1;
  EXPECT_TRUE(catalog_->Get("a").ok());
  EXPECT_EQ(GetReason(catalog_->CheckWritable()), Reason::kCatalogRewound);
  EXPECT_EQ(GetReason(catalog_->Txn(Change("b", "1", {})).status()), Reason::kCatalogRewound);
}

TEST_F(EtcdOutcome, ACatalogIsMadeOnlyWhenAskedAndNeverOverTheRestsOfOne) {
  EtcdOptions options = options_;
  options.cluster = "none-such";
  options.create_if_missing = false;
  EXPECT_EQ(GetReason(EtcdCatalog::Open(options).status()), Reason::kNotFound);

  ASSERT_TRUE(other_->Txn({.compares = {}, .writes = {CatalogWrite::Put("a", "1")}})->applied);
  ASSERT_EQ(Etcd().Ctl({"del", fmt::format("/tilekv/{}/line", options_.cluster)}), 0);
  EXPECT_EQ(GetReason(EtcdCatalog::Open(options_).status()), Reason::kDataLoss);
}

// --- the rest

TEST_F(EtcdOutcome, ASnapshotThatWasCompactedSaysSo) {
  Written("a", "1");
  auto old = *catalog_->Snapshot();
  Written("a", "2");
  auto held = *catalog_->Snapshot();
  Written("a", "3");
  ASSERT_TRUE(catalog_->Compact(held->revision()).ok());
  ASSERT_TRUE(catalog_->Compact(held->revision()).ok()) << "twice is once";
  EXPECT_EQ((*held->Get("a"))->value, "2");
  EXPECT_TRUE(IsCompacted(old->Get("a").status()));
  EXPECT_TRUE(IsCompacted(old->List("a", "b", 10).status()));
  EXPECT_FALSE(IsCompacted(catalog_->List("a", "b", 0).status()));
}

TEST_F(EtcdOutcome, ALeaseWhoseGrantWasNotAnsweredIsGrantedOnce) {
  rpc_->lose_next_grant = true;
  auto lease = catalog_->Grant(60);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(*catalog_->KeepAlive(*lease, 60));
}

TEST_F(EtcdOutcome, AListingOfManyPagesIsOfOneState) {
  for (int i = 0; i < 30; ++i) {
    CatalogTxn txn;
    for (int j = 0; j < 100; ++j) {
      txn.writes.push_back(CatalogWrite::Put(fmt::format("k/{:02}{:02}", i, j), "v"));
    }
    ASSERT_TRUE(other_->Txn(txn)->applied);
  }
  // More than one request of etcd has.
  auto page = catalog_->List("k/", PrefixEnd("k/"), 2'500);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->entries.size(), 2'500u);
  EXPECT_TRUE(page->more);
  EXPECT_EQ(page->entries.back().key, "k/2499");
  page = catalog_->List("k/", PrefixEnd("k/"), 3'000);
  EXPECT_EQ(page->entries.size(), 3'000u);
  EXPECT_FALSE(page->more);
}

}  // namespace
}  // namespace tilekv
