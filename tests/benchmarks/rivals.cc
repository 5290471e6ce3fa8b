#include "tests/benchmarks/rivals.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kvstore/object/object_hash.h"
#include "tests/benchmarks/sockets.h"

namespace tilekv::bench {
namespace {

constexpr int kBuffersPerConnection = 3;
constexpr int kDiskThreads = 2;
constexpr int kFilesKept = 256;  // names are used again, so that the disk does not fill

struct Range {
  uint64_t offset = 0;
  uint64_t length = 0;
};

int OpenOrDie(const std::string& path, int flags) {
  int descriptor = open(path.c_str(), flags, 0644);
  if (descriptor >= 0) return descriptor;
  std::perror(path.c_str());
  std::exit(1);
}

// In `parts` of whole tiles, each on a thread of its own.
void InParallel(size_t size, int parts, const std::function<void(Range)>& work) {
  std::vector<std::thread> threads;
  size_t tiles = (size + kTileBytes - 1) / kTileBytes;
  for (int i = 0; i < parts; ++i) {
    size_t from = std::min(size, tiles * i / parts * kTileBytes);
    size_t to = std::min(size, tiles * (i + 1) / parts * kTileBytes);
    threads.emplace_back([&work, from, to] { work({from, to - from}); });
  }
  for (std::thread& thread : threads) thread.join();
}

void ForPieces(Range range, size_t piece, const std::function<void(size_t, size_t)>& visit) {
  for (size_t at = range.offset; at < range.offset + range.length; at += piece) {
    visit(at, std::min(piece, range.offset + range.length - at));
  }
}

void WriteTile(const std::string& folder, const uint8_t* tile) {
  static std::atomic<int> number{0};
  std::string path = folder + "/" + std::to_string(number++ % kFilesKept);
  unlink(path.c_str());
  int file = OpenOrDie(path, O_CREAT | O_WRONLY | O_DIRECT);
  if (pwrite(file, tile, kTileBytes, 0) != static_cast<ssize_t>(kTileBytes) || fdatasync(file)) {
    std::perror(path.c_str());
    std::exit(1);
  }
  close(file);
}

// Work for the disk threads of ServeTileStore.
class WorkQueue {
 public:
  void Add(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    some_.notify_one();
  }
  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      some_.wait(lock, [this] { return !queue_.empty(); });
      std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<std::function<void()>> queue_;
};

// The buffers of one connection: taken by its receiver, given back by a disk thread.
class TileBuffers {
 public:
  TileBuffers() : memory_(kBuffersPerConnection * kTileBytes) {
    for (int i = 0; i < kBuffersPerConnection; ++i)
      free_.push_back(memory_.data() + i * kTileBytes);
  }
  uint8_t* Take() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !free_.empty(); });
    uint8_t* tile = free_.back();
    free_.pop_back();
    return tile;
  }
  void Give(uint8_t* tile) {
    std::lock_guard lock(mutex_);
    free_.push_back(tile);
    freed_.notify_all();
  }
  void WaitForAll() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return free_.size() == kBuffersPerConnection; });
  }

 private:
  TouchedMemory memory_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<uint8_t*> free_;
};

void ReceiveTiles(Socket& connection, const std::string& folder, WorkQueue& disk) {
  TileBuffers buffers;
  for (;;) {
    uint8_t* tile = buffers.Take();
    bool more = true;
    for (size_t at = 0; more && at < kTileBytes; at += kPieceBytes) {
      more = connection.Receive(tile + at, kPieceBytes);
      if (more) HashAll({tile + at, kPieceBytes});
    }
    if (!more) {
      buffers.Give(tile);
      break;
    }
    disk.Add([&connection, &buffers, &folder, tile] {
      WriteTile(folder, tile);
      char acknowledged = 1;
      connection.Send(&acknowledged, 1);
      buffers.Give(tile);
    });
  }
  buffers.WaitForAll();
}

}  // namespace

void HashAll(Bytes content) {
  LeafTable table;
  table.reserve(LeafCount(content.size()));
  HashLeaves(content, table);
}

uint16_t ServeFile(const std::string& path) {
  int file = OpenOrDie(path, O_RDONLY);
  return Listen([file, path](Socket& connection) {
    TouchedMemory piece(kPieceBytes);
    Range range;
    while (connection.Receive(&range, sizeof range)) {
      ForPieces(range, kPieceBytes, [&](size_t at, size_t size) {
        if (pread(file, piece.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) {
          std::perror(path.c_str());
          std::exit(1);
        }
        connection.Send(piece.data(), size);
      });
    }
  });
}

uint16_t ServeTileStore(const std::string& folder) {
  auto disk = std::make_shared<WorkQueue>();
  for (int i = 0; i < kDiskThreads; ++i) std::thread([disk] { disk->Run(); }).detach();
  return Listen([disk, folder](Socket& connection) { ReceiveTiles(connection, folder, *disk); });
}

void FetchFile(uint16_t port, MutableBytes out, int streams, bool hash) {
  InParallel(out.size(), streams, [&](Range share) {
    Socket connection(Socket::ConnectTo(port));
    ForPieces(share, kTileBytes, [&](size_t at, size_t size) {
      Range range{at, size};
      connection.Send(&range, sizeof range);
      connection.Receive(out.data() + at, size);
      if (hash) HashAll({out.data() + at, size});
    });
  });
}

void StoreTiles(uint16_t port, Bytes content, int streams) {
  InParallel(content.size(), streams, [&](Range share) {
    Socket connection(Socket::ConnectTo(port));
    ForPieces(share, kTileBytes, [&](size_t at, size_t size) {
      HashAll({content.data() + at, size});  // the id is known before the tile is sent
      ForPieces({at, size}, kPieceBytes,
                [&](size_t from, size_t piece) { connection.Send(content.data() + from, piece); });
    });
    std::vector<char> acknowledged(share.length / kTileBytes);
    connection.Receive(acknowledged.data(), acknowledged.size());
  });
}

void WriteTiles(const std::string& folder, Bytes content, int threads, bool hash) {
  InParallel(content.size(), threads, [&](Range share) {
    ForPieces(share, kTileBytes, [&](size_t at, size_t size) {
      if (hash) HashAll({content.data() + at, size});
      WriteTile(folder, content.data() + at);
    });
  });
}

void ReadFile(const std::string& path, MutableBytes out, int threads, bool hash) {
  InParallel(out.size(), threads, [&](Range share) {
    int file = OpenOrDie(path, O_RDONLY);
    ForPieces(share, kPieceBytes, [&](size_t at, size_t size) {
      if (pread(file, out.data() + at, size, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(size)) {
        std::perror(path.c_str());
        std::exit(1);
      }
      if (hash) HashAll({out.data() + at, size});
    });
    close(file);
  });
}

}  // namespace tilekv::bench
