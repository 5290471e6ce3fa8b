// The sockets of a small HTTP server: requests without a body in, answers out, in one thread, with
// every connection bounded in bytes and in time. Whoever connects and says nothing holds nobody up:
// when there are too many connections, the one that has said nothing for longest goes.
//
// One request a connection. Written here since what it is for, the health of a node, must not
// depend on how many threads others keep busy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpLimits {
  size_t max_connections = kMaxHttpConnections;
  int64_t timeout_ms = kHttpTimeout_s * 1'000;  // to send a request, and to take its answer
};

class HttpConnections {
 public:
  // Gives the answer to GET `path`, now or later from any thread, by calling `reply` once; must not
  // block.
  using Reply = std::function<void(HttpAnswer)>;
  using Handler = std::function<void(const std::string& path, Reply reply)>;

  // `listening` is a socket that listens; it stays the caller's, and outlives this object.
  // Replies may come until the destructor has returned, and are then for nobody.
  static absl::StatusOr<std::unique_ptr<HttpConnections>> Start(int listening, Handler handler,
                                                                const HttpLimits& limits = {});
  // Closes all connections.
  ~HttpConnections();

 private:
  struct Connection {
    int fd = -1;
    std::string request;
    std::string answer;  // empty until there is one
    size_t sent = 0;
    bool asked = false;  // the handler has the request
    int64_t until_nanos = 0;
  };
  // Where answers wait for the thread. Outlives it: a late reply finds it closed.
  struct Inbox;

  HttpConnections(int listening, Handler handler, const HttpLimits& limits);
  void Run();
  int PollOnce();
  void Accept();
  void MakeRoom();
  void TakeAnswers();
  void Serve(uint64_t id, short events);
  bool Read(uint64_t id, Connection& connection);
  bool Write(Connection& connection);
  void Ask(uint64_t id, Connection& connection);
  void Answer(Connection& connection, const HttpAnswer& answer);
  void Close(uint64_t id);
  void CloseLate();

  const int listening_;
  const Handler handler_;
  const HttpLimits limits_;
  const std::shared_ptr<Inbox> inbox_;
  // Of the thread alone; ids grow, so the first connection is the oldest.
  std::map<uint64_t, Connection> connections_;
  uint64_t next_id_ = 1;
  std::thread thread_;
};

}  // namespace tilekv
