#include "tensor_chunking/slice.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

std::string_view Trim(std::string_view text) {
  const std::string_view blank = " \t\n\r";
  size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

absl::Status BadItem(std::string_view item) {
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("slice item '{}' is not an index (5, -1), a range (start:stop:step), "
                  "'...' or 'None'",
                  Printable(item)));
}

// An integer with an optional sign; beyond 64 bits the nearest. False for anything else.
bool ParseInteger(std::string_view text, int64_t& out) {
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return false;
  }
  const char* end = text.data() + text.size();
  auto [next, error] = std::from_chars(text.data(), end, out);
  if (next != end || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) out = text[0] == '-' ? kLeast : kGreatest;
  return true;
}

absl::StatusOr<SliceItem> ParseRange(std::string_view text) {
  std::optional<int64_t> parts[3];
  std::string_view rest = text;
  for (size_t i = 0;; ++i) {
    size_t colon = rest.find(':');
    std::string_view part = Trim(rest.substr(0, colon));
    if (i == 3) return BadItem(text);
    if (!part.empty() && part != "None") {
      int64_t value = 0;
      if (!ParseInteger(part, value)) return BadItem(text);
      parts[i] = value;
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return SliceItem::Range(parts[0], parts[1], parts[2]);
}

absl::StatusOr<SliceItem> ParseItem(std::string_view text) {
  if (text == "...") return SliceItem::Ellipsis();
  if (text == "None" || text == "newaxis" || text == "np.newaxis") return SliceItem::NewAxis();
  if (text.find(':') != std::string_view::npos) return ParseRange(text);
  int64_t index = 0;
  if (!ParseInteger(text, index)) return BadItem(text);
  return SliceItem::Index(index);
}

// Python's slice.indices(), whose rules NumPy follows.
absl::StatusOr<SliceDim> ResolveRange(const SliceItem& item, size_t dimension, uint64_t size) {
  int64_t step = item.step.value_or(1);
  if (step == 0) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the slice step of axis {} is zero", dimension));
  }
  step = std::max(step, -kGreatest);
  const int64_t length = static_cast<int64_t>(size);
  // Where a bound beyond either end comes to stand.
  const int64_t low = step < 0 ? -1 : 0;
  const int64_t high = step < 0 ? length - 1 : length;
  auto bound = [&](const std::optional<int64_t>& value, int64_t otherwise) {
    if (!value.has_value()) return otherwise;
    int64_t at = *value < 0 ? *value + length : *value;
    return std::clamp(at, low, high);
  };
  const int64_t start = bound(item.start, step < 0 ? high : low);
  const int64_t stop = bound(item.stop, step < 0 ? low : high);
  SliceDim dim{0, step, 0, -1};
  if (step > 0 && start < stop) dim.count = static_cast<uint64_t>((stop - start - 1) / step + 1);
  if (step < 0 && stop < start) dim.count = static_cast<uint64_t>((start - stop - 1) / -step + 1);
  if (dim.count > 0) dim.start = static_cast<uint64_t>(start);
  if (dim.count <= 1) dim.step = 1;
  return dim;
}

absl::StatusOr<SliceDim> ResolveIndex(int64_t index, size_t dimension, uint64_t size) {
  const int64_t length = static_cast<int64_t>(size);
  if (index < -length || index >= length) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("index {} is out of range for axis {} of size {}", index, dimension, size));
  }
  return SliceDim{static_cast<uint64_t>(index < 0 ? index + length : index), 1, 1, -1};
}

// How many dimensions the items name, and that they can be resolved at all.
absl::StatusOr<size_t> CountConsumed(std::span<const SliceItem> items, ShapeSpan shape) {
  size_t consumed = 0;
  size_t ellipses = 0;
  size_t new_axes = 0;
  size_t indices = 0;
  for (const SliceItem& item : items) {
    consumed += item.kind == SliceItem::Kind::kIndex || item.kind == SliceItem::Kind::kRange;
    ellipses += item.kind == SliceItem::Kind::kEllipsis;
    new_axes += item.kind == SliceItem::Kind::kNewAxis;
    indices += item.kind == SliceItem::Kind::kIndex;
  }
  if (ellipses > 1) {
    return MakeError(Reason::kInvalidArgument, "a slice has at most one '...'");
  }
  if (consumed > shape.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} indices are too many for shape {} of {} dimensions", consumed,
                                 FormatShape(shape), shape.size()));
  }
  if (shape.size() - indices + new_axes > kMaxRank) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the slice's result has {} dimensions; at most {} are supported",
                                 shape.size() - indices + new_axes, kMaxRank));
  }
  return consumed;
}

