#include "tensor_chunking/formats/npy.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/file_kinds.h"
#include "tensor_chunking/formats/python_dict.h"

namespace tilekv {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kAlignBytes = 64;       // of the data, as numpy.save has it
constexpr size_t kGrowableDimension = 21;  // digits kept free so that the first dimension can grow
constexpr uint64_t kVersion1Bytes = 10;    // before the dict
constexpr uint64_t kVersion2Bytes = 12;

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Reason::kInvalidFile, fmt::format(format, std::forward<Args>(args)...));
}

// "<f4" taken apart.
struct Descr {
  char order;
  char kind;
  uint64_t bytes;  // of one element
};

// What elements of this kind are, where they are no numbers; empty where they are.
std::string_view NotNumbers(char kind) {
  switch (kind) {
    case 'U':
    case 'S':
    case 'a':
      return "text";
    case 'M':
      return "dates";
    case 'm':
      return "durations";
    default:
      return {};
  }
}

// To the dtype that loses least.
std::string_view NearestNumpyType(char kind) {
  switch (kind) {
    case 'c':
      return "complex64";
    case 'f':
      return "float64";
    default:
      return {};
  }
}

absl::StatusOr<Descr> ParseDescr(std::string_view text) {
  Descr descr{};
  if (text.size() < 2 || std::string_view("<>|").find(text[0]) == std::string_view::npos) {
    return Invalid("its type '{}' has no byte order", Printable(text));
  }
  descr.order = text[0];
  descr.kind = text[1];
  if (descr.kind == 'O') {
    return Invalid(
        "it holds Python objects, which are a pickle and never unpickled here. Load it where you "
        "trust it and save plain numbers: numpy.save(PATH, numpy.array(numpy.load(PATH, "
        "allow_pickle=True).tolist(), dtype=numpy.float32))");
  }
  if (std::string_view what = NotNumbers(descr.kind); !what.empty()) {
    return Invalid("it holds {} (NumPy's '{}'), which are no numbers and have no dtype here", what,
                   Printable(text));
  }
  std::string_view digits = text.substr(2);
  bool plain = !digits.empty() && digits.size() <= 4;
  for (char c : digits) {
    plain = plain && std::isdigit(static_cast<unsigned char>(c)) != 0;
    descr.bytes = descr.bytes * 10 + static_cast<uint64_t>(c - '0');
  }
  if (!plain) {
    return Invalid("its type '{}' is no plain number; save what you need of it as numbers",
                   Printable(text));
  }
  return descr;
}

bool IsRaw(const Descr& descr) {
  return descr.kind == 'V' || (descr.kind == 'f' && descr.bytes == 1);
}

// The dtype of the elements, by the file and what the caller says of it.
absl::StatusOr<DType> ElementType(std::string_view text, const Descr& descr,
                                  std::optional<DType> given) {
  if (IsRaw(descr)) {
    if (!given.has_value()) {
      return Invalid(
          "its elements are {} raw bytes each ('{}'), as NumPy writes types that it does not know: "
          "say which dtype it is (BF16 for bfloat16)",
          descr.bytes, Printable(text));
    }
    if (DTypeBytes(*given) != descr.bytes) {
      return Invalid("its elements are {} raw bytes each ('{}'), but {} has {} bits", descr.bytes,
                     Printable(text), DTypeName(*given), DTypeBits(*given));
    }
    return *given;
  }
  if (descr.order == '|' && descr.bytes != 1) {
    return Invalid("its type '{}' has no byte order", Printable(text));
  }
  absl::StatusOr<DType> found =
      DTypeFromNumpy(fmt::format("{}{}{}", descr.bytes == 1 ? '|' : '<', descr.kind, descr.bytes));
  if (!found.ok()) {
    std::string_view nearest = NearestNumpyType(descr.kind);
    if (nearest.empty()) return Invalid("its type '{}' has no dtype here", Printable(text));
    return Invalid(
        "its type '{}' has no dtype here; convert it, with less precision: numpy.save(PATH, "
        "numpy.load(PATH).astype(numpy.{}))",
        Printable(text), nearest);
  }
  if (!given.has_value() || *given == *found) return *found;
  bool integer = descr.kind == 'u' || descr.kind == 'i';
  if (integer && DTypeBytes(*given) == descr.bytes) return *given;
  return Invalid("it holds {}, not {} as was said", DTypeName(*found), DTypeName(*given));
}

bool OrderMatters(const Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), [](uint64_t size) { return size != 1; }) > 1 &&
         std::find(shape.begin(), shape.end(), uint64_t{0}) == shape.end();
}

