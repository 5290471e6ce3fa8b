// Models of many small tensors, and sizes from small to large.
#include <algorithm>
#include <cmath>
#include <vector>

#include "client/connect.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_reader.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/sections.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {
namespace {

constexpr uint64_t kSmallBytes = 1024;

uint64_t ObjectCount(KvStore& store) { return Must(store.node().Info({})).objects(); }

void StoreSmallTensors(KvStore& store, const std::string& name, Bytes content) {
  WriteInput input;
  for (uint64_t i = 0; i < content.size() / kSmallBytes; ++i) {
    TensorSource source =
        MemoryTensor(DType::kF32, {kSmallBytes / 4}, content.subspan(i * kSmallBytes, kSmallBytes));
    source.name = fmt::format("layers.{}.weight", i);
    input.tensors.push_back(std::move(source));
  }
  Must(WriteModel(store, BenchName(name), input));
}

void LoadAll(ModelReader& reader, uint64_t expected) {
  auto stream = Must(reader.StreamTensors());
  uint64_t count = 0;
  while (Must(stream->Next()).has_value()) ++count;
  if (count != expected) Must(MakeError(Reason::kInternal, "a tensor is missing"));
}

}  // namespace

nlohmann::json ManyTensors(const Arguments& arguments) {
  auto store = Must(Connect(arguments.store));
  nlohmann::json facts = nlohmann::json::array();
  std::vector<std::unique_ptr<ModelReader>> readers;
  ReaderOptions options;
  options.memory_bytes = arguments.memory_bytes;
  Contest contest;
  for (uint64_t count : {10'000, 100'000}) {
    std::vector<uint8_t> content(count * kSmallBytes);
    FillDistinct(content, 2'000 + count);
    std::string name = fmt::format("tensors-{}", count);
    uint64_t before = ObjectCount(*store);
    StoreSmallTensors(*store, name, content);
    facts.push_back({{"tensors", count}, {"objects", ObjectCount(*store) - before}});
    contest.Add(fmt::format("open a model of {} tensors", count), 1, "open",
                [&store, name] { Must(ModelReader::Open(*store, BenchName(name))); });
    readers.push_back(Must(ModelReader::Open(*store, BenchName(name), options)));
    contest.Add(fmt::format("load a model of {} tensors", count), 1, "load",
                [reader = readers.back().get(), count] { LoadAll(*reader, count); });
  }
  uint64_t least = std::min(arguments.bytes, uint64_t{64} << 20);
  TouchedMemory memory(4 * arguments.bytes);
  for (uint64_t bytes = least; bytes <= memory.size(); bytes *= 4) {
    MutableBytes space{memory.data(), bytes};
    std::string name = fmt::format("size-{}", bytes);
    FillDistinct(space, 3'000 + bytes);
    StoreModel(*store, name, MemoryTensor(DType::kF32, SquareOf(bytes), space), "auto");
    readers.push_back(Must(ModelReader::Open(*store, BenchName(name), options)));
    contest.Add(
        fmt::format("load {} MiB", bytes >> 20), static_cast<double>(bytes) / 1e9, "GB",
        [space, reader = readers.back().get()] { Must(reader->ReadTensor(kTensor, space)); });
  }
  contest.Run(arguments.rounds);
  return {{"rows", contest.Rows()}, {"models", facts}};
}

}  // namespace tilekv::bench
