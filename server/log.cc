#include "server/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

std::string Quoted(std::string_view value) {
  bool plain = !value.empty();
  for (char c : value) {
    plain = plain && static_cast<unsigned char>(c) > ' ' && c != '"' && c != '=' && c != '\\';
  }
  if (plain) return std::string(value);
  std::string out = "\"";
  for (char c : value) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out + '"';
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void SetUpLog() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("tilekv", sink);
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

void LogEvent(LogLevel level, std::string_view event,
              std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  std::string line = "event=";
  line += event;
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    line += Quoted(value);
  }
  spdlog::default_logger_raw()->log(SpdlogLevel(level), spdlog::string_view_t(line));
}

}  // namespace tilekv
