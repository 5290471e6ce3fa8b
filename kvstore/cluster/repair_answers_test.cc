#include "kvstore/cluster/repair_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kvstore/base/status.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/cluster/partition_rows.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

const std::vector<std::string> kFour = {"a", "b", "c", "d"};

bool OwnedByBCD(const std::vector<std::string>& order) { return order.back() == "a"; }

PlacementVersion VersionOf(MemoryCluster& cluster) {
  return cluster.placement()->map().placement_version();
}

// Questions of node a to node b.
struct Asked {
  explicit Asked(MemoryCluster& cluster)
      : cluster(cluster), peer(cluster.self().outlook->Find("b")) {}

  PartitionDigest Digest(const ObjectId& id) {
    const uint32_t partition = cluster.placement()->PartitionOf(id);
    auto answer = peer->Digests(kDefaultDomain, VersionOf(cluster), {&partition, 1}, {});
    EXPECT_TRUE(answer.ok() && answer->digests.size() == 1) << answer.status();
    return answer->digests.front();
  }
  OfferOutcome Offer(const ObjectRef& ref, Revision touched_rev) {
    const TouchedRef offered{ref, touched_rev};
    auto answer = peer->Offer(kDefaultDomain, VersionOf(cluster), {&offered, 1}, {});
    EXPECT_TRUE(answer.ok() && answer->outcomes.size() == 1) << answer.status();
    return answer->outcomes.front();
  }
  bool Confirm(const ObjectRef& ref, Revision touched_rev) {
    const TouchedRef asked{ref, touched_rev};
    auto answer = peer->ConfirmDrop(kDefaultDomain, VersionOf(cluster), {&asked, 1}, {});
    EXPECT_TRUE(answer.ok() && answer->confirmed.size() == 1) << answer.status();
    EXPECT_EQ(answer->store_uuid, cluster.node("b").store->store_uuid());
    return answer->confirmed.front();
  }
  Revision TouchedRev(const ObjectId& id) {
    return (*cluster.node("b").store->Stat(kDefaultDomain, id))->touched_rev;
  }

  MemoryCluster& cluster;
  const std::shared_ptr<Peer> peer;
};

