#include "server/http_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

class Socket {
 public:
  explicit Socket(const ListenAddress& to) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    EXPECT_EQ(getaddrinfo(to.host.c_str(), fmt::format("{}", to.port).c_str(), &hints, &found), 0);
    fd_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd_, found->ai_addr, found->ai_addrlen), 0) << to.ToString();
    freeaddrinfo(found);
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Send(const std::string& text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Until the other end closes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  int fd_ = -1;
};

class HttpEndpointTest : public testing::Test {
 protected:
  void Start(const std::string& address) {
    endpoint_.reset();
    auto started = HttpEndpoint::Start(*ListenAddress::Parse(address), metrics_,
                                       [this] { return ready_.load(); });
    ASSERT_TRUE(started.ok()) << started.status();
    endpoint_ = *std::move(started);
  }
  std::string Ask(const std::string& request) {
    Socket socket(endpoint_->address());
    socket.Send(request);
    return socket.ReadAll();
  }
  std::string Get(const std::string& path) {
    return Ask("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }

  ServerMetrics metrics_;
  std::atomic<bool> ready_{true};
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, TellsWhatItServesAndNothingElse) {
  Start("127.0.0.1:0");
  EXPECT_THAT(Get("/healthz"), testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Get("/healthz?verbose=1"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("200 OK"));
  ready_ = false;
  EXPECT_THAT(Get("/readyz"), HasSubstr("503"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("tilekv_"));
  EXPECT_THAT(Get("/"), HasSubstr("404"));
  EXPECT_THAT(Get("/healthzz"), HasSubstr("404"));
  EXPECT_THAT(Ask("POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), HasSubstr("405"));
  EXPECT_THAT(Ask("\xa5\xa5\xa5\r\n\r\n"), HasSubstr("400"));
  EXPECT_THAT(Ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HasSubstr("405"));
  EXPECT_THAT(Ask(std::string(100'000, 'x')), testing::AnyOf("", HasSubstr("400")));
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
}

TEST_F(HttpEndpointTest, ConnectionsThatSayNothingHoldNobodyUp) {
  Start("127.0.0.1:0");
  std::vector<std::unique_ptr<Socket>> silent;
  for (size_t i = 0; i < 2 * kMaxHttpConnections; ++i) {
    silent.push_back(std::make_unique<Socket>(endpoint_->address()));
    if (i % 2 == 0) silent.back()->Send("GET /heal");
  }
  // Answered though all places are taken, and long before the first of them would time out.
  for (const char* path : {"/healthz", "/readyz", "/metrics"}) {
    EXPECT_THAT(Get(path), HasSubstr("200 OK"));
  }
  // The last ones may still ask.
  silent.back()->Send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(silent.back()->ReadAll(), HasSubstr("200 OK"));
  EXPECT_EQ(silent.front()->ReadAll(), "") << "the oldest made room";
}

TEST_F(HttpEndpointTest, ServesIPv6WhereTheMachineHasIt) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  bool has = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
  if (fd >= 0) close(fd);
  if (!has) GTEST_SKIP() << "this machine has no IPv6";
  for (const char* address : {"[::1]:0", "[::]:0"}) {
    Start(address);
    EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK")) << address;
  }
}

TEST_F(HttpEndpointTest, AnAddressThatCannotBeServedSaysWhatToDo) {
  Start("127.0.0.1:0");
  auto taken = HttpEndpoint::Start(endpoint_->address(), metrics_, [] { return true; });
  EXPECT_EQ(GetReason(taken.status()), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(taken.status()), HasSubstr("Stop the program that uses it"));
  auto unknown = HttpEndpoint::Start({"no-such-host.invalid", 0}, metrics_, [] { return true; });
  EXPECT_THAT(ErrorText(unknown.status()), HasSubstr("a name that stands for one"));
}

}  // namespace
}  // namespace tilekv