absl::StatusOr<NpyHeader> Parse(Bytes preamble, uint64_t file_size, std::optional<DType> given) {
  uint64_t dict_at = preamble[6] == 1 ? kVersion1Bytes : kVersion2Bytes;
  TILEKV_ASSIGN_OR_RETURN(NpyDict dict, ParseNpyDict(AsText(preamble.subspan(dict_at))));
  if (dict.structured) {
    return Invalid(
        "it is a structured array; save its fields one by one: for name in array.dtype.names: "
        "numpy.save(name + '.npy', array[name])");
  }
  TILEKV_ASSIGN_OR_RETURN(Descr descr, ParseDescr(dict.descr));
  NpyHeader header;
  TILEKV_ASSIGN_OR_RETURN(header.dtype, ElementType(dict.descr, descr, given));
  header.shape = std::move(dict.shape);
  header.fortran_order = dict.fortran_order && OrderMatters(header.shape);
  header.big_endian = descr.order == '>' && descr.bytes > 1;
  header.data_start = preamble.size();
  TILEKV_ASSIGN_OR_RETURN(header.data_bytes,
                          TensorBytes(header.dtype, header.shape, Reason::kInvalidFile));
  uint64_t present = file_size - header.data_start;
  if (present != header.data_bytes) {
    return Invalid("{} of shape {} takes {} bytes, but {} follow the header: {}",
                   DTypeName(header.dtype), FormatShape(header.shape),
                   FormatCount(header.data_bytes), FormatCount(present),
                   present < header.data_bytes ? "the file is cut short"
                                               : "one array a file is taken, nothing behind it");
  }
  return header;
}

std::string RawDescr(DType dtype) { return DTypeBytes(dtype) == 1 ? "|V1" : "<V2"; }

}  // namespace

absl::StatusOr<uint64_t> NpyDataStart(Bytes start, uint64_t file_size, std::string_view file) {
  auto fail = [&](std::string text) {
    return MakeError(Reason::kInvalidFile, fmt::format("'{}': {}", Printable(file), text));
  };
  if (!AsText(start).starts_with(kMagic)) {
    std::string_view stranger = DescribeStranger(AsText(start));
    return fail(stranger.empty() ? "not a .npy file: it does not begin with \\x93NUMPY"
                                 : fmt::format("not a .npy file, but {}", stranger));
  }
  if (start.size() < kVersion1Bytes) return fail("cut short within its first 10 bytes");
  uint8_t major = start[6];
  if (major < 1 || major > 3 || start[7] != 0) {
    return fail(fmt::format("version {}.{} of the .npy format is not known", major, start[7]));
  }
  uint64_t dict_at = major == 1 ? kVersion1Bytes : kVersion2Bytes;
  if (start.size() < dict_at) return fail("cut short within its first 12 bytes");
  uint64_t length = major == 1 ? LoadLe<uint16_t>(&start[8]) : LoadLe<uint32_t>(&start[8]);
  if (length > kMaxNpyHeaderBytes) {
    return fail(fmt::format("its header has {} bytes; at most {} are taken", FormatCount(length),
                            FormatCount(kMaxNpyHeaderBytes)));
  }
  if (length > file_size - dict_at) {
    return fail(
        fmt::format("a header of {} bytes should follow, but the file has {} in all: it "
                    "is cut short",
                    FormatCount(length), FormatCount(file_size)));
  }
  return dict_at + length;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(Bytes preamble, uint64_t file_size, std::string_view file,
                                         std::optional<DType> dtype) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t data_start, NpyDataStart(preamble, file_size, file));
  TILEKV_CHECK(data_start == preamble.size());
  absl::StatusOr<NpyHeader> header = Parse(preamble, file_size, dtype);
  if (!header.ok()) return WithContext(header.status(), fmt::format("'{}'", Printable(file)));
  return header;
}

absl::StatusOr<std::string> BuildNpyHeader(DType dtype, ShapeSpan shape) {
  if (IsSubByte(dtype)) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{} has {} bits, which a .npy file cannot hold; write .safetensors",
                    DTypeName(dtype), DTypeBits(dtype)));
  }
  if (absl::StatusOr<uint64_t> bytes = TensorBytes(dtype, shape); !bytes.ok()) {
    return MakeError(Reason::kInvalidArgument, std::string(bytes.status().message()));
  }
  std::string_view numpy = DTypeNumpy(dtype);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (",
                                 numpy.empty() ? RawDescr(dtype) : std::string(numpy));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) dict += ' ';
    dict += fmt::format("{}", shape[i]);
    if (i + 1 < shape.size() || shape.size() == 1) dict += ',';
  }
  dict += "), }";
  if (!shape.empty()) {
    dict.append(kGrowableDimension - fmt::format("{}", shape[0]).size(), ' ');
  }
  auto padded = [&](uint64_t prefix) {
    return RoundUp(prefix + dict.size() + 1, kAlignBytes) - prefix;
  };
  bool short_form = padded(kVersion1Bytes) <= 0xFFFF;
  uint64_t length = padded(short_form ? kVersion1Bytes : kVersion2Bytes);
  dict.resize(length - 1, ' ');
  std::string header(kMagic);
  header += short_form ? '\x01' : '\x02';
  header += '\0';
  if (short_form) {
    AppendLe<uint16_t>(header, static_cast<uint16_t>(length));
  } else {
    AppendLe<uint32_t>(header, static_cast<uint32_t>(length));
  }
  return header + dict + '\n';
}

}  // namespace tilekv
