#include "tensor_chunking/formats/npy.h"

#include <cstring>
#include <numeric>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/golden_files.h"
#include "tensor_chunking/formats/npy_content.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<NpyHeader> Parse(const std::string& file, std::optional<DType> dtype = {}) {
  auto start = NpyDataStart(AsBytes(file), file.size(), "a.npy");
  if (!start.ok()) return start.status();
  return ParseNpyHeader(AsBytes(file).first(*start), file.size(), "a.npy", dtype);
}

std::string ErrorOf(const std::string& file, std::optional<DType> dtype = {}) {
  absl::Status status = Parse(file, dtype).status();
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}

// A file of version 1 with this dict and `data_bytes` zeros.
std::string File(std::string_view dict, size_t data_bytes) {
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  AppendLe<uint16_t>(file, static_cast<uint16_t>(dict.size()));
  return file + std::string(dict) + std::string(data_bytes, '\0');
}
std::string Typed(std::string_view descr, size_t data_bytes) {
  return File(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}\n", descr),
              data_bytes);
}

absl::Status ReadFrom(const std::string& file, uint64_t offset, MutableBytes out) {
  if (offset + out.size() > file.size()) return MakeError(Reason::kInternal, "past the end");
  std::memcpy(out.data(), file.data() + offset, out.size());
  return absl::OkStatus();
}

std::vector<uint8_t> Content(const NpyHeader& header, const std::string& file, uint64_t offset,
                             uint64_t bytes) {
  std::vector<uint8_t> out(bytes, 0xEE);
  absl::Status status = ReadNpyContent(
      header, [&](uint64_t at, MutableBytes to) { return ReadFrom(file, at, to); }, offset, out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(Npy, ReadsWhatNumPySaves) {
  auto header = Parse(golden::FromHex(golden::kNpy2x3));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->dtype, DType::kF32);
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  EXPECT_FALSE(header->fortran_order);
  EXPECT_FALSE(header->big_endian);
  EXPECT_EQ(header->data_start, 128u);
  EXPECT_EQ(header->data_bytes, 24u);
  EXPECT_TRUE(Parse(golden::FromHex(golden::kNpyScalar))->shape.empty());
  EXPECT_THAT(Parse(golden::FromHex(golden::kNpyEmpty))->shape, ElementsAre(0, 5));
}

TEST(Npy, ReadsVersionsTwoAndThree) {
  for (const char* hex : {golden::kNpyVersion2, golden::kNpyVersion3}) {
    auto header = Parse(golden::FromHex(hex));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_THAT(header->shape, ElementsAre(3));
  }
}

TEST(Npy, WritesTheBytesThatNumPyWrites) {
  auto preamble_of = [](const char* hex) {
    std::string file = golden::FromHex(hex);
    return file.substr(0, *NpyDataStart(AsBytes(file), file.size(), "a"));
  };
  EXPECT_EQ(*BuildNpyHeader(DType::kF32, Shape{2, 3}), preamble_of(golden::kNpy2x3));
  EXPECT_EQ(*BuildNpyHeader(DType::kBool, Shape{}), preamble_of(golden::kNpyScalar));
  EXPECT_EQ(*BuildNpyHeader(DType::kI64, Shape{0, 5}), preamble_of(golden::kNpyEmpty));
  EXPECT_EQ(*BuildNpyHeader(DType::kBF16, Shape{2}), preamble_of(golden::kNpyBfloat16));
}

TEST(Npy, EveryWholeByteDtypeComesBackAsItself) {
  for (DType dtype : AllDTypes()) {
    const Shape shape = {3, 2};
    auto header = BuildNpyHeader(dtype, shape);
    if (IsSubByte(dtype)) {
      EXPECT_EQ(GetReason(header.status()), Reason::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->size() % 64, 0u);
    auto parsed = Parse(*header + std::string(6 * DTypeBytes(dtype), '\0'), dtype);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->dtype, dtype);
    EXPECT_EQ(parsed->shape, shape);
  }
}

TEST(Npy, SixtyFourLongDimensionsFit) {
  Shape shape(64, 1);
  auto header = BuildNpyHeader(DType::kU8, shape);
  EXPECT_EQ(Parse(*header + "x")->shape, shape);
}

TEST(Npy, FortranOrderKeepsTheLogicalShapeAndBigEndianIsTold) {
  auto header = Parse(golden::FromHex(golden::kNpyFortranBig));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT(header->shape, ElementsAre(2, 3, 4));
  EXPECT_TRUE(header->fortran_order);
  EXPECT_TRUE(header->big_endian);
  EXPECT_EQ(header->dtype, DType::kU16);
}

TEST(Npy, FortranOrderOfOneDimensionIsNoOrder) {
  auto header = Parse(File("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2, 1), }", 8));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_FALSE(header->fortran_order);
}

TEST(Npy, EveryRangeOfAFortranBigEndianFileIsRowMajorLittleEndian) {
  std::string file = golden::FromHex(golden::kNpyFortranBig);
  NpyHeader header = *Parse(file);
  std::vector<uint8_t> whole;
  for (uint16_t i = 0; i < 24; ++i) {
    whole.push_back(static_cast<uint8_t>(i));
    whole.push_back(0);
  }
  for (uint64_t begin = 0; begin <= 48; ++begin) {
    for (uint64_t end = begin; end <= 48; ++end) {
      ASSERT_EQ(Content(header, file, begin, end - begin),
                std::vector<uint8_t>(whole.begin() + static_cast<int64_t>(begin),
                                     whole.begin() + static_cast<int64_t>(end)))
          << begin << " to " << end;
    }
  }
}

TEST(Npy, PanelsOfAFortranFileLargerThanTheReadWindowAreRowMajor) {
  // 5,000 rows of 30 numbers: columns of 20 KB, so neighbours in a row are read one by one.
  constexpr uint64_t kRows = 5'000;
  constexpr uint64_t kColumns = 30;
  std::string file =
      File(fmt::format("{{'descr': '<u4', 'fortran_order': True, 'shape': ({}, {}), }}", kRows,
                       kColumns),
           0);
  for (uint32_t column = 0; column < kColumns; ++column) {
    for (uint32_t row = 0; row < kRows; ++row) {
      AppendLe<uint32_t>(file, row * static_cast<uint32_t>(kColumns) + column);
    }
  }
  NpyHeader header = *Parse(file);
  for (auto [first, count] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, kRows * kColumns}, {17, 1'000}, {kColumns * 100, kColumns * 2'000}, {31, 59}}) {
    std::vector<uint8_t> content = Content(header, file, first * 4, count * 4);
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(LoadLe<uint32_t>(&content[i * 4]), first + i);
    }
  }
}

