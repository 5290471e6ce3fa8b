// A disk that fills up, fails to sync or cannot read, at any call: clear errors, nothing that was
// acknowledged lost, and a failed sync is final until the store is opened again.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kvstore/base/status.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/simulated_store.h"

namespace tilekv {
namespace {

using Loss = SimulatedDisk::Loss;

class KvStoreFaults : public testing::Test {
 protected:
  // Values that go into the catalog, the index and a file, in turn.
  static std::string Text(uint64_t seed) {
    constexpr uint64_t kLengths[] = {100, 5'000, 150'000};
    return TestContent(kLengths[seed % 3], seed);
  }

  absl::Status Put(SimulatedStore& store, uint64_t seed) {
    std::string key = "k" + std::to_string(seed);
    absl::Status status = store->Put(key, Text(seed)).status();
    if (status.ok()) acknowledged_[key] = Text(seed);
    return status;
  }

  void ExpectAcknowledged(SimulatedStore& store) {
    for (const auto& [key, text] : acknowledged_) {
      auto value = store->Get(key);
      ASSERT_TRUE(value.ok()) << key << ": " << value.status();
      ASSERT_TRUE(value->has_value()) << key;
      EXPECT_EQ((*value)->content, text) << key;
    }
  }

  // Opens a store with three values, and makes every call of this name fail from the n-th on.
  // The status of the first put that fails of six more; OK: none did.
  absl::Status PutUntilFault(SimulatedStore& store, const std::string& call, int n,
                             const absl::Status& fault) {
    acknowledged_.clear();
    EXPECT_TRUE(store.Open().ok());
    for (uint64_t seed = 0; seed < 3; ++seed) EXPECT_TRUE(Put(store, seed).ok());
    calls_left_ = n;
    store.disk.hook = [this, call, fault](const std::string& called, const std::string&) {
      if (called != call || calls_left_ == 0) return called == call ? fault : absl::OkStatus();
      return --calls_left_ == 0 ? fault : absl::OkStatus();
    };
    for (uint64_t seed = 3; seed < 9; ++seed) {
      absl::Status put = Put(store, seed);
      if (!put.ok()) return put;
    }
    return absl::OkStatus();
  }

  std::map<std::string, std::string> acknowledged_;
  int calls_left_ = 0;
};

TEST_F(KvStoreFaults, ADiskThatIsFullAtAnyWriteLosesNothing) {
  absl::Status full = MakeError(Reason::kStoreFull, "no space left on device");
  bool failed = true;
  for (int n = 1; failed; ++n) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 200);
    SimulatedStore store(1);
    absl::Status put = PutUntilFault(store, "write", n, full);
    failed = !put.ok();
    EXPECT_TRUE(failed || n > 10) << "hardly anything was tried";
    Reason reason = GetReason(put);
    // Of a write of the index or the catalog it is not known what is there: these are final.
    EXPECT_TRUE(!failed || reason == Reason::kStoreFull || reason == Reason::kStoreFailed ||
                reason == Reason::kOutcomeUnknown)
        << put;
    ExpectAcknowledged(store);
    store.disk.hook = nullptr;
    bool goes_on = Put(store, 9).ok();
    EXPECT_EQ(goes_on, !failed || reason == Reason::kStoreFull);
    ExpectAcknowledged(store);
    store.LosePower(Loss::kEverything);
    ASSERT_TRUE(store.Open().ok());
    ExpectAcknowledged(store);
    EXPECT_TRUE(Put(store, 10).ok());
  }
}

TEST_F(KvStoreFaults, ASyncThatFailsIsFinalUntilTheStoreIsOpenedAgain) {
  absl::Status broken = MakeError(Reason::kInternal, "input/output error");
  for (const char* call : {"sync", "sync_directory"}) {
    bool failed = true;
    for (int n = 1; failed; ++n) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(n));
      ASSERT_LT(n, 100);
      SimulatedStore store(1);
      absl::Status put = PutUntilFault(store, call, n, broken);
      failed = !put.ok();
      if (!failed) {
        EXPECT_GT(n, 2) << "hardly anything was tried";
        break;
      }
      EXPECT_TRUE(GetReason(put) == Reason::kStoreFailed ||
                  GetReason(put) == Reason::kOutcomeUnknown)
          << put;
      // The disk works again, and nobody trusts it.
      store.disk.hook = nullptr;
      for (uint64_t seed = 9; seed < 12; ++seed) {
        EXPECT_EQ(GetReason(Put(store, seed)), Reason::kStoreFailed) << seed;
      }
      ExpectAcknowledged(store);
      store.LosePower(Loss::kEverything);
      ASSERT_TRUE(store.Open().ok());
      ExpectAcknowledged(store);
      EXPECT_TRUE(Put(store, 12).ok());
    }
  }
}

TEST_F(KvStoreFaults, WhatCannotBeReadIsAnErrorAndIsHealedByStoringAgain) {
  SimulatedStore store(1);
  ASSERT_TRUE(store.Open().ok());
  for (uint64_t seed = 0; seed < 6; ++seed) ASSERT_TRUE(Put(store, seed).ok());
  store.disk.hook = [](const std::string& call, const std::string& path) {
    bool here = call == "read" && path.find("/payload/") != std::string::npos;
    return here ? MakeError(Reason::kInternal, "input/output error") : absl::OkStatus();
  };
  EXPECT_EQ(GetReason(store->Get("k2").status()), Reason::kDataLoss);
  EXPECT_EQ((*store->Get("k1"))->content, Text(1)) << "not in a file";
  store.disk.hook = nullptr;
  ASSERT_TRUE(Put(store, 2).ok());
  ExpectAcknowledged(store);
}

TEST_F(KvStoreFaults, AStoreWhoseIndexCannotBeReadDoesNotOpenAndLosesNothing) {
  SimulatedStore store(1);
  ASSERT_TRUE(store.Open().ok());
  for (uint64_t seed = 0; seed < 6; ++seed) ASSERT_TRUE(Put(store, seed).ok());
  for (const char* part : {"/index/", "/catalog/"}) {
    store.Close();
    store.disk.hook = [part](const std::string& call, const std::string& path) {
      bool here = call == "read" && path.find(part) != std::string::npos;
      return here ? MakeError(Reason::kInternal, "input/output error") : absl::OkStatus();
    };
    EXPECT_FALSE(store.Open().ok()) << part;
    store.disk.hook = nullptr;
    ASSERT_TRUE(store.Open().ok()) << part;
    ExpectAcknowledged(store);
  }
}

}  // namespace
}  // namespace tilekv
