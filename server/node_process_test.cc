#include "server/node_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "client/remote_node.h"
#include "kvstore/base/status.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/payload_directory.h"

namespace tilekv {
namespace {

TEST(NodeProcess, CollectsByItself) {
  std::string directory =
      (std::filesystem::temp_directory_path() / "tilekv-process-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  NodeProcessOptions options;
  options.data_dir = directory + "/data";
  options.listen.port = 0;
  options.http.port = 0;
  options.memory_bytes = kLeastMemoryBytes;
  options.collect_every_ms = 20;
  auto process = NodeProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  std::ifstream file(options.data_dir + "/ADDRESS");
  std::string word, address;
  file >> word >> address;
  auto node = ConnectNode(address);
  ASSERT_TRUE(node.ok()) << node.status();

  auto session = (*node)->BeginSession({});
  ASSERT_TRUE(session.ok()) << session.status();
  std::string content = "garbage";
  ObjectPut put;
  put.session_rev = Revision{session->session_rev()};
  put.content = AsBytes(content);
  put.ref = RefOf(0, put.content);
  ASSERT_TRUE((*node)->PutObject(put).ok());
  EXPECT_EQ((*node)->Info({})->objects(), 1u) << "its session holds it";
  v1::EndSessionRequest end;
  end.set_token(session->token());
  ASSERT_TRUE((*node)->EndSession(end).ok());
  uint64_t objects = 1;
  for (int i = 0; i < 1'000 && objects > 0; ++i) {
    objects = (*node)->Info({})->objects();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(objects, 0u);
  process->reset();
  std::filesystem::remove_all(directory);
}

TEST(NodeProcess, ScrubsByItselfAndQuarantinesWhatIsDamaged) {
  TestDirectory directory;
  NodeProcessOptions options;
  options.data_dir = directory.path();
  options.listen.port = 0;
  options.http.port = 0;
  options.memory_bytes = kLeastMemoryBytes;
  auto put_one = [&] {
    auto process = NodeProcess::Start(options);
    ASSERT_TRUE(process.ok()) << process.status();
    std::ifstream file(options.data_dir + "/ADDRESS");
    std::string word, address;
    file >> word >> address;
    auto node = ConnectNode(address);
    ASSERT_TRUE(node.ok()) << node.status();
    auto session = (*node)->BeginSession({});
    ASSERT_TRUE(session.ok()) << session.status();
    std::string content(200'000, 'c');
    ObjectPut put;
    put.session_rev = Revision{session->session_rev()};
    put.content = AsBytes(content);
    put.ref = RefOf(0, put.content);
    ASSERT_TRUE((*node)->PutObject(put).ok());
  };
  put_one();
  FlipBitInFile(PayloadPath(options.data_dir, 1), kPayloadHeaderBytes + 100'000);
  options.scrub_period_s = 2;
  auto process = NodeProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  std::ifstream file(options.data_dir + "/ADDRESS");
  std::string word, address;
  file >> word >> address;
  auto node = ConnectNode(address);
  ASSERT_TRUE(node.ok()) << node.status();
  uint64_t quarantined = 0;
  for (int i = 0; i < 3'000 && quarantined == 0; ++i) {
    quarantined = (*node)->Info({})->quarantined_objects();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(quarantined, 1u);
  process->reset();
}

}  // namespace
}  // namespace tilekv
