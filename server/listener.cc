#include "server/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kBacklog = 1'024;
// Descriptors that the store's files need are a quarter of all, within these.
constexpr int64_t kLeastForFiles = 128;
constexpr int64_t kMostForFiles = 4'096;
// Where no descriptor is left the socket would be ready again at once.
constexpr int kAcceptAgain_ms = 50;

int DescriptorsForConnections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT32_MAX;
  int64_t all = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT32_MAX));
  return static_cast<int>(all - std::clamp(all / 4, kLeastForFiles, kMostForFiles));
}

void SetPort(sockaddr* address, int port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
  }
}

// A listening socket, or -1.
int ListenOn(const addrinfo& address) {
  int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // Small messages, acknowledgements among them, go at once; connections inherit it.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, kBacklog) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(const ListenAddress& address) {
  // Says what is wrong, and chooses a port where none is given.
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<PortClaim> claim, PortClaim::Take(address));
  std::unique_ptr<Listener> listener(new Listener());
  listener->port_ = claim->address().port;
  listener->descriptors_end_ = DescriptorsForConnections();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), nullptr, &hints, &found) == 0) {
    std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
    for (addrinfo* next = found; next != nullptr; next = next->ai_next) {
      SetPort(next->ai_addr, listener->port_);
      int fd = ListenOn(*next);
      if (fd >= 0) listener->sockets_.push_back(fd);
    }
  }
  listener->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->sockets_.empty() || listener->wake_ < 0) {
    return MakeError(Reason::kNodeUnavailable,
                     fmt::format("cannot listen on {}: another program uses the port. Stop it, or "
                                 "choose another address",
                                 Printable(claim->address().ToString())));
  }
  return listener;
}

Listener::~Listener() {
  Stop();
  if (wake_ >= 0) close(wake_);
}

void Listener::Start(std::function<void(int listening, int fd)> take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (stopping_.exchange(true)) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  for (int fd : sockets_) close(fd);
}

void Listener::Run() {
  std::vector<pollfd> ready;
  for (int fd : sockets_) ready.push_back({fd, POLLIN, 0});
  ready.push_back({wake_, POLLIN, 0});
  while (!stopping_) {
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (ready[i].revents != 0) AcceptAll(sockets_[i]);
    }
  }
}

void Listener::AcceptAll(int listening) {
  while (!stopping_) {
    int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      // The lowest that is free: so many are in use.
      if (fd < descriptors_end_) {
        take_(listening, fd);
      } else {
        close(fd);
      }
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      poll(nullptr, 0, kAcceptAgain_ms);
    }
    if (errno != EINTR && errno != ECONNABORTED) return;
  }
}

}  // namespace tilekv