TEST(RepairAnswersTest, DigestsTellWhatIsHeldAndWithWhichRevision) {
  MemoryCluster cluster;
  Asked asked(cluster);
  const ObjectRef ref = cluster.PutAt("b", "content", {5});
  cluster.PutAt("c", "content", {5});
  const auto partition = cluster.placement()->PartitionOf(ref.id);
  const auto at = [&](const char* node) {
    return DigestsOf(*cluster.node(node).store, kDefaultDomain, *cluster.placement(),
                     {&partition, 1}, 1)
        ->front();
  };
  EXPECT_EQ(asked.Digest(ref.id), at("c"));
  EXPECT_EQ(asked.Digest(ref.id).objects, 1u);
  EXPECT_EQ(asked.Digest(ref.id).content_bytes, 7u);

  ASSERT_TRUE(cluster.node("c").store->Link(kDefaultDomain, {&ref, 1}, {6}).ok());
  EXPECT_NE(asked.Digest(ref.id), at("c")) << "a revision that differs";
  EXPECT_EQ(asked.Digest(ref.id).objects, at("c").objects);

  ASSERT_TRUE(cluster.node("b").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_EQ(asked.Digest(ref.id), PartitionDigest()) << "it counts good rows only";
}

TEST(RepairAnswersTest, DigestsOfManyPartitionsAreThoseOfEachOne) {
  ClusterSettings settings;
  settings.partition_bits = 6;
  MemoryCluster cluster({.settings = settings});
  TestStore& store = *cluster.node("b").store;
  const auto placement = cluster.placement();
  const auto digests = [&](const std::vector<uint32_t>& partitions, uint64_t most_rows) {
    return *DigestsOf(store, kDefaultDomain, *placement, partitions, most_rows);
  };
  for (int i = 0; i < 150; ++i) cluster.PutAt("b", "content " + std::to_string(i));
  // Close together, far apart, back again, and with none in between.
  const std::vector<uint32_t> asked = {0, 1, 2, 5, 13, 40, 41, 41, 63, 62, 20, 30};
  const std::vector<PartitionDigest> all = digests(asked, 1'000);
  ASSERT_EQ(all.size(), asked.size());
  uint64_t objects = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(all[i], digests({asked[i]}, 0).front()) << i;
    objects += all[i].objects;
  }
  EXPECT_GT(objects, 10u);
  // In as many answers as it takes.
  std::vector<PartitionDigest> parts;
  int answers = 0;
  for (; parts.size() < asked.size(); ++answers) {
    const auto some =
        digests({asked.begin() + static_cast<std::ptrdiff_t>(parts.size()), asked.end()}, 3);
    ASSERT_FALSE(some.empty());
    parts.insert(parts.end(), some.begin(), some.end());
  }
  EXPECT_EQ(parts, all);
  EXPECT_GT(answers, 3);
}

TEST(RepairAnswersTest, PagesGoThroughOnePartitionInOrder) {
  ClusterSettings settings;
  settings.partition_bits = 1;
  MemoryCluster cluster({.settings = settings});
  std::vector<ObjectId> put;
  for (size_t i = 0; i < 2 * kMaxRepairBatch + 700; ++i) {
    put.push_back(cluster.PutAt("b", "content " + std::to_string(i), {i}).id);
  }
  std::sort(put.begin(), put.end());
  const auto peer = cluster.self().outlook->Find("b");
  std::vector<ObjectId> seen;
  for (uint32_t partition : {0, 1}) {
    std::optional<ObjectId> after;
    for (bool end = false; !end;) {
      auto page = peer->ListPartition(kDefaultDomain, partition, after, {});
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_LE(page->rows.size(), kMaxRepairBatch);
      for (const PartitionRow& row : page->rows) {
        EXPECT_EQ(cluster.placement()->PartitionOf(row.ref.id), partition);
        seen.push_back(row.ref.id);
      }
      end = page->end;
      if (!end) after = seen.back();
    }
  }
  EXPECT_EQ(seen, put);
  EXPECT_EQ(GetReason(peer->ListPartition(kDefaultDomain, 2, {}, {}).status()),
            Reason::kInvalidArgument);
}

TEST(RepairAnswersTest, RefusesWhoHasAnotherPlacement) {
  MemoryCluster cluster({.nodes = kFour});
  Asked asked(cluster);
  const ObjectRef ref = cluster.PutAt("b", cluster.ContentFor(100, OwnedByBCD), {5});
  const TouchedRef offered{ref, {9}};
  const uint32_t partition = 0;
  const PlacementVersion old = VersionOf(cluster);
  cluster.MakeMap({{"c", NodeState::kDraining}});
  cluster.TellMap("b");
  const PlacementVersion now = VersionOf(cluster);
  ASSERT_NE(old, now);
  auto digests = asked.peer->Digests(kDefaultDomain, old, {&partition, 1}, {});
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_TRUE(digests->digests.empty());
  EXPECT_EQ(digests->placement, now);
  auto offer = asked.peer->Offer(kDefaultDomain, old, {&offered, 1}, {});
  ASSERT_TRUE(offer.ok()) << offer.status();
  EXPECT_TRUE(offer->outcomes.empty());
  EXPECT_EQ(offer->placement, now);
  auto drop = asked.peer->ConfirmDrop(kDefaultDomain, old, {&offered, 1}, {});
  ASSERT_TRUE(drop.ok()) << drop.status();
  EXPECT_TRUE(drop->confirmed.empty());
  EXPECT_EQ(drop->placement, now);
  EXPECT_EQ(asked.TouchedRev(ref.id), Revision{5});
}

TEST(RepairAnswersTest, AnOfferRaisesWhatIsHeldAndNotesWhatIsNot) {
  MemoryCluster cluster({.nodes = kFour});
  Asked asked(cluster);
  const std::string content = cluster.ContentFor(100, OwnedByBCD);
  const ObjectRef ref = RefOf(0, AsBytes(content));
  EXPECT_EQ(asked.Offer(ref, {7}), OfferOutcome::kWants);
  ASSERT_EQ(cluster.node("b").wanted.noted().size(), 1u);
  EXPECT_EQ(cluster.node("b").wanted.noted()[0].wanted, (TouchedRef{ref, {7}}));
  EXPECT_EQ(cluster.node("b").wanted.noted()[0].holder, "a");
  cluster.node("b").wanted.room = 1;
  EXPECT_EQ(asked.Offer(ref, {7}), OfferOutcome::kNotNow);

  cluster.PutAt("b", content, {5});
  EXPECT_EQ(asked.Offer(ref, {7}), OfferOutcome::kHas);
  EXPECT_EQ(asked.TouchedRev(ref.id), Revision{7});
  EXPECT_EQ(asked.Offer(ref, {6}), OfferOutcome::kHas);
  EXPECT_EQ(asked.TouchedRev(ref.id), Revision{7});

  cluster.node("b").wanted.room = 9;
  ASSERT_TRUE(cluster.node("b").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_EQ(asked.Offer(ref, {7}), OfferOutcome::kWants) << "a damaged copy is none";
  cluster.node("b").store->full = true;
  EXPECT_EQ(asked.Offer(ref, {7}), OfferOutcome::kNotNow);
  cluster.node("b").store->full = false;

  const ObjectRef others = cluster.PutAt(
      "b", cluster.ContentFor(100, [](const auto& order) { return order.back() == "b"; }), {5});
  EXPECT_EQ(asked.Offer(others, {9}), OfferOutcome::kNotOwner);
  EXPECT_EQ(asked.TouchedRev(others.id), Revision{5});
}

TEST(RepairAnswersTest, ConfirmsADropOnlyOfWhatItOwnsAndHoldsWhole) {
  MemoryCluster cluster({.nodes = kFour});
  Asked asked(cluster);
  const std::string content = cluster.ContentFor(100'000, OwnedByBCD);
  const ObjectRef ref = RefOf(0, AsBytes(content));
  EXPECT_FALSE(asked.Confirm(ref, {5})) << "it has none";
  cluster.PutAt("b", content, {5});
  EXPECT_TRUE(asked.Confirm(ref, {5}));
  EXPECT_TRUE(asked.Confirm(ref, {8}));
  EXPECT_EQ(asked.TouchedRev(ref.id), Revision{8}) << "raised to the asker's";
  ObjectRef other = ref;
  other.length += 1;
  EXPECT_FALSE(asked.Confirm(other, {5}));
  ASSERT_TRUE(cluster.node("b").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  EXPECT_FALSE(asked.Confirm(ref, {5})) << "suspect";

  const ObjectRef others = cluster.PutAt(
      "b", cluster.ContentFor(100, [](const auto& order) { return order.back() == "b"; }), {5});
  EXPECT_FALSE(asked.Confirm(others, {5})) << "it does not own it";
}

TEST(RepairAnswersTest, LooksAtACopyThatWasNotVerifiedForLongBeforeItConfirms) {
  MemoryCluster cluster({.nodes = kFour});
  Asked asked(cluster);
  TestStore& store = *cluster.node("b").store;
  const ObjectRef sound = cluster.PutAt("b", cluster.ContentFor(100'000, OwnedByBCD), {5});
  const ObjectRef rotten = cluster.PutAt("b", cluster.ContentFor(90'000, OwnedByBCD), {5});
  store.FlipBit(kDefaultDomain, rotten.id, 80'000);
  EXPECT_TRUE(asked.Confirm(rotten, {5})) << "it was verified lately";
  cluster.clock().Advance((kScrubPeriod_s + 1) * 1'000'000);
  EXPECT_FALSE(asked.Confirm(rotten, {5}));
  EXPECT_EQ((*store.Stat(kDefaultDomain, rotten.id))->state, RowState::kQuarantined);
  EXPECT_TRUE(asked.Confirm(sound, {5}));
  EXPECT_EQ((*store.Stat(kDefaultDomain, sound.id))->verified_at_micros,
            cluster.clock().WallMicros());
}

TEST(RepairAnswersTest, ANewerMapThatComesWhileItLooksMakesNoAnswer) {
  MemoryCluster cluster({.nodes = kFour});
  const std::string content = cluster.ContentFor(100, OwnedByBCD);
  const TouchedRef asked{cluster.PutAt("b", content, {5}), {5}};
  // The first look at the map gives the old one, every later one the new one.
  class View : public ClusterView {
   public:
    explicit View(MemoryCluster& cluster) : cluster_(cluster) {}
    const std::string& node_id() const override { return id_; }
    std::shared_ptr<const Placement> placement() override {
      auto now = cluster_.placement();
      cluster_.MakeMap({{"c", NodeState::kDraining}});
      return now;
    }

   private:
    MemoryCluster& cluster_;
    const std::string id_ = "b";
  } view(cluster);
  const PlacementVersion old = VersionOf(cluster);
  RepairAnswers answers(*cluster.node("b").store, view, cluster.node("b").wanted, nullptr,
                        cluster.clock());
  auto answer = answers.ConfirmDrop(kDefaultDomain, old, {&asked, 1}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->confirmed.empty());
  EXPECT_NE(answer->placement, old);
}

}  // namespace
}  // namespace tilekv
