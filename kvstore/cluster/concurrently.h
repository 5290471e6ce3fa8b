// Several pieces of blocking work at once, waited for.
#pragma once

#include <functional>
#include <vector>

#include "kvstore/base/executor.h"

namespace tilekv {

// Runs all of `work`, in the executor and in the caller, and returns when all has ended. The caller
// does what nobody else has begun: so this ends, one after another at worst, however busy the
// executor is, and may be used within itself.
void RunConcurrently(Executor& executor, std::vector<std::function<void()>> work);

}  // namespace tilekv
