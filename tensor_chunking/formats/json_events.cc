#include "tensor_chunking/formats/json_events.h"

#include <exception>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "nlohmann/json.hpp"

namespace tilekv {
namespace {

constexpr size_t kExcerptBytes = 24;

absl::Status SyntaxError(std::string_view text, size_t position) {
  size_t at = 0;
  while (at < text.size()) {
    size_t length = Utf8CharLength(text.substr(at));
    if (length == 0) {
      return MakeError(Reason::kInvalidFile, fmt::format("not UTF-8 at byte {}", at));
    }
    at += length;
  }
  // The parser counts the character that it stumbled over.
  size_t wrong = position == 0 ? 0 : position - 1;
  if (wrong >= text.size()) {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("not valid JSON: it ends early, after byte {}", text.size()));
  }
  return MakeError(Reason::kInvalidFile, fmt::format("not valid JSON at byte {}: '{}'", wrong,
                                                     Printable(text.substr(wrong, kExcerptBytes))));
}

// nlohmann's SAX interface on one side, JsonHandler on the other.
class Adapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  Adapter(std::string_view text, JsonHandler& handler) : text_(text), handler_(handler) {}

  bool null() override { return Take(handler_.Other("null")); }
  bool boolean(bool value) override { return Take(handler_.Other(value ? "true" : "false")); }
  bool number_integer(int64_t value) override {
    return Take(handler_.Other(value == 0 ? "-0" : fmt::format("{}", value)));
  }
  bool number_unsigned(uint64_t value) override { return Take(handler_.Unsigned(value)); }
  bool number_float(double, const std::string& written) override {
    return Take(handler_.Other(written));
  }
  bool string(std::string& value) override { return Take(handler_.String(value)); }
  bool binary(nlohmann::json::binary_t&) override { return Take(handler_.Other("binary")); }
  bool start_object(size_t) override { return Deeper() && Take(handler_.BeginObject()); }
  bool key(std::string& key) override { return Take(handler_.Key(key)); }
  bool end_object() override {
    --depth_;
    return Take(handler_.EndObject());
  }
  bool start_array(size_t) override { return Deeper() && Take(handler_.BeginArray()); }
  bool end_array() override {
    --depth_;
    return Take(handler_.EndArray());
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status_ = SyntaxError(text_, position);
    return false;
  }

  absl::Status TakeStatus() { return std::move(status_); }

 private:
  bool Take(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool Deeper() {
    if (++depth_ <= kMaxJsonDepth) return true;
    status_ = MakeError(Reason::kInvalidFile,
                        fmt::format("JSON nested more than {} levels deep", kMaxJsonDepth));
    return false;
  }

  const std::string_view text_;
  JsonHandler& handler_;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status ParseJson(std::string_view text, JsonHandler& handler) {
  // The parser takes a NUL byte for the end of the text and skips a byte order mark.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return MakeError(Reason::kInvalidFile, fmt::format("a NUL byte at byte {}", nul));
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return MakeError(Reason::kInvalidFile, "it begins with a byte order mark, which JSON forbids");
  }
  Adapter adapter(text, handler);
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &adapter)) return absl::OkStatus();
  } catch (const std::exception& error) {
    return MakeError(Reason::kInvalidFile, fmt::format("JSON could not be read: {}", error.what()));
  }
  return adapter.TakeStatus();
}

}  // namespace tilekv
