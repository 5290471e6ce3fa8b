// Models in a store, from writer to reader: in memory, so that what is tested is the tensor layer.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kvstore/base/status.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {
namespace {

struct Tensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<uint8_t> content;
};

Tensor MakeTensor(std::string name, DType dtype, Shape shape, uint64_t seed) {
  Tensor tensor{std::move(name), dtype, std::move(shape), {}};
  tensor.content.resize(*TensorBytes(dtype, tensor.shape));
  std::mt19937_64 random(seed);
  for (uint8_t& byte : tensor.content) byte = static_cast<uint8_t>(random());
  return tensor;
}

TensorSource SourceOf(const Tensor& tensor) {
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .read = [&tensor](uint64_t offset, MutableBytes out) {
            std::memcpy(out.data(), tensor.content.data() + offset, out.size());
            return absl::OkStatus();
          }};
}

WriteInput InputOf(const std::vector<Tensor>& tensors) {
  WriteInput input;
  for (const Tensor& tensor : tensors) input.tensors.push_back(SourceOf(tensor));
  return input;
}

std::vector<Tensor> SmallModel() {
  return {MakeTensor("embed", DType::kF32, {9000, 320}, 1),
          MakeTensor("dense.weight", DType::kBF16, {2048, 4096}, 2),
          MakeTensor("dense.bias", DType::kF32, {4096}, 3),
          MakeTensor("conv", DType::kF16, {64, 32, 33, 33}, 4),
          MakeTensor("scalar", DType::kI64, {}, 5),
          MakeTensor("empty", DType::kF32, {0, 7}, 6),
          MakeTensor("norm", DType::kF32, {77}, 7),
          MakeTensor("four_bits", DType::kF4, {300, 64}, 8)};
}

class ModelTest : public testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore(GetParam());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  WriteReport Write(const std::vector<Tensor>& tensors, WriteOptions options = {}) {
    options.tile_bytes = kMiB;
    auto report = WriteModel(*store_, name_, InputOf(tensors), options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : WriteReport();
  }
  std::unique_ptr<ModelReader> Open(std::string version = "") {
    ModelName name = name_;
    name.version = std::move(version);
    auto reader = ModelReader::Open(*store_, name, {.memory_bytes = 16 * kMiB});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  void ExpectHolds(ModelReader& reader, const std::vector<Tensor>& tensors) {
    ASSERT_EQ(reader.manifest().tensors.size(), tensors.size());
    for (const Tensor& tensor : tensors) {
      std::vector<uint8_t> out(tensor.content.size(), 0xEE);
      absl::Status status = reader.ReadTensor(tensor.name, out);
      ASSERT_TRUE(status.ok()) << tensor.name << ": " << status;
      EXPECT_EQ(out, tensor.content) << tensor.name;
    }
  }

  std::unique_ptr<KvStore> store_;
  ModelName name_{.ns = "t", .name = "model"};
};

// Every limit that matters to layouts: the least, one below the tile size, the default.
INSTANTIATE_TEST_SUITE_P(ObjectLimits, ModelTest,
                         testing::Values(kLeastMaxObjectBytes, 700 * kKiB, kDefaultMaxObjectBytes));

TEST_P(ModelTest, AllTensorsComeBackToTheByte) {
  std::vector<Tensor> tensors = SmallModel();
  WriteReport report = Write(tensors);
  EXPECT_TRUE(report.applied);
  EXPECT_EQ(report.tensors, tensors.size());
  auto reader = Open();
  ASSERT_NE(reader, nullptr);
  ExpectHolds(*reader, tensors);
  EXPECT_EQ(reader->full_name(), "t/model@1");
}

TEST_P(ModelTest, TheSameModelAgainStoresNothingNew) {
  std::vector<Tensor> tensors = SmallModel();
  WriteReport first = Write(tensors);
  WriteReport second = Write(tensors);
  EXPECT_EQ(second.new_objects, 0u);
  EXPECT_EQ(second.version.record().number(), 2u);
  EXPECT_EQ(second.version.record().root().id(), first.version.record().root().id());
}

TEST_P(ModelTest, OneChangedTensorStoresItsOwnTilesAndTheManifest) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  std::mt19937_64 random(99);
  for (uint8_t& byte : tensors[1].content) byte = static_cast<uint8_t>(random());
  WriteReport second = Write(tensors);
  EXPECT_GE(second.new_bytes, tensors[1].content.size());
  EXPECT_LE(second.new_bytes, tensors[1].content.size() + kMiB);
  ExpectHolds(*Open(), tensors);
}

