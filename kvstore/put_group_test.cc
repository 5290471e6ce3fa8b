#include "kvstore/put_group.h"

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// One put holds the only way until it is told to end; others are made to wait behind it.
class PutGroupTest : public testing::Test {
 protected:
  ~PutGroupTest() override {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  void HoldTheWay() {
    threads_.emplace_back([this] {
      PutGroup::Put put{.key = "first", .content = content_, .condition = &none_};
      EXPECT_TRUE(group_
                      .Run(put,
                           [this](const PutGroup::Result&, const std::function<void()>& in_trouble)
                               -> absl::StatusOr<PutResult> {
                             MutexLock lock(mutex_);
                             held_ = true;
                             changed_.SignalAll();
                             while (!free_) changed_.Wait(mutex_);
                             if (trouble_) in_trouble();
                             while (hold_after_trouble_) changed_.Wait(mutex_);
                             return PutResult{true, 1, 0};
                           })
                      .ok());
    });
    MutexLock lock(mutex_);
    while (!held_) changed_.Wait(mutex_);
  }
  void Free() {
    MutexLock lock(mutex_);
    free_ = true;
    changed_.SignalAll();
  }
  // Returns once it waits.
  void PutAndWait(std::string key) {
    size_t before = group_.waiting();
    threads_.emplace_back([this, key = std::move(key)] { results_.push_back_locked(*this, key); });
    while (group_.waiting() == before) std::this_thread::yield();
  }
  void JoinAll() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  absl::StatusOr<std::vector<PutResult>> Send(const v1::BatchPutRequest& request,
                                              std::vector<uint64_t>& compares) {
    MutexLock lock(mutex_);
    std::vector<std::string> keys;
    std::vector<PutResult> results;
    for (const v1::BatchPutItem& item : request.items()) {
      keys.push_back(item.key());
      EXPECT_EQ(item.content(), content_);
      compares.push_back(100 + results.size());
      bool applied = overtaken_.count(item.key()) == 0;
      results.push_back({applied, 1000 + results.size(), item.content().size()});
    }
    sent_.push_back(keys);
    if (failure_.ok()) return results;
    if (!fixed_) compares.clear();
    return failure_;
  }

  struct Results {
    std::vector<std::pair<std::string, PutResult>> done;
    std::vector<std::pair<std::string, PutGroup::Result>> alone;
    void push_back_locked(PutGroupTest& test, const std::string& key) {
      PutGroup::Put put{.key = key, .content = test.content_, .condition = &test.none_};
      auto result = test.group_.Run(put,
                                    [&](const PutGroup::Result& tried,
                                        const std::function<void()>&) -> absl::StatusOr<PutResult> {
                                      MutexLock lock(test.mutex_);
                                      alone.emplace_back(key, tried);
                                      return PutResult{true, 7, 0};
                                    });
      ASSERT_TRUE(result.ok()) << result.status();
      MutexLock lock(test.mutex_);
      done.emplace_back(key, *result);
    }
  };

  const std::string content_ = "value";
  const v1::Condition none_;
  std::atomic<int> ids_{0};
  PutGroup group_{1, [this] { return "request id " + std::to_string(ids_++); },
                  [this](const v1::BatchPutRequest& request, std::vector<uint64_t>& compares) {
                    return Send(request, compares);
                  }};
  std::vector<std::thread> threads_;
  Results results_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ = false;
  bool free_ = false;
  bool trouble_ = false;
  bool hold_after_trouble_ = false;
  bool fixed_ = true;
  std::set<std::string> overtaken_;
  absl::Status failure_;
  std::vector<std::vector<std::string>> sent_;
};

TEST_F(PutGroupTest, APutThatFindsNoOtherGoesByItself) {
  results_.push_back_locked(*this, "k");
  ASSERT_EQ(results_.alone.size(), 1u);
  EXPECT_FALSE(results_.alone[0].second.compare.has_value());
  EXPECT_TRUE(sent_.empty());
}

TEST_F(PutGroupTest, ThoseThatWaitGoTogetherAndEachHearsItsOwnOutcome) {
  HoldTheWay();
  for (const char* key : {"a", "b", "c"}) PutAndWait(key);
  Free();
  JoinAll();
  EXPECT_THAT(sent_, ElementsAre(ElementsAre("a", "b", "c")));
  std::map<std::string, uint64_t> versions;
  for (auto& [key, result] : results_.done) versions[key] = result.version;
  EXPECT_THAT(versions, UnorderedElementsAre(std::pair("a", 1000u), std::pair("b", 1001u),
                                             std::pair("c", 1002u)));
  EXPECT_TRUE(results_.alone.empty());
}

TEST_F(PutGroupTest, OneKeyIsInABatchOnce) {
  HoldTheWay();
  for (const char* key : {"a", "b", "a", "a"}) PutAndWait(key);
  Free();
  JoinAll();
  // The second and third of the one key go one after the other, each with nobody beside it.
  EXPECT_THAT(sent_, ElementsAre(ElementsAre("a", "b")));
  EXPECT_EQ(results_.alone.size(), 2u);
  EXPECT_EQ(results_.done.size(), 4u);
}

TEST_F(PutGroupTest, ABatchIsBoundedInPuts) {
  HoldTheWay();
  for (size_t i = 0; i < kMaxGroupedPuts + 2; ++i) PutAndWait("key " + std::to_string(i));
  Free();
  JoinAll();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].size(), kMaxGroupedPuts);
  EXPECT_EQ(sent_[1].size(), 2u);
}

