// Ctrl-C, SIGTERM and a closed terminal (SIGHUP, unless it is ignored): the first asks running work
// to stop, the second ends the process at once.
#pragma once

#include <memory>

#include "kvstore/base/call_context.h"

namespace tilekv {

// The token that the handler cancels; made once, lives for ever. Installs the handlers at the first
// call, ignores SIGPIPE, and lets signals interrupt blocking reads of standard input.
std::shared_ptr<CancelToken> InstallInterruptHandlers();

}  // namespace tilekv
