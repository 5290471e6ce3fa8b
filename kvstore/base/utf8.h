// UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace tilekv {

// Bytes of the first character, 0 when `text` is empty or does not begin with a valid one.
size_t Utf8CharLength(std::string_view text);
bool IsValidUtf8(std::string_view text);
// The greatest length up to `limit` at which `text` can be cut without splitting a character.
size_t Utf8Prefix(std::string_view text, size_t limit);

}  // namespace tilekv
