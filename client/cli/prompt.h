// Asking before something is destroyed.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tilekv {

struct PromptOptions {
  bool yes = false;          // -y: neither plan nor question
  bool interactive = false;  // somebody can answer
};

// Shows `plan` and asks. OK: go on. CANCELLED: the answer was not yes. INVALID_ARGUMENT: nobody
// could be asked and -y was not given. The plan and the question go to `err`, the answer comes from
// `in`.
absl::Status AskToProceed(std::string_view plan, const PromptOptions& options, std::FILE* in,
                          std::FILE* err);

}  // namespace tilekv
