// Help texts, made from the table of commands.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/command_table.h"

namespace tilekv {

std::string ProgramHelp();
std::string NounHelp(std::string_view noun);
std::string CommandHelp(const CommandSpec& command);
// Words broken at spaces into lines of at most `width`, each after `indent` spaces; line breaks in
// the text stay.
std::string WrapText(std::string_view text, size_t indent, size_t width);

}  // namespace tilekv
