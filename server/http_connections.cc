#include "server/http_connections.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr size_t kMaxRequestBytes = 8 * kKiB;
constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int kLookEvery_ms = 500;
// Where accepting fails, for want of descriptors say, the socket would be ready again at once.
constexpr int kAcceptAgain_ms = 50;

const char* Phrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

int64_t Now() { return Clock::System()->MonotonicNanos(); }

}  // namespace

struct HttpConnections::Inbox {
  ~Inbox() {
    if (wake >= 0) close(wake);
  }
  void Put(uint64_t id, HttpAnswer answer) {
    MutexLock lock(mutex);
    answers.emplace_back(id, std::move(answer));
    Wake();
  }
  void Stop() {
    MutexLock lock(mutex);
    stopping = true;
    Wake();
  }
  void Wake() const {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake, &one, sizeof one);
  }

  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::pair<uint64_t, HttpAnswer>> answers ABSL_GUARDED_BY(mutex);
};

HttpConnections::HttpConnections(int listening, Handler handler, const HttpLimits& limits)
    : listening_(listening),
      handler_(std::move(handler)),
      limits_(limits),
      inbox_(std::make_shared<Inbox>()) {}

absl::StatusOr<std::unique_ptr<HttpConnections>> HttpConnections::Start(int listening,
                                                                        Handler handler,
                                                                        const HttpLimits& limits) {
  auto made =
      std::unique_ptr<HttpConnections>(new HttpConnections(listening, std::move(handler), limits));
  int flags = fcntl(listening, F_GETFL);
  if (made->inbox_->wake < 0 || flags < 0 || fcntl(listening, F_SETFL, flags | O_NONBLOCK) != 0) {
    return MakeError(Reason::kInternal, fmt::format("cannot serve HTTP: {}", std::strerror(errno)));
  }
  made->thread_ = std::thread([server = made.get()] { server->Run(); });
  return made;
}

HttpConnections::~HttpConnections() {
  inbox_->Stop();
  if (thread_.joinable()) thread_.join();
  for (auto& [id, connection] : connections_) close(connection.fd);
}

void HttpConnections::Run() {
  while (true) {
    int pause_ms = PollOnce();
    if (pause_ms > 0) poll(nullptr, 0, pause_ms);
    MutexLock lock(inbox_->mutex);
    if (inbox_->stopping) return;
  }
}

// What is ready now; how long to wait before the next look, where something is exhausted.
int HttpConnections::PollOnce() {
  std::vector<pollfd> ready = {{inbox_->wake, POLLIN, 0}, {listening_, POLLIN, 0}};
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    short events = !connection.answer.empty() ? POLLOUT : connection.asked ? 0 : POLLIN;
    ready.push_back({connection.fd, events, 0});
    ids.push_back(id);
  }
  if (poll(ready.data(), ready.size(), kLookEvery_ms) < 0 && errno != EINTR) return kAcceptAgain_ms;
  if (ready[0].revents != 0) TakeAnswers();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ready[i + 2].revents != 0) Serve(ids[i], ready[i + 2].revents);
  }
  CloseLate();
  if (ready[1].revents == 0) return 0;
  size_t before = next_id_;
  Accept();
  return next_id_ == before ? kAcceptAgain_ms : 0;
}

void HttpConnections::Accept() {
  while (true) {
    int fd = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    MakeRoom();
    uint64_t id = next_id_++;
    Connection& connection = connections_[id];
    connection.fd = fd;
    connection.until_nanos = Now() + limits_.timeout_ms * kNanosPerMilli;
    // The request is often there already: then it is not among those that have said nothing.
    Serve(id, POLLIN);
  }
}

void HttpConnections::MakeRoom() {
  if (connections_.size() < limits_.max_connections) return;
  auto silent = std::find_if(connections_.begin(), connections_.end(),
                             [](const auto& entry) { return !entry.second.asked; });
  Close(silent != connections_.end() ? silent->first : connections_.begin()->first);
}

void HttpConnections::TakeAnswers() {
  uint64_t count = 0;
  [[maybe_unused]] ssize_t got = read(inbox_->wake, &count, sizeof count);
  std::vector<std::pair<uint64_t, HttpAnswer>> answers;
  {
    MutexLock lock(inbox_->mutex);
    answers.swap(inbox_->answers);
  }
  for (const auto& [id, answer] : answers) {
    auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    Answer(found->second, answer);
    if (!Write(found->second)) Close(id);
  }
}

void HttpConnections::Serve(uint64_t id, short events) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  bool open = true;
  if (!connection.answer.empty()) {
    open = Write(connection);
  } else if (!connection.asked) {
    open = Read(id, connection);
  } else if ((events & (POLLERR | POLLHUP)) != 0) {
    open = false;
  }
  if (!open) Close(id);
}

// False: the connection is over.
bool HttpConnections::Read(uint64_t id, Connection& connection) {
  char buffer[2048];
  while (!connection.asked) {
    ssize_t n = recv(connection.fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    connection.request.append(buffer, static_cast<size_t>(n));
    bool whole = connection.request.find("\r\n\r\n") != std::string::npos ||
                 connection.request.find("\n\n") != std::string::npos;
    if (whole || connection.request.size() > kMaxRequestBytes) Ask(id, connection);
  }
  return connection.answer.empty() || Write(connection);
}

bool HttpConnections::Write(Connection& connection) {
  while (connection.sent < connection.answer.size()) {
    ssize_t n = send(connection.fd, connection.answer.data() + connection.sent,
                     connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    connection.sent += static_cast<size_t>(n);
  }
  return false;
}

// "GET /healthz?x HTTP/1.1" and its headers, of which none matters.
void HttpConnections::Ask(uint64_t id, Connection& connection) {
  connection.asked = true;
  const std::string line = connection.request.substr(0, connection.request.find_first_of("\r\n"));
  size_t method_end = line.find(' ');
  size_t path_end = method_end == std::string::npos ? method_end : line.find(' ', method_end + 1);
  if (path_end == std::string::npos || line.compare(path_end + 1, 5, "HTTP/") != 0) {
    return Answer(connection, {400, "text/plain", "not a request of HTTP/1\n"});
  }
  if (line.substr(0, method_end) != "GET") {
    return Answer(connection, {405, "text/plain", "only GET is answered here\n"});
  }
  std::string path = line.substr(method_end + 1, path_end - method_end - 1);
  path = path.substr(0, path.find('?'));
  handler_(path, [inbox = inbox_, id](HttpAnswer answer) { inbox->Put(id, std::move(answer)); });
}

void HttpConnections::Answer(Connection& connection, const HttpAnswer& answer) {
  connection.answer = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      answer.code, Phrase(answer.code), answer.content_type, answer.body.size(), answer.body);
  connection.until_nanos = Now() + limits_.timeout_ms * kNanosPerMilli;
}

void HttpConnections::Close(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  // What is unread would turn the end of an answer into a reset.
  shutdown(found->second.fd, SHUT_WR);
  char buffer[2048];
  for (int i = 0; i < 64 && recv(found->second.fd, buffer, sizeof buffer, MSG_DONTWAIT) > 0; ++i) {
  }
  close(found->second.fd);
  connections_.erase(found);
}

// A request that is being answered is waited for: what answers it does not hang for ever.
void HttpConnections::CloseLate() {
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    bool waits_for_us = connection.asked && connection.answer.empty();
    if (!waits_for_us && Now() >= connection.until_nanos) late.push_back(id);
  }
  for (uint64_t id : late) Close(id);
}

}  // namespace tilekv
