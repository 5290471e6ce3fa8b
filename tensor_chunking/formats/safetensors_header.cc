#include "tensor_chunking/formats/safetensors_header.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/file_kinds.h"
#include "tensor_chunking/formats/json_events.h"
#include "tensor_chunking/shape.h"

namespace tilekv {
namespace {

// The shortest JSON of a tensor: `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`.
constexpr uint64_t kLeastTensorJsonBytes = 50;

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Reason::kInvalidFile, fmt::format(format, std::forward<Args>(args)...));
}

// Builds the table while the JSON goes by. Errors lack the file's name, which the caller adds.
class HeaderHandler : public JsonHandler {
 public:
  explicit HeaderHandler(SafetensorsHeader& header) : header_(header) {}

  absl::Status BeginObject() override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return absl::OkStatus();
      case Place::kTopValue:
        place_ = Place::kTensor;
        seen_ = 0;
        return absl::OkStatus();
      case Place::kMetadataStart:
        place_ = Place::kMetadata;
        return absl::OkStatus();
      default:
        return Unexpected("an object");
    }
  }

  absl::Status EndObject() override {
    if (place_ != Place::kTensor) {
      place_ = place_ == Place::kMetadata ? Place::kTop : Place::kEnd;
      return absl::OkStatus();
    }
    place_ = Place::kTop;
    return FinishTensor();
  }

  absl::Status BeginArray() override {
    if (place_ == Place::kShape) {
      place_ = Place::kShapeItems;
      shape_.clear();
    } else if (place_ == Place::kOffsets) {
      place_ = Place::kOffsetItems;
      offsets_.clear();
    } else {
      return Unexpected("a list");
    }
    return absl::OkStatus();
  }

  absl::Status EndArray() override {
    if (place_ == Place::kOffsetItems && offsets_.size() != 2) {
      return Invalid("tensor '{}': data_offsets has {} numbers, not 2", Printable(name_),
                     offsets_.size());
    }
    place_ = Place::kTensor;
    return absl::OkStatus();
  }

  absl::Status Key(std::string_view key) override {
    switch (place_) {
      case Place::kTop:
        return TopKey(key);
      case Place::kMetadata:
        metadata_key_ = key;
        place_ = Place::kMetadataValue;
        return absl::OkStatus();
      default:
        return FieldKey(key);
    }
  }

  absl::Status String(std::string_view value) override {
    if (place_ == Place::kDtype) {
      absl::StatusOr<DType> dtype = ParseDType(value);
      if (!dtype.ok()) {
        return Invalid("tensor '{}': {}", Printable(name_), std::string(dtype.status().message()));
      }
      dtype_ = *dtype;
      place_ = Place::kTensor;
      return absl::OkStatus();
    }
    if (place_ == Place::kMetadataValue) {
      place_ = Place::kMetadata;
      return AddMetadata(value);
    }
    return Unexpected("a text");
  }

  absl::Status Unsigned(uint64_t value) override {
    if (place_ == Place::kShapeItems) {
      if (shape_.size() == kMaxRank) {
        return Invalid("tensor '{}' has more than {} dimensions", Printable(name_), kMaxRank);
      }
      shape_.push_back(value);
    } else if (place_ == Place::kOffsetItems) {
      if (offsets_.size() < 3) offsets_.push_back(value);
    } else {
      return Unexpected("a number");
    }
    return absl::OkStatus();
  }

  absl::Status Other(std::string_view text) override {
    if (place_ == Place::kShapeItems || place_ == Place::kOffsetItems) {
      return Invalid("tensor '{}': {} holds {}, which is not an integer from 0 to 2^64 - 1",
                     Printable(name_), place_ == Place::kShapeItems ? "its shape" : "data_offsets",
                     Printable(text));
    }
    return Unexpected(text);
  }

 private:
  enum class Place {
    kStart,
    kTop,       // among tensors and `__metadata__`
    kTopValue,  // a tensor's object must follow
    kTensor,    // among its fields
    kDtype,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kMetadataStart,
    kMetadata,
    kMetadataValue,
    kEnd,
  };
  enum Field { kHasDtype = 1, kHasShape = 2, kHasOffsets = 4 };

  absl::Status Unexpected(std::string_view what) const {
    switch (place_) {
      case Place::kStart:
        return Invalid("the header is {}, not an object of tensors", Printable(what));
      case Place::kMetadataStart:
        return Invalid("__metadata__ is {}, not an object of texts", Printable(what));
      case Place::kMetadataValue:
        return Invalid(
            "__metadata__: '{}' is {}, not a text (and no tensor can have the name __metadata__)",
            Printable(metadata_key_), Printable(what));
      case Place::kTopValue:
        return Invalid("tensor '{}' is {}, not an object", Printable(name_), Printable(what));
      case Place::kDtype:
        return Invalid("tensor '{}': dtype is {}, not a text", Printable(name_), Printable(what));
      case Place::kShape:
      case Place::kOffsets:
        return Invalid("tensor '{}': {} is {}, not a list", Printable(name_),
                       place_ == Place::kShape ? "shape" : "data_offsets", Printable(what));
      default:
        return Invalid("tensor '{}': {} where an integer belongs", Printable(name_),
                       Printable(what));
    }
  }

  absl::Status TopKey(std::string_view key) {
    if (key == "__metadata__") {
      if (header_.metadata.has_value()) return Invalid("__metadata__ is there twice");
      header_.metadata.emplace();
      place_ = Place::kMetadataStart;
      return absl::OkStatus();
    }
    if (key.size() > kMaxTensorNameBytes) {
      return Invalid("the tensor name '{}' has {} bytes; at most {} are taken", Printable(key),
                     FormatCount(key.size()), FormatCount(kMaxTensorNameBytes));
    }
    if (key.find('\0') != std::string_view::npos) {
      return Invalid("the tensor name '{}' holds a NUL", Printable(key));
    }
    name_ = key;
    place_ = Place::kTopValue;
    return absl::OkStatus();
  }

  absl::Status FieldKey(std::string_view key) {
    Field field;
    if (key == "dtype") {
      field = kHasDtype;
      place_ = Place::kDtype;
    } else if (key == "shape") {
      field = kHasShape;
      place_ = Place::kShape;
    } else if (key == "data_offsets") {
      field = kHasOffsets;
      place_ = Place::kOffsets;
    } else {
      return Invalid("tensor '{}' has the unknown field '{}'", Printable(name_), Printable(key));
    }
    if ((seen_ & field) != 0) {
      return Invalid("tensor '{}' has the field '{}' twice", Printable(name_), key);
    }
    seen_ |= field;
    return absl::OkStatus();
  }

  absl::Status AddMetadata(std::string_view value) {
    SafetensorsMetadata& metadata = *header_.metadata;
    if (metadata.size() == kMaxMetadataKeys) {
      return Invalid("__metadata__ has more than {} keys", FormatCount(kMaxMetadataKeys));
    }
    if (!metadata.emplace(metadata_key_, value).second) {
      return Invalid("__metadata__ has the key '{}' twice", Printable(metadata_key_));
    }
    return absl::OkStatus();
  }

  absl::Status FinishTensor() {
    constexpr std::pair<Field, const char*> kFields[] = {
        {kHasDtype, "dtype"}, {kHasShape, "shape"}, {kHasOffsets, "data_offsets"}};
    for (const auto& [field, field_name] : kFields) {
      if ((seen_ & field) == 0) {
        return Invalid("tensor '{}' has no {}", Printable(name_), field_name);
      }
    }
    uint64_t begin = offsets_[0];
    uint64_t end = offsets_[1];
    if (begin > end) {
      return Invalid("tensor '{}': its data_offsets [{}, {}] are reversed", Printable(name_), begin,
                     end);
    }
    absl::StatusOr<uint64_t> bytes = TensorBytes(dtype_, shape_, Reason::kInvalidFile);
    if (!bytes.ok()) {
      return WithContext(bytes.status(), fmt::format("tensor '{}'", Printable(name_)));
    }
    if (end - begin != *bytes) {
      return Invalid("tensor '{}' has {} bytes of data, but {} of shape {} takes {}",
                     Printable(name_), FormatCount(end - begin), DTypeName(dtype_),
                     FormatShape(shape_), FormatCount(*bytes));
    }
    TensorInfo info;
    info.name = name_;
    info.dtype = dtype_;
    info.shape = shape_;
    info.begin = begin;
    info.end = end;
    header_.tensors.Add(info);
    return absl::OkStatus();
  }

  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::string name_;
  std::string metadata_key_;
  unsigned seen_ = 0;  // Fields of the present tensor
  DType dtype_{};
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> offsets_;
};

