// Programs of ours raise how many files they may have open; a library never does.
#pragma once

namespace tilekv {

// Raises the process's limit of open files as far as it may by itself: the usual 1,024 are few for
// a server, which holds a file for each read and put. For the start of main. Where that fails the
// limit stays as it was.
void RaiseOpenFileLimit();

}  // namespace tilekv
