// Storing durably: over TCP and embedded, against programs that hash, send and write the same
// tiles.
#include <filesystem>
#include <memory>

#include "client/connect.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/rivals.h"
#include "tests/benchmarks/sections.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {

nlohmann::json StoreDurably(const Arguments& arguments) {
  auto node = Must(Connect(arguments.store));
  auto embedded = Must(Connect(arguments.folder + "/embedded"));
  std::string raw = arguments.folder + "/raw";
  std::filesystem::create_directories(raw);
  TouchedMemory memory(arguments.bytes);
  MutableBytes content{memory.data(), memory.size()};
  uint64_t generation = 0;
  // Nothing that a store has seen: it would only be linked.
  auto fresh = [&](KvStore& store) {
    RemoveModel(store, "store");
    FillDistinct(content, ++generation);
  };
  auto save = [&](KvStore& store, const std::string& layout) {
    StoreModel(store, "store", MemoryTensor(DType::kF32, SquareOf(arguments.bytes), content),
               layout);
  };
  FillDistinct(content, ++generation);
  for (KvStore* store : {node.get(), embedded.get()}) save(*store, "auto");

  double gigabytes = static_cast<double>(arguments.bytes) / 1e9;
  Contest contest;
  contest.Add("raw files, one thread", gigabytes, "GB",
              [&] { WriteTiles(raw, content, 1, false); });
  contest.Add("raw files, two threads", gigabytes, "GB",
              [&] { WriteTiles(raw, content, 2, false); });
  contest.Add("hashed, raw files, two threads", gigabytes, "GB",
              [&] { WriteTiles(raw, content, 2, true); });
  contest.Add("bare program, TCP, two streams", gigabytes, "GB",
              [&] { StoreTiles(arguments.tile_port, content, 2); });
  contest.Add(
      "TileKV over TCP", gigabytes, "GB", [&] { save(*node, "auto"); }, [&] { fresh(*node); });
  contest.Add(
      "TileKV over TCP, rows", gigabytes, "GB", [&] { save(*node, "rows"); },
      [&] { fresh(*node); });
  contest.Add(
      "TileKV embedded", gigabytes, "GB", [&] { save(*embedded, "auto"); },
      [&] { fresh(*embedded); });
  contest.Add(
      "TileKV embedded, rows", gigabytes, "GB", [&] { save(*embedded, "rows"); },
      [&] { fresh(*embedded); });
  contest.Run(arguments.rounds);
  std::filesystem::remove_all(raw);
  return {{"rows", contest.Rows()}};
}

}  // namespace tilekv::bench
