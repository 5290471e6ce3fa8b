// Inputs at the edges of what tensors can be, from writer to reader, in memory: sizes, shapes,
// values, sources, streams. Edges of files are tested beside their formats.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/test_folder.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/region_copy.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

const ModelName kModel{.ns = "t", .name = "m"};

std::vector<uint8_t> SomeBytes(uint64_t size, uint64_t seed) {
  std::vector<uint8_t> out(size);
  uint64_t state = seed * 2 + 1;
  for (uint8_t& byte : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return out;
}

TensorSource SourceOf(DType dtype, const Shape& shape, const std::vector<uint8_t>& content) {
  TensorSource source;
  source.name = "w";
  source.dtype = dtype;
  source.shape = shape;
  source.read = [&content](uint64_t offset, MutableBytes out) {
    std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  };
  return source;
}

class EdgeCases : public testing::Test {
 protected:
  WriteReport Write(TensorSource source, WriteOptions options = {}) {
    WriteInput input;
    input.tensors.push_back(std::move(source));
    auto report = WriteModel(*store_, kModel, input, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : WriteReport();
  }
  std::unique_ptr<ModelReader> Open(ReaderOptions options = {}) {
    auto reader = ModelReader::Open(*store_, kModel, options);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  std::vector<uint8_t> Slice(ModelReader& reader, const std::string& slice) {
    auto entry = reader.Find("w");
    auto resolved = ResolveSlice(slice, (*entry)->shape);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    std::vector<uint8_t> out(*TensorBytes((*entry)->dtype, resolved->result_shape));
    absl::Status status = reader.ReadSlice("w", *resolved, out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  void ExpectHolds(const std::vector<uint8_t>& content) {
    auto reader = Open();
    std::vector<uint8_t> out(content.size(), 0xEE);
    absl::Status status = reader->ReadTensor("w", out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(out == content);
  }
  // Stored, read whole.
  WriteReport RoundTrip(DType dtype, const Shape& shape, WriteOptions options = {}) {
    std::vector<uint8_t> content = SomeBytes(*TensorBytes(dtype, shape), ProductOf(shape));
    WriteReport report = Write(SourceOf(dtype, shape, content), options);
    ExpectHolds(content);
    return report;
  }

  std::unique_ptr<KvStore> store_ = *OpenMemoryStore(kDefaultMaxObjectBytes);
};

TEST_F(EdgeCases, ATensorOfATileOneElementLessAndOneMoreComesBack) {
  EXPECT_EQ(RoundTrip(DType::kU8, {kMiB - 1}, {.tile_bytes = kMiB}).tiles, 1u);
  EXPECT_EQ(RoundTrip(DType::kU8, {kMiB}, {.tile_bytes = kMiB}).tiles, 1u);
  EXPECT_EQ(RoundTrip(DType::kU8, {kMiB + 1}, {.tile_bytes = kMiB}).tiles, 2u);
}

TEST_F(EdgeCases, PrimeRowLengthsComeBack) {
  for (LayoutKind kind : {LayoutKind::kAuto, LayoutKind::kRows}) {
    WriteOptions options{.tile_bytes = kMiB};
    options.layout.kind = kind;
    RoundTrip(DType::kF32, {1009, 1013}, options);
    RoundTrip(DType::kBF16, {3, 104'729}, options);
  }
}

TEST_F(EdgeCases, ARowWiderThanATileIsCutAndComesBack) {
  WriteReport report = RoundTrip(DType::kF32, {2, 700'001}, {.tile_bytes = kMiB});
  EXPECT_GE(report.tiles, 6u);
}

TEST_F(EdgeCases, SixtyFourDimensionsComeBackAndCanBeSliced) {
  Shape shape(kMaxRank, 1);
  for (size_t d : {0, 13, 31, 47, 63}) shape[d] = 12;
  std::vector<uint8_t> content = SomeBytes(*TensorBytes(DType::kF32, shape), 1);
  Write(SourceOf(DType::kF32, shape, content), {.tile_bytes = kMiB});
  ExpectHolds(content);
  auto reader = Open();
  std::vector<uint8_t> last = Slice(*reader, "-1");
  EXPECT_TRUE(std::equal(last.begin(), last.end(), content.end() - last.size()));
  EXPECT_THAT(ErrorText(WriteModel(*store_, kModel,
                                   {.tensors = {SourceOf(DType::kU8, Shape(65, 1), content)}})
                            .status()),
              HasSubstr("'w'"));
}

TEST_F(EdgeCases, OffsetsBeyond2To31And2To32BytesAreRightInEveryField) {
  // Zeros but for a byte at each edge: nearly all tiles are one object.
  constexpr uint64_t kBytes = (uint64_t{1} << 32) + 1;
  const uint64_t marks[] = {(uint64_t{1} << 31) - 2, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
                            (uint64_t{1} << 32) - 1, uint64_t{1} << 32};
  TensorSource source;
  source.name = "w";
  source.dtype = DType::kU8;
  source.shape = {kBytes};
  source.read = [&](uint64_t offset, MutableBytes out) {
    std::memset(out.data(), 0, out.size());
    for (size_t i = 0; i < std::size(marks); ++i) {
      if (marks[i] >= offset && marks[i] - offset < out.size()) {
        out[marks[i] - offset] = static_cast<uint8_t>(i + 1);
      }
    }
    return absl::OkStatus();
  };
  WriteReport report = Write(source);
  EXPECT_EQ(report.logical_bytes, kBytes);
  EXPECT_EQ(report.version.record().logical_bytes(), kBytes);
  EXPECT_LT(report.new_bytes, 64 * kMiB);
  auto reader = Open();
  EXPECT_EQ((*reader->Find("w"))->bytes(), kBytes);
  EXPECT_EQ(Slice(*reader, "2147483645:2147483650"), (std::vector<uint8_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(Slice(*reader, "4294967294:"), (std::vector<uint8_t>{0, 4, 5}));
  EXPECT_EQ(Slice(*reader, "-1"), (std::vector<uint8_t>{5}));
}

TEST_F(EdgeCases, MoreThan2To32ElementsBelowAByteArePlanned) {
  TensorSource source;
  source.name = "w";
  source.dtype = DType::kF4;
  source.shape = {(uint64_t{1} << 17) + 2, uint64_t{1} << 16};
  auto plan = PlanWrite(*store_, kModel, {.tensors = {source}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->rows[0].bytes, ((uint64_t{1} << 33) + (uint64_t{1} << 17)) / 2);
}

TEST_F(EdgeCases, AMatrixExactlyAtTheDefaultObjectLimitAndOneElementOverArePlanned) {
  for (uint64_t columns : {8192, 8193}) {
    TensorSource source;
    source.name = "w";
    source.dtype = DType::kF32;
    source.shape = {8192, columns};
    WriteOptions options{.tile_bytes = kDefaultMaxObjectBytes};
    options.layout.kind = LayoutKind::kRows;
    auto plan = PlanWrite(*store_, kModel, {.tensors = {source}}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->rows[0].tiles, columns == 8192 ? 1u : 2u);
    EXPECT_EQ(plan->rows[0].bytes, 8192 * columns * 4);
  }
}

TEST_F(EdgeCases, NaNPayloadsNegativeZeroAndSubnormalsComeBackBitForBit) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3,
                      DType::kF8E5M2, DType::kC64}) {
    uint64_t width = DTypeBytes(dtype);
    std::vector<uint8_t> content;
    // Every pattern of the two high bytes, with a payload below: all NaN, infinities, zeros.
    for (uint32_t high = 0; high < 0x10000; ++high) {
      for (uint64_t b = 0; b + 2 < width; ++b) content.push_back(static_cast<uint8_t>(high + b));
      if (width > 1) content.push_back(static_cast<uint8_t>(high));
      content.push_back(static_cast<uint8_t>(high >> 8));
    }
    Write(SourceOf(dtype, {content.size() / width}, content));
    ExpectHolds(content);
  }
}

// Every pattern of them, so NaN, -0.0 and subnormals where the type has them, in each encoding; of
// those below a byte, each after each.
TEST_F(EdgeCases, EveryPatternOfF8F6AndF4ComesBackBitForBit) {
  for (Codec codec : {Codec::kNone, Codec::kAuto}) {
    for (DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0, DType::kF8E4M3Fnuz,
                        DType::kF8E5M2Fnuz, DType::kF6E2M3, DType::kF6E3M2, DType::kF4}) {
      store_ = *OpenMemoryStore(kDefaultMaxObjectBytes);
      std::vector<uint8_t> content;
      for (uint32_t bits = 0; bits < 3 * 0x10000; ++bits) {
        content.push_back(static_cast<uint8_t>(bits));
        content.push_back(static_cast<uint8_t>(bits >> 8));
      }
      ASSERT_EQ(content.size() * 8 % DTypeBits(dtype), 0u);
      Write(SourceOf(dtype, {content.size() * 8 / DTypeBits(dtype)}, content), {.codec = codec});
      ExpectHolds(content);
      EXPECT_EQ((*Open()->Find("w"))->dtype, dtype);
    }
  }
}

TEST_F(EdgeCases, ShapesWithoutElementsKeepTheirShapeAndHaveNoTiles) {
  for (const Shape& shape : {Shape{0}, Shape{2, 0}, Shape{0, 7, 3}}) {
    EXPECT_EQ(RoundTrip(DType::kF32, shape).tiles, 0u);
    EXPECT_EQ((*Open()->Find("w"))->shape, shape);
  }
  RoundTrip(DType::kF32, {});
  EXPECT_EQ((*Open()->Find("w"))->shape, Shape());
}

// Sources whose elements lie in memory by strides of either sign: tiles are asked for as boxes.
class StridedSources : public EdgeCases {
 protected:
  static constexpr uint64_t kRows = 700, kColumns = 900;
  static constexpr int64_t kRowBytes = kColumns * 4, kColumnBytes = kRows * 4;

  // Stores what lies at `first` with these strides in bytes, and reads it back.
  void ExpectLogicalContent(int64_t first, int64_t row, int64_t column) {
    auto box = [=, this](const Region& region, MutableBytes out) {
      const auto width = static_cast<int64_t>(region.extent[1]) * 4;
      RegionCopy copy(
          4,
          first + static_cast<int64_t>(region.start[0]) * row +
              static_cast<int64_t>(region.start[1]) * column,
          0, {{CopyDim{region.extent[0], row, width}, CopyDim{region.extent[1], column, 4}}});
      copy.Run(memory_.data(), out.data());
      return absl::OkStatus();
    };
    // One element at a time, apart from the code under test.
    std::vector<uint8_t> logical;
    for (int64_t r = 0; r < static_cast<int64_t>(kRows); ++r) {
      for (int64_t c = 0; c < static_cast<int64_t>(kColumns); ++c) {
        const uint8_t* element = memory_.data() + first + r * row + c * column;
        logical.insert(logical.end(), element, element + 4);
      }
    }
    TensorSource source = SourceOf(DType::kF32, {kRows, kColumns}, logical);
    source.read_box = box;
    WriteOptions options{.tile_bytes = kMiB, .memory_bytes = 2 * kMiB};
    options.layout.kind = LayoutKind::kBands;
    Write(source, options);
    ExpectHolds(logical);
  }

  const std::vector<uint8_t> memory_ = SomeBytes(kRows * kColumns * 4 * 2, 3);
};

TEST_F(StridedSources, EverySecondRowIsStoredByItsLogicalContent) {
  ExpectLogicalContent(0, 2 * kRowBytes, 4);
}
TEST_F(StridedSources, ATransposedSourceIsStoredByItsLogicalContent) {
  ExpectLogicalContent(0, 4, kColumnBytes);
}
TEST_F(StridedSources, NegativeStridesAreStoredByTheirLogicalContent) {
  ExpectLogicalContent(kRowBytes * (kRows - 1), -kRowBytes, 4);
  ExpectLogicalContent(kRowBytes * kRows - 4, -kRowBytes, -4);
}
TEST_F(StridedSources, ABroadcastSourceOfStrideZeroIsStoredByItsLogicalContent) {
  ExpectLogicalContent(kRowBytes, 0, 4);  // one row, in every row
  ExpectLogicalContent(0, kRowBytes, 0);  // one column, in every column
  ExpectLogicalContent(8, 0, 0);          // one element
}

TEST_F(EdgeCases, AReadOnlySourceIsStoredAndReadWhereItIs) {
  constexpr uint64_t kBytes = 3 * kMiB;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::vector<uint8_t> content = SomeBytes(kBytes, 11);
  std::memcpy(memory, content.data(), kBytes);
  ASSERT_EQ(mprotect(memory, kBytes, PROT_READ), 0);  // a write into it ends the program
  TensorSource source;
  source.name = "w";
  source.dtype = DType::kU8;
  source.shape = {kBytes};
  source.content = {static_cast<const uint8_t*>(memory), kBytes};
  Write(source, {.tile_bytes = kMiB, .codec = Codec::kAuto});
  munmap(memory, kBytes);
  ExpectHolds(content);
}

TEST_F(EdgeCases, AFortranOrderedArrayLargerThanTheBudgetIsStoredByItsLogicalContent) {
  constexpr uint64_t kRows = 1500, kColumns = 1600;
  std::vector<uint8_t> logical = SomeBytes(kRows * kColumns * 4, 4);
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': True, 'shape': ({}, {}), }}\n",
                                 kRows, kColumns);
  std::string file("\x93NUMPY\x01\x00", 8);
  AppendLe<uint16_t>(file, static_cast<uint16_t>(dict.size()));
  file += dict;
  size_t data = file.size();
  file.resize(data + logical.size());
  for (uint64_t r = 0; r < kRows; ++r) {
    for (uint64_t c = 0; c < kColumns; ++c) {
      std::memcpy(&file[data + (c * kRows + r) * 4], &logical[(r * kColumns + c) * 4], 4);
    }
  }
  TestFolder folder;
  folder.Write("w.npy", file);
  auto source = OpenModelSource(*FileSystem::Posix(), folder.Path("w.npy"));
  ASSERT_TRUE(source.ok()) << source.status();
  for (LayoutKind kind : {LayoutKind::kRows, LayoutKind::kBands}) {
    WriteOptions options{.tile_bytes = kMiB, .memory_bytes = 6 * kMiB};
    options.layout.kind = kind;
    auto report = ImportModel(*store_, kModel, *source, options);
    ASSERT_TRUE(report.ok()) << report.status();
    ExpectHolds(logical);
  }
}

TEST_F(EdgeCases, AFileThatChangesDuringTheImportIsNoticedAndNothingIsCommitted) {
  TestFolder folder;
  folder.Write("m.safetensors", SafetensorsFile({{"w", std::string(3 * kMiB, 'x')}}));
  auto source = OpenModelSource(*FileSystem::Posix(), folder.Path("m.safetensors"));
  ASSERT_TRUE(source.ok()) << source.status();
  WriteOptions options{.tile_bytes = kMiB};
  options.progress = [&](const WriteProgress&) {  // one byte, in place
    std::fstream file(folder.Path("m.safetensors"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('y');
  };
  auto report = ImportModel(*store_, kModel, *source, options);
  EXPECT_EQ(GetReason(report.status()), Reason::kInvalidFile);
  EXPECT_THAT(ErrorText(report.status()), HasSubstr("changed while the model was read"));
  EXPECT_EQ(GetReason(ModelReader::Open(*store_, kModel).status()), Reason::kNotFound);
}

TEST_F(EdgeCases, AReaderDuringAnOverwriteSeesTheOldVersion) {
  std::vector<uint8_t> old_content = SomeBytes(3 * kMiB, 5);
  std::vector<uint8_t> new_content = SomeBytes(3 * kMiB, 6);
  Write(SourceOf(DType::kU8, {3 * kMiB}, old_content));
  auto reader = Open();
  Write(SourceOf(DType::kU8, {3 * kMiB}, new_content));
  std::vector<uint8_t> out(old_content.size());
  ASSERT_TRUE(reader->ReadTensor("w", out).ok());
  EXPECT_TRUE(out == old_content);
  ExpectHolds(new_content);
}

TEST_F(EdgeCases, AYieldedBufferKeptAfterTheStreamMovesOnStaysUnchanged) {
  std::vector<uint8_t> content = SomeBytes(12 * kMiB, 7);
  Write(SourceOf(DType::kU8, {content.size()}, content), {.tile_bytes = kMiB});
  // A budget of three tiles: buffers come from a pool and go round.
  auto reader = Open({.memory_bytes = 3 * kMiB});
  auto stream = *reader->StreamTiles();
  std::vector<StreamedTile> kept;
  while (auto tile = *stream->Next()) kept.push_back(*std::move(tile));
  ASSERT_EQ(kept.size(), 12u);
  for (const StreamedTile& tile : kept) {
    Bytes bytes = tile.content.span();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), content.begin() + tile.start[0]));
  }
}

TEST_F(EdgeCases, ACancelInTheMiddleOfAStreamFreesItsBuffersAndAnotherReadsOn) {
  std::vector<uint8_t> content = SomeBytes(12 * kMiB, 8);
  Write(SourceOf(DType::kU8, {content.size()}, content), {.tile_bytes = kMiB});
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  auto reader = Open({.memory_bytes = 3 * kMiB, .context = context});
  auto stream = *reader->StreamTiles();
  uint64_t next = (*stream->Next())->start[0] + kMiB;
  context.cancel->Cancel();
  absl::Status last;
  for (int i = 0; i < 12 && last.ok(); ++i) {
    auto tile = stream->Next();
    last = tile.status();
    if (tile.ok() && tile->has_value()) next = (*tile)->start[0] + kMiB;
  }
  EXPECT_EQ(GetReason(last), Reason::kCancelled);
  stream.reset();
  EXPECT_EQ(reader->budget().used_bytes(), 0u);
  // From where it stopped, by a reader of its own.
  auto again = Open();
  std::vector<uint8_t> rest = Slice(*again, fmt::format("{}:", next));
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), content.begin() + static_cast<ptrdiff_t>(next)));
}

TEST_F(EdgeCases, ACancelledWriteLeavesNothingVisibleAndASecondTrySucceeds) {
  std::vector<uint8_t> content = SomeBytes(12 * kMiB, 9);
  WriteOptions options{.tile_bytes = kMiB};
  options.context.cancel = std::make_shared<CancelToken>();
  options.progress = [&](const WriteProgress&) { options.context.cancel->Cancel(); };
  WriteInput input;
  input.tensors.push_back(SourceOf(DType::kU8, {content.size()}, content));
  EXPECT_EQ(GetReason(WriteModel(*store_, kModel, input, options).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(ModelReader::Open(*store_, kModel).status()), Reason::kNotFound);
  WriteReport report = Write(SourceOf(DType::kU8, {content.size()}, content), {.tile_bytes = kMiB});
  EXPECT_GT(report.shared_bytes, 0u) << "what was sent is not sent again";
  ExpectHolds(content);
}

TEST(EdgeCasesOfSideFiles, OneAboveTheObjectLimitIsAChunkedBlobAndComesBack) {
  auto store = *OpenMemoryStore(kLeastMaxObjectBytes);
  std::vector<uint8_t> content = SomeBytes(5 * kLeastMaxObjectBytes + 3, 10);
  WriteInput input;
  input.side_files.push_back({"vocab.bin", content.size(), [&](uint64_t offset, MutableBytes out) {
                                std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset),
                                            out.size(), out.begin());
                                return absl::OkStatus();
                              }});
  ASSERT_TRUE(WriteModel(*store, kModel, input).ok());
  auto reader = *ModelReader::Open(*store, kModel);
  ASSERT_EQ(reader->manifest().side_files.size(), 1u);
  EXPECT_EQ(reader->manifest().side_files[0].content.ref.level, 1);
  StringSink sink;
  ASSERT_TRUE(reader->ReadSideFile(reader->manifest().side_files[0], sink).ok());
  EXPECT_TRUE(sink.text() == AsText(content));
}

}  // namespace
}  // namespace tilekv
