#include "kvstore/base/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kvstore/base/defaults.h"

namespace tilekv {
namespace {

class MachineMemory : public testing::Test {
 protected:
  MachineMemory() {
    std::string path = (std::filesystem::temp_directory_path() / "tilekv-machine-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    Write("/proc/meminfo", "MemFree:   1 kB\nMemTotal:       16777216 kB\n");  // 16 GiB
  }
  ~MachineMemory() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  uint64_t Bytes() const { return MachineMemoryBytes(root_); }

  std::string root_;
};

TEST_F(MachineMemory, IsTheMachinesWithoutALimit) {
  EXPECT_EQ(Bytes(), 16 * kGiB);
  Write("/proc/self/cgroup", "0::/user\n");
  Write("/sys/fs/cgroup/user/memory.max", "max\n");
  EXPECT_EQ(Bytes(), 16 * kGiB);
}

TEST_F(MachineMemory, IsTheLimitOfTheGroupOrOfOneAbove) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "3221225472\n");
  EXPECT_EQ(Bytes(), 3 * kGiB);
  Write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  EXPECT_EQ(Bytes(), 1 * kGiB);
}

TEST_F(MachineMemory, IsTheLimitOfAGroupOfVersionOneToo) {
  Write("/proc/self/cgroup", "5:cpu,memory:/docker/x\n4:cpuset:/y\n0::/\n");
  Write("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Bytes(), 2 * kGiB);
}

TEST_F(MachineMemory, OfAContainerThatSeesItsRootOnlyIsTheRootsLimit) {
  Write("/proc/self/cgroup", "0::/docker/not-seen-here\n");
  Write("/sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(Bytes(), 512 * kMiB);
}

TEST_F(MachineMemory, IsUnknownWhereNothingCanBeRead) {
  EXPECT_EQ(MachineMemoryBytes(root_ + "/none"), 0u);
}

TEST(ClientMemory, IsAShareOfTheMachinesWithinBounds) {
  EXPECT_EQ(ClientMemoryFor(8 * kGiB), 512 * kMiB);
  EXPECT_EQ(ClientMemoryFor(512 * kMiB), kLeastMemoryBytes);
  EXPECT_EQ(ClientMemoryFor(0), kLeastMemoryBytes);
  EXPECT_EQ(ClientMemoryFor(uint64_t{1} << 40), kGreatestDefaultClientMemoryBytes);
  EXPECT_GE(DefaultClientMemoryBytes(), kLeastMemoryBytes);
}

}  // namespace
}  // namespace tilekv
