// Programs of ours choose how their allocator behaves; a library never does.
#pragma once

namespace tilekv {

// Tells malloc to keep memory that was freed: on a virtual machine touching fresh pages costs more
// than copying into them. For the start of main, before other threads run. Does nothing where the C
// library is not glibc.
void TuneAllocator();

}  // namespace tilekv
