#include "kvstore/node/live_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/test_file_system.h"

namespace tilekv {
namespace {

constexpr uint64_t kSmallMemory = 16 * 100;  // a hundred entries

ObjectRef RefWithPrefix(uint64_t prefix, uint64_t length) {
  ObjectRef ref;
  for (int i = 0; i < 8; ++i) ref.id.bytes[i] = static_cast<uint8_t>(prefix >> (56 - 8 * i));
  ref.length = length;
  return ref;
}

class LiveListTest : public testing::Test {
 protected:
  LiveListTest() { std::filesystem::create_directory(directory_.path()); }
  ScratchSpace scratch() { return {&fs_, directory_ / "tmp"}; }

  TestDirectory directory_;
  TestFileSystem fs_;
  SeededRandom random_{5};
};

TEST_F(LiveListTest, ASpilledListIsTheSameAsOneInMemory) {
  LiveList memory({}, kSmallMemory);
  LiveList spilled(scratch(), kSmallMemory);
  std::set<uint64_t> added;
  for (int i = 0; i < 20'000; ++i) {
    // Even prefixes, each several times over, so that duplicates lie in different files.
    uint64_t prefix = LoadBe64(AsBytes(random_.Bytes(8)).data()) % 9'000 * 2;
    added.insert(prefix);
    ObjectRef ref = RefWithPrefix(prefix, prefix + 1);
    ASSERT_TRUE(memory.Add(ref).ok());
    ASSERT_TRUE(spilled.Add(ref).ok());
  }
  ASSERT_TRUE(memory.Finish().ok());
  ASSERT_TRUE(spilled.Finish().ok());
  EXPECT_EQ(memory.spilled_files(), 0u);
  EXPECT_GT(spilled.spilled_files(), 65u) << "more than are merged at once";
  uint64_t bytes = 0;
  for (uint64_t prefix : added) bytes += prefix + 1;
  for (const LiveList* list : {&memory, &spilled}) {
    EXPECT_EQ(list->objects(), added.size());
    EXPECT_EQ(list->bytes(), bytes);
    LiveList::Cursor cursor(*list);
    for (uint64_t prefix = 0; prefix < 18'010; ++prefix) {
      auto contains = cursor.Contains(prefix);
      ASSERT_TRUE(contains.ok()) << contains.status();
      ASSERT_EQ(*contains, added.contains(prefix)) << prefix;
    }
  }
}

TEST_F(LiveListTest, LeavesNoFileBehindAndClearsWhatAnotherLeft) {
  std::filesystem::create_directory(directory_ / "tmp");
  std::ofstream(directory_ / "tmp/live-7") << "left by a process that was killed";
  LiveList list(scratch(), kSmallMemory);
  for (uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(list.Add(RefWithPrefix(i, 1)).ok());
  EXPECT_GT(list.spilled_files(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "tmp")) << "files live while they are open";
  ASSERT_TRUE(list.Finish().ok());
  EXPECT_EQ(list.objects(), 500u);
}

TEST_F(LiveListTest, ObjectsMetAgainAndAgainFillNoFile) {
  LiveList list(scratch(), kSmallMemory);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(list.Add(RefWithPrefix(i % 40, 1)).ok());
  EXPECT_EQ(list.spilled_files(), 0u);
  ASSERT_TRUE(list.Finish().ok());
  EXPECT_EQ(list.objects(), 40u);
}

TEST_F(LiveListTest, ADiskThatFailsEndsTheSort) {
  LiveList list(scratch(), kSmallMemory);
  fs_.hook = [](const std::string& operation, const std::string&) {
    return operation == "write" ? MakeError(Reason::kStoreFull, "no space") : absl::OkStatus();
  };
  absl::Status status;
  for (uint64_t i = 0; i < 500 && status.ok(); ++i) status = list.Add(RefWithPrefix(i, 1));
  EXPECT_EQ(GetReason(status), Reason::kStoreFull);
}

}  // namespace
}  // namespace tilekv
