// The address that a server is told to listen on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tilekv {

struct ListenAddress {
  std::string host;  // without brackets
  uint16_t port = 0;

  // "127.0.0.1:7070", "[::1]:7070", "localhost:0". INVALID_ARGUMENT says what is wrong.
  static absl::StatusOr<ListenAddress> Parse(std::string_view text);
  std::string ToString() const;  // Parse gives it back
};

// Holds a port without serving it, so that what is written down about a server is known, and a port
// that is taken found, before a store is opened.
class PortClaim {
 public:
  // Port 0 becomes a free one. NODE_UNAVAILABLE when the port is taken or the address is not of
  // this machine.
  static absl::StatusOr<std::unique_ptr<PortClaim>> Take(const ListenAddress& address);
  ~PortClaim();
  PortClaim(const PortClaim&) = delete;
  PortClaim& operator=(const PortClaim&) = delete;
  const ListenAddress& address() const { return address_; }
  int fd() const { return fd_; }  // bound, not listening; closed with the claim

 private:
  PortClaim(int fd, ListenAddress address) : fd_(fd), address_(std::move(address)) {}
  const int fd_;
  const ListenAddress address_;
};

}  // namespace tilekv
