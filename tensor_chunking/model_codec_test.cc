// How tiles are stored is no matter of tensors: the same ids, the same content, whatever the codec.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/wire/object_messages.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {
namespace {

struct Tensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::string content;
};

Tensor Weights(std::string name, DType dtype, Shape shape, uint32_t seed) {
  Tensor tensor{std::move(name), dtype, std::move(shape), {}};
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  uint64_t bytes = *TensorBytes(dtype, tensor.shape);
  while (tensor.content.size() < bytes) {
    float value = engine() % 500 == 0 ? std::nanf("7") : normal(engine);
    auto bits = std::bit_cast<uint32_t>(value);
    if (dtype == DType::kF32) {
      AppendLe(tensor.content, bits);
    } else if (dtype == DType::kBF16) {
      AppendLe(tensor.content, static_cast<uint16_t>(bits >> 16));
    } else {
      AppendLe(tensor.content, static_cast<uint8_t>(engine() % 5));
    }
  }
  tensor.content.resize(bytes);
  return tensor;
}

std::vector<Tensor> Model() {
  return {Weights("embed", DType::kF32, {2000, 640}, 1),
          Weights("dense", DType::kBF16, {1024, 2048}, 2),
          Weights("routes", DType::kI32, {300, 1000}, 3), Weights("norm", DType::kBF16, {5000}, 4)};
}

class ModelCodecTest : public testing::Test {
 protected:
  void Write(const std::vector<Tensor>& tensors, Codec codec) {
    store_ = *OpenMemoryStore(kDefaultMaxObjectBytes);
    WriteInput input;
    for (const Tensor& tensor : tensors) {
      input.tensors.push_back({.name = tensor.name,
                               .dtype = tensor.dtype,
                               .shape = tensor.shape,
                               .read = [&tensor](uint64_t offset, MutableBytes out) {
                                 std::memcpy(out.data(), tensor.content.data() + offset,
                                             out.size());
                                 return absl::OkStatus();
                               }});
    }
    WriteOptions options{.tile_bytes = kMiB, .codec = codec};
    auto report = WriteModel(*store_, name_, input, options);
    ASSERT_TRUE(report.ok()) << report.status();
    auto reader = ModelReader::Open(*store_, name_, {});
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
  }
  // Encodings of the tiles of a tensor.
  std::map<std::string, int> EncodingsOf(const std::string& tensor) {
    auto entry = reader_->Find(tensor);
    EXPECT_TRUE(entry.ok()) << entry.status();
    std::map<std::string, int> found;
    v1::LocateRequest request;
    for (const TileRef& tile : (*entry)->tiles) ObjectRefToWire(tile.object, request.add_refs());
    auto response = store_->node().Locate(request);
    EXPECT_TRUE(response.ok()) << response.status();
    for (const v1::LocatedObject& object : response->objects()) {
      found[EncodingName(*EncodingFromWire(object.copies(0).encoding()))] += 1;
    }
    return found;
  }
  void ExpectHolds(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      std::vector<uint8_t> out(tensor.content.size());
      absl::Status status = reader_->ReadTensor(tensor.name, out);
      ASSERT_TRUE(status.ok()) << tensor.name << ": " << status;
      EXPECT_TRUE(AsText(out) == tensor.content) << tensor.name;
    }
  }

  std::unique_ptr<KvStore> store_;
  std::unique_ptr<ModelReader> reader_;
  ModelName name_{.ns = "t", .name = "model"};
};

TEST_F(ModelCodecTest, EveryCodecGivesTheSameDigestAndTheSameContent) {
  std::vector<Tensor> tensors = Model();
  std::string digest;
  for (Codec codec : {Codec::kNone, Codec::kZstd, Codec::kPlanes, Codec::kAuto}) {
    Write(tensors, codec);
    ASSERT_NE(reader_, nullptr);
    ExpectHolds(tensors);
    const std::string& root = reader_->version().record().root().id();
    if (digest.empty()) digest = root;
    EXPECT_EQ(digest, root) << CodecName(codec);
  }
}

TEST_F(ModelCodecTest, PlanesTakeTheWidthOfTheDTypeAndLeaveIntegersAlone) {
  Write(Model(), Codec::kPlanes);
  EXPECT_EQ(EncodingsOf("embed").count("planes(4)"), 1u);
  EXPECT_EQ(EncodingsOf("embed").size(), 1u);
  EXPECT_EQ(EncodingsOf("dense").count("planes(2)"), 1u);
  EXPECT_EQ(EncodingsOf("routes").count("none"), 1u);
}

TEST_F(ModelCodecTest, AutoTakesPlanesForWeightsAndZstdForSmallIntegers) {
  Write(Model(), Codec::kAuto);
  EXPECT_EQ(EncodingsOf("embed").count("planes(4)"), 1u);
  EXPECT_EQ(EncodingsOf("dense").count("planes(2)"), 1u);
  EXPECT_EQ(EncodingsOf("routes").count("zstd"), 1u);
}

TEST_F(ModelCodecTest, ASliceOfPlanesReadsAndDecodesLittle) {
  std::vector<Tensor> tensors = Model();
  Write(tensors, Codec::kPlanes);
  const Tensor& dense = tensors[1];
  auto slice = ResolveSlice("500:510, :", dense.shape);
  ASSERT_TRUE(slice.ok()) << slice.status();
  ReadStats stats;
  std::vector<uint8_t> out(10 * 2048 * 2);
  absl::Status status = reader_->ReadSlice("dense", *slice, out, &stats);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(AsText(out) == dense.content.substr(500 * 4096, 10 * 4096));
  EXPECT_LT(stats.received_bytes, dense.content.size() * 7 / 10);
}

}  // namespace
}  // namespace tilekv
