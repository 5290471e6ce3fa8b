// Loading: over TCP against raw streams and Redis, embedded against pread.
#include <memory>

#include "client/connect.h"
#include "tensor_chunking/model_reader.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/redis_rival.h"
#include "tests/benchmarks/rivals.h"
#include "tests/benchmarks/sections.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {
namespace {

std::unique_ptr<ModelReader> OpenModel(KvStore& store, const std::string& name,
                                       const Arguments& arguments, bool verify) {
  ReaderOptions options;
  options.memory_bytes = arguments.memory_bytes;
  options.verify = verify;
  return Must(ModelReader::Open(store, BenchName(name), options));
}

// The model that all loads read, in this layout; equal to the file.
void StoreFile(KvStore& store, const std::string& name, const std::string& layout,
               const Arguments& arguments, MutableBytes space) {
  ReadFile(arguments.file, space, 2, false);
  StoreModel(store, name, MemoryTensor(DType::kF32, SquareOf(arguments.bytes), space), layout);
}

}  // namespace

nlohmann::json LoadOverTcp(const Arguments& arguments) {
  auto store = Must(Connect(arguments.store));
  TouchedMemory memory(arguments.bytes);
  MutableBytes out{memory.data(), memory.size()};
  StoreFile(*store, "load", "auto", arguments, out);
  StoreFile(*store, "load-rows", "rows", arguments, out);
  auto verified = OpenModel(*store, "load", arguments, true);
  auto unverified = OpenModel(*store, "load", arguments, false);
  auto rows = OpenModel(*store, "load-rows", arguments, true);

  double gigabytes = static_cast<double>(arguments.bytes) / 1e9;
  Contest contest;
  for (int streams : {1, 2}) {
    contest.Add("raw TCP, streams: " + std::to_string(streams), gigabytes, "GB",
                [&, streams] { FetchFile(arguments.file_port, out, streams, false); });
    contest.Add("raw TCP, hashed, streams: " + std::to_string(streams), gigabytes, "GB",
                [&, streams] { FetchFile(arguments.file_port, out, streams, true); });
  }
  contest.Add("TileKV, verified", gigabytes, "GB",
              [&] { Must(verified->ReadTensor(kTensor, out)); });
  contest.Add("TileKV, not verified", gigabytes, "GB",
              [&] { Must(unverified->ReadTensor(kTensor, out)); });
  contest.Add("TileKV, rows, verified", gigabytes, "GB",
              [&] { Must(rows->ReadTensor(kTensor, out)); });
  std::unique_ptr<TouchedMemory> fresh;
  auto renew = [&] {
    fresh.reset();
    fresh = std::make_unique<TouchedMemory>(arguments.bytes, false);
  };
  contest.Add(
      "TileKV, verified, first touch", gigabytes, "GB",
      [&] {
        Must(verified->ReadTensor(kTensor, {fresh->data(), fresh->size()}));
      },
      renew);
  contest.Add(
      "raw TCP, hashed, first touch, streams: 2", gigabytes, "GB",
      [&] {
        FetchFile(arguments.file_port, {fresh->data(), fresh->size()}, 2, true);
      },
      renew);
  std::unique_ptr<RedisRival> redis;
  if (arguments.redis_port != 0) {
    ReadFile(arguments.file, out, 2, false);
    redis = std::make_unique<RedisRival>(arguments.redis_port);
    redis->Store(out);
    contest.Add("Redis, one connection", gigabytes, "GB", [&] { redis->Load(out, 1, false); });
    contest.Add("Redis, two connections", gigabytes, "GB", [&] { redis->Load(out, 2, false); });
    contest.Add("Redis, two connections, hashed", gigabytes, "GB",
                [&] { redis->Load(out, 2, true); });
  }
  contest.Run(arguments.rounds);
  return {{"rows", contest.Rows()}};
}

nlohmann::json LoadEmbedded(const Arguments& arguments) {
  auto store = Must(Connect(arguments.folder + "/embedded"));
  TouchedMemory memory(arguments.bytes);
  MutableBytes out{memory.data(), memory.size()};
  StoreFile(*store, "load", "auto", arguments, out);
  auto verified = OpenModel(*store, "load", arguments, true);
  auto unverified = OpenModel(*store, "load", arguments, false);
  int threads = DefaultThreads(0);

  double gigabytes = static_cast<double>(arguments.bytes) / 1e9;
  Contest contest;
  contest.Add("pread", gigabytes, "GB", [&] { ReadFile(arguments.file, out, threads, false); });
  contest.Add("pread, hashed", gigabytes, "GB",
              [&] { ReadFile(arguments.file, out, threads, true); });
  contest.Add("TileKV, verified", gigabytes, "GB",
              [&] { Must(verified->ReadTensor(kTensor, out)); });
  contest.Add("TileKV, not verified", gigabytes, "GB",
              [&] { Must(unverified->ReadTensor(kTensor, out)); });
  contest.Run(arguments.rounds);
  return {{"rows", contest.Rows()}, {"threads", threads}};
}

}  // namespace tilekv::bench