TEST_P(ModelTest, SlicesAreThoseOfTheDenseTensor) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  auto reader = Open();
  for (const char* text : {"100:200", "::-700, 3:5", "-1", "..., 0", "5:5", "::3, ::-2"}) {
    const Tensor& tensor = tensors[1];
    ResolvedSlice slice = *ResolveSlice(text, tensor.shape);
    std::vector<uint8_t> out(*TensorBytes(tensor.dtype, slice.result_shape));
    ReadStats stats;
    ASSERT_TRUE(reader->ReadSlice(tensor.name, slice, out, &stats).ok()) << text;
    std::vector<uint8_t> expected;
    for (uint64_t i = 0; i < slice.dims[0].count; ++i) {
      for (uint64_t j = 0; j < slice.dims[1].count; ++j) {
        uint64_t row = slice.dims[0].start + i * slice.dims[0].step;
        uint64_t column = slice.dims[1].start + j * slice.dims[1].step;
        const uint8_t* at = tensor.content.data() + (row * tensor.shape[1] + column) * 2;
        expected.insert(expected.end(), at, at + 2);
      }
    }
    EXPECT_EQ(out, expected) << text;
  }
}

TEST_P(ModelTest, RowsComeInTheOrderAskedForWithRepeats) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  const Tensor& tensor = tensors[0];
  uint64_t row_bytes = tensor.shape[1] * 4;
  std::vector<int64_t> rows = {8999, 0, -1, 4500, 0};
  std::vector<uint8_t> out(rows.size() * row_bytes);
  ASSERT_TRUE(Open()->ReadRows("embed", rows, out).ok());
  for (size_t i = 0; i < rows.size(); ++i) {
    uint64_t row = rows[i] < 0 ? tensor.shape[0] + rows[i] : rows[i];
    EXPECT_EQ(
        std::memcmp(out.data() + i * row_bytes, tensor.content.data() + row * row_bytes, row_bytes),
        0);
  }
}

TEST_P(ModelTest, ShardsOfBothAxesAreReadWithoutTheRest) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  auto reader = Open();
  const Tensor& tensor = tensors[1];
  uint64_t columns = tensor.shape[1];
  for (uint64_t world : {2, 4, 8}) {
    std::vector<uint8_t> joined;
    ReadStats by_rows, by_columns;
    for (uint64_t rank = 0; rank < world; ++rank) {
      std::vector<uint8_t> shard(tensor.content.size() / world);
      ASSERT_TRUE(reader->ReadShard(tensor.name, rank, world, 0, shard, &by_rows).ok());
      joined.insert(joined.end(), shard.begin(), shard.end());
      ASSERT_TRUE(reader->ReadShard(tensor.name, rank, world, -1, shard, &by_columns).ok());
      const uint8_t* first = tensor.content.data() + rank * (columns / world) * 2;
      EXPECT_EQ(std::memcmp(shard.data(), first, columns / world * 2), 0);
    }
    EXPECT_EQ(joined, tensor.content);
    if (GetParam() < 8 * kMiB) continue;  // edges of small tiles lie inside shards
    EXPECT_LE(by_rows.received_bytes, tensor.content.size() * 11 / 10);
    EXPECT_LE(by_columns.received_bytes, tensor.content.size() * 11 / 10);
  }
  std::vector<uint8_t> none;
  EXPECT_EQ(GetReason(reader->ReadShard(tensor.name, 2, 2, 0, none)), Reason::kInvalidArgument);
}

TEST_P(ModelTest, StreamsGiveEveryByteOnceInOrder) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  auto reader = Open();
  std::sort(tensors.begin(), tensors.end(),
            [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  auto stream = *reader->StreamTensors();
  std::vector<StreamedTensor> kept;  // a yielded buffer stays unchanged when the stream moves on
  while (true) {
    auto next = stream->Next();
    ASSERT_TRUE(next.ok()) << next.status();
    if (!next->has_value()) break;
    kept.push_back(**std::move(next));
  }
  ASSERT_EQ(kept.size(), tensors.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].name, tensors[i].name);
    Bytes content = kept[i].content.span();
    EXPECT_EQ(std::vector<uint8_t>(content.begin(), content.end()), tensors[i].content);
  }
  auto tiles = *reader->StreamTiles({"dense.weight", "norm"});
  uint64_t bytes = 0;
  while (auto tile = *tiles->Next()) bytes += tile->content.size();
  EXPECT_EQ(bytes, 2048 * 4096 * 2 + 77 * 4);
  EXPECT_EQ(reader->budget().used_bytes(), 0u);
  // The largest tensor goes alone, with a buffer for one of its tiles.
  EXPECT_LE(stream->peak_bytes(), 17 * kMiB + 256 * kKiB);
  EXPECT_LE(tiles->peak_bytes(), 9 * kMiB);
}

