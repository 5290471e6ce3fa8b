// The program, apart from main: a command line in, an exit code out.
#pragma once

#include <string>
#include <vector>

#include "client/cli/context.h"

namespace tilekv {

// `words` without the program's name; `default_store` is TILEKV_STORE. Errors go to
// surroundings.err: as text, or as one line of JSON where -o json or jsonl was asked for.
int RunCli(const std::vector<std::string>& words, const std::string& default_store,
           const Surroundings& surroundings);

}  // namespace tilekv
