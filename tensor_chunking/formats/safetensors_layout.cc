#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "tensor_chunking/formats/safetensors_header.h"
#include "tensor_chunking/shape.h"

namespace tilekv {
namespace {

using TensorAt = absl::FunctionRef<TensorView(size_t)>;
// Takes the next piece of the header; false ends the writing.
using Emit = absl::FunctionRef<bool(std::string_view)>;

// By dtype in descending order of the format's list, then by name.
bool ReferenceOrder(const TensorView& a, const TensorView& b) {
  int a_order = DTypeWriterOrder(a.dtype);
  int b_order = DTypeWriterOrder(b.dtype);
  return a_order != b_order ? a_order > b_order : a.name < b.name;
}

absl::Status Unfit(std::string_view name, std::string_view why) {
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("tensor '{}' cannot be in a safetensors file: {}", Printable(name), why));
}

// A JSON text as serde_json writes it: control characters, quote and backslash escaped, no other.
void AppendJsonText(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void AppendNumber(std::string& out, uint64_t value) {
  char digits[20];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void AppendTensor(std::string& out, const TensorView& tensor, uint64_t begin, uint64_t end) {
  AppendJsonText(out, tensor.name);
  out += ":{\"dtype\":\"";
  out += DTypeName(tensor.dtype);
  out += "\",\"shape\":[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) out += ',';
    AppendNumber(out, tensor.shape[i]);
  }
  out += "],\"data_offsets\":[";
  AppendNumber(out, begin);
  out += ',';
  AppendNumber(out, end);
  out += "]}";
}

void AppendMetadata(std::string& out, const SafetensorsMetadata& metadata) {
  out += "\"__metadata__\":{";
  bool first = true;
  for (const auto& [key, value] : metadata) {
    if (!first) out += ',';
    first = false;
    AppendJsonText(out, key);
    out += ':';
    AppendJsonText(out, value);
  }
  out += '}';
}

struct Placed {
  TensorView tensor;
  uint64_t begin;
  uint64_t end;
};

// The header piece by piece, so that a comparison needs no second header in memory.
void EmitHeader(size_t count, absl::FunctionRef<Placed(size_t)> placed,
                const std::optional<SafetensorsMetadata>& metadata, Emit emit) {
  uint64_t total = 0;
  std::string piece = "{";
  auto flush = [&] {
    total += piece.size();
    bool more = emit(piece);
    piece.clear();
    return more;
  };
  if (metadata.has_value()) {
    AppendMetadata(piece, *metadata);
    if (count > 0) piece += ',';
  }
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) piece += ',';
    Placed next = placed(i);
    AppendTensor(piece, next.tensor, next.begin, next.end);
    if (!flush()) return;
  }
  piece += '}';
  if (!flush()) return;
  piece.assign(RoundUp(total, kSafetensorsHeaderAlignBytes) - total, ' ');
  flush();
}

}  // namespace

absl::StatusOr<SafetensorsLayout> LayOutSafetensors(const std::vector<TensorView>& tensors) {
  std::vector<uint32_t> by_name(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 0; i < by_name.size(); ++i) {
    std::string_view name = tensors[by_name[i]].name;
    if (i > 0 && tensors[by_name[i - 1]].name == name)
      return Unfit(name, "its name is there twice");
    if (name == "__metadata__") return Unfit(name, "the format keeps this name for itself");
    if (!IsValidUtf8(name)) return Unfit(name, "its name is not UTF-8");
    if (name.find('\0') != std::string_view::npos) return Unfit(name, "its name holds a NUL");
  }
  std::vector<uint32_t> order = std::move(by_name);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return DTypeWriterOrder(tensors[a].dtype) > DTypeWriterOrder(tensors[b].dtype);
  });
  SafetensorsLayout layout;
  layout.slots.reserve(order.size());
  for (uint32_t index : order) {
    absl::StatusOr<uint64_t> bytes = TensorBytes(tensors[index].dtype, tensors[index].shape);
    if (!bytes.ok()) return Unfit(tensors[index].name, std::string(bytes.status().message()));
    uint64_t begin = layout.data_bytes;
    if (!CheckedAdd(begin, *bytes, layout.data_bytes)) {
      return Unfit(tensors[index].name, "the file would be larger than 2^64 bytes");
    }
    layout.slots.push_back({.tensor = index, .begin = begin, .end = layout.data_bytes});
  }
  return layout;
}

std::string BuildSafetensorsHeader(const std::vector<TensorView>& tensors,
                                   const SafetensorsLayout& layout,
                                   const std::optional<SafetensorsMetadata>& metadata) {
  std::string header;
  EmitHeader(
      layout.slots.size(),
      [&](size_t i) {
        const SafetensorsLayout::Slot& slot = layout.slots[i];
        return Placed{tensors[slot.tensor], slot.begin, slot.end};
      },
      metadata,
      [&](std::string_view piece) {
        header += piece;
        return true;
      });
  return header;
}

bool IsReferenceForm(std::string_view json, const SafetensorsHeader& header) {
  const TensorTable& tensors = header.tensors;
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (!ReferenceOrder(tensors[i - 1], tensors[i])) return false;
  }
  bool equal = true;
  EmitHeader(
      tensors.size(),
      [&](size_t i) {
        TensorInfo tensor = tensors[i];
        return Placed{tensor, tensor.begin, tensor.end};
      },
      header.metadata,
      [&](std::string_view piece) {
        equal = json.starts_with(piece);
        if (equal) json.remove_prefix(piece.size());
        return equal;
      });
  return equal && json.empty();
}

}  // namespace tilekv
