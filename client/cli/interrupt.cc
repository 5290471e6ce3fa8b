#include "client/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "client/cli/exit_code.h"

namespace tilekv {
namespace {

// What the handler may touch: a lock-free flag behind a plain pointer.
CancelToken* g_token = nullptr;

extern "C" void OnInterrupt(int) {
  if (g_token->cancelled()) _exit(kExitInterrupted);
  g_token->Cancel();
}

}  // namespace

std::shared_ptr<CancelToken> InstallInterruptHandlers() {
  static const auto* token = [] {
    auto* made = new std::shared_ptr<CancelToken>(std::make_shared<CancelToken>());
    g_token = made->get();
    struct sigaction action {};
    action.sa_handler = OnInterrupt;  // without SA_RESTART
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    // A terminal that was closed; who started this under nohup wants it to go on.
    struct sigaction hangup {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
      sigaction(SIGHUP, &action, nullptr);
    }
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, nullptr);
    return made;
  }();
  return *token;
}

}  // namespace tilekv