// Takes dimensions of a tensor one by one.
class Resolver {
 public:
  explicit Resolver(ShapeSpan shape) : shape_(shape) { out_.dims.reserve(shape.size()); }

  size_t remaining() const { return shape_.size() - out_.dims.size(); }
  void AddNewAxis() { out_.result_shape.push_back(1); }
  absl::Status Add(const SliceItem& item) {
    size_t dimension = out_.dims.size();
    uint64_t size = shape_[dimension];
    if (item.kind == SliceItem::Kind::kIndex) {
      TILEKV_ASSIGN_OR_RETURN(SliceDim dim, ResolveIndex(item.index, dimension, size));
      out_.dims.push_back(dim);
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(SliceDim dim, ResolveRange(item, dimension, size));
    dim.axis = static_cast<int>(out_.result_shape.size());
    out_.result_shape.push_back(dim.count);
    out_.dims.push_back(dim);
    return absl::OkStatus();
  }
  absl::Status AddWhole(size_t dimensions) {
    for (size_t i = 0; i < dimensions; ++i) {
      TILEKV_RETURN_IF_ERROR(Add(SliceItem{}));
    }
    return absl::OkStatus();
  }
  ResolvedSlice Take() { return std::move(out_); }

 private:
  ShapeSpan shape_;
  ResolvedSlice out_;
};

}  // namespace

absl::StatusOr<std::vector<SliceItem>> ParseSlice(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest.find_first_of("[]") != std::string_view::npos) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("slice '{}': a list in brackets is not taken; write what stands "
                                 "between the brackets of a slice alone, such as 0:10, ::2",
                                 Printable(text)));
  }
  std::vector<SliceItem> items;
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    TILEKV_ASSIGN_OR_RETURN(SliceItem item, ParseItem(Trim(rest.substr(0, comma))));
    items.push_back(item);
    rest = comma == std::string_view::npos ? std::string_view() : Trim(rest.substr(comma + 1));
  }
  return items;
}

absl::StatusOr<ResolvedSlice> ResolveSlice(std::span<const SliceItem> items, ShapeSpan shape) {
  // Sizes below 2^61, so that bounds are far from wrapping.
  TILEKV_RETURN_IF_ERROR(TensorBytes(DType::kU8, shape).status());
  TILEKV_ASSIGN_OR_RETURN(size_t consumed, CountConsumed(items, shape));
  Resolver resolver(shape);
  for (const SliceItem& item : items) {
    switch (item.kind) {
      case SliceItem::Kind::kNewAxis:
        resolver.AddNewAxis();
        break;
      case SliceItem::Kind::kEllipsis:
        TILEKV_RETURN_IF_ERROR(resolver.AddWhole(shape.size() - consumed));
        break;
      default:
        TILEKV_RETURN_IF_ERROR(resolver.Add(item));
    }
  }
  TILEKV_RETURN_IF_ERROR(resolver.AddWhole(resolver.remaining()));
  return resolver.Take();
}

absl::StatusOr<ResolvedSlice> ResolveSlice(std::string_view text, ShapeSpan shape) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<SliceItem> items, ParseSlice(text));
  return ResolveSlice(items, shape);
}

ResolvedSlice WholeSlice(ShapeSpan shape) {
  ResolvedSlice whole;
  for (uint64_t size : shape) {
    whole.dims.push_back({0, 1, size, static_cast<int>(whole.result_shape.size())});
    whole.result_shape.push_back(size);
  }
  return whole;
}

absl::StatusOr<ResolvedSlice> ShardSlice(ShapeSpan shape, uint64_t rank, uint64_t world,
                                         int64_t axis) {
  const int64_t dimensions = static_cast<int64_t>(shape.size());
  if (axis < -dimensions || axis >= dimensions) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("shard axis {} is not an axis of shape {}", axis, FormatShape(shape)));
  }
  if (rank >= world) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("shard rank {} is not below the world of {}", rank, world));
  }
  ResolvedSlice slice = WholeSlice(shape);
  SliceDim& dim = slice.dims[static_cast<size_t>(axis < 0 ? axis + dimensions : axis)];
  const uint64_t each = dim.count / world;
  const uint64_t larger = dim.count % world;
  dim.start = rank * each + std::min(rank, larger);
  dim.count = each + (rank < larger ? 1 : 0);
  slice.result_shape[static_cast<size_t>(dim.axis)] = dim.count;
  return slice;
}

}  // namespace tilekv
