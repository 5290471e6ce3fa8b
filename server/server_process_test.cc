// The program itself: started, killed, stopped, misused. TILEKV_SERVER is its path.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "client/connect.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "server/listen_address.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 3'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int ConnectTo(const std::string& text) {
  auto address = ListenAddress::Parse(text);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address->port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  int fd = ConnectTo(address);
  std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof buffer)) > 0;) answer.append(buffer, n);
  close(fd);
  return answer;
}

class ServerProcess : public testing::Test {
 protected:
  ServerProcess() {
    std::string path = (std::filesystem::temp_directory_path() / "tilekv-server-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~ServerProcess() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }

  std::filesystem::path data() const { return directory_ / "data"; }
  std::filesystem::path log() const { return directory_ / "log"; }

  pid_t Spawn(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {TILEKV_SERVER};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
      int fd = open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      dup2(fd, STDERR_FILENO);
      dup2(fd, STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  // Exit code, or minus the signal.
  static int WaitFor(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  static std::vector<std::string> AnyPorts(const std::string& data) {
    return {"--data-dir", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"};
  }
  int Run(const std::vector<std::string>& flags) { return WaitFor(Spawn(flags)); }

  void Start(const std::vector<std::string>& more = {}) {
    std::filesystem::remove(data() / "ADDRESS");
    std::vector<std::string> flags = AnyPorts(data());
    flags.insert(flags.end(), more.begin(), more.end());
    pid_ = Spawn(flags);
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(data() / "ADDRESS"); }))
        << ReadFile(log());
    std::istringstream addresses(ReadFile(data() / "ADDRESS"));
    std::string kind;
    addresses >> kind >> grpc_ >> kind >> http_;
  }
  int Stop(int signal) {
    kill(pid_, signal);
    int code = WaitFor(pid_);
    pid_ = 0;
    return code;
  }
  std::unique_ptr<KvStore> Open() {
    auto store = Connect("tilekv://" + grpc_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  std::filesystem::path directory_;
  pid_t pid_ = 0;
  std::string grpc_;
  std::string http_;
};

TEST_F(ServerProcess, ASlowCallGetsALineInTheLogUnlessNoneIsWanted) {
  for (const char* slow_call_ms : {"1", "0"}) {
    std::filesystem::remove(log());
    Start({"--slow-call-ms", slow_call_ms});
    auto store = Open();
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(store->Put(std::to_string(i), std::string(8'000'000, 'a' + i)).ok());
    }
    v1::FsckRequest request;
    request.set_verify_content(true);  // hashes 64 MB: that takes longer than a millisecond
    ASSERT_TRUE(store->node().Fsck(request).ok());
    const std::string text = ReadFile(log());
    bool logged = text.find("level=warning event=slow_call call=Fsck ms=") != std::string::npos;
    EXPECT_EQ(logged, std::string(slow_call_ms) == "1") << text;
    if (logged) {
      EXPECT_THAT(text, testing::ContainsRegex("call=Fsck .*work_ms=[1-9].*peer=ipv4:127.0.0.1:.*"
                                               "reason=OK unlogged=0"));
    } else {
      EXPECT_THAT(text, testing::Not(HasSubstr("slow_call")));
    }
    Stop(SIGKILL);
  }
}

TEST_F(ServerProcess, AnAcknowledgedWriteSurvivesKill9) {
  Start();
  std::string large(3'000'000, 'L');
  {
    auto store = Open();
    EXPECT_TRUE(store->Put("small", "s")->applied);
    EXPECT_TRUE(store->Put("large", large)->applied);
  }
  EXPECT_EQ(Stop(SIGKILL), -SIGKILL);
  Start();
  auto store = Open();
  EXPECT_EQ(store->Get("small")->value().content, "s");
  EXPECT_EQ(store->Get("large")->value().content, large);
}

TEST_F(ServerProcess, SigtermAndSigintStopItCleanly) {
  for (int signal : {SIGTERM, SIGINT}) {
    Start();
    EXPECT_TRUE(Open()->Put("k", "v")->applied);
    EXPECT_EQ(Stop(signal), 0) << ReadFile(log());
    EXPECT_FALSE(std::filesystem::exists(data() / "ADDRESS"));
  }
  EXPECT_THAT(ReadFile(log()), HasSubstr("event=stopped"));
}

TEST_F(ServerProcess, HttpTellsHealthAndFigures) {
  Start();
  EXPECT_TRUE(Open()->Put("k", std::string(100'000, 'x'))->applied);
  EXPECT_THAT(HttpGet(http_, "/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(HttpGet(http_, "/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(HttpGet(http_, "/other"), HasSubstr("404"));
  std::string metrics = HttpGet(http_, "/metrics");
  EXPECT_THAT(metrics, HasSubstr("tilekv_call_seconds_bucket{call=\"PutValue\""));
  EXPECT_THAT(metrics, HasSubstr("tilekv_calls_total{call=\"PutValue\",code=\"OK\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("tilekv_budget_wait_seconds_count{class=\"client_stream\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("tilekv_objects 1"));
  EXPECT_THAT(metrics, HasSubstr("tilekv_disk_available_bytes"));
}

TEST_F(ServerProcess, GarbageOnThePortsHarmsNobody) {
  Start();
  for (const std::string& address : {grpc_, http_}) {
    std::string garbage(100'000, '\xa5');
    int fd = ConnectTo(address);
    // The server may hang up in the middle: how much it took does not matter.
    [[maybe_unused]] ssize_t sent = send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    close(fd);
  }
  EXPECT_TRUE(Open()->Put("k", "v")->applied);
  EXPECT_THAT(HttpGet(http_, "/readyz"), HasSubstr("200 OK"));
}

TEST_F(ServerProcess, ANodeThatHangsIsNamedAndNotWaitedForAgain) {
  Start();
  ConnectOptions options;
  options.remote.progress_timeout_ms = 400;
  auto connected = Connect("tilekv://" + grpc_, options);
  ASSERT_TRUE(connected.ok()) << connected.status();
  std::unique_ptr<KvStore> store = *std::move(connected);
  std::string content(3'000'000, 'c');
  ASSERT_TRUE(store->Put("k", content)->applied);
  ObjectRead read{
      RefOf(0, AsBytes(content)), 0, {reinterpret_cast<uint8_t*>(content.data()), content.size()}};
  ASSERT_TRUE(store->ReadObjects({&read, 1}).ok());

  kill(pid_, SIGSTOP);
  auto began = std::chrono::steady_clock::now();
  absl::Status hung = store->ReadObjects({&read, 1});
  EXPECT_EQ(GetReason(hung), Reason::kNodeUnavailable) << hung;
  EXPECT_THAT(ErrorText(hung), HasSubstr(grpc_));
  EXPECT_THAT(ErrorText(hung), HasSubstr(read.ref.id.Short()));
  hung = store->Stat("k").status();
  EXPECT_EQ(GetReason(hung), Reason::kNodeUnavailable) << hung;
  EXPECT_THAT(ErrorText(hung), HasSubstr("hangs"));
  // A try after it would take as long again, for as long as retries may.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(kRetryFor_s / 2));
  kill(pid_, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return store->ReadObjects({&read, 1}).ok(); }));
}

TEST_F(ServerProcess, HttpAnswersBesideConnectionsThatSayNothing) {
  Start();
  std::vector<int> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(ConnectTo(http_));
  EXPECT_THAT(HttpGet(http_, "/healthz"), HasSubstr("200 OK"));
  for (int fd : silent) close(fd);
}

TEST_F(ServerProcess, APortThatSpeaksSomethingElseIsNoNode) {
  Start();
  auto store = Connect("tilekv://" + http_);
  EXPECT_EQ(GetReason(store.status()), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(store.status()), HasSubstr(http_));
}

TEST_F(ServerProcess, MistakesAreNamedAndHaveTheirExitCodes) {
  Start({"--max-object-bytes", "1MiB"});
  EXPECT_EQ(Run(AnyPorts(data())), 5);
  EXPECT_THAT(ReadFile(log()), HasSubstr("STORE_LOCKED"));
  EXPECT_THAT(ReadFile(log()), HasSubstr("--store tilekv://" + grpc_));
  std::string other = directory_ / "other";
  EXPECT_EQ(Run({"--data-dir", other, "--listen", grpc_, "--http", "127.0.0.1:0"}), 5);
  EXPECT_THAT(ReadFile(log()), HasSubstr("cannot listen on " + grpc_));
  EXPECT_EQ(Run({"--data-dir", other, "--listen", "127.0.0.1:0", "--http", http_}), 5);
  EXPECT_THAT(ReadFile(log()), HasSubstr("cannot listen on " + http_));
  EXPECT_FALSE(std::filesystem::exists(other)) << "a store was made in vain";
  EXPECT_EQ(Stop(SIGTERM), 0);
  std::vector<std::string> flags = AnyPorts(data());
  flags.insert(flags.end(), {"--max-object-bytes", "2MiB"});
  EXPECT_EQ(Run(flags), 2);
  EXPECT_THAT(ReadFile(log()), HasSubstr("STORE_MISMATCH"));
  EXPECT_EQ(Run({"--data-dir", other, "--memory", "1MiB"}), 2);
  EXPECT_EQ(Run(AnyPorts(log())), 2);
  EXPECT_THAT(ReadFile(log()), HasSubstr("is a file; a store is a directory"));
  EXPECT_EQ(Run({"--data-dir", other, "--listen", "nowhere"}), 2);
  EXPECT_EQ(Run({}), 2);
  Start();  // without the flag it keeps the limit that it has
  EXPECT_EQ(*Open()->MaxObjectBytes(), kMiB);
}

TEST_F(ServerProcess, TakesItsSettingsFromAFileAndShowsThem) {
  std::string config = directory_ / "node.toml";
  std::ofstream(config) << "data-dir = \"" << data().string()
                        << "\"\nlisten = 127.0.0.1:0\nhttp = 127.0.0.1:0\n";
  EXPECT_EQ(Run({"--config", config, "--check-config"}), 0) << ReadFile(log());
  EXPECT_EQ(Run({"--config", config, "--print-config"}), 0);
  EXPECT_THAT(ReadFile(log()), HasSubstr("# " + config + ", line 1\n"));
  EXPECT_EQ(Run({"--config", config, "--check-config", "--memory", "1MiB"}), 2);
  EXPECT_FALSE(std::filesystem::exists(data())) << "checking made a store";
  pid_ = Spawn({"--config", config});
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(data() / "ADDRESS"); }))
      << ReadFile(log());
  EXPECT_EQ(Stop(SIGTERM), 0);
}

}  // namespace
}  // namespace tilekv
