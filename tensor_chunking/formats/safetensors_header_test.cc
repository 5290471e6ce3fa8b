#include "tensor_chunking/formats/safetensors_header.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/golden_files.h"
#include "tensor_chunking/shape.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A header read as the header of a file with `data_bytes` of data behind it.
absl::StatusOr<SafetensorsHeader> Parse(std::string_view json, uint64_t data_bytes) {
  return ParseSafetensorsHeader(json, kSafetensorsLengthBytes + json.size() + data_bytes, "m.st");
}

// The error of such a reading; empty when there is none or it has another reason.
std::string ErrorOf(std::string_view json, uint64_t data_bytes) {
  absl::Status status = Parse(json, data_bytes).status();
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}

std::string Tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype,
                     shape, begin, end);
}

std::string Object(const std::vector<std::string>& members) {
  return fmt::format("{{{}}}", fmt::join(members, ","));
}

std::string Padded(std::string json) {
  json.resize(RoundUp(json.size(), 8), ' ');
  return json;
}

struct WholeFile {
  std::string json;
  std::string data;
  SafetensorsHeader header;
};

WholeFile ReadWhole(const std::string& bytes) {
  WholeFile file;
  auto length = SafetensorsHeaderLength(AsBytes(bytes), bytes.size(), "golden");
  EXPECT_TRUE(length.ok()) << length.status();
  if (!length.ok()) return file;
  file.json = bytes.substr(kSafetensorsLengthBytes, *length);
  file.data = bytes.substr(kSafetensorsLengthBytes + *length);
  auto header = ParseSafetensorsHeader(file.json, bytes.size(), "golden");
  EXPECT_TRUE(header.ok()) << header.status();
  if (header.ok()) file.header = *std::move(header);
  return file;
}

// --- the reference writer ---

TEST(SafetensorsHeader, ReadsWhatTheReferenceWriterWrote) {
  WholeFile file = ReadWhole(golden::FromHex(golden::kNames));
  ASSERT_EQ(file.header.tensors.size(), 6u);
  EXPECT_EQ(file.header.metadata->at("format"), "v\"\u00e9\n\x01");
  TensorInfo first = file.header.tensors[0];
  EXPECT_EQ(first.name, "");
  EXPECT_EQ(first.dtype, DType::kI64);
  EXPECT_TRUE(first.shape.empty());
  TensorInfo empty = file.header.tensors[3];
  EXPECT_EQ(empty.name, "h");
  EXPECT_THAT(empty.shape, ElementsAre(2, 0));
  EXPECT_EQ(empty.begin, empty.end);
  EXPECT_EQ(file.header.tensors[5].name,
            "q\"\\/\x07\x7f\u2028e\u0301\u00e9\U0001F600\x1f\b\f\r\t\n");
  EXPECT_EQ(file.header.tensors[file.header.by_name[4]].name, "h");
}

TEST(SafetensorsHeader, OurWriterMakesTheReferenceWritersBytes) {
  for (const char* hex : {golden::kEveryDtype, golden::kNames, golden::kOnlyMetadata,
                          golden::kNothing, golden::kEmptyMetadata}) {
    WholeFile file = ReadWhole(golden::FromHex(hex));
    EXPECT_TRUE(IsReferenceForm(file.json, file.header)) << file.json;
    // Given in another order, as a manifest holds them.
    std::vector<TensorView> tensors;
    for (uint32_t index : file.header.by_name) tensors.push_back(file.header.tensors[index]);
    auto layout = LayOutSafetensors(tensors);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(BuildSafetensorsHeader(tensors, *layout, file.header.metadata), file.json);
    EXPECT_EQ(layout->data_bytes, file.data.size());
  }
}

TEST(SafetensorsHeader, ReadsAndWritesAllTwentyTwoDtypes) {
  std::vector<std::string> names;
  std::vector<TensorView> tensors;
  const Shape shape = {8};
  for (DType dtype : AllDTypes()) names.push_back("t." + std::string(DTypeName(dtype)));
  for (size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], AllDTypes()[i], shape});
  auto layout = LayOutSafetensors(tensors);
  ASSERT_TRUE(layout.ok());
  std::string json = BuildSafetensorsHeader(tensors, *layout, std::nullopt);
  auto header = Parse(json, layout->data_bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 22u);
  EXPECT_EQ(header->tensors[0].dtype, DType::kU64);
  EXPECT_EQ(header->tensors[21].dtype, DType::kBool);
  EXPECT_TRUE(IsReferenceForm(json, *header));
}

