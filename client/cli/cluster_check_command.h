// tilekv cluster check.
#pragma once

#include "client/cli/command_table.h"

namespace tilekv {

CommandSpec ClusterCheckSpec();

}  // namespace tilekv