TEST(Npy, ACommonlyOrderedBigEndianFileIsSwappedOnce) {
  std::string file = Typed(">f8", 0);
  file += std::string("\x3F\xF0\0\0\0\0\0\x01\xBF\xF0\0\0\0\0\0\x02", 16);
  std::vector<uint8_t> content = Content(*Parse(file), file, 0, 16);
  EXPECT_EQ(LoadLe<uint64_t>(&content[0]), 0x3FF0000000000001u);
  EXPECT_EQ(LoadLe<uint64_t>(&content[8]), 0xBFF0000000000002u);
}

TEST(Npy, ABigEndianComplexNumberIsTwoSwappedNumbers) {
  std::string file = golden::FromHex(golden::kNpyComplexBig);
  std::vector<uint8_t> content = Content(*Parse(file), file, 0, 8);
  EXPECT_EQ(LoadLe<float>(&content[0]), 1.0f);
  EXPECT_EQ(LoadLe<float>(&content[4]), 2.0f);
}

TEST(Npy, AFailedReadIsTheError) {
  std::string file = golden::FromHex(golden::kNpyFortranBig);
  NpyHeader header = *Parse(file);
  std::vector<uint8_t> out(48);
  absl::Status status = ReadNpyContent(
      header, [](uint64_t, MutableBytes) { return MakeError(Reason::kDataLoss, "gone"); }, 0, out);
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
}

TEST(Npy, ObjectArraysAreRefusedWithTheWayToConvert) {
  std::string error = ErrorOf(golden::FromHex(golden::kNpyObjects));
  EXPECT_THAT(error, HasSubstr("never unpickled"));
  EXPECT_THAT(error, HasSubstr("numpy.save"));
}

TEST(Npy, StructuredArraysAreRefusedWithTheWayToConvert) {
  EXPECT_THAT(ErrorOf(golden::FromHex(golden::kNpyStructured)), HasSubstr("fields one by one"));
}

