#include "tests/benchmarks/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace tilekv::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void Require(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::exit(1);
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

Socket::~Socket() { close(descriptor_); }

int Socket::ConnectTo(uint16_t port) {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(port);
  Require(connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
          "connect");
  int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return descriptor;
}

void Socket::Send(const void* data, size_t size) {
  const auto* at = static_cast<const uint8_t*>(data);
  while (size > 0) {
    ssize_t sent = send(descriptor_, at, size, MSG_NOSIGNAL);
    Require(sent > 0, "send");
    at += sent;
    size -= static_cast<size_t>(sent);
  }
}

bool Socket::Receive(void* data, size_t size) {
  auto* at = static_cast<uint8_t*>(data);
  const uint8_t* end = at + size;
  while (at < end) {
    ssize_t received = recv(descriptor_, at, static_cast<size_t>(end - at), MSG_WAITALL);
    if (received == 0 && at == data) return false;
    Require(received > 0, "recv");
    at += received;
  }
  return true;
}

uint16_t Listen(std::function<void(Socket&)> serve) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  Require(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  Require(listen(listener, 64) == 0, "listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread([listener, serve = std::move(serve)] {
    for (;;) {
      int descriptor = accept(listener, nullptr, nullptr);
      Require(descriptor >= 0, "accept");
      std::thread([descriptor, &serve] {
        int one = 1;
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Socket connection(descriptor);
        serve(connection);
      }).detach();
    }
  }).detach();
  return ntohs(address.sin_port);
}

TouchedMemory::TouchedMemory(size_t size, bool touch) : size_(size) {
  // Aligned by hand: the kernel gives huge pages to aligned memory only.
  mapped_size_ = size + kHugePage;
  mapped_ = static_cast<uint8_t*>(
      mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Require(mapped_ != MAP_FAILED, "mmap");
  data_ = mapped_ + (-reinterpret_cast<uintptr_t>(mapped_) % kHugePage);
  madvise(data_, size, MADV_HUGEPAGE);
  if (touch) Require(madvise(data_, size, MADV_POPULATE_WRITE) == 0, "madvise");
}

TouchedMemory::~TouchedMemory() { munmap(mapped_, mapped_size_); }

}  // namespace tilekv::bench
