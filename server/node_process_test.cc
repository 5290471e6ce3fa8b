#include "server/node_process.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
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
#include "kvstore/object/test_file_system.h"

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

std::string PayloadContent() { return std::string(200'000, 'c'); }

absl::StatusOr<bool> Put(NodeService& node, const std::string& content) {
  TILEKV_ASSIGN_OR_RETURN(v1::BeginSessionResponse session, node.BeginSession({}));
  ObjectPut put;
  put.session_rev = Revision{session.session_rev()};
  put.content = AsBytes(content);
  put.ref = RefOf(0, put.content);
  return node.PutObject(put);
}

// The first line of the answer to GET `path`.
std::string Get(const std::string& address, const std::string& path) {
  const ListenAddress to = *ListenAddress::Parse(address);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(to.port));
  EXPECT_EQ(inet_pton(AF_INET, to.host.c_str(), &where.sin_addr), 1);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[1024];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer.substr(0, answer.find('\r'));
}

TEST(NodeProcess, WhoseDiskFailedASyncServesReadsAndSaysThatItTakesNoWrites) {
  TestDirectory directory;
  TestFileSystem disk;
  std::atomic<bool> fails{false};
  disk.hook = [&fails](const std::string& operation, const std::string& path) {
    const bool here = fails && operation == "sync" && path.find("/payload/") != std::string::npos;
    return here ? MakeError(Reason::kInternal, "the disk lost what it had") : absl::OkStatus();
  };
  NodeProcessOptions options;
  options.data_dir = directory.path();
  options.listen.port = 0;
  options.http.port = 0;
  options.memory_bytes = kLeastMemoryBytes;
  options.file_system = &disk;
  // Of this process, to which spdlog writes before a program sets up its log.
  testing::internal::CaptureStdout();
  auto process = NodeProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  std::ifstream file(options.data_dir + "/ADDRESS");
  std::string word, grpc, http;
  file >> word >> grpc >> word >> http;
  auto node = ConnectNode(grpc);
  ASSERT_TRUE(node.ok()) << node.status();
  const std::string kept = PayloadContent();
  auto stored = Put(**node, kept);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(Get(http, "/readyz"), "HTTP/1.1 200 OK");

  fails = true;
  absl::Status failed = Put(**node, PayloadContent() + "of which the sync fails").status();
  EXPECT_EQ(GetReason(failed), Reason::kStoreFailed) << failed;
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  fails = false;
  // The disk works again: what it dropped is not known, so that changes nothing.
  absl::Status later = Put(**node, "small, and elsewhere").status();
  EXPECT_EQ(GetReason(later), Reason::kStoreFailed) << later;
  EXPECT_EQ(Get(http, "/readyz"), "HTTP/1.1 503 Service Unavailable");
  EXPECT_EQ(Get(http, "/healthz"), "HTTP/1.1 200 OK");
  std::string content(kept.size(), '\0');
  ObjectRead read{.ref = RefOf(0, AsBytes(kept)),
                  .offset = 0,
                  .out = {reinterpret_cast<uint8_t*>(content.data()), content.size()}};
  absl::Status got = (*node)->ReadObjects({&read, 1});
  EXPECT_TRUE(got.ok()) << got;
  EXPECT_EQ(content, kept);
  node->reset();
  process->reset();
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, testing::ContainsRegex("event=store notice=\"[^\n]*STORE_FAILED"));
  EXPECT_THAT(log, testing::HasSubstr("the disk lost what it had"));

  // Started again on a disk that works, it is as good as new, and has what was acknowledged.
  process = NodeProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  file.close();
  file.open(options.data_dir + "/ADDRESS");
  file >> word >> grpc >> word >> http;
  EXPECT_EQ(Get(http, "/readyz"), "HTTP/1.1 200 OK");
  node = ConnectNode(grpc);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_TRUE(Put(**node, PayloadContent() + "of which the sync fails").ok());
  got = (*node)->ReadObjects({&read, 1});
  EXPECT_TRUE(got.ok()) << got;
}

}  // namespace
}  // namespace tilekv
