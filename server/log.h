// Structured log lines on standard error: one event a line, as key=value pairs.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tilekv {

enum class LogLevel { kInfo, kWarning, kError };

// For the start of main.
void SetUpLog();
// time=... level=... event=EVENT key=value ...; values with blanks or quotes are quoted.
// Thread-safe.
void LogEvent(LogLevel level, std::string_view event,
              std::initializer_list<std::pair<std::string_view, std::string>> fields = {});

}  // namespace tilekv
