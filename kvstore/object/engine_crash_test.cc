// A process ends without warning at each step of a put, a link, a delete and a recoding; another
// opens what it left. The page cache survives such an end, so this proves the order of steps and
// the clearing up, not the syncs.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/recode.h"

extern char** environ;

namespace tilekv {
namespace {

constexpr char kChildDirectory[] = "TILEKV_TEST_CHILD_DIRECTORY";

std::string Kept() { return TestContent(200'000, 1); }
std::string Deleted() { return TestContent(200'000, 2); }
std::string Stored() { return TestContent(300'000, 3); }
std::string SmallStored() { return TestContent(3'000, 4); }

std::unique_ptr<LocalEngine> Open(const std::string& directory) {
  auto engine = LocalEngine::Open({.directory = directory, .create_if_missing = true});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// What the other process does; the test runs this program again with the variable set.
TEST(EngineCrashChild, PutsLinksDeletesAndRecodes) {
  const char* directory = getenv(kChildDirectory);
  if (directory == nullptr) GTEST_SKIP() << "runs as a process of EngineCrash";
  auto engine = Open(directory);
  ObjectRef kept = RefOf(0, AsBytes(Kept()));
  ArmCrashPointFromEnvironment();
  ASSERT_TRUE(PutContent(*engine, Stored(), {.touched_rev = {5}}).ok());
  ASSERT_TRUE(PutContent(*engine, SmallStored(), {.touched_rev = {5}}).ok());
  ASSERT_TRUE(engine->Link(kDefaultDomain, {&kept, 1}, {7}).ok());
  ASSERT_TRUE(engine->DeleteBelow(kDefaultDomain, IdOf(0, AsBytes(Deleted())), {2}).ok());
  auto pool = BufferPool::Create(kMiB);
  ASSERT_TRUE(RecodeObject(*engine, *pool, kDefaultDomain, kept.id, Codec::kZstd, false)->changed);
  _exit(42);  // even without a crash point: no clean end
}

// Exit status of the child.
int RunChild(const std::string& directory, const std::string& crash_point) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).substr(0, 5) != "GTEST") variables.push_back(*variable);
  }
  variables.push_back(std::string(kChildDirectory) + "=" + directory);
  if (!crash_point.empty()) variables.push_back("TILEKV_CRASH_POINT=" + crash_point);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::string filter = "--gtest_filter=EngineCrashChild.*";
  char* arguments[] = {program.data(), filter.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment.data()),
            0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Prepare(const std::string& directory) {
  auto engine = Open(directory);
  ASSERT_TRUE(PutContent(*engine, Kept()).ok());
  ASSERT_TRUE(PutContent(*engine, Deleted()).ok());
}

bool Has(LocalEngine& engine, const std::string& content) {
  ObjectId id = IdOf(0, AsBytes(content));
  if (!engine.Stat(kDefaultDomain, id)->has_value()) return false;
  auto got = GetContent(engine, id);
  EXPECT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, content);
  return true;
}

struct Step {
  const char* point;
  bool stored;        // the put had ended by then
  bool small_stored;  // the small one too
  bool linked;
  bool deleted;
  bool recoded = false;
};

class EngineCrash : public testing::TestWithParam<Step> {};

TEST_P(EngineCrash, LeavesAStoreWithAllThatWasAcknowledgedAndNoGarbageForEver) {
  const Step& step = GetParam();
  TestDirectory directory;
  Prepare(directory.path());
  ASSERT_EQ(RunChild(directory.path(), step.point), *step.point == '\0' ? 42 : 137);
  {
    auto engine = Open(directory.path());
    ASSERT_NE(engine, nullptr);
    EXPECT_TRUE(Has(*engine, Kept()));
    EXPECT_EQ(Has(*engine, Stored()), step.stored);
    EXPECT_EQ(Has(*engine, SmallStored()), step.small_stored);
    EXPECT_EQ(Has(*engine, Deleted()), !step.deleted);
    ObjectRow kept = **engine->Stat(kDefaultDomain, IdOf(0, AsBytes(Kept())));
    Revision kept_rev = kept.touched_rev;
    EXPECT_EQ(kept.encoding.kind == EncodingKind::kZstd, step.recoded);
    EXPECT_EQ(kept_rev, Revision{step.linked ? uint64_t{7} : uint64_t{1}});
    EXPECT_EQ(engine->Usage()->objects, 2u + step.stored + step.small_stored - step.deleted);
    // The first collection finds all garbage.
    ASSERT_TRUE(engine->RemoveUnnamedFiles().ok());
    EXPECT_EQ(CountPayloadFiles(directory.path()), 1u + step.stored + !step.deleted);
    // And it can be done again.
    ASSERT_TRUE(PutContent(*engine, Stored()).ok());
    ASSERT_TRUE(engine->DeleteBelow(kDefaultDomain, IdOf(0, AsBytes(Deleted())), {2}).ok());
  }
  auto engine = Open(directory.path());
  EXPECT_EQ(CountPayloadFiles(directory.path()), 2u);
  EXPECT_TRUE(Has(*engine, Kept()));
  EXPECT_TRUE(Has(*engine, Stored()));
}

INSTANTIATE_TEST_SUITE_P(Steps, EngineCrash,
                         testing::Values(Step{"put.created:1", false, false, false, false},
                                         Step{"put.written:1", false, false, false, false},
                                         Step{"put.header:1", false, false, false, false},
                                         Step{"put.synced:1", false, false, false, false},
                                         Step{"put.entry_synced:1", false, false, false, false},
                                         Step{"put.before_row:1", false, false, false, false},
                                         Step{"put.row:1", true, false, false, false},
                                         Step{"put.before_row:2", true, false, false, false},
                                         Step{"put.row:2", true, true, false, false},
                                         Step{"link.before_row:1", true, true, false, false},
                                         Step{"link.row:1", true, true, true, false},
                                         Step{"delete.before_row:1", true, true, true, false},
                                         Step{"delete.row:1", true, true, true, true},
                                         Step{"delete.unlinked:1", true, true, true, true},
                                         Step{"put.created:2", true, true, true, true},
                                         Step{"put.synced:2", true, true, true, true},
                                         Step{"recode.before_row:1", true, true, true, true},
                                         Step{"recode.row:1", true, true, true, true, true},
                                         Step{"recode.unlinked:1", true, true, true, true, true},
                                         Step{"", true, true, true, true, true}),
                         [](const auto& info) {
                           std::string name = info.param.point;
                           for (char& c : name) {
                             if (c == '.' || c == ':') c = '_';
                           }
                           return name.empty() ? std::string("end") : name;
                         });

}  // namespace
}  // namespace tilekv
