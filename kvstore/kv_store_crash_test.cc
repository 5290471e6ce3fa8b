// The process ends at a named step; what the next one finds.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/base/test_process.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr char kDirectory[] = "TILEKV_TEST_DIRECTORY";
constexpr char kWork[] = "TILEKV_TEST_WORK";

void Import(KvStore& store) {
  auto session = store.BeginSession("test");
  ASSERT_TRUE(session.ok());
  std::string tile(100'000, 't');
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  tree.children.push_back(RefOf(0, AsBytes(tile)));
  std::string root = EncodeTree(tree);
  ObjectRef root_ref = RefOf(3, AsBytes(root));
  ASSERT_TRUE((*session)->Put(tree.children[0], AsBytes(tile)).ok());
  ASSERT_TRUE((*session)->Put(root_ref, AsBytes(root)).ok());
  v1::CommitRequest request;
  request.set_ns("default");
  request.set_name("m");
  ObjectRefToWire(root_ref, request.mutable_root());
  ASSERT_TRUE((*session)->Commit(request).ok());
}

// What the other process does; the tests below run this program again with the variables set.
TEST(CrashChild, Works) {
  const char* directory = std::getenv(kDirectory);
  if (directory == nullptr) GTEST_SKIP() << "runs as a process of the other tests";
  auto store = OpenEmbeddedStore(directory);
  ASSERT_TRUE(store.ok()) << store.status();
  ArmCrashPointFromEnvironment();
  std::string work = std::getenv(kWork);
  if (work == "import") {
    Import(**store);
  } else if (work == "put") {
    ASSERT_TRUE((*store)->Put("k", std::string(100'000, 'v')).ok());
  } else {
    ASSERT_TRUE((*store)->node().Collect({}).ok());
  }
}

class CrashTest : public testing::Test {
 protected:
  CrashTest() {
    std::string pattern = testing::TempDir() + "/crashXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~CrashTest() override { std::filesystem::remove_all(path_); }

  // Does this work in a process of its own that ends at the count-th reaching of the step.
  void CrashAt(const std::string& step, int count, const std::string& work) {
    std::vector<std::string> variables{std::string(kDirectory) + "=" + path_,
                                       std::string(kWork) + "=" + work,
                                       "TILEKV_CRASH_POINT=" + step + ":" + std::to_string(count)};
    ASSERT_EQ(RunTestProcess("CrashChild.*", variables), 137) << "the step was not reached";
  }

  std::unique_ptr<KvStore> Reopen() {
    auto store = OpenEmbeddedStore(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static bool HasModel(KvStore& store) {
    v1::ResolveVersionRequest request;
    request.set_ns("default");
    request.set_name("m");
    auto response = store.node().ResolveVersion(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() && response->found();
  }

  std::string path_;
};

TEST_F(CrashTest, BeforeTheTransactionOfACommitNothingIsVisibleAndCollectTakesTheRest) {
  for (const char* step : {"commit.before_transaction", "catalog.before_write"}) {
    // The catalog's second write is the commit's: the first began the session.
    CrashAt(step, step == std::string("catalog.before_write") ? 2 : 1, "import");
    std::unique_ptr<KvStore> store = Reopen();
    EXPECT_FALSE(HasModel(*store)) << step;
    EXPECT_EQ(store->node().Info({})->objects(), 3u) << "tile, root, commit";
    EXPECT_EQ(store->node().Collect({})->deleted_objects(), 3u);
    EXPECT_EQ(store->node().Info({})->objects(), 0u);
  }
}

TEST_F(CrashTest, AfterTheTransactionOfACommitEverythingIsThere) {
  CrashAt("commit.after_transaction", 1, "import");
  std::unique_ptr<KvStore> store = Reopen();
  EXPECT_TRUE(HasModel(*store));
  EXPECT_EQ(store->node().Collect({})->deleted_objects(), 0u);
  v1::FsckRequest request;
  request.set_verify_content(true);
  EXPECT_EQ(store->node().Fsck(request)->problem_count(), 0u);
}

TEST_F(CrashTest, AValueIsThereFromItsTransactionOn) {
  CrashAt("value.before_transaction", 1, "put");
  {
    std::unique_ptr<KvStore> store = Reopen();
    EXPECT_FALSE((*store->Get("k")).has_value());
    EXPECT_EQ(store->node().Collect({})->deleted_objects(), 1u);
  }
  CrashAt("value.after_transaction", 1, "put");
  std::unique_ptr<KvStore> store = Reopen();
  ASSERT_TRUE((*store->Get("k")).has_value());
  EXPECT_EQ(store->node().Collect({})->deleted_objects(), 0u);
}

TEST_F(CrashTest, ARoundThatEndsHalfWayIsFinishedByTheNext) {
  {
    std::unique_ptr<KvStore> store = Reopen();
    Import(*store);
    ASSERT_TRUE(store->Put("k", std::string(100'000, 'v')).ok());
    ASSERT_TRUE(store->Put("gone-1", std::string(100'000, '1')).ok());
    ASSERT_TRUE(store->Put("gone-2", std::string(1'000, '2')).ok());
    ASSERT_TRUE(store->Delete("gone-1").ok());
    ASSERT_TRUE(store->Delete("gone-2").ok());
  }
  // Rows are gone, the file of one of them is not.
  CrashAt("delete.row", 1, "collect");
  EXPECT_EQ(CountPayloadFiles(path_), 3u);
  std::unique_ptr<KvStore> store = Reopen();
  EXPECT_EQ(store->node().Collect({})->deleted_objects(), 0u);
  EXPECT_EQ(CountPayloadFiles(path_), 2u);
  EXPECT_TRUE(HasModel(*store));
  EXPECT_EQ(store->node().Fsck({})->problem_count(), 0u);
  EXPECT_EQ(store->node().Info({})->objects(), 4u);
}

}  // namespace
}  // namespace tilekv
