// Scripts that complete `tilekv` in bash, zsh and fish, made from the table of commands. They stand
// alone: nothing is run while somebody types, and no other package is needed.
//
// Commands, their options, values of options that are one of few words, and files where a command
// takes one are completed. Pure.
#pragma once

#include <string>

namespace tilekv {

std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

}  // namespace tilekv
