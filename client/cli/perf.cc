#include "client/cli/perf.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "client/cli/perf_rivals.h"
#include "fmt/format.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/random.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/model_name.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/parallel.h"

namespace tilekv {
namespace {

// Less of what was expected is another limit.
constexpr double kMostOfIt = 0.6;
// More than that is another source.
constexpr double kAboveIt = 1.1;
constexpr uint64_t kSliceShare = 16;
constexpr double kHashSeconds = 0.5;

// Tiles of random bytes, each its own: a counter in each stands for more randomness.
class TileSource {
 public:
  TileSource(uint64_t tile_bytes, int threads)
      : pool_(BufferPool::Create(tile_bytes * static_cast<uint64_t>(threads))),
        salt_(Random::System()->Bytes(16)) {
    for (int i = 0; i < threads; ++i) {
      Buffer& tile = free_.emplace_back(pool_->Get(tile_bytes));
      SeededRandom random(i);
      for (uint64_t at = 0; at + 8 <= tile_bytes; at += 8) {
        uint64_t word = random.Next();
        std::memcpy(tile.data() + at, &word, 8);
      }
      std::memcpy(tile.data(), salt_.data(), salt_.size());
    }
  }

  // With tile `index`, as long as `use` runs. At most one for each thread.
  template <typename Use>
  auto With(uint64_t index, const Use& use) {
    Buffer tile = Take();
    std::memcpy(tile.data() + salt_.size(), &index, sizeof index);
    auto result = use(tile.span());
    MutexLock lock(mutex_);
    free_.push_back(std::move(tile));
    return result;
  }

 private:
  Buffer Take() {
    MutexLock lock(mutex_);
    Buffer tile = std::move(free_.back());
    free_.pop_back();
    return tile;
  }

  const std::shared_ptr<BufferPool> pool_;
  const std::string salt_;
  Mutex mutex_;
  std::vector<Buffer> free_ ABSL_GUARDED_BY(mutex_);
};

// Runs `step` for tiles 0, 1, ... on all threads until the time is over. It gives its bytes.
absl::StatusOr<PerfFigure> Measure(const PerfOptions& options, uint64_t tiles, double seconds,
                                   const std::function<absl::StatusOr<uint64_t>(uint64_t)>& step) {
  const int64_t began_nanos = Clock::System()->MonotonicNanos();
  const auto most_nanos = static_cast<int64_t>(seconds * 1e9);
  std::atomic<uint64_t> bytes{0};
  TILEKV_RETURN_IF_ERROR(
      ParallelFor(options.threads, tiles, options.context, [&](size_t i) -> absl::Status {
        bool over = Clock::System()->MonotonicNanos() - began_nanos > most_nanos;
        if (over && i > 0) return absl::OkStatus();
        TILEKV_ASSIGN_OR_RETURN(uint64_t done, step(i));
        bytes += done;
        return absl::OkStatus();
      }));
  return PerfFigure{bytes,
                    static_cast<double>(Clock::System()->MonotonicNanos() - began_nanos) / 1e9};
}

// For what is stored, and as much again for files beside it; the store's reserve stays free.
absl::Status CheckRoom(KvStore& store, const PerfOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, store.node().Info({}, options.context));
  const uint64_t reserve = std::clamp(info.disk_total_bytes() / 100 * kReservePercent,
                                      kReserveMinBytes, kReserveMaxBytes);
  const uint64_t free = info.disk_available_bytes();
  if (info.disk_total_bytes() == 0 || (free > reserve && options.bytes <= (free - reserve) / 2)) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kStoreFull,
                   fmt::format("{} are free on the store's disk, of which {} stay free; twice {} "
                               "do not fit: take less --bytes",
                               FormatSize(free), FormatSize(reserve), FormatSize(options.bytes)));
}

bool IsOfThisMachine(const addrinfo& address) {
  // The loopback may be named where its family is not served.
  if (address.ai_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
    if (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)) return true;
  }
  // Only an address of its own can be bound to, on a port that the system chooses.
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool own = bind(fd, address.ai_addr, address.ai_addrlen) == 0;
  close(fd);
  return own;
}

// One run of all figures.
class PerfRun {
 public:
  PerfRun(KvStore& store, const PerfOptions& options, uint64_t tile_bytes)
      : store_(store),
        options_(options),
        tile_bytes_(tile_bytes),
        tiles_(std::max<uint64_t>(1, options.bytes / tile_bytes)),
        source_(tile_bytes, options.threads),
        refs_(tiles_) {}

  absl::StatusOr<PerfReport> Run() {
    PerfReport report{.tile_bytes = tile_bytes_};
    TILEKV_ASSIGN_OR_RETURN(report.hash, Hash());
    TILEKV_RETURN_IF_ERROR(MeasureMachine(report));
    TILEKV_ASSIGN_OR_RETURN(auto session, store_.BeginSession("tilekv perf", options_.context));
    TILEKV_ASSIGN_OR_RETURN(report.put, Put(*session));
    TILEKV_ASSIGN_OR_RETURN(report.get, Read(0, tile_bytes_));
    TILEKV_ASSIGN_OR_RETURN(report.slice, Read(tile_bytes_ / 3, tile_bytes_ / kSliceShare));
    return report;
  }

 private:
  absl::StatusOr<PerfFigure> Hash() {
    constexpr uint64_t kMany = 1'000'000;
    return Measure(options_, kMany, kHashSeconds, [&](uint64_t i) -> absl::StatusOr<uint64_t> {
      return source_.With(i, [](Bytes tile) { return RefOf(0, tile).length; });
    });
  }

