#include "kvstore/model_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameChar(char c) { return IsLetter(c) || IsDigit(c) || c == '.' || c == '_' || c == '-'; }

absl::Status Bad(std::string text) { return MakeError(Reason::kInvalidArgument, std::move(text)); }

constexpr std::string_view kScheme = "tilekv://";

// "HOST", "HOST:PORT", "[::1]:PORT" to "HOST:PORT".
absl::StatusOr<std::string> ParseHost(std::string_view text) {
  size_t colon = text.rfind(':');
  bool bracketed = !text.empty() && text.front() == '[';
  size_t host_end = text.size();
  if (bracketed) {
    size_t close = text.find(']');
    if (close == std::string_view::npos)
      return Bad(fmt::format("'{}' lacks a ']'", Printable(text)));
    host_end = close + 1;
    if (host_end < text.size() && text[host_end] != ':') {
      return Bad(fmt::format("'{}' is not HOST:PORT", Printable(text)));
    }
  } else if (colon != std::string_view::npos) {
    host_end = colon;
  }
  if (host_end == 0) return Bad(fmt::format("'{}' names no host", Printable(text)));
  uint16_t port = kDefaultPort;
  if (host_end < text.size()) {
    std::string_view digits = text.substr(host_end + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port == 0) {
      return Bad(fmt::format("'{}' is not a port of '{}'", Printable(digits), Printable(text)));
    }
  }
  return fmt::format("{}:{}", text.substr(0, host_end), port);
}

absl::StatusOr<StoreUri> ParseHosts(std::string_view text) {
  StoreUri uri{.kind = StoreUri::Kind::kNodes};
  while (true) {
    size_t comma = text.find(',');
    TILEKV_ASSIGN_OR_RETURN(std::string host, ParseHost(text.substr(0, comma)));
    uri.hosts.push_back(std::move(host));
    if (comma == std::string_view::npos) return uri;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

absl::Status CheckName(std::string_view kind, std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Bad(fmt::format("a {} has 1 to {} characters, '{}' has {}", kind, kMaxNameBytes,
                           Printable(name), name.size()));
  }
  if (!std::all_of(name.begin(), name.end(), IsNameChar)) {
    return Bad(fmt::format("{} '{}': only A-Z a-z 0-9 . _ - are allowed", kind, Printable(name)));
  }
  if (name.find("--") != std::string_view::npos || name.find("..") != std::string_view::npos) {
    return Bad(fmt::format("{} '{}': '--' and '..' are not allowed", kind, Printable(name)));
  }
  return absl::OkStatus();
}

absl::Status CheckTag(std::string_view tag) {
  TILEKV_RETURN_IF_ERROR(CheckName("tag", tag));
  if (!IsLetter(tag.front())) return Bad(fmt::format("tag '{}' must begin with a letter", tag));
  if (tag == "latest") return Bad("'latest' is always the newest version and cannot be a tag");
  return absl::OkStatus();
}

absl::StatusOr<VersionSelector> ParseVersion(std::string_view version) {
  VersionSelector selector;
  if (version.empty() || version == "latest") return selector;
  if (IsDigit(version.front())) {
    selector.kind = VersionKind::kNumber;
    auto [end, error] =
        std::from_chars(version.data(), version.data() + version.size(), selector.number);
    if (error != std::errc() || end != version.data() + version.size() || selector.number == 0) {
      return Bad(fmt::format("'{}' is not a version number; a tag begins with a letter",
                             Printable(version)));
    }
    return selector;
  }
  if (version.substr(0, 3) == "b3:") {
    selector.kind = VersionKind::kDigest;
    for (char c : version.substr(3))
      selector.text.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    bool hex = std::all_of(selector.text.begin(), selector.text.end(),
                           [](char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); });
    if (!hex || selector.text.size() < 8 || selector.text.size() > 64) {
      return Bad(
          fmt::format("'{}': a digest is b3: and 8 to 64 hexadecimal digits", Printable(version)));
    }
    return selector;
  }
  TILEKV_RETURN_IF_ERROR(CheckTag(version));
  selector.kind = VersionKind::kTag;
  selector.text = std::string(version);
  return selector;
}

absl::StatusOr<ModelName> ModelName::Parse(std::string_view text) {
  ModelName model;
  std::string_view rest = text;
  size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    model.version = std::string(rest.substr(at + 1));
    if (model.version.empty())
      return Bad(fmt::format("'{}' has nothing after '@'", Printable(text)));
    TILEKV_RETURN_IF_ERROR(ParseVersion(model.version).status());
    rest = rest.substr(0, at);
  }
  size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    model.ns = std::string(rest.substr(0, slash));
    rest.remove_prefix(slash + 1);
  }
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", model.ns));
  TILEKV_RETURN_IF_ERROR(CheckName("model name", rest));
  model.name = std::string(rest);
  return model;
}

std::string ModelName::ToString() const {
  std::string out = ns == kDefaultNamespace ? name : ns + "/" + name;
  if (!version.empty()) out += "@" + version;
  return out;
}

absl::StatusOr<StoreUri> StoreUri::Parse(std::string_view text) {
  if (text.empty()) return Bad("a store is tilekv://HOST[:PORT], file:DIR or DIR; it is empty");
  if (text.substr(0, kScheme.size()) == kScheme) {
    text.remove_prefix(kScheme.size());
    if (!text.empty() && text.back() == '/') text.remove_suffix(1);
    if (text.find('/') != std::string_view::npos) {
      return Bad(
          fmt::format("'{}' names more than a store; write tilekv://HOST[:PORT]", Printable(text)));
    }
    return ParseHosts(text);
  }
  if (text == "memory:") return StoreUri{.kind = Kind::kMemory};
  if (text.substr(0, 5) == "file:") text.remove_prefix(5);
  // file:///data is file:/data, as browsers write it.
  if (text.substr(0, 3) == "///") text.remove_prefix(2);
  size_t scheme = text.find("://");
  if (scheme != std::string_view::npos) {
    return Bad(
        fmt::format("'{}' is not a store: tilekv://HOST[:PORT], file:DIR or DIR", Printable(text)));
  }
  if (text.empty()) return Bad("file: needs a directory");
  return StoreUri{.kind = Kind::kDirectory, .directory = std::string(text)};
}

std::string StoreUri::ToString() const {
  if (kind == Kind::kMemory) return "memory:";
  if (kind == Kind::kDirectory) return "file:" + directory;
  std::string out(kScheme);
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (i > 0) out += ',';
    out += hosts[i];
  }
  return out;
}

absl::StatusOr<QualifiedModel> QualifiedModel::Parse(std::string_view text) {
  QualifiedModel out;
  std::string_view model = text;
  if (text.substr(0, kScheme.size()) == kScheme) {
    std::string_view rest = text.substr(kScheme.size());
    size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      return Bad(fmt::format("'{}' names a store but no model", Printable(text)));
    }
    if (slash > 0) {
      TILEKV_ASSIGN_OR_RETURN(out.store, ParseHosts(rest.substr(0, slash)));
    }
    model = rest.substr(slash + 1);
  } else if (size_t hash = text.rfind('#'); hash != std::string_view::npos) {
    TILEKV_ASSIGN_OR_RETURN(out.store, StoreUri::Parse(text.substr(0, hash)));
    model = text.substr(hash + 1);
  }
  TILEKV_ASSIGN_OR_RETURN(out.model, ModelName::Parse(model));
  return out;
}

}  // namespace tilekv