absl::Status CheckNames(const SafetensorsHeader& header) {
  for (size_t i = 1; i < header.by_name.size(); ++i) {
    std::string_view name = header.tensors[header.by_name[i]].name;
    if (header.tensors[header.by_name[i - 1]].name == name) {
      return Invalid("tensor '{}' is there twice", Printable(name));
    }
  }
  return absl::OkStatus();
}

// The ranges follow one another from 0 on; where they end.
absl::StatusOr<uint64_t> CheckRanges(const TensorTable& tensors) {
  uint64_t at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo tensor = tensors[i];
    if (tensor.begin == at) {
      at = tensor.end;
      continue;
    }
    if (tensor.begin > at) {
      return Invalid("{} bytes before the data of tensor '{}' (offset {}) belong to no tensor",
                     FormatCount(tensor.begin - at), Printable(tensor.name), tensor.begin);
    }
    TensorInfo before = tensors[i - 1];
    if (before.begin == tensor.begin && before.end == tensor.end) {
      return Invalid(
          "tensors '{}' and '{}' name the same bytes [{}, {}]; tied weights are saved under one "
          "name",
          Printable(before.name), Printable(tensor.name), tensor.begin, tensor.end);
    }
    return Invalid("the data of tensors '{}' [{}, {}] and '{}' [{}, {}] overlap",
                   Printable(before.name), before.begin, before.end, Printable(tensor.name),
                   tensor.begin, tensor.end);
  }
  return at;
}

