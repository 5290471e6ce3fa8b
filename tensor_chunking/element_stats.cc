#include "tensor_chunking/element_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kvstore/base/status.h"
#include "tensor_chunking/elements.h"

namespace tilekv {
namespace {

constexpr size_t kBlock = 1'024;
using Values = std::array<long double, kBlock>;

// Elements of any numeric dtype, exactly.
std::span<const long double> Decode(DType dtype, Bytes in, Values& out) {
  const size_t count = in.size() / DTypeBytes(dtype);
  if (FloatFormatOf(dtype) != nullptr) {
    std::array<double, kBlock> values;
    DecodeFloats(dtype, in, std::span(values).first(count));
    std::copy_n(values.begin(), count, out.begin());
  } else {
    std::array<Number, kBlock> numbers;
    DecodeIntegers(dtype, in, std::span(numbers).first(count));
    for (size_t i = 0; i < count; ++i) {
      long double value = numbers[i].mantissa;
      out[i] = numbers[i].negative ? -value : value;
    }
  }
  return {out.data(), count};
}

// Mean and squares in two passes: a sum of squares alone loses what is far from zero.
ElementStats StatsOf(std::span<const long double> values, long double least_normal) {
  ElementStats stats;
  stats.count = values.size();
  stats.least = std::numeric_limits<long double>::infinity();
  stats.greatest = -stats.least;
  long double sum = 0;
  for (long double value : values) {
    if (std::isnan(value)) {
      ++stats.nans;
      continue;
    }
    if (std::isinf(value)) {
      ++stats.infinities;
      continue;
    }
    long double magnitude = std::fabs(value);
    if (magnitude == 0) ++stats.zeros;
    if (magnitude != 0 && magnitude < least_normal) ++stats.subnormals;
    stats.least = std::min(stats.least, value);
    stats.greatest = std::max(stats.greatest, value);
    sum += value;
  }
  if (stats.finite() == 0) return stats;
  stats.mean = sum / stats.finite();
  for (long double value : values) {
    if (std::isfinite(value)) stats.squares += (value - stats.mean) * (value - stats.mean);
  }
  return stats;
}

void Compare(long double older, long double newer, ElementChanges& changes) {
  if (std::isnan(newer)) {
    if (!std::isnan(older)) ++changes.new_nans;
    return;
  }
  if (std::isinf(newer)) {
    if (!std::isinf(older)) ++changes.new_infinities;
    return;
  }
  if (!std::isfinite(older)) return;
  long double distance = std::fabs(newer - older);
  changes.largest_absolute = std::max(changes.largest_absolute, distance);
  if (older != 0) {
    changes.largest_relative = std::max(changes.largest_relative, distance / std::fabs(older));
  }
}

}  // namespace

long double ElementStats::deviation() const {
  return finite() == 0 ? 0 : std::sqrt(squares / finite());
}

void ElementStats::Add(DType dtype, Bytes elements) {
  const FloatFormat* format = FloatFormatOf(dtype);
  const long double least_normal = format == nullptr ? 0 : format->least_normal();
  const size_t step = kBlock * DTypeBytes(dtype);
  Values values;
  for (size_t at = 0; at < elements.size(); at += step) {
    Bytes piece = elements.subspan(at, std::min(step, elements.size() - at));
    Merge(StatsOf(Decode(dtype, piece, values), least_normal));
  }
}

void ElementStats::Merge(const ElementStats& other) {
  if (other.finite() > 0) {
    if (finite() == 0) {
      least = other.least;
      greatest = other.greatest;
      mean = other.mean;
      squares = other.squares;
    } else {
      const long double mine = finite(), theirs = other.finite(), all = mine + theirs;
      const long double between = other.mean - mean;
      least = std::min(least, other.least);
      greatest = std::max(greatest, other.greatest);
      mean += between * (theirs / all);
      squares += other.squares + between * between * (mine * (theirs / all));
    }
  }
  count += other.count;
  zeros += other.zeros;
  subnormals += other.subnormals;
  nans += other.nans;
  infinities += other.infinities;
}

void ElementChanges::Add(DType dtype, Bytes older, Bytes newer) {
  TILEKV_CHECK(older.size() == newer.size());
  const size_t element = DTypeBytes(dtype);
  const size_t step = kBlock * element;
  count += older.size() / element;
  Values before;
  Values after;
  for (size_t at = 0; at < older.size(); at += step) {
    const size_t length = std::min(step, older.size() - at);
    const Bytes a = older.subspan(at, length);
    const Bytes b = newer.subspan(at, length);
    if (std::memcmp(a.data(), b.data(), length) == 0) continue;
    const std::span<const long double> old_values = Decode(dtype, a, before);
    const std::span<const long double> new_values = Decode(dtype, b, after);
    for (size_t i = 0; i < old_values.size(); ++i) {
      if (std::memcmp(a.data() + i * element, b.data() + i * element, element) == 0) continue;
      ++changed;
      Compare(old_values[i], new_values[i], *this);
    }
  }
}

void ElementChanges::Merge(const ElementChanges& other) {
  count += other.count;
  changed += other.changed;
  largest_absolute = std::max(largest_absolute, other.largest_absolute);
  largest_relative = std::max(largest_relative, other.largest_relative);
  new_nans += other.new_nans;
  new_infinities += other.new_infinities;
}

}  // namespace tilekv