TEST(Npy, Bfloat16SavedAsRawBytesNeedsItsDtype) {
  std::string file = golden::FromHex(golden::kNpyBfloat16);
  EXPECT_THAT(ErrorOf(file), HasSubstr("BF16"));
  EXPECT_EQ(Parse(file, DType::kBF16)->dtype, DType::kBF16);
  EXPECT_THAT(ErrorOf(file, DType::kF8E4M3), HasSubstr("F8_E4M3"));
  EXPECT_EQ(Parse(Typed("|V2", 4), DType::kBF16)->dtype, DType::kBF16);
  EXPECT_EQ(Parse(Typed("<u2", 4), DType::kBF16)->dtype, DType::kBF16);
}

TEST(Npy, ADtypeThatContradictsTheFileIsRefused) {
  EXPECT_THAT(ErrorOf(Typed("<f4", 8), DType::kI32), HasSubstr("F32, not I32"));
  EXPECT_TRUE(Parse(Typed("<f4", 8), DType::kF32).ok());
}

TEST(Npy, TypesWithoutADtypeAreRefused) {
  for (const char* descr : {"<c16", "<f16", "<U3", "|S4", "<M8[s]", "f4", "|f4", "=f4", "<f",
                            "<f99999", "", "<", "<i3"}) {
    EXPECT_NE(ErrorOf(Typed(descr, 8)), "") << descr;
  }
  EXPECT_TRUE(Parse(Typed("<b1", 2)).ok());
}

TEST(Npy, DataOfAnotherLengthIsRefused) {
  std::string file = golden::FromHex(golden::kNpy2x3);
  EXPECT_THAT(ErrorOf(file.substr(0, file.size() - 1)), HasSubstr("cut short"));
  EXPECT_THAT(ErrorOf(file + "x"), HasSubstr("nothing behind it"));
}

TEST(Npy, EveryTruncationIsRefused) {
  std::string file = golden::FromHex(golden::kNpy2x3);
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(ErrorOf(file.substr(0, size)), "") << size;
  }
}

TEST(Npy, HeaderLengthsAreCheckedBeforeAnythingIsAllocated) {
  std::string file = "\x93NUMPY\x02";
  file += '\0';
  AppendLe<uint32_t>(file, 0xFFFFFFFF);
  EXPECT_THAT(ErrorOf(file + "{}"), HasSubstr("4,294,967,295"));
}

TEST(Npy, OtherFilesAndUnknownVersionsAreRefused) {
  EXPECT_THAT(ErrorOf("version https://git-lfs.github.com/spec/v1"), HasSubstr("Git-LFS"));
  EXPECT_THAT(ErrorOf("PK\x03\x04 numpy.npz"), HasSubstr("zip"));
  EXPECT_THAT(ErrorOf("hello"), HasSubstr("NUMPY"));
  std::string file = golden::FromHex(golden::kNpy2x3);
  file[6] = 4;
  EXPECT_THAT(ErrorOf(file), HasSubstr("version 4.0"));
}

TEST(Npy, TheDictIsReadStrictly) {
  const char* kWrong[] = {
      "",
      "{}",
      "[]",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
      "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}",
  };
  for (const char* dict : kWrong) EXPECT_NE(ErrorOf(File(dict, 8)), "") << dict;
  EXPECT_TRUE(Parse(File("{\"shape\":(2L,),'fortran_order':False,\"descr\":\"<f4\"}\n  ", 8)).ok());
}

TEST(Npy, AShapeThatOverflowsIsRefused) {
  EXPECT_NE(ErrorOf(File("{'descr': '<f8', 'fortran_order': False, "
                         "'shape': (4294967296, 4294967296), }",
                         0)),
            "");
}

TEST(Npy, AdviceToConvertLosesNothingThatCouldBeKept) {
  auto error = [](std::string_view descr, size_t element_bytes) {
    return ErrorOf(Typed(descr, 2 * element_bytes));
  };
  EXPECT_THAT(error("<c16", 16), HasSubstr("astype(numpy.complex64)"));
  EXPECT_THAT(error("<f16", 16), HasSubstr("astype(numpy.float64)"));
  for (std::string_view descr : {"<U2", "|S2", "<M8[ns]", "<m8"}) {
    EXPECT_THAT(error(descr, 8), HasSubstr("are no numbers")) << descr;
    EXPECT_THAT(error(descr, 8), Not(HasSubstr("astype"))) << descr;
    EXPECT_THAT(error(descr, 8), Not(HasSubstr("byte order"))) << descr;
  }
}

}  // namespace
}  // namespace tilekv