TEST_P(ModelTest, ATimedStreamNamesItsSlowestExchangeAndAWriteWhatItCost) {
  WriteReport report = Write(SmallModel());
  EXPECT_EQ(report.cost.put.sent_bytes, report.new_bytes);
  EXPECT_GT(report.cost.source_nanos, 0);
  EXPECT_GT(report.cost.hash_nanos, 0);
  EXPECT_GT(report.cost.put_nanos, 0);
  EXPECT_GT(report.cost.commit_nanos, 0);
  for (bool timed : {true, false}) {
    auto reader = *ModelReader::Open(*store_, name_, {.memory_bytes = 16 * kMiB, .timed = timed});
    auto pieces = *reader->StreamPieces({"embed", "norm"}, kMiB);
    while (true) {
      auto piece = pieces->Next();
      ASSERT_TRUE(piece.ok()) << piece.status();
      if (!piece->has_value()) break;
    }
    ReadStats stats = pieces->stats();
    EXPECT_EQ(stats.times.verify_nanos > 0, timed);
    EXPECT_EQ(stats.slowest.what.find("tensor '") == 0, timed) << stats.slowest.what;
  }
}

TEST_P(ModelTest, AStreamLeftOpenDoesNotHoldUpOtherReads) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  auto reader = Open();
  auto first = *reader->StreamTiles();
  auto second = *reader->StreamTensors();
  ASSERT_TRUE(first->Next().ok());
  ExpectHolds(*reader, tensors);  // would wait for ever for what the streams have read ahead
  ASSERT_TRUE(second->Next().ok());
  ASSERT_TRUE(first->Next().ok());
}

TEST_P(ModelTest, LeadingAxesOfOneAreCutOnTheNext) {
  Tensor tensor = MakeTensor("w", DType::kF32, {1, 3, 1 << 20}, 9);
  Write({tensor});
  auto reader = Open();
  std::vector<uint8_t> joined;
  auto pieces = *reader->StreamPieces({"w"}, kMiB);
  while (auto piece = *pieces->Next()) {
    EXPECT_EQ(piece->offset_bytes, joined.size());
    EXPECT_LE(piece->content.size(), kMiB);
    Bytes content = piece->content.span();
    joined.insert(joined.end(), content.begin(), content.end());
  }
  EXPECT_EQ(joined, tensor.content);
}

TEST_P(ModelTest, PiecesOfLargeTensorsAreRangesOfRows) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  auto reader = Open();
  std::vector<uint8_t> joined;
  auto pieces = *reader->StreamPieces({"dense.weight"}, 3 * kMiB);
  size_t count = 0;
  while (auto piece = *pieces->Next()) {
    EXPECT_EQ(piece->offset_bytes, joined.size());
    EXPECT_LE(piece->content.size(), 3 * kMiB);
    Bytes content = piece->content.span();
    joined.insert(joined.end(), content.begin(), content.end());
    ++count;
  }
  EXPECT_EQ(joined, tensors[1].content);
  EXPECT_GT(count, 5u);
}

TEST_P(ModelTest, AnUpdateOfASliceSharesEveryUntouchedTile) {
  std::vector<Tensor> tensors = SmallModel();
  Write(tensors);
  std::vector<uint8_t> fresh(16 * 4096 * 2, 0xAB);
  auto report = UpdateSlice(*store_, name_, "dense.weight", "32:48", fresh, {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->applied);
  EXPECT_LT(report->new_bytes, tensors[1].content.size());
  std::vector<Tensor> before = tensors;
  std::memcpy(tensors[1].content.data() + 32 * 4096 * 2, fresh.data(), fresh.size());
  ExpectHolds(*Open(), tensors);
  ExpectHolds(*Open("1"), before);
}

TEST_P(ModelTest, AnUpdateOfAPackedTensorLeavesItsNeighboursAlone) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 40; ++i) {
    // Equal contents on purpose: packs of equal bytes are one object.
    tensors.push_back(MakeTensor("layer." + std::to_string(100 + i), DType::kF32, {100}, i % 4));
  }
  Write(tensors);
  std::vector<uint8_t> fresh(8, 0xCD);
  auto report = UpdateSlice(*store_, name_, "layer.117", "10:12", fresh, {});
  ASSERT_TRUE(report.ok()) << report.status();
  std::memcpy(tensors[17].content.data() + 40, fresh.data(), fresh.size());
  ExpectHolds(*Open(), tensors);
}

