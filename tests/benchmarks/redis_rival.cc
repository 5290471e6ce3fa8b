#include "tests/benchmarks/redis_rival.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/benchmarks/rivals.h"

namespace tilekv::bench {
namespace {

constexpr size_t kUnderWay = 2;  // tiles asked for before the first has come

struct Free {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Connection = std::unique_ptr<redisContext, Free>;
using Reply = std::unique_ptr<redisReply, Free>;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "redis: %s\n", what);
  std::exit(1);
}

Connection ConnectTo(uint16_t port) {
  Connection connection(redisConnect("127.0.0.1", port));
  if (connection == nullptr || connection->err != 0) Fail("no connection");
  return connection;
}

Reply NextReply(redisContext& connection) {
  void* reply = nullptr;
  if (redisGetReply(&connection, &reply) != REDIS_OK) Fail(connection.errstr);
  Reply owned(static_cast<redisReply*>(reply));
  if (owned->type == REDIS_REPLY_ERROR) Fail(owned->str);
  return owned;
}

std::string KeyOf(size_t tile) { return "tile" + std::to_string(tile); }

void Ask(redisContext& connection, size_t tile) {
  redisAppendCommand(&connection, "GET %s", KeyOf(tile).c_str());
}

void LoadShare(uint16_t port, MutableBytes out, size_t first, size_t last, bool hash) {
  Connection connection = ConnectTo(port);
  size_t asked = first;
  for (size_t tile = first; tile < last; ++tile) {
    for (; asked < std::min(last, tile + kUnderWay); ++asked) Ask(*connection, asked);
    Reply reply = NextReply(*connection);
    if (reply->type != REDIS_REPLY_STRING) Fail("a tile is missing");
    std::memcpy(out.data() + tile * kTileBytes, reply->str, reply->len);
    if (hash) HashAll({out.data() + tile * kTileBytes, reply->len});
  }
}

}  // namespace

void RedisRival::Store(Bytes content) {
  Connection connection = ConnectTo(port_);
  for (size_t at = 0; at < content.size(); at += kTileBytes) {
    redisAppendCommand(connection.get(), "SET %s %b", KeyOf(at / kTileBytes).c_str(),
                       content.data() + at, std::min(kTileBytes, content.size() - at));
    NextReply(*connection);
  }
}

void RedisRival::Load(MutableBytes out, int connections, bool hash) {
  size_t tiles = (out.size() + kTileBytes - 1) / kTileBytes;
  std::vector<std::thread> threads;
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back(
        [&, first = tiles * i / connections, last = tiles * (i + 1) / connections] {
          LoadShare(port_, out, first, last, hash);
        });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tilekv::bench
