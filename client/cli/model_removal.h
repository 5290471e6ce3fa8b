// tilekv model rm and undelete: their part of the table of commands.
#pragma once

#include <vector>

#include "client/cli/command_table.h"

namespace tilekv {

std::vector<CommandSpec> ModelRemovalSpecs();

}  // namespace tilekv
