#include "server/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status CannotListen(const ListenAddress& address, std::string_view why,
                          std::string_view remedy) {
  return MakeError(
      Reason::kNodeUnavailable,
      fmt::format("cannot listen on {}: {}. {}", Printable(address.ToString()), why, remedy));
}

absl::Status CannotListen(const ListenAddress& address, int error) {
  const char* remedy = "Choose another address";
  if (error == EADDRINUSE) {
    remedy = "Stop the program that uses it, or choose another address";
  } else if (error == EADDRNOTAVAIL) {
    remedy = "Choose an address of this machine; 0.0.0.0 and [::] are all of them";
  } else if (error == EACCES) {
    remedy = "Choose a port of 1024 or above, or give the program the right to this one";
  }
  return CannotListen(address, std::strerror(error), remedy);
}

uint16_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// The characters of names and IPv4 addresses; of an IPv6 address with its zone within brackets.
bool IsHost(std::string_view host, bool bracketed) {
  auto fits = [bracketed](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
           (bracketed && (c == ':' || c == '%'));
  };
  return !host.empty() && std::all_of(host.begin(), host.end(), fits);
}

}  // namespace

absl::StatusOr<ListenAddress> ListenAddress::Parse(std::string_view text) {
  auto bad = [&] {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("'{}' is not an address to listen on; write HOST:PORT, for example "
                    "127.0.0.1:7070 or [::]:7070",
                    Printable(text)));
  };
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!IsHost(host, bracketed)) return bad();
  ListenAddress address;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad();
  }
  address.host = host;
  return address;
}

std::string ListenAddress::ToString() const {
  bool bare_v6 = host.find(':') != std::string::npos;
  return bare_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

absl::StatusOr<std::unique_ptr<PortClaim>> PortClaim::Take(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  int failed =
      getaddrinfo(address.host.c_str(), fmt::format("{}", address.port).c_str(), &hints, &found);
  if (failed != 0) {
    return CannotListen(address, gai_strerror(failed),
                        "Write an address of this machine, or a name that stands for one");
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return CannotListen(address, errno);
  // As gRPC does: connections of an earlier server that linger do not count as taken. The claim
  // does not listen, so gRPC can bind beside it.
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
    int error = errno;
    close(fd);
    return CannotListen(address, error);
  }
  ListenAddress bound = address;
  bound.port = PortOf(fd);
  return std::unique_ptr<PortClaim>(new PortClaim(fd, std::move(bound)));
}

PortClaim::~PortClaim() { close(fd_); }

}  // namespace tilekv
