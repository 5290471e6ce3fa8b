#include "tensor_chunking/formats/python_dict.h"

#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<NpyDict> Run() {
    TILEKV_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      TILEKV_RETURN_IF_ERROR(Member());
      if (dict_.structured) return dict_;
      if (Take(',')) continue;
      TILEKV_RETURN_IF_ERROR(Expect('}'));
      break;
    }
    SkipSpace();
    if (at_ != text_.size()) return Wrong("nothing but white space after the dict");
    if (!has_descr_ || !has_order_ || !has_shape_) {
      return MakeError(Reason::kInvalidFile,
                       "its header lacks one of 'descr', 'fortran_order' and 'shape'");
    }
    return dict_;
  }

 private:
  absl::Status Wrong(std::string_view wanted) const {
    constexpr size_t kExcerptBytes = 24;
    return MakeError(Reason::kInvalidFile,
                     fmt::format("its header should have {} at byte {}, but has '{}'", wanted, at_,
                                 Printable(text_.substr(at_, kExcerptBytes))));
  }
  void SkipSpace() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) { return Take(c) ? absl::OkStatus() : Wrong(fmt::format("'{}'", c)); }

  absl::Status Member() {
    TILEKV_ASSIGN_OR_RETURN(std::string key, Text());
    bool* seen = key == "descr"           ? &has_descr_
                 : key == "fortran_order" ? &has_order_
                 : key == "shape"         ? &has_shape_
                                          : nullptr;
    if (seen == nullptr || *seen) {
      return MakeError(Reason::kInvalidFile,
                       fmt::format("its header has the key '{}' {}", Printable(key),
                                   seen == nullptr ? "too many" : "twice"));
    }
    *seen = true;
    TILEKV_RETURN_IF_ERROR(Expect(':'));
    if (seen == &has_descr_) return DescrValue();
    return seen == &has_order_ ? BoolValue() : ShapeValue();
  }

  absl::StatusOr<std::string> Text() {
    SkipSpace();
    char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Wrong("a text");
    size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return Wrong("a text with an end");
    std::string_view inner = text_.substr(at_ + 1, end - at_ - 1);
    if (inner.find('\\') != inner.npos) return Wrong("a text without escapes");
    at_ = end + 1;
    return std::string(inner);
  }

  absl::Status DescrValue() {
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
      dict_.structured = true;
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(dict_.descr, Text());
    return absl::OkStatus();
  }

  absl::Status BoolValue() {
    SkipSpace();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        dict_.fortran_order = value;
        return absl::OkStatus();
      }
    }
    return Wrong("True or False");
  }

  // (), (1,), (1, 2) or (1, 2,).
  absl::Status ShapeValue() {
    TILEKV_RETURN_IF_ERROR(Expect('('));
    bool comma = true;
    while (!Take(')')) {
      if (!comma) return Wrong("',' or ')'");
      if (dict_.shape.size() == kMaxRank) {
        return MakeError(Reason::kInvalidFile,
                         fmt::format("it has more than {} dimensions", kMaxRank));
      }
      TILEKV_RETURN_IF_ERROR(Dimension());
      comma = Take(',');
    }
    if (dict_.shape.size() == 1 && !comma) return Wrong("a tuple, not a number in parentheses,");
    return absl::OkStatus();
  }

  absl::Status Dimension() {
    SkipSpace();
    uint64_t value = 0;
    const char* begin = text_.data() + at_;
    auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return Wrong("an integer from 0 to 2^64 - 1");
    at_ += static_cast<size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    dict_.shape.push_back(value);
    return absl::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  NpyDict dict_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

}  // namespace

absl::StatusOr<NpyDict> ParseNpyDict(std::string_view text) { return Parser(text).Run(); }

}  // namespace tilekv