TEST(SafetensorsHeader, AnotherFormIsNotTakenForTheReferenceWriters) {
  const std::string a = Tensor("a", "U8", "1", 0, 1);
  const std::string b = Tensor("b", "U8", "1", 1, 2);
  const std::string reference = Padded(Object({a, b}));
  ASSERT_TRUE(IsReferenceForm(reference, *Parse(reference, 2)));
  std::string spaced = reference;
  spaced.insert(1, 8, ' ');
  for (const std::string& json :
       {Object({a, b}), reference + "        ", spaced, Padded(Object({b, a})),
        Padded(Object({Tensor("b", "U8", "1", 0, 1), Tensor("a", "U8", "1", 1, 2)})),
        Padded(Object({Tensor("a", "U8", "1", 0, 1), Tensor("b", "I8", "1", 1, 2)})),
        Padded(Object({a, b, R"("__metadata__":{})"})),
        Padded(Object({Tensor("\\u0061", "U8", "1", 0, 1), b}))}) {
    auto header = Parse(json, 2);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_FALSE(IsReferenceForm(json, *header)) << json;
  }
}

TEST(SafetensorsHeader, MetadataIsWrittenInOrderOfKeys) {
  SafetensorsMetadata metadata = {{"b", "2"}, {"a", "1"}};
  EXPECT_EQ(BuildSafetensorsHeader({}, {}, metadata),
            R"({"__metadata__":{"a":"1","b":"2"}}      )");
  std::string other = R"({"__metadata__":{"b":"2","a":"1"}}      )";
  auto header = Parse(other, 0);
  ASSERT_TRUE(header.ok());
  EXPECT_FALSE(IsReferenceForm(other, *header));
}

TEST(SafetensorsHeader, RefusesToLayOutWhatNoFileCanHold) {
  const Shape one = {1};
  auto error_of = [&](const std::vector<TensorView>& tensors) {
    return ErrorText(LayOutSafetensors(tensors).status());
  };
  EXPECT_THAT(error_of({{"a", DType::kU8, one}, {"a", DType::kI8, one}}), HasSubstr("twice"));
  EXPECT_THAT(error_of({{"__metadata__", DType::kU8, one}}), HasSubstr("__metadata__"));
  EXPECT_THAT(error_of({{"\xff", DType::kU8, one}}), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of({{std::string_view("a\0", 2), DType::kU8, one}}), HasSubstr("NUL"));
  EXPECT_THAT(error_of({{"half", DType::kF4, one}}), HasSubstr("'half'"));
}

// --- the start of the file ---

std::string LengthError(std::string_view start, uint64_t file_size) {
  absl::Status status =
      SafetensorsHeaderLength(AsBytes(start), file_size, "w.safetensors").status();
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}

std::string WithLength(uint64_t length, std::string_view rest) {
  std::string bytes;
  AppendLe<uint64_t>(bytes, length);
  return bytes + std::string(rest);
}

TEST(SafetensorsHeader, AFileShorterThanTheLengthFieldIsRefused) {
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_THAT(LengthError(std::string(size, 'x'), size), HasSubstr("too few"));
  }
}

TEST(SafetensorsHeader, AHeaderLengthPastTheEndOrNearTheWordsLimitIsRefused) {
  for (uint64_t length : {uint64_t{3}, ~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63}) {
    EXPECT_THAT(LengthError(WithLength(length, "{}"), 10), HasSubstr("'w.safetensors'"));
  }
  EXPECT_EQ(*SafetensorsHeaderLength(AsBytes(WithLength(2, "{}")), 10, "w"), 2u);
}

TEST(SafetensorsHeader, AHeaderAboveTheLimitIsRefused) {
  uint64_t length = kMaxSafetensorsHeaderBytes;
  EXPECT_TRUE(SafetensorsHeaderLength(AsBytes(WithLength(length, "{")), length + 8, "w").ok());
  EXPECT_THAT(LengthError(WithLength(length + 1, "{"), length + 9), HasSubstr("100,000,000"));
}

