// Byte planes: what they save, how fast one core decodes them, what they cost a load over TCP.
#include <memory>
#include <vector>

#include "client/connect.h"
#include "fmt/format.h"
#include "kvstore/object/encoding.h"
#include "tensor_chunking/model_reader.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/rivals.h"
#include "tests/benchmarks/sections.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {
namespace {

constexpr size_t kDecodedTiles = 16;

struct CodedTile {
  CodedContent coded;
  size_t length = 0;
};

void Decode(const Encoding& encoding, const std::vector<CodedTile>& tiles, MutableBytes out) {
  auto codec = Must(NewBlockCodec(encoding));
  for (const CodedTile& tile : tiles) {
    const uint8_t* stored = AsBytes(tile.coded.stored).data();
    for (uint64_t block = 0; block < tile.coded.table.size(); ++block) {
      uint32_t entry = tile.coded.table[block];
      Must(codec->Decode({stored, entry & ~kRawBlockBit}, entry,
                         out.subspan(block * kBlockBytes, BlockLength(tile.length, block))));
      stored += entry & ~kRawBlockBit;
    }
  }
}

}  // namespace

nlohmann::json Planes(const Arguments& arguments) {
  TouchedMemory memory(arguments.bytes);
  MutableBytes space{memory.data(), memory.size()};
  FillNormalBf16(space, 1);
  Shape shape{arguments.bytes / 2 / 8192, 8192};
  auto store = Must(Connect(arguments.store));
  nlohmann::json sizes = nlohmann::json::array();
  Contest contest;
  std::vector<std::unique_ptr<std::vector<CodedTile>>> kept;
  TouchedMemory tile(kTileBytes);
  for (const Encoding& encoding :
       {Encoding{EncodingKind::kPlanes, 2}, Encoding{EncodingKind::kZstd, 0}}) {
    auto& tiles = *kept.emplace_back(std::make_unique<std::vector<CodedTile>>());
    uint64_t stored_bytes = 0;
    size_t count = std::min(kDecodedTiles, space.size() / kTileBytes);
    for (size_t i = 0; i < count; ++i) {
      Bytes content = space.subspan(i * kTileBytes, kTileBytes);
      tiles.push_back({Must(EncodeContent(encoding, content)), content.size()});
      stored_bytes += tiles.back().coded.stored.size();
    }
    double content_bytes = static_cast<double>(count * kTileBytes);
    sizes.push_back({{"name", EncodingName(encoding)},
                     {"share", static_cast<double>(stored_bytes) / content_bytes}});
    contest.Add("decode " + EncodingName(encoding) + ", one core", content_bytes / 1e9, "GB",
                [&tiles, &tile, encoding] {
                  Decode(encoding, tiles, {tile.data(), tile.size()});
                });
  }
  // Each of its own content: what is stored already is not stored again, however it is coded.
  std::vector<std::unique_ptr<ModelReader>> readers;
  for (const char* encoding : {"none", "planes"}) {
    std::string name = std::string("coded-") + encoding;
    FillNormalBf16(space, 2 + readers.size());
    StoreModel(*store, name, MemoryTensor(DType::kBF16, shape, space), "auto", encoding);
    ReaderOptions options;
    options.memory_bytes = arguments.memory_bytes;
    auto& reader = *readers.emplace_back(Must(ModelReader::Open(*store, BenchName(name), options)));
    ReadStats stats;
    Must(reader.ReadTensor(kTensor, space, &stats));
    sizes.push_back(
        {{"name", fmt::format("bytes sent for a load, {}", encoding)},
         {"share", static_cast<double>(stats.received_bytes) / static_cast<double>(space.size())}});
    contest.Add(fmt::format("load over TCP, verified, {}", encoding),
                static_cast<double>(space.size()) / 1e9, "GB",
                [space, &reader] { Must(reader.ReadTensor(kTensor, space)); });
  }
  contest.Run(arguments.rounds);
  for (const char* encoding : {"none", "planes"}) {
    RemoveModel(*store, std::string("coded-") + encoding);
  }
  return {{"rows", contest.Rows()}, {"sizes", sizes}};
}

}  // namespace tilekv::bench
