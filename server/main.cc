// tilekv-server: one node.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include "kvstore/base/allocator.h"
#include "kvstore/base/open_file_limit.h"
#include "kvstore/base/reasons.h"
#include "kvstore/base/status.h"
#include "server/log.h"
#include "server/node_process.h"
#include "server/node_server.h"
#include "server/server_settings.h"

namespace tilekv {
namespace {

// How long calls in progress may take to end after SIGTERM.
constexpr int64_t kDrainMs = 10'000;

int Fail(const absl::Status& status) {
  LogEvent(LogLevel::kError, "not_started", {{"error", ErrorText(status)}});
  return ReasonExitCode(GetReason(status));
}

// False: one of the signals came.
bool WaitUnlessSignalled(const sigset_t& signals, int64_t ms) {
  const timespec time{.tv_sec = ms / 1'000, .tv_nsec = ms % 1'000 * 1'000'000};
  return sigtimedwait(&signals, nullptr, &time) < 0;
}

int Serve(NodeProcessOptions options, const sigset_t& signals) {
  options.wait = [&signals](int64_t ms) { return WaitUnlessSignalled(signals, ms); };
  absl::StatusOr<std::unique_ptr<NodeProcess>> node = NodeProcess::Start(options);
  if (GetReason(node.status()) == Reason::kCancelled) {
    LogEvent(LogLevel::kInfo, "stopped");
    return 0;
  }
  if (!node.ok()) return Fail(node.status());
  int signal = 0;
  sigwait(&signals, &signal);
  LogEvent(LogLevel::kInfo, "stopping",
           {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"},
            {"drain_ms", fmt::format("{}", kDrainMs)}});
  // What was acknowledged is durable: a second signal may end the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*node)->Stop(kDrainMs);
  node->reset();
  LogEvent(LogLevel::kInfo, "stopped");
  return 0;
}

// Before the log has anything to tell: what was typed is wrong.
int FailUsage(const absl::Status& status) {
  fmt::print(stderr, "tilekv-server: {}\n", ErrorText(status));
  return ReasonExitCode(GetReason(status));
}

int Main(int argc, char** argv) {
  absl::StatusOr<ServerCommand> command = ParseServerCommand(
      {argv + 1, argv + argc}, [](const char* name) -> const char* { return std::getenv(name); });
  if (!command.ok()) return FailUsage(command.status());
  if (command->action == ServerAction::kShowText) {
    fmt::print("{}", command->text);
    return 0;
  }
  if (command->action == ServerAction::kPrintConfig) {
    fmt::print("{}", ConfigText(*command));
    return 0;
  }
  if (absl::Status checked = CheckServerCommand(*command); !checked.ok()) return FailUsage(checked);
  if (command->action == ServerAction::kCheckConfig) return 0;

  // Blocked before any other thread is there, so that only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Serve(command->options, signals);
}

}  // namespace
}  // namespace tilekv

int main(int argc, char** argv) {
  tilekv::TuneAllocator();
  tilekv::RaiseOpenFileLimit();
  tilekv::SetUpLog();
  tilekv::SetGrpcLog([](bool error, const std::string& text) {
    tilekv::LogEvent(error ? tilekv::LogLevel::kError : tilekv::LogLevel::kInfo, "grpc",
                     {{"text", text}});
  });
  return tilekv::Main(argc, argv);
}
