// tilekv-server: one node.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "kvstore/base/allocator.h"
#include "kvstore/base/open_file_limit.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "server/log.h"
#include "server/node_process.h"
#include "server/node_server.h"

namespace tilekv {
namespace {

// How long calls in progress may take to end after SIGTERM.
constexpr int64_t kDrainMs = 10'000;

// The same as the command line's: docs/cli.md.
int ExitCode(const absl::Status& status) {
  switch (GetReason(status)) {
    case Reason::kInvalidArgument:
      return 2;
    case Reason::kNotFound:
      return 3;
    case Reason::kStoreMismatch:
      return 4;
    case Reason::kStoreLocked:
    case Reason::kNodeUnavailable:
      return 5;
    case Reason::kDataLoss:
      return 6;
    case Reason::kStoreFull:
      return 7;
    default:
      return 1;
  }
}

int Fail(const absl::Status& status) {
  LogEvent(LogLevel::kError, "not_started", {{"error", ErrorText(status)}});
  return ExitCode(status);
}

// Takes the text of a flag apart with `parse`; CLI11 reports what it says.
template <typename T>
CLI::Option* AddParsed(CLI::App& app, const char* flag, T& value,
                       absl::StatusOr<T> (*parse)(std::string_view), const char* help) {
  auto take = [&value, parse](const std::string& text) {
    absl::StatusOr<T> parsed = parse(text);
    if (!parsed.ok()) {
      throw CLI::ValidationError(
          std::string(parsed.status().message().data(), parsed.status().message().size()));
    }
    value = *std::move(parsed);
  };
  return app.add_option_function<std::string>(flag, take, help);
}

int Serve(const NodeProcessOptions& options, const sigset_t& signals) {
  absl::StatusOr<std::unique_ptr<NodeProcess>> node = NodeProcess::Start(options);
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

int Main(int argc, char** argv) {
  NodeProcessOptions options;
  uint64_t max_object_bytes = kDefaultMaxObjectBytes;
  CLI::App app(
      "tilekv-server: keeps large tensors and plain values in a directory and serves them");
  app.add_option("--data-dir", options.data_dir, "Directory of the store; made when it is missing")
      ->required();
  AddParsed(app, "--listen", options.listen, &ListenAddress::Parse,
            "Where to serve gRPC; port 0: any free one")
      ->type_name("HOST:PORT")
      ->default_str(options.listen.ToString());
  CLI::Option* limit =
      AddParsed(app, "--max-object-bytes", max_object_bytes, &ParseSize,
                "Largest object that a new store takes. An existing store keeps its own; another "
                "value is an error")
          ->type_name("SIZE")
          ->default_str("256MiB");
  AddParsed(app, "--memory", options.memory_bytes, &ParseSize,
            "Memory for buffers, index and streams; 64MiB at least")
      ->type_name("SIZE")
      ->default_str("1GiB");
  AddParsed(app, "--http", options.http, &ListenAddress::Parse,
            "Where to serve /metrics, /healthz and /readyz; port 0: any free one")
      ->type_name("HOST:PORT")
      ->default_str(options.http.ToString());
  app.set_version_flag("--version", std::string("tilekv-server ") + TILEKV_VERSION);
  app.footer("The addresses are logged and written to DIR/ADDRESS. SIGTERM and SIGINT stop it.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (limit->count() > 0) options.max_object_bytes = max_object_bytes;

  // Blocked before any other thread is there, so that only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Serve(options, signals);
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
