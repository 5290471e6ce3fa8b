// Accepts connections for the gRPC server, and refuses those for which there would be no
// descriptors: gRPC's own listener stops for ever when it runs out of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/listen_address.h"

namespace tilekv {

class Listener {
 public:
  // Every address that the host stands for, on one port. NODE_UNAVAILABLE when the port is taken or
  // the address is not of this machine.
  static absl::StatusOr<std::unique_ptr<Listener>> Listen(const ListenAddress& address);
  ~Listener();

  int port() const { return port_; }
  // From now on `take` is given each connection's descriptor, non-blocking, in a thread of its own.
  void Start(std::function<void(int listening, int fd)> take);
  // After it `take` is not called any more, and connecting is refused. Once.
  void Stop();

 private:
  Listener() = default;
  void Run();
  void AcceptAll(int listening);

  std::vector<int> sockets_;
  int port_ = 0;
  int wake_ = -1;
  int descriptors_end_ = 0;  // of those that connections may take
  std::function<void(int listening, int fd)> take_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tilekv
