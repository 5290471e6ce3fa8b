// A cluster of one node is a store like any other; and what is of the node's own disk stays so.
#include "kvstore/cluster/cluster_objects.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "kvstore/base/status.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

class ClusterHarness : public StoreHarness {
 public:
  explicit ClusterHarness(uint64_t max_object_bytes)
      : cluster_({.nodes = {"a"}, .settings = One(), .max_object_bytes = max_object_bytes}) {}
  ObjectStore& store() override { return cluster_.objects(); }
  bool Reopen() override { return false; }
  void FlipBit(const ObjectId& id, uint64_t stored_offset) override {
    cluster_.self().store->FlipBit(kDefaultDomain, id, stored_offset);
  }

 private:
  static ClusterSettings One() {
    ClusterSettings settings;
    settings.replication = settings.min_copies = 1;
    return settings;
  }
  MemoryCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Engines, ObjectStoreConformance,
                         testing::Values(ConformanceParam{
                             "ClusterOfOne",
                             [](uint64_t max_object_bytes) -> std::unique_ptr<StoreHarness> {
                               return std::make_unique<ClusterHarness>(max_object_bytes);
                             }}),
                         [](const auto& info) { return info.param.name; });

TEST(ClusterObjects, ScansAndSweepsItsOwnDiskOnly) {
  MemoryCluster cluster;
  const auto put = PutContent(cluster.objects(), "content", {.touched_rev = {5}});
  ASSERT_TRUE(put.ok()) << put.status();
  cluster.PutAt("b", "only there");
  int rows = 0;
  ASSERT_TRUE(
      cluster.objects()
          .Scan(kDefaultDomain, std::nullopt, [&rows](const ObjectRow&) { return ++rows > 0; })
          .ok());
  EXPECT_EQ(rows, 1);
  EXPECT_TRUE(*cluster.objects().DeleteBelow(kDefaultDomain, put->ref.id, {6}));
  EXPECT_EQ(cluster.Holders(put->ref.id), "bc");
}

TEST(ClusterObjects, NamesMayBeAddedWhereItsOwnDiskIsFull) {
  MemoryCluster cluster;
  cluster.self().store->full = true;
  EXPECT_TRUE(cluster.objects().CheckWritable(1).ok());
}

TEST(RunConcurrently, DoesEverythingOnceWhateverTheExecutorDoes) {
  // An executor that runs nothing until it is destroyed.
  class Lazy : public Executor {
   public:
    ~Lazy() override {
      for (auto& work : posted_) work();
    }
    void Post(std::function<void()> work) override { posted_.push_back(std::move(work)); }

   private:
    std::vector<std::function<void()>> posted_;
  };
  Lazy lazy;
  InlineExecutor here;
  ThreadPool pool("test", 3);
  for (Executor* executor : std::vector<Executor*>{&lazy, &here, &pool}) {
    std::vector<std::atomic<int>> done(20);
    std::vector<std::function<void()>> work;
    for (auto& each : done) {
      // Within itself too.
      work.push_back([&each, executor] {
        RunConcurrently(*executor, {[&each] { ++each; }, [&each] { ++each; }});
      });
    }
    RunConcurrently(*executor, std::move(work));
    for (auto& each : done) EXPECT_EQ(each, 2);
  }
}

}  // namespace
}  // namespace tilekv
