// How much memory there is for this process, and what a client takes of it where nobody says.
#pragma once

#include <cstdint>
#include <string>

namespace tilekv {

// The least of the machine's memory and the limits of the process's cgroup and those above it, of
// version 1 and 2. Files are read below `root`, which is "" but for tests. 0 where nothing can be
// told.
uint64_t MachineMemoryBytes(const std::string& root = "");

// A kClientMemoryShare-th of `machine_bytes`, at least kLeastMemoryBytes and at most
// kGreatestDefaultClientMemoryBytes; the least where nothing is known of the machine (0).
uint64_t ClientMemoryFor(uint64_t machine_bytes);
// For this machine; found once.
uint64_t DefaultClientMemoryBytes();

}  // namespace tilekv