TEST(SafetensorsHeader, AGitLfsPointerIsCalledByItsName) {
  EXPECT_THAT(LengthError("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 60),
              HasSubstr("Git-LFS pointer"));
}

TEST(SafetensorsHeader, AWebPageIsCalledByItsName) {
  EXPECT_THAT(LengthError("<!DOCTYPE html><html>", 21), HasSubstr("web page"));
  EXPECT_THAT(LengthError("\n  <HTML lang=en>", 17), HasSubstr("web page"));
}

TEST(SafetensorsHeader, ArchivesAndPicklesAreCalledByTheirNames) {
  EXPECT_THAT(LengthError("PK\x03\x04\x14\x00\x00\x00\x00", 1000), HasSubstr("zip"));
  EXPECT_THAT(LengthError("\x80\x02}q\x01(XAAAA", 1000), HasSubstr("pickle"));
}

TEST(SafetensorsHeader, ALengthThatLooksLikeAPickleIsALength) {
  std::string start = WithLength(0x7d0280, "{\"a\"");
  EXPECT_EQ(*SafetensorsHeaderLength(AsBytes(start), 0x7d0280 + 100, "w"), 0x7d0280u);
}

// --- JSON ---

TEST(SafetensorsHeader, BadUtf8IsRefusedWithItsPlace) {
  EXPECT_THAT(ErrorOf("{\"\xff\":1}", 0), HasSubstr("not UTF-8 at byte 2"));
  EXPECT_THAT(ErrorOf("{\"\xed\xa0\x80\":1}", 0), HasSubstr("not UTF-8 at byte 2"));
}

TEST(SafetensorsHeader, BadJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(ErrorOf("{\"a\":}", 0), HasSubstr("at byte 5"));
  EXPECT_THAT(ErrorOf("{\"a\"", 0), HasSubstr("ends early"));
  EXPECT_THAT(ErrorOf("{}x", 0), HasSubstr("at byte 2"));
  EXPECT_THAT(ErrorOf("{}{}", 0), HasSubstr("at byte 2"));
  EXPECT_THAT(ErrorOf(R"({"\ud800":1})", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("{,}", 0), HasSubstr("at byte 1"));
  EXPECT_THAT(ErrorOf("{/**/}", 0), HasSubstr("at byte 1"));
}

TEST(SafetensorsHeader, AnythingButAnObjectIsRefused) {
  for (const char* json : {"", "[]", "null", "1", "\"x\"", " {}", "\xEF\xBB\xBF{}"}) {
    EXPECT_NE(ErrorOf(json, 0), "") << json;
  }
}

TEST(SafetensorsHeader, TrailingWhiteSpaceIsTakenAndTrailingNulIsNot) {
  EXPECT_TRUE(Parse("{}  \n\t", 0).ok());
  EXPECT_THAT(ErrorOf(std::string_view("{}\0\0", 4), 0), HasSubstr("NUL"));
}

TEST(SafetensorsHeader, DeepNestingIsRefused) {
  std::string deep = "{\"a\":" + std::string(100'000, '[');
  EXPECT_NE(ErrorOf(deep, 0), "");
}

TEST(SafetensorsHeader, TheSameTensorTwiceIsRefusedAlsoWhenSpeltDifferently) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", "1", 0, 1), Tensor("a", "U8", "1", 1, 2)}), 2),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(
      ErrorOf(Object({Tensor("a", "U8", "1", 0, 1), Tensor("\\u0061", "U8", "1", 1, 2)}), 2),
      HasSubstr("'a' is there twice"));
}

TEST(SafetensorsHeader, AFieldTwiceMissingOrUnknownIsRefused) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("'dtype' twice"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1]}})", 1), HasSubstr("no data_offsets"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[]}})", 1),
              HasSubstr("unknown field 'x'"));
}

TEST(SafetensorsHeader, ATensorThatIsNoObjectOfItsFieldsIsRefused) {
  for (const char* json : {R"({"a":["U8",[1],[0,1]]})", R"({"a":null})", R"({"a":1})",
                           R"({"a":"U8"})", R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})",
                           R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})",
                           R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})",
                           R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})",
                           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":{"0":1}}})",
                           R"({"a":{"dtype":{},"shape":[1],"data_offsets":[0,1]}})",
                           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
                           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})"}) {
    EXPECT_THAT(ErrorOf(json, 1), HasSubstr("tensor 'a'")) << json;
  }
}

TEST(SafetensorsHeader, OnlyUnsigned64BitIntegersAreNumbers) {
  for (const char* number :
       {"-1", "-0", "1.0", "1e0", "18446744073709551616", "true", "null", "1e999"}) {
    std::string json = Object({Tensor("a", "U8", number, 0, 1)});
    EXPECT_NE(ErrorOf(json, 1), "") << number;
  }
}

TEST(SafetensorsHeader, MetadataMustBeTexts) {
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a' is a number"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":null})", 0), HasSubstr("__metadata__ is null"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":"b","a":"b"}})", 0), HasSubstr("'a' twice"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("twice"));
}

