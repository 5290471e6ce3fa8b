// An engine in a directory of its own, with every seam in the test's hands.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/test_rocksdb_env.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/test_file_system.h"

namespace tilekv {

class LocalEngineTest : public testing::Test {
 protected:
  LocalEngineTest() {
    options_.directory = directory_.path();
    options_.create_if_missing = true;
    options_.file_system = &fs_;
    options_.clock = &clock_;
    options_.notice = [this](const std::string& text) {
      MutexLock lock(mutex_);
      notices_ += text + "\n";
    };
  }

  void Open() {
    engine_.reset();
    auto engine = LocalEngine::Open(options_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  absl::StatusOr<PutOutcome> Put(std::string_view content) { return PutContent(*engine_, content); }
  ObjectRow RowOf(const ObjectId& id) { return **engine_->Stat(kDefaultDomain, id); }
  std::string PayloadOf(const ObjectId& id) {
    return PayloadPath(directory_.path(), RowOf(id).file_number);
  }
  std::string Notices() {
    MutexLock lock(mutex_);
    return notices_;
  }

  TestDirectory directory_;
  TestFileSystem fs_;
  TestRocksDbEnv env_;  // used where a test says so
  ManualClock clock_;
  Mutex mutex_;
  std::string notices_ ABSL_GUARDED_BY(mutex_);
  LocalEngineOptions options_;
  std::unique_ptr<LocalEngine> engine_;
};

}  // namespace tilekv
