// The process ends at a named step; what the next one finds.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "gtest/gtest.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

class CrashTest : public testing::Test {
 protected:
  CrashTest() {
    std::string pattern = testing::TempDir() + "/crashXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~CrashTest() override { std::filesystem::remove_all(path_); }

  // Runs `work` in a process of its own that ends at the step.
  void CrashAt(const std::string& step, int count,
               const std::function<void(KvStore& store)>& work) {
    pid_t child = fork();
    if (child == 0) {
      auto store = OpenEmbeddedStore(path_);
      if (!store.ok()) _exit(2);
      ArmCrashPoint(step, count);
      work(**store);
      _exit(3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 137) << "the step was not reached";
  }

  std::unique_ptr<KvStore> Reopen() {
    auto store = OpenEmbeddedStore(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static void Import(KvStore& store) {
    auto session = store.BeginSession("test");
    if (!session.ok()) return;
    std::string tile(100'000, 't');
    Tree tree;
    tree.level = 3;
    tree.type = TreeType::kManifestRoot;
    tree.children.push_back(RefOf(0, AsBytes(tile)));
    std::string root = EncodeTree(tree);
    ObjectRef root_ref = RefOf(3, AsBytes(root));
    (*session)->Put(tree.children[0], AsBytes(tile)).IgnoreError();
    (*session)->Put(root_ref, AsBytes(root)).IgnoreError();
    v1::CommitRequest request;
    request.set_ns("default");
    request.set_name("m");
    ObjectRefToWire(root_ref, request.mutable_root());
    (*session)->Commit(request).IgnoreError();
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
  for (const char* step : {"commit:before-transaction", "catalog:before-write"}) {
    // The catalog's second write is the commit's: the first began the session.
    CrashAt(step, step == std::string("catalog:before-write") ? 2 : 1, Import);
    std::unique_ptr<KvStore> store = Reopen();
    EXPECT_FALSE(HasModel(*store)) << step;
    EXPECT_EQ(store->node().Info({})->objects(), 3u) << "tile, root, commit";
    EXPECT_EQ(store->node().Collect({})->deleted_objects(), 3u);
    EXPECT_EQ(store->node().Info({})->objects(), 0u);
  }
}

TEST_F(CrashTest, AfterTheTransactionOfACommitEverythingIsThere) {
  CrashAt("commit:after-transaction", 1, Import);
  std::unique_ptr<KvStore> store = Reopen();
  EXPECT_TRUE(HasModel(*store));
  EXPECT_EQ(store->node().Collect({})->deleted_objects(), 0u);
  v1::FsckRequest request;
  request.set_verify_content(true);
  EXPECT_EQ(store->node().Fsck(request)->problem_count(), 0u);
}

TEST_F(CrashTest, AValueIsThereFromItsTransactionOn) {
  auto put = [](KvStore& store) { store.Put("k", std::string(100'000, 'v')).IgnoreError(); };
  CrashAt("value:before-transaction", 1, put);
  {
    std::unique_ptr<KvStore> store = Reopen();
    EXPECT_FALSE((*store->Get("k")).has_value());
    EXPECT_EQ(store->node().Collect({})->deleted_objects(), 1u);
  }
  CrashAt("value:after-transaction", 1, put);
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
  CrashAt("collector:before-delete", 2,
          [](KvStore& store) { store.node().Collect({}).IgnoreError(); });
  std::unique_ptr<KvStore> store = Reopen();
  EXPECT_EQ(store->node().Collect({})->deleted_objects(), 1u);
  EXPECT_TRUE(HasModel(*store));
  EXPECT_EQ(store->node().Fsck({})->problem_count(), 0u);
  EXPECT_EQ(store->node().Info({})->objects(), 4u);
}

}  // namespace
}  // namespace tilekv