TEST(SafetensorsHeader, ATensorCalledMetadataIsRefused) {
  EXPECT_THAT(ErrorOf(Object({Tensor("__metadata__", "U8", "1", 0, 1)}), 1),
              HasSubstr("no tensor can have the name __metadata__"));
}

TEST(SafetensorsHeader, MetadataAloneIsValidAndAbsentMetadataIsToldFromEmpty) {
  EXPECT_EQ(Parse(R"({"__metadata__":{"a":"b"}})", 0)->metadata->at("a"), "b");
  EXPECT_TRUE(Parse(R"({"__metadata__":{}})", 0)->metadata.has_value());
  EXPECT_FALSE(Parse("{}", 0)->metadata.has_value());
}

// --- names ---

TEST(SafetensorsHeader, StrangeNamesAreDistinctNames) {
  const std::vector<std::string> names = {"",    "../../etc/passwd", "/",      "a b",    "\\\"",
                                          "\\n", "\U0001F600",       "\u00e9", "e\u0301"};
  std::vector<std::string> members;
  for (size_t i = 0; i < names.size(); ++i) {
    members.push_back(Tensor(names[i], "U8", "1", i, i + 1));
  }
  auto header = Parse(Object(members), names.size());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors.size(), names.size());
  EXPECT_EQ(header->tensors[4].name, "\"");
}

TEST(SafetensorsHeader, AVeryLongNameIsTakenUpToTheLimit) {
  std::string name(kMaxTensorNameBytes, 'n');
  EXPECT_EQ(Parse(Object({Tensor(name, "U8", "1", 0, 1)}), 1)->tensors[0].name, name);
  EXPECT_THAT(ErrorOf(Object({Tensor(name + "n", "U8", "1", 0, 1)}), 1), HasSubstr("65,536"));
}

TEST(SafetensorsHeader, NulInANameIsRefused) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a\\u0000", "U8", "1", 0, 1)}), 1), HasSubstr("NUL"));
}

TEST(SafetensorsHeader, NamesInMessagesAreEscaped) {
  EXPECT_THAT(ErrorOf(Object({Tensor("\\u001b[31m", "U9", "1", 0, 1)}), 1), HasSubstr("\\x1b[31m"));
}

TEST(SafetensorsHeader, AnUnknownDtypeNamesTensorAndDtype) {
  std::string error = ErrorOf(Object({Tensor("layer.0", "F128", "1", 0, 16)}), 16);
  EXPECT_THAT(error, HasSubstr("'layer.0'"));
  EXPECT_THAT(error, HasSubstr("'F128'"));
}

// --- shapes and ranges ---

TEST(SafetensorsHeader, ScalarsAndEmptyTensorsKeepTheirShape) {
  auto header = Parse(Object({Tensor("a", "F32", "", 0, 4), Tensor("e", "F32", "2,0", 4, 4),
                              Tensor("z", "U8", "1", 4, 5), Tensor("y", "I64", "0", 5, 5)}),
                      5);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_TRUE(header->tensors[0].shape.empty());
  EXPECT_THAT(header->tensors[1].shape, ElementsAre(2, 0));
  EXPECT_THAT(header->tensors[3].shape, ElementsAre(0));
}

TEST(SafetensorsHeader, TheOrderIsThatOfTheData) {
  auto header = Parse(Object({Tensor("b", "U8", "1", 1, 2), Tensor("a", "U8", "1", 0, 1)}), 2);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0].name, "a");
}

TEST(SafetensorsHeader, AShapeThatOverflowsIsRefusedAlsoToExactlyZero) {
  for (const char* shape : {"4294967296,4294967296", "18446744073709551615,2",
                            "9223372036854775808,2", "2305843009213693952"}) {
    EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", shape, 0, 0)}), 0), HasSubstr("'a'")) << shape;
  }
}

TEST(SafetensorsHeader, ARangeOfAnotherLengthThanShapeTimesDtypeIsRefused) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "F32", "2", 0, 7)}), 7), HasSubstr("takes 8"));
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "F32", "2", 0, 9)}), 9), HasSubstr("takes 8"));
}

TEST(SafetensorsHeader, SixtyFourDimensionsAreTakenAndOneMoreIsNot) {
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) dims += ",1";
  EXPECT_EQ(Parse(Object({Tensor("a", "U8", dims, 0, 1)}), 1)->tensors[0].shape.size(), 64u);
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", dims + ",1", 0, 1)}), 1),
              HasSubstr("64 dimensions"));
}

