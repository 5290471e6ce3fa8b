// What parts of a matrix cost: bytes received for bytes asked, of shards on either axis and of
// rows.
#include <algorithm>
#include <vector>

#include "client/connect.h"
#include "fmt/format.h"
#include "tensor_chunking/model_reader.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/sections.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {
namespace {

constexpr uint64_t kRows = 8192;
constexpr uint64_t kColumns = 28672;

double CostOf(const ReadStats& stats) {
  return static_cast<double>(stats.received_bytes) / static_cast<double>(stats.asked_bytes);
}

}  // namespace

nlohmann::json Shards(const Arguments& arguments) {
  auto store = Must(Connect(arguments.store));
  TouchedMemory memory(kRows * kColumns * 2);
  MutableBytes space{memory.data(), memory.size()};
  FillDistinct(space, 1'000);
  StoreModel(*store, "shards", MemoryTensor(DType::kBF16, {kRows, kColumns}, space), "auto");
  ReaderOptions options;
  options.memory_bytes = arguments.memory_bytes;
  auto reader = Must(ModelReader::Open(*store, BenchName("shards"), options));

  nlohmann::json costs = nlohmann::json::array();
  for (int axis : {0, 1}) {
    for (uint64_t world : {2, 4, 8}) {
      double worst = 0;
      for (uint64_t rank = 0; rank < world; ++rank) {
        ReadStats stats;
        Must(reader->ReadShard(kTensor, rank, world, axis, space.first(space.size() / world),
                               &stats));
        worst = std::max(worst, CostOf(stats));
      }
      costs.push_back(
          {{"name", fmt::format("shard of {} on axis {}", world, axis)}, {"cost", worst}});
    }
  }
  const Shape shape{kRows, kColumns};
  const uint64_t share = kRows / 100;
  double worst = 0;
  for (uint64_t start = 17; start + share <= kRows; start += 1'021) {
    auto slice = Must(ResolveSlice(fmt::format("{}:{}", start, start + share), shape));
    ReadStats stats;
    Must(reader->ReadSlice(kTensor, slice, space.first(share * kColumns * 2), &stats));
    worst = std::max(worst, CostOf(stats));
  }
  costs.push_back({{"name", "slice of 1 % of the rows"}, {"cost", worst}});
  RemoveModel(*store, "shards");
  return {{"costs", costs}};
}

}  // namespace tilekv::bench
