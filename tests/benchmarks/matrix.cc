#include "tests/benchmarks/matrix.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/benchmarks/measure.h"

namespace tilekv::bench {

Shape SquareOf(uint64_t bytes) {
  auto side = static_cast<uint64_t>(std::llround(std::sqrt(static_cast<double>(bytes) / 4)));
  return {side, side};
}

TensorSource MemoryTensor(DType dtype, Shape shape, Bytes content) {
  return {.name = kTensor, .dtype = dtype, .shape = std::move(shape), .content = content};
}

ModelName BenchName(const std::string& name) { return {.ns = "bench", .name = name}; }

void StoreModel(KvStore& store, const std::string& name, TensorSource source,
                const std::string& layout, const std::string& encoding) {
  WriteInput input;
  input.tensors.push_back(std::move(source));
  WriteOptions options;
  options.layout = Must(ParseLayout(layout));
  options.codec = Must(ParseCodec(encoding));
  Must(WriteModel(store, BenchName(name), input, options));
}

void RemoveModel(KvStore& store, const std::string& name) {
  v1::DeleteVersionsRequest request;
  request.set_ns("bench");
  request.set_name(name);
  request.set_all(true);
  request.set_now(true);
  Must(store.node().DeleteVersions(request));
  Must(store.node().Collect({}));
}

void FillDistinct(MutableBytes out, uint64_t generation) {
  for (size_t at = 0; at + 8 <= out.size(); at += 8) {
    uint64_t value = (at + generation * 0x9E37'79B9'7F4A'7C15u) * 0xD134'2543'DE82'EF95u;
    std::memcpy(out.data() + at, &value, 8);
  }
}

void FillNormalBf16(MutableBytes out, uint64_t seed) {
  constexpr size_t kBlock = size_t{1} << 20;  // drawn once, scaled differently in each block
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> drawn(kBlock);
  for (float& value : drawn) value = normal(random);
  size_t elements = out.size() / 2;
  for (size_t at = 0; at < elements; ++at) {
    float value =
        drawn[at % kBlock] * (0.75F + 0.5F * static_cast<float>(at / kBlock * 37 % 997) / 997);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    auto high = static_cast<uint16_t>(bits >> 16);
    std::memcpy(out.data() + 2 * at, &high, 2);
  }
}

}  // namespace tilekv::bench