TEST(SafetensorsHeader, DtypesBelowAByteCountInBits) {
  EXPECT_TRUE(Parse(Object({Tensor("a", "F4", "2,3", 0, 3)}), 3).ok());
  EXPECT_TRUE(Parse(Object({Tensor("a", "F6_E2M3", "4", 0, 3)}), 3).ok());
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "F4", "3", 0, 2)}), 2), HasSubstr("whole bytes"));
}

TEST(SafetensorsHeader, ReversedRangesAreRefused) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", "1", 1, 0)}), 1), HasSubstr("reversed"));
}

TEST(SafetensorsHeader, AHoleIsRefusedAtTheStartAndBetween) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", "1", 1, 2)}), 2), HasSubstr("belong to no tensor"));
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", "1", 0, 1), Tensor("b", "U8", "1", 2, 3)}), 3),
              HasSubstr("'b' (offset 2) belong to no tensor"));
}

TEST(SafetensorsHeader, OverlapIsRefusedNamingBoth) {
  std::string error =
      ErrorOf(Object({Tensor("a", "U8", "2", 0, 2), Tensor("b", "U8", "2", 1, 3)}), 3);
  EXPECT_THAT(error, HasSubstr("'a' [0, 2] and 'b' [1, 3] overlap"));
  EXPECT_NE(ErrorOf(Object({Tensor("a", "U8", "2", 0, 2), Tensor("b", "U8", "0", 1, 1)}), 2), "");
}

TEST(SafetensorsHeader, TwoNamesOnOneRangeAreRefusedAsTiedWeights) {
  EXPECT_THAT(ErrorOf(Object({Tensor("a", "U8", "2", 0, 2), Tensor("b", "U8", "2", 0, 2)}), 2),
              HasSubstr("tied weights"));
}

TEST(SafetensorsHeader, AByteMissingOrTooManyAtTheEndIsRefused) {
  std::string json = Object({Tensor("a", "U8", "4", 0, 4)});
  EXPECT_THAT(ErrorOf(json, 3), HasSubstr("1 bytes of data are missing of 4"));
  EXPECT_THAT(ErrorOf(json, 5), HasSubstr("1 bytes at the end"));
  EXPECT_THAT(ErrorOf("{}", 1), HasSubstr("1 bytes at the end"));
}

TEST(SafetensorsHeader, RangesNearTheWordsLimitDoNotWrap) {
  uint64_t top = ~uint64_t{0};
  EXPECT_NE(ErrorOf(Object({Tensor("a", "U8", fmt::format("{}", top / 8), 0, top / 8),
                            Tensor("b", "U8", "1", top, 0)}),
                    8),
            "");
}

// --- memory ---

TEST(SafetensorsHeader, ManyTensorsTakeLessTableThanHeader) {
  constexpr uint64_t kTensors = 200'000;
  std::string json = "{";
  for (uint64_t i = 0; i < kTensors; ++i) {
    if (i > 0) json += ',';
    json += Tensor(fmt::format("model.layers.{}.weight", i), "F16", "4,8", i * 64, i * 64 + 64);
  }
  json += '}';
  auto header = Parse(json, kTensors * 64);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors.size(), kTensors);
  EXPECT_LT(header->tensors.memory_bytes(), json.size());
  EXPECT_EQ(header->tensors[kTensors - 1].name, "model.layers.199999.weight");
  EXPECT_EQ(header->tensors[header->by_name[2]].name, "model.layers.10.weight");
}

TEST(SafetensorsHeader, TablesStayWithinTheirBoundWhateverTheHeader) {
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) dims += ",1";
  std::string shapes = "{";
  for (uint64_t i = 0; i < 20'000; ++i) {
    if (i > 0) shapes += ',';
    shapes += Tensor(fmt::format("{:x}", i), "U8", dims, i, i + 1);
  }
  shapes += '}';
  auto header = Parse(shapes, 20'000);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_LT(header->tensors.memory_bytes() + header->by_name.capacity() * sizeof(uint32_t),
            SafetensorsTableBytes(shapes.size()));
  // Braces in a name reserve no rows for tensors that cannot be.
  std::string braces = Object({Tensor(std::string(60'000, '{'), "U8", "1", 0, 1)});
  header = Parse(braces, 1);
  ASSERT_TRUE(header.ok());
  EXPECT_LT(header->tensors.memory_bytes(), SafetensorsTableBytes(braces.size()));
}

TEST(SafetensorsHeader, TooManyMetadataKeysAreRefused) {
  std::string json = "{\"__metadata__\":{";
  for (size_t i = 0; i <= kMaxMetadataKeys; ++i) {
    json += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(ErrorOf(json + "}}", 0), HasSubstr("65,536 keys"));
}

}  // namespace
}  // namespace tilekv
