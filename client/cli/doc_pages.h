// The pages of documentation that come from tables of the program. A test compares them with the
// files under docs/.
#pragma once

#include <string>

namespace tilekv {

// docs/cli.md, of the commands, the topics and the options.
std::string CliPage();
// docs/errors.md, of the reasons.
std::string ErrorsPage();

}  // namespace tilekv
