// A store whose disk others have filled to the last byte.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/base/test_needs.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/open_catalog.h"
#include "kvstore/object/engine_test_util.h"

namespace tilekv {
namespace {

// A file system in memory, larger than it can be filled, whose size the test changes.
class SmallDisk {
 public:
  explicit SmallDisk(uint64_t bytes) {
    std::filesystem::create_directories(directory_.path());
    mounted_ = mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, Size(bytes).c_str()) == 0;
    // Without root, it is not permitted.
    if (!mounted_) why_not_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  const std::string& why_not() const { return why_not_; }
  const std::string& path() const { return directory_.path(); }
  uint64_t FreeBytes() const {
    struct statvfs info {};
    EXPECT_EQ(statvfs(path().c_str(), &info), 0);
    return info.f_bavail * info.f_frsize;
  }
  void FillUp() {
    struct statvfs info {};
    ASSERT_EQ(statvfs(path().c_str(), &info), 0);
    std::string size = Size((info.f_blocks - info.f_bfree) * info.f_frsize);
    ASSERT_EQ(mount("tmpfs", path().c_str(), "tmpfs", MS_REMOUNT, size.c_str()), 0);
    ASSERT_EQ(FreeBytes(), 0u);
  }

 private:
  static std::string Size(uint64_t bytes) { return fmt::format("size={}", bytes); }

  TestDirectory directory_;
  bool mounted_ = false;
  std::string why_not_;
};

class FullDiskTest : public testing::Test {
 protected:
  absl::Status Open(const std::string& directory) {
    Close();
    LocalEngineOptions options;
    options.directory = directory;
    options.create_if_missing = true;
    options.clock = &clock_;
    TILEKV_ASSIGN_OR_RETURN(engine_, LocalEngine::Open(options));
    TILEKV_ASSIGN_OR_RETURN(catalog_, OpenStoreCatalog(directory, false, *engine_));
    NodeOptions node;
    node.clock = &clock_;
    TILEKV_ASSIGN_OR_RETURN(node_, LocalNode::Create(*engine_, *catalog_, node));
    return absl::OkStatus();
  }
  void Close() {
    node_.reset();
    catalog_.reset();
    engine_.reset();
  }
  absl::Status Put(const std::string& key, uint64_t bytes) {
    v1::PutValueHeader header;
    header.set_key(key);
    header.set_request_id(Random::System()->Bytes(16));
    std::string content = Random::System()->Bytes(bytes);
    SpanSource source(AsBytes(content));
    return node_->PutValue(header, &source, nullptr).status();
  }
  absl::Status Remove(const std::string& key) {
    v1::DeleteValueRequest request;
    request.set_key(key);
    return node_->DeleteValue(request).status();
  }

  ManualClock clock_;
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<LocalNode> node_;
};

TEST_F(FullDiskTest, AStoreOpensDeletesCollectsAndTakesPutsAgainByItself) {
  SmallDisk disk(kBallastOnDisksOverBytes + kGiB);
  if (!disk.mounted()) TILEKV_PASS_OVER("no disk can be mounted here: " + disk.why_not());
  const std::string directory = disk.path() + "/store";
  ASSERT_TRUE(Open(directory).ok());
  ASSERT_TRUE(std::filesystem::exists(directory + "/BALLAST"));
  // Logs of both databases, from which an opening would make tables.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Put(fmt::format("small {}", i), 60'000).ok());
  ASSERT_TRUE(Put("large", 8 * kMiB).ok());
  Close();
  disk.FillUp();

  absl::Status opened = Open(directory);
  ASSERT_TRUE(opened.ok()) << opened;
  EXPECT_FALSE(std::filesystem::exists(directory + "/BALLAST"));
  absl::Status removed = Remove("large");
  ASSERT_TRUE(removed.ok()) << removed;
  auto collect = [this] {
    clock_.Advance(48 * 3'600 * int64_t{1'000'000});
    auto round = node_->Collect({});
    EXPECT_TRUE(round.ok()) << round.status();
  };
  collect();
  collect();
  EXPECT_EQ(CountPayloadFiles(directory), 0u);
  absl::Status put = Put("again", 4 * kMiB);
  EXPECT_TRUE(put.ok()) << put;
  // And once more, the ballast gone.
  Close();
  opened = Open(directory);
  EXPECT_TRUE(opened.ok()) << opened;
}

TEST_F(FullDiskTest, WithoutABallastAnOpeningTakesOnlySomeKiB) {
  SmallDisk disk(256 * kMiB);
  if (!disk.mounted()) TILEKV_PASS_OVER("no disk can be mounted here: " + disk.why_not());
  const std::string directory = disk.path() + "/store";
  ASSERT_TRUE(Open(directory).ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Put(fmt::format("small {}", i), 60'000).ok());
  ASSERT_TRUE(Put("large", 8 * kMiB).ok());
  Close();
  std::ofstream(disk.path() + "/of others") << std::string(256 * 1024, 'o');
  disk.FillUp();
  std::filesystem::remove(disk.path() + "/of others");
  absl::Status opened = Open(directory);
  ASSERT_TRUE(opened.ok()) << opened;
  absl::Status removed = Remove("large");
  EXPECT_TRUE(removed.ok()) << removed;
  clock_.Advance(48 * 3'600 * int64_t{1'000'000});
  EXPECT_TRUE(node_->Collect({}).ok());
  EXPECT_EQ(CountPayloadFiles(directory), 0u);
}

}  // namespace
}  // namespace tilekv
