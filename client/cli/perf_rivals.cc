#include "client/cli/perf_rivals.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Failed(const char* what) {
  return MakeError(Reason::kInternal,
                   fmt::format("{} on the loopback: {}", what, std::strerror(errno)));
}

void SendAll(int fd, uint64_t bytes, Bytes piece) {
  while (bytes > 0) {
    ssize_t sent = send(fd, piece.data(), std::min<uint64_t>(bytes, piece.size()), MSG_NOSIGNAL);
    if (sent <= 0) break;  // the receiver has gone, and says why
    bytes -= static_cast<uint64_t>(sent);
  }
  shutdown(fd, SHUT_WR);
}

absl::StatusOr<PerfFigure> Receive(int fd, const PerfOptions& options) {
  std::vector<uint8_t> buffer(kTransferChunkBytes);
  const int64_t began_nanos = Clock::System()->MonotonicNanos();
  PerfFigure figure;
  while (true) {
    TILEKV_RETURN_IF_ERROR(options.context.Check());
    ssize_t received = recv(fd, buffer.data(), buffer.size(), MSG_WAITALL);
    if (received < 0) return Failed("recv");
    figure.bytes += static_cast<uint64_t>(received);
    figure.seconds = static_cast<double>(Clock::System()->MonotonicNanos() - began_nanos) / 1e9;
    if (received == 0 || figure.seconds > static_cast<double>(options.seconds)) return figure;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawFiles>> RawFiles::Create(const std::string& parent) {
  FileSystem& fs = *FileSystem::Posix();
  const std::string folder = fmt::format("{}/perf-{}", parent, getpid());
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(folder));
  return std::unique_ptr<RawFiles>(new RawFiles(folder));
}

RawFiles::~RawFiles() {
  FileSystem& fs = *FileSystem::Posix();
  for (uint64_t i = 0; i < files_; ++i) fs.Unlink(PathOf(i)).IgnoreError();
  fs.RemoveDirectory(folder_).IgnoreError();
}

std::string RawFiles::PathOf(uint64_t index) const { return fmt::format("{}/{}", folder_, index); }

absl::StatusOr<uint64_t> RawFiles::Write(uint64_t index, Bytes tile) {
  uint64_t known = files_;
  while (known <= index && !files_.compare_exchange_weak(known, index + 1)) {
  }
  TILEKV_ASSIGN_OR_RETURN(
      auto file, FileSystem::Posix()->Open(PathOf(index), FileSystem::OpenMode::kCreateNewDirect));
  TILEKV_RETURN_IF_ERROR(file->Write(0, tile));
  TILEKV_RETURN_IF_ERROR(file->Sync());
  return tile.size();
}

absl::StatusOr<uint64_t> RawFiles::Read(uint64_t index, MutableBytes tile) {
  auto file = FileSystem::Posix()->Open(PathOf(index), FileSystem::OpenMode::kRead);
  if (GetReason(file.status()) == Reason::kNotFound) return 0;
  TILEKV_RETURN_IF_ERROR(file.status());
  return (*file)->Read(0, tile);
}

absl::StatusOr<PerfFigure> MeasureLoopback(const PerfOptions& options) {
  Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(listener.get(), generic, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &size) != 0) {
    return Failed("listening");
  }
  Descriptor sender(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(sender.get(), generic, size) != 0) return Failed("connecting");
  Descriptor receiver(accept(listener.get(), nullptr, nullptr));
  if (receiver.get() < 0) return Failed("accepting");
  std::vector<uint8_t> piece(kTransferChunkBytes, 'x');
  std::thread sending([&] { SendAll(sender.get(), options.bytes, piece); });
  absl::StatusOr<PerfFigure> figure = Receive(receiver.get(), options);
  shutdown(receiver.get(), SHUT_RDWR);  // a sender that is not done gives up
  // What was not read yet may keep it waiting: its own end goes too.
  shutdown(sender.get(), SHUT_RDWR);
  sending.join();
  return figure;
}

}  // namespace tilekv