  absl::Status MeasureMachine(PerfReport& report) {
    TILEKV_ASSIGN_OR_RETURN(StoreUri uri, StoreUri::Parse(store_.uri()));
    const bool node = uri.kind != StoreUri::Kind::kDirectory && uri.kind != StoreUri::Kind::kMemory;
    const bool near = node && std::all_of(uri.hosts.begin(), uri.hosts.end(), IsThisMachine);
    if (!options_.disk_folder.empty() && !near) {
      return MakeError(Reason::kInvalidArgument,
                       "--disk is for a node on this machine, named by an address of this machine");
    }
    if (uri.kind == StoreUri::Kind::kDirectory) {
      // Where a store's unfinished files are, which nobody takes for anything else.
      const std::string scratch = uri.directory + "/tmp";
      TILEKV_RETURN_IF_ERROR(FileSystem::Posix()->CreateDirectory(scratch));
      return MeasureDisk(scratch, report);
    }
    if (uri.kind == StoreUri::Kind::kMemory) {
      report.not_measured = "a store in memory has neither disk nor network";
      return absl::OkStatus();
    }
    if (!near) {
      report.not_measured =
          "network not measured: a raw stream needs a program at its other end. Run it on the "
          "node's machine with --disk FOLDER too: what is slower from here is the network's";
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(report.tcp, MeasureLoopback(options_));
    if (!options_.disk_folder.empty()) return MeasureDisk(options_.disk_folder, report);
    report.not_measured =
        "disk not measured: --disk FOLDER measures the one that holds FOLDER, the node's own";
    return absl::OkStatus();
  }

  absl::Status MeasureDisk(const std::string& folder, PerfReport& report) {
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<RawFiles> files, RawFiles::Create(folder));
    TILEKV_ASSIGN_OR_RETURN(
        report.disk_write, Measure(options_, tiles_, Seconds(), [&](uint64_t i) {
          return source_.With(i, [&](Bytes tile) { return files->Write(i, tile); });
        }));
    TILEKV_ASSIGN_OR_RETURN(report.disk_read, Measure(options_, tiles_, Seconds(), [&](uint64_t i) {
                              return source_.With(
                                  i, [&](MutableBytes tile) { return files->Read(i, tile); });
                            }));
    return absl::OkStatus();
  }

  absl::StatusOr<PerfFigure> Put(UploadSession& session) {
    return Measure(options_, tiles_, Seconds(), [&](uint64_t i) {
      return source_.With(i, [&](Bytes tile) -> absl::StatusOr<uint64_t> {
        refs_[i] = RefOf(0, tile);
        TILEKV_RETURN_IF_ERROR(session.Put(*refs_[i], tile, {}, options_.context).status());
        return tile.size();
      });
    });
  }

  // A part of each tile that was put.
  absl::StatusOr<PerfFigure> Read(uint64_t offset, uint64_t length) {
    return Measure(options_, tiles_, Seconds(), [&](uint64_t i) -> absl::StatusOr<uint64_t> {
      if (!refs_[i].has_value()) return 0;
      return source_.With(i, [&](MutableBytes tile) -> absl::StatusOr<uint64_t> {
        ObjectRead read{.ref = *refs_[i], .offset = offset, .out = tile.first(length)};
        TILEKV_RETURN_IF_ERROR(store_.ReadObjects({&read, 1}, nullptr, options_.context));
        return length;
      });
    });
  }

  double Seconds() const { return static_cast<double>(options_.seconds); }

  KvStore& store_;
  const PerfOptions& options_;
  const uint64_t tile_bytes_;
  const uint64_t tiles_;
  TileSource source_;
  std::vector<std::optional<ObjectRef>> refs_;  // of what was put
};

}  // namespace

absl::StatusOr<PerfReport> MeasureStore(KvStore& store, const PerfOptions& options) {
  TILEKV_RETURN_IF_ERROR(CheckRoom(store, options));
  TILEKV_ASSIGN_OR_RETURN(uint64_t max_object_bytes, store.MaxObjectBytes(options.context));
  const uint64_t most = std::min({kDefaultTileBytes, max_object_bytes, options.bytes});
  return PerfRun(store, options, most / kDirectIoAlignBytes * kDirectIoAlignBytes).Run();
}

PerfVerdict JudgePerf(const PerfFigure& figure, std::vector<PerfNeed> needs,
                      const std::string& rest) {
  PerfVerdict verdict{.limit = rest};
  std::vector<PerfNeed> left;
  for (PerfNeed& need : needs) {
    if (need.rate <= 0) continue;
    if (figure.rate() > need.rate * kAboveIt) {
      verdict.passed += (verdict.passed.empty() ? "" : " and ") + need.what;
    } else {
      left.push_back(std::move(need));
    }
  }
  if (left.empty()) return verdict;
  std::sort(left.begin(), left.end(),
            [](const PerfNeed& a, const PerfNeed& b) { return a.rate < b.rate; });
  verdict.share = figure.rate() / left[0].rate;
  double seconds_of_a_byte = 0;
  std::string all;
  for (const PerfNeed& need : left) {
    seconds_of_a_byte += 1 / need.rate;
    all += (all.empty() ? "" : " and ") + need.what;
  }
  if (verdict.share >= kMostOfIt) {
    verdict.limit = left[0].what;
  } else if (left.size() > 1 && figure.rate() * seconds_of_a_byte >= kMostOfIt) {
    verdict.limit = all + ", one after the other";
  }
  return verdict;
}

bool IsThisMachine(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool all = true;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    all = all && IsOfThisMachine(*one);
  }
  freeaddrinfo(found);
  return all;
}

}  // namespace tilekv