TEST_F(PutGroupTest, AfterABatchThatMayHaveWrittenEachGoesOnWithTheTryThatWasMade) {
  failure_ = MakeError(Reason::kNodeUnavailable, "the connection broke");
  HoldTheWay();
  for (const char* key : {"a", "b"}) PutAndWait(key);
  Free();
  JoinAll();
  ASSERT_EQ(results_.alone.size(), 2u);
  for (auto& [key, tried] : results_.alone) {
    EXPECT_EQ(GetReason(tried.failed), Reason::kNodeUnavailable);
    EXPECT_EQ(tried.compare->value, key == "a" ? 100u : 101u);
    EXPECT_EQ(tried.request_id, "request id 0");
  }
}

TEST_F(PutGroupTest, AfterABatchThatSurelyWroteNothingEachBeginsAnew) {
  struct {
    Reason reason;
    bool fixed;
  } cases[] = {{Reason::kNodeUnavailable, false}, {Reason::kStoreFull, true}};
  for (auto [reason, fixed] : cases) {
    failure_ = MakeError(reason, "no");
    fixed_ = fixed;
    held_ = free_ = false;
    results_ = {};
    HoldTheWay();
    for (const char* key : {"a", "b"}) PutAndWait(key);
    Free();
    JoinAll();
    ASSERT_EQ(results_.alone.size(), 2u);
    for (auto& [key, tried] : results_.alone) {
      EXPECT_EQ(GetReason(tried.failed), reason);
      EXPECT_FALSE(tried.compare.has_value());
    }
  }
}

TEST_F(PutGroupTest, WhereTheNodeIsInTroubleNobodyWaitsForAnybody) {
  trouble_ = hold_after_trouble_ = true;
  HoldTheWay();
  for (const char* key : {"a", "a", "b"}) PutAndWait(key);
  Free();
  for (size_t i = 1; i < threads_.size(); ++i) threads_[i].join();  // while the first still tries
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(results_.alone.size(), 3u);
  {
    MutexLock lock(mutex_);
    hold_after_trouble_ = false;
    changed_.SignalAll();
  }
  threads_[0].join();
  threads_.clear();
  results_.push_back_locked(*this, "after");
  EXPECT_EQ(results_.alone.size(), 4u);
}

TEST_F(PutGroupTest, APutThatWasOvertakenBeginsAnewByItself) {
  overtaken_ = {"a"};
  HoldTheWay();
  for (const char* key : {"a", "b"}) PutAndWait(key);
  Free();
  JoinAll();
  ASSERT_EQ(results_.alone.size(), 1u);
  EXPECT_EQ(results_.alone[0].first, "a");
  EXPECT_TRUE(results_.alone[0].second.failed.ok());
  EXPECT_FALSE(results_.alone[0].second.compare.has_value());
}

TEST_F(PutGroupTest, TheWayIsFreeAgainWhenAllAreBack) {
  HoldTheWay();
  for (const char* key : {"a", "b"}) PutAndWait(key);
  Free();
  JoinAll();
  sent_.clear();
  results_.push_back_locked(*this, "after");
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(results_.alone.size(), 1u);
}

}  // namespace
}  // namespace tilekv
