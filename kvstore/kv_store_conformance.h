// What a store must do, wherever it is: one suite for memory, a directory, a node over gRPC. The
// factory is the parameter: link tilekv_store_conformance and INSTANTIATE_TEST_SUITE_P(..,
// KvStoreConformance, ..) beside the implementation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/tree.h"

namespace tilekv {

struct StoreMaker {
  std::string name;
  // A new, empty store with this object limit. Whatever it needs goes with it.
  std::function<std::shared_ptr<KvStore>(uint64_t max_object_bytes)> make;
};
inline void PrintTo(const StoreMaker& maker, std::ostream* out) { *out << maker.name; }

// A model in the small: what a commit needs, and all that it reaches.
struct TestModel {
  ObjectRef root;                    // level 3
  std::vector<ObjectRef> objects;    // children before parents, root last
  std::vector<std::string> content;  // of each
};

class KvStoreConformance : public testing::TestWithParam<StoreMaker> {
 protected:
  static constexpr uint64_t kLimit = 1 * kMiB;

  KvStoreConformance() : store_(GetParam().make(kLimit)) {}

  // Bytes that repeat themselves for a seed.
  static std::string RandomText(uint64_t seed, size_t bytes);
  // Tiles with these seeds below one page below a root.
  static TestModel MakeModel(const std::vector<uint64_t>& seeds, size_t tile_bytes = 3000);

  std::unique_ptr<UploadSession> Begin();
  // Links everything and puts what is missing; how many were.
  size_t Upload(UploadSession& session, const TestModel& model);
  static v1::CommitRequest CommitOf(const TestModel& model, const std::string& name);
  // A session of its own, from upload to commit. Fails the test when it does not apply.
  v1::VersionInfo Import(const TestModel& model, const std::string& name,
                         const std::vector<std::string>& tags = {});
  v1::ResolveVersionResponse Resolve(const std::string& name, const std::string& version,
                                     bool with_deleted = false);
  v1::CollectResponse Collect();
  v1::DeleteVersionsResponse DeleteVersions(const std::string& name, std::vector<uint64_t> numbers,
                                            bool now);
  bool IsThere(const ObjectRef& ref);
  // What Get says: the content, or "-" when absent.
  std::string ContentOf(const std::string& key);

  std::shared_ptr<KvStore> store_;
};

}  // namespace tilekv
