#include "tensor_chunking/formats/safetensors_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "tensor_chunking/formats/json_events.h"
#include "tensor_chunking/formats/text_list.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Reason::kInvalidFile, fmt::format(format, std::forward<Args>(args)...));
}

// Takes weight_map and metadata.total_size, each at its level; all else goes by.
class IndexHandler : public JsonHandler {
 public:
  explicit IndexHandler(SafetensorsIndex& index) : index_(index) {}

  absl::Status BeginObject() override {
    if (depth_ == 1 && section_ == Section::kWeightMap) in_map_ = true;
    if (depth_ == 2 && in_map_) return NotAText();
    ++depth_;
    return absl::OkStatus();
  }
  absl::Status EndObject() override {
    --depth_;
    if (depth_ == 1) in_map_ = false;
    return absl::OkStatus();
  }
  absl::Status BeginArray() override {
    TILEKV_RETURN_IF_ERROR(NoObject());
    ++depth_;
    return absl::OkStatus();
  }
  absl::Status EndArray() override {
    --depth_;
    return absl::OkStatus();
  }
  absl::Status Key(std::string_view key) override {
    if (depth_ == 1) {
      if (key == "weight_map" && std::exchange(has_map_, true)) {
        return Invalid("it has two weight_maps");
      }
      section_ = key == "weight_map" ? Section::kWeightMap
                 : key == "metadata" ? Section::kMetadata
                                     : Section::kOther;
    } else if (depth_ == 2) {
      key_ = key;
    }
    return absl::OkStatus();
  }
  absl::Status String(std::string_view value) override {
    if (depth_ < 2) return NoObject();
    if (depth_ == 2 && in_map_) {
      auto [shard, added] = shards_.emplace(value, static_cast<uint32_t>(shards_.size()));
      index_.entries.push_back({index_.names.Copy(key_), shard->second});
    }
    return absl::OkStatus();
  }
  absl::Status Unsigned(uint64_t value) override {
    if (depth_ == 2 && section_ == Section::kMetadata && key_ == "total_size") {
      index_.total_size = value;
    }
    return NoObject();
  }
  absl::Status Other(std::string_view) override { return NoObject(); }

  // Shards in order of name; entries in order of theirs.
  absl::Status Finish() {
    std::vector<uint32_t> place(shards_.size());
    std::vector<std::string> outside;
    for (auto& [name, number] : shards_) {
      place[number] = static_cast<uint32_t>(index_.shards.size());
      if (!CheckRelativePath(name, Reason::kInvalidFile).ok()) {
        outside.push_back(fmt::format("'{}'", Printable(name)));
      }
      index_.shards.push_back(name);
    }
    if (!outside.empty()) {
      return Invalid("it names files outside the model's folder: {}", ListForMessage(outside));
    }
    if (index_.entries.empty()) return Invalid("it has no weight_map that names tensors");
    for (SafetensorsIndex::Entry& entry : index_.entries) entry.shard = place[entry.shard];
    auto by_name = [](const SafetensorsIndex::Entry& a, const SafetensorsIndex::Entry& b) {
      return a.tensor < b.tensor;
    };
    std::sort(index_.entries.begin(), index_.entries.end(), by_name);
    std::vector<std::string> twice;
    for (size_t i = 1; i < index_.entries.size(); ++i) {
      if (index_.entries[i - 1].tensor != index_.entries[i].tensor) continue;
      twice.push_back(fmt::format("'{}'", Printable(index_.entries[i].tensor)));
    }
    if (!twice.empty()) {
      return Invalid("it names a shard for these tensors twice: {}", ListForMessage(twice));
    }
    return absl::OkStatus();
  }

 private:
  enum class Section { kOther, kWeightMap, kMetadata };

  absl::Status NotAText() const {
    return Invalid("weight_map: the shard of '{}' is not a text", Printable(key_));
  }
  // For values that may stand anywhere but as the document, as weight_map and in it.
  absl::Status NoObject() const {
    if (depth_ == 0) return Invalid("it is not a JSON object");
    if (depth_ == 1 && section_ == Section::kWeightMap) return Invalid("weight_map is no object");
    if (depth_ == 2 && in_map_) return NotAText();
    return absl::OkStatus();
  }

  SafetensorsIndex& index_;
  std::map<std::string, uint32_t, std::less<>> shards_;  // in order of appearance
  int depth_ = 0;
  Section section_ = Section::kOther;
  bool in_map_ = false;
  bool has_map_ = false;
  std::string key_;
};

absl::Status ParseInto(std::string_view json, SafetensorsIndex& index) {
  IndexHandler handler(index);
  TILEKV_RETURN_IF_ERROR(ParseJson(json, handler));
  return handler.Finish();
}

// As Python's json.dumps escapes with ensure_ascii.
void AppendAsciiJson(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t length = std::max<size_t>(Utf8CharLength(text), 1);
    auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
    uint32_t code = byte(0);
    if (length > 1) {
      code = byte(0) & (0xFFu >> (length + 1));
      for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3F);
    }
    text.remove_prefix(length);
    constexpr std::pair<uint32_t, const char*> kShort[] = {
        {'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
        {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
    auto found = std::find_if(std::begin(kShort), std::end(kShort),
                              [&](const auto& row) { return row.first == code; });
    if (found != std::end(kShort)) {
      out += found->second;
    } else if (code >= 0x20 && code < 0x7F) {
      out += static_cast<char>(code);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      code -= 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
    }
  }
  out += '"';
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(std::string_view json,
                                                       std::string_view file) {
  SafetensorsIndex index;
  absl::Status status = ParseInto(json, index);
  if (!status.ok()) return WithContext(status, fmt::format("'{}'", Printable(file)));
  return index;
}

std::string BuildSafetensorsIndex(const std::map<std::string_view, std::string_view>& weight_map,
                                  uint64_t total_size) {
  std::string out = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total_size);
  bool first = true;
  for (const auto& [tensor, shard] : weight_map) {
    out += first ? "\n    " : ",\n    ";
    first = false;
    AppendAsciiJson(out, tensor);
    out += ": ";
    AppendAsciiJson(out, shard);
  }
  out += first ? "}\n}\n" : "\n  }\n}\n";
  return out;
}

}  // namespace tilekv
