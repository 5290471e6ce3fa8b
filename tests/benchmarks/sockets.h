// The least of TCP that the rivals of this benchmark need, on loopback. Errors end the program.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tilekv::bench {

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  static int ConnectTo(uint16_t port);

  void Send(const void* data, size_t size);
  // False at the end of the stream, where no byte of it had come yet.
  bool Receive(void* data, size_t size);
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// Listens on a free port of the loopback and serves each connection on a thread of its own, until
// the process ends. Returns the port.
uint16_t Listen(std::function<void(Socket&)> serve);

// Memory as NumPy gives it to large arrays, in huge pages where the system has them; touched once.
class TouchedMemory {
 public:
  explicit TouchedMemory(size_t size, bool touch = true);
  ~TouchedMemory();
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* mapped_ = nullptr;
  size_t mapped_size_ = 0;
  uint8_t* data_ = nullptr;
  const size_t size_;
};

}  // namespace tilekv::bench
