#include "tests/support/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "fmt/format.h"

namespace tilekv {
namespace {

constexpr int kStarts = 5;  // another process may have taken a port meanwhile
constexpr unsigned kFirstPort = 15'000, kEndPort = 32'000;
constexpr auto kPatience = std::chrono::seconds(60);

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Below those that the system gives to outgoing connections: one of them could take the port of a
// member while it is killed.
uint16_t FreePort() {
  static std::mt19937 random{std::random_device{}()};
  for (;;) {
    auto port = static_cast<uint16_t>(kFirstPort + random() % (kEndPort - kFirstPort));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(port);
    bool good = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    if (fd >= 0) close(fd);
    if (good) return port;
  }
}

bool Listens(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  bool good = fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  return good;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What it writes goes to the file. It ends with this process.
pid_t Start(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(fd);
  return pid;
}

void EndProcess(pid_t& pid) {
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = 0;
}

}  // namespace

int RunProgram(const std::vector<std::string>& words, std::string* output) {
  std::string path = (std::filesystem::temp_directory_path() / "tilekv-run-XXXXXX").string();
  int fd = mkstemp(path.data());
  if (fd < 0) return -1;
  close(fd);
  int status = 0;
  bool ended = waitpid(Start(words, path), &status, 0) > 0 && WIFEXITED(status);
  if (output != nullptr) *output = ReadFile(path);
  std::filesystem::remove(path);
  return ended ? WEXITSTATUS(status) : -1;
}

EtcdProcess::EtcdProcess(EtcdProcessOptions options) : options_(std::move(options)) {
  folder_ = (std::filesystem::temp_directory_path() / "tilekv-etcd-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr) abort();
  members_.resize(static_cast<size_t>(options_.members));
  for (int start = 0; start < kStarts; ++start) {
    if (StartAll()) return;
    for (Member& member : members_) EndProcess(member.pid);
  }
  for (size_t i = 0; i < members_.size(); ++i) fmt::print(stderr, "{}\n", Log(i));
  abort();
}

EtcdProcess::~EtcdProcess() {
  for (Member& member : members_) EndProcess(member.pid);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> EtcdProcess::endpoints() const {
  std::vector<std::string> all;
  for (const Member& member : members_) {
    all.push_back(
        fmt::format("{}://127.0.0.1:{}", options_.tls ? "https" : "http", member.client_port));
  }
  return all;
}

bool EtcdProcess::StartAll() {
  for (size_t i = 0; i < members_.size(); ++i) {
    std::filesystem::remove_all(fmt::format("{}/{}", folder_, i));
    members_[i].client_port = FreePort();
    members_[i].peer_port = FreePort();
  }
  for (size_t i = 0; i < members_.size(); ++i) Spawn(i);
  for (Member& member : members_) {
    if (!WaitUntilItListens(member)) return false;
  }
  return true;
}

void EtcdProcess::Spawn(size_t index) {
  Member& member = members_[index];
  std::string cluster;
  for (size_t i = 0; i < members_.size(); ++i) {
    cluster +=
        fmt::format("{}m{}=http://127.0.0.1:{}", i == 0 ? "" : ",", i, members_[i].peer_port);
  }
  std::string client_url =
      fmt::format("{}://127.0.0.1:{}", options_.tls ? "https" : "http", member.client_port);
  std::string peer_url = fmt::format("http://127.0.0.1:{}", member.peer_port);
  std::vector<std::string> words = {"etcd",
                                    "--name",
                                    fmt::format("m{}", index),
                                    "--data-dir",
                                    fmt::format("{}/{}", folder_, index),
                                    "--listen-client-urls",
                                    client_url,
                                    "--advertise-client-urls",
                                    client_url,
                                    "--listen-peer-urls",
                                    peer_url,
                                    "--initial-advertise-peer-urls",
                                    peer_url,
                                    "--initial-cluster",
                                    cluster,
                                    "--heartbeat-interval",
                                    std::to_string(options_.heartbeat_ms),
                                    "--election-timeout",
                                    std::to_string(10 * options_.heartbeat_ms),
                                    "--logger",
                                    "zap",
                                    "--log-outputs",
                                    "stderr",
                                    "--log-level",
                                    "warn"};
  words.insert(words.end(), options_.flags.begin(), options_.flags.end());
  member.pid = Start(words, fmt::format("{}/{}.log", folder_, index));
}

bool EtcdProcess::WaitUntilItListens(Member& member) {
  auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!Listens(member.client_port)) {
    if (waitpid(member.pid, nullptr, WNOHANG) != 0) {
      member.pid = 0;
      return false;
    }
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string EtcdProcess::Log(size_t member) const {
  return ReadFile(fmt::format("{}/{}.log", folder_, member));
}

void EtcdProcess::Kill(size_t member) { EndProcess(members_[member].pid); }

void EtcdProcess::Restart(size_t member) {
  Kill(member);
  Spawn(member);
  if (WaitUntilItListens(members_[member])) return;
  fmt::print(stderr, "{}\n", Log(member));
  abort();
}

void EtcdProcess::Pause(size_t member) {
  kill(members_[member].pid, SIGSTOP);
  waitpid(members_[member].pid, nullptr, WUNTRACED);  // all its threads stand still
}

void EtcdProcess::Continue(size_t member) { kill(members_[member].pid, SIGCONT); }

void EtcdProcess::Wipe(size_t member) {
  std::filesystem::remove_all(fmt::format("{}/{}", folder_, member));
}

int EtcdProcess::Ctl(const std::vector<std::string>& words, std::string* output) {
  std::string all;
  for (const std::string& endpoint : endpoints()) all += (all.empty() ? "" : ",") + endpoint;
  std::vector<std::string> command = {"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", all};
  command.insert(command.end(), words.begin(), words.end());
  return RunProgram(command, output);
}

}  // namespace tilekv