TEST_P(ModelTest, OfTwoUpdatesFromOneBaseOneWins) {
  Write(SmallModel());
  std::vector<uint8_t> fresh(77 * 4, 1);
  ModelName base = name_;
  base.version = "1";
  auto first = UpdateSlice(*store_, base, "norm", "", fresh, {});
  auto second = UpdateSlice(*store_, base, "norm", "", fresh, {});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_TRUE(first->applied);
  EXPECT_FALSE(second->applied);
  EXPECT_EQ(second->latest_found, 2u);
}

TEST_P(ModelTest, AliasesAndSideFilesTravelWithTheModel) {
  std::vector<Tensor> tensors = SmallModel();
  WriteInput input = InputOf(tensors);
  input.aliases["lm_head"] = "embed";
  input.metadata["format"] = "pt";
  std::string config = "{}";
  std::string tokenizer(3 * kMiB, 't');  // above the smaller limits: a chunked blob there
  auto text = [](const std::string& from) {
    return [&from](uint64_t offset, MutableBytes out) {
      std::memcpy(out.data(), from.data() + offset, out.size());
      return absl::OkStatus();
    };
  };
  input.side_files.push_back({"sub/tokenizer.json", tokenizer.size(), text(tokenizer)});
  input.side_files.push_back({"config.json", config.size(), text(config)});
  ASSERT_TRUE(WriteModel(*store_, name_, input).ok());
  auto reader = Open();
  std::vector<uint8_t> out(tensors[0].content.size());
  ASSERT_TRUE(reader->ReadTensor("lm_head", out).ok());
  EXPECT_EQ(out, tensors[0].content);
  auto stream = *reader->StreamTensors({"lm_head", "norm"});
  EXPECT_EQ((**stream->Next()).name, "lm_head");
  EXPECT_EQ((**stream->Next()).name, "norm");
  EXPECT_EQ(reader->manifest().metadata.at("format"), "pt");
  ASSERT_EQ(reader->manifest().side_files.size(), 2u);
  StringSink sink;
  ASSERT_TRUE(reader->ReadSideFile(reader->manifest().side_files[1], sink).ok());
  EXPECT_EQ(sink.text(), tokenizer);
}

TEST_P(ModelTest, ASourceThatFailsLeavesNothingVisible) {
  WriteInput input;
  input.tensors.push_back({.name = "w",
                           .dtype = DType::kF32,
                           .shape = {4096, 4096},
                           .read = [](uint64_t offset, MutableBytes out) {
                             if (offset + out.size() > 20 * kMiB)
                               return MakeError(Reason::kInvalidFile, "gone");
                             std::memset(out.data(), 1, out.size());
                             return absl::OkStatus();
                           }});
  auto report = WriteModel(*store_, name_, input);
  EXPECT_EQ(GetReason(report.status()), Reason::kInvalidFile);
  EXPECT_NE(std::string(report.status().message()).find("tensor 'w'"), std::string::npos);
  EXPECT_EQ(GetReason(ModelReader::Open(*store_, name_).status()), Reason::kNotFound);
}

TEST_P(ModelTest, ErrorsNameTheTensorAndWhatToDo) {
  Write(SmallModel());
  auto reader = Open();
  std::vector<uint8_t> out(10);
  EXPECT_EQ(GetReason(reader->ReadTensor("nobody", out)), Reason::kNotFound);
  absl::Status size = reader->ReadTensor("norm", out);
  EXPECT_EQ(GetReason(size), Reason::kInvalidArgument);
  EXPECT_NE(std::string(size.message()).find("308 bytes"), std::string::npos) << size;
  ModelName missing = name_;
  missing.version = "7";
  absl::Status version = ModelReader::Open(*store_, missing).status();
  EXPECT_NE(std::string(version.message()).find("has no version '7'"), std::string::npos);
}

TEST(ModelWriter, AMatrixExactlyAtTheLimitAndOneElementOverAreBothStored) {
  auto store = *OpenMemoryStore(kMiB);
  for (uint64_t columns : {512, 513}) {
    Tensor tensor = MakeTensor("w", DType::kF32, {512, columns}, columns);
    ModelName name{.ns = "t", .name = "m" + std::to_string(columns)};
    auto report = WriteModel(*store, name, InputOf({tensor}));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->tiles, columns == 512 ? 1u : 2u);
    std::vector<uint8_t> out(tensor.content.size());
    ASSERT_TRUE((*ModelReader::Open(*store, name))->ReadTensor("w", out).ok());
    EXPECT_EQ(out, tensor.content);
  }
}

