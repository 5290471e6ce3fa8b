#include "kvstore/cluster/cluster_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/bytes.h"
#include "kvstore/cluster/cluster_test_util.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

SeenMap Seen(uint64_t number) {
  return {std::string(32, 'a'), MapVersion::Of(1, number), std::string(64, 'b')};
}

void Overwrite(TestCluster& cluster, uint64_t offset, const std::string& bytes) {
  auto file = cluster.disk.file_system()->Open("/node/CLUSTER", FileSystem::OpenMode::kReadWrite);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write(offset, AsBytes(bytes)).ok());
}

TEST(ClusterFile, RemembersTheNewestMapAcrossAPowerLoss) {
  TestCluster cluster;
  auto file = cluster.OpenFile();
  EXPECT_EQ(file->seen(), SeenMap{});
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(file->Save(Seen(i)).ok());
  cluster.disk.PowerOff();
  cluster.disk.PowerOn(SimulatedDisk::Loss::kEverything);
  EXPECT_EQ(cluster.OpenFile()->seen(), Seen(3));
}

TEST(ClusterFile, AWriteThatIsTornLeavesTheOneBefore) {
  TestCluster cluster;
  auto file = cluster.OpenFile();
  ASSERT_TRUE(file->Save(Seen(1)).ok());
  ASSERT_TRUE(file->Save(Seen(2)).ok());  // lies in the first block
  Overwrite(cluster, 20, "torn");
  EXPECT_EQ(cluster.OpenFile()->seen(), Seen(1));
}

TEST(ClusterFile, AFirstWriteThatIsTornHasSaidNothing) {
  TestCluster cluster;
  cluster.OpenFile();
  Overwrite(cluster, 4'096, "tilekv-cluster 1\nwrite 1\nli");
  EXPECT_EQ(cluster.OpenFile()->seen(), SeenMap{});
}

TEST(ClusterFile, DamageOfBothIsToldAndNotTakenForNothing) {
  TestCluster cluster;
  auto file = cluster.OpenFile();
  ASSERT_TRUE(file->Save(Seen(1)).ok());
  ASSERT_TRUE(file->Save(Seen(2)).ok());
  Overwrite(cluster, 20, "x");
  Overwrite(cluster, 4'096 + 20, "x");
  auto opened = ClusterFile::Open(*cluster.disk.file_system(), "/node");
  EXPECT_EQ(GetReason(opened.status()), Reason::kDataLoss);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("/node/CLUSTER"));
}

TEST(ClusterFile, AFailedSyncEndsHeartbeatsForGood) {
  TestCluster cluster;
  auto file = cluster.OpenFile();
  ASSERT_TRUE(file->Beat().ok());
  cluster.disk.hook = [](const std::string& call, const std::string&) {
    return call == "sync" ? MakeError(Reason::kInternal, "sync: EIO") : absl::OkStatus();
  };
  EXPECT_FALSE(file->Beat().ok());
  cluster.disk.hook = nullptr;
  EXPECT_FALSE(file->Beat().ok());
  EXPECT_FALSE(file->Save(Seen(1)).ok());
}

}  // namespace
}  // namespace tilekv