absl::Status CheckEnd(uint64_t end, uint64_t data_bytes) {
  if (end > data_bytes) {
    return Invalid("the file is cut short: {} bytes of data are missing of {}",
                   FormatCount(end - data_bytes), FormatCount(end));
  }
  if (end < data_bytes) {
    return Invalid("{} bytes at the end of the file belong to no tensor",
                   FormatCount(data_bytes - end));
  }
  return absl::OkStatus();
}

absl::Status ParseInto(std::string_view json, std::optional<uint64_t> file_size,
                       SafetensorsHeader& header) {
  if (json.empty() || json.front() != '{') {
    return Invalid("the header does not begin with '{{', but with '{}'",
                   Printable(json.substr(0, kSafetensorsLengthBytes)));
  }
  header.header_bytes = json.size();
  header.data_start = kSafetensorsLengthBytes + json.size();
  if (file_size.has_value() && header.data_start > *file_size) {
    return Invalid("the header of {} bytes does not fit into the file's {}",
                   FormatCount(json.size()), FormatCount(*file_size));
  }
  // Rows in one piece: growing a vector would hold the old one beside the new.
  uint64_t braces = static_cast<uint64_t>(std::count(json.begin(), json.end(), '{'));
  header.tensors.Reserve(std::min(braces, json.size() / kLeastTensorJsonBytes + 1));
  HeaderHandler handler(header);
  if (absl::Status parsed = ParseJson(json, handler); !parsed.ok()) {
    return WithContext(parsed, "header");
  }
  header.tensors.SortByRange();
  header.by_name = header.tensors.IndexByName();
  TILEKV_RETURN_IF_ERROR(CheckNames(header));
  TILEKV_ASSIGN_OR_RETURN(uint64_t end, CheckRanges(header.tensors));
  return file_size.has_value() ? CheckEnd(end, *file_size - header.data_start) : absl::OkStatus();
}

absl::StatusOr<SafetensorsHeader> ParseHeader(std::string_view json,
                                              std::optional<uint64_t> file_size,
                                              std::string_view file) {
  SafetensorsHeader header;
  absl::Status status = ParseInto(json, file_size, header);
  if (!status.ok()) return WithContext(status, fmt::format("'{}'", Printable(file)));
  return header;
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsHeaderLength(Bytes start, uint64_t file_size,
                                                 std::string_view file) {
  auto fail = [&](std::string text) {
    return MakeError(Reason::kInvalidFile, fmt::format("'{}': {}", Printable(file), text));
  };
  std::string_view stranger = DescribeStranger(AsText(start));
  if (!stranger.empty()) return fail(fmt::format("not a safetensors file, but {}", stranger));
  if (start.size() < kSafetensorsLengthBytes) {
    return fail(fmt::format("{} bytes are too few for a safetensors file", file_size));
  }
  uint64_t length = LoadLe<uint64_t>(start.data());
  if (length > file_size - kSafetensorsLengthBytes) {
    return fail(
        fmt::format("its first 8 bytes say that {} bytes of header follow, but the file has "
                    "{}: cut short, or not a safetensors file",
                    FormatCount(length), FormatCount(file_size)));
  }
  if (length > kMaxSafetensorsHeaderBytes) {
    return fail(fmt::format("its header has {} bytes; at most {} are taken", FormatCount(length),
                            FormatCount(kMaxSafetensorsHeaderBytes)));
  }
  return length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t file_size,
                                                         std::string_view file) {
  return ParseHeader(json, file_size, file);
}

absl::StatusOr<SafetensorsHeader> ParseKeptSafetensorsHeader(std::string_view json,
                                                             std::string_view file) {
  return ParseHeader(json, std::nullopt, file);
}

}  // namespace tilekv