TEST(ModelWriter, TensorsInMemoryMakeTheSameVersionAsThoseThatAreRead) {
  auto store = *OpenMemoryStore(kMiB);
  std::vector<Tensor> tensors = SmallModel();
  WriteInput in_memory;
  for (const Tensor& tensor : tensors) {
    in_memory.tensors.push_back({.name = tensor.name,
                                 .dtype = tensor.dtype,
                                 .shape = tensor.shape,
                                 .content = tensor.content});
  }
  auto read = WriteModel(*store, {.ns = "t", .name = "read"}, InputOf(tensors));
  auto held = WriteModel(*store, {.ns = "t", .name = "held"}, in_memory);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->version.record().root().SerializeAsString(),
            read->version.record().root().SerializeAsString());
  in_memory.tensors[0].content = Bytes(tensors[0].content).first(8);
  absl::Status wrong = WriteModel(*store, {.ns = "t", .name = "wrong"}, in_memory).status();
  EXPECT_EQ(GetReason(wrong), Reason::kInvalidArgument);
  EXPECT_NE(std::string(wrong.message()).find("its content 8"), std::string::npos) << wrong;
}

TEST(ModelWriter, ABudgetSmallerThanASlabReadsTilesInPieces) {
  auto store = *OpenMemoryStore();
  Tensor tensor = MakeTensor("w", DType::kF32, {2048, 8192}, 1);  // bands: a slab is 64 MiB
  WriteOptions options{.memory_bytes = 16 * kMiB};
  options.layout.kind = LayoutKind::kBands;
  ModelName name{.ns = "t", .name = "m"};
  ASSERT_TRUE(WriteModel(*store, name, InputOf({tensor}), options).ok());
  auto reader = *ModelReader::Open(*store, name, {.memory_bytes = 16 * kMiB});
  EXPECT_EQ(reader->manifest().tensors[0].grid().counts(), (Shape{1, 8}));
  std::vector<uint8_t> out(tensor.content.size());
  ASSERT_TRUE(reader->ReadTensor("w", out).ok());
  EXPECT_EQ(out, tensor.content);
  EXPECT_LE(reader->budget().peak_bytes(), 16 * kMiB);
}

TEST(ModelWriter, ManySmallTensorsMakeFewObjects) {
  auto store = *OpenMemoryStore();
  std::vector<Tensor> tensors;
  for (int i = 0; i < 10'000; ++i) {
    tensors.push_back(MakeTensor("t." + std::to_string(i), DType::kF32, {256}, i));
  }
  ModelName name{.ns = "t", .name = "m"};
  auto report = WriteModel(*store, name, InputOf(tensors));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(report->new_objects, 2'000u);
  auto reader = *ModelReader::Open(*store, name);
  uint64_t bytes = 0, count = 0;
  auto stream = *reader->StreamTensors();
  while (auto tensor = *stream->Next()) bytes += tensor->content.size(), ++count;
  EXPECT_EQ(count, 10'000u);
  EXPECT_EQ(bytes, 10'000u * 1024);
  // Neighbours in a pack are read together, not a leaf for each.
  EXPECT_LE(stream->stats().received_bytes, 3 * bytes);
  // A buffer of a page for each is counted as what it is.
  EXPECT_GE(stream->peak_bytes(), 2 * kMiB);
}

TEST(ModelReader, AManifestOfManyTensorsTakesItsShareOfTheMemory) {
  auto store = *OpenMemoryStore();
  std::vector<Tensor> tensors;
  for (int i = 0; i < 10'000; ++i) {
    tensors.push_back(MakeTensor("t." + std::to_string(i), DType::kF32, {1}, i));
  }
  ModelName name{.ns = "t", .name = "m"};
  ASSERT_TRUE(WriteModel(*store, name, InputOf(tensors)).ok());
  auto reader = *ModelReader::Open(*store, name, {.memory_bytes = 16 * kMiB});
  EXPECT_GT(reader->manifest().memory_bytes(), 2 * kMiB);
  EXPECT_LE(2 * (reader->budget().total_bytes() + reader->manifest().memory_bytes()), 16 * kMiB);
  // However large it is, something is left.
  reader = *ModelReader::Open(*store, name, {.memory_bytes = kMiB});
  EXPECT_EQ(reader->budget().total_bytes(), kMiB / 8);
}

}  // namespace
}  // namespace tilekv
