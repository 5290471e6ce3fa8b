#include "server/http_endpoint.h"

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using Answer = std::function<std::pair<int, std::string>()>;

class GetHandler : public CivetHandler {
 public:
  GetHandler(std::string content_type, Answer answer)
      : content_type_(std::move(content_type)), answer_(std::move(answer)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    auto [code, body] = answer_();
    std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        code, code == 200 ? "OK" : "Service Unavailable", content_type_, body.size());
    mg_write(connection, head.data(), head.size());
    mg_write(connection, body.data(), body.size());
    return true;
  }

 private:
  const std::string content_type_;
  const Answer answer_;
};

class CivetEndpoint : public HttpEndpoint {
 public:
  CivetEndpoint(const ListenAddress& address, const ServerMetrics& metrics,
                std::function<bool()> ready)
      : address_(address),
        metrics_("text/plain; version=0.0.4; charset=utf-8",
                 [collectable = metrics.collectable()] {
                   return std::pair(200,
                                    prometheus::TextSerializer().Serialize(collectable->Collect()));
                 }),
        health_("text/plain", [] { return std::pair(200, std::string("ok\n")); }),
        ready_("text/plain",
               [ready = std::move(ready)] {
                 return ready() ? std::pair(200, std::string("ready\n"))
                                : std::pair(503, std::string("not ready\n"));
               }),
        server_({"listening_ports", address.ToString(), "num_threads", "2", "request_timeout_ms",
                 "10000"}) {
    server_.addHandler("/metrics$", metrics_);
    server_.addHandler("/healthz$", health_);
    server_.addHandler("/readyz$", ready_);
    address_.port = static_cast<uint16_t>(server_.getListeningPorts().at(0));
  }

  const ListenAddress& address() const override { return address_; }

 private:
  ListenAddress address_;
  GetHandler metrics_;
  GetHandler health_;
  GetHandler ready_;
  CivetServer server_;  // stops before its handlers go
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const ListenAddress& address,
                                                                  const ServerMetrics& metrics,
                                                                  std::function<bool()> ready) {
  // The library tells nothing about a port that is taken, not even that it is.
  TILEKV_RETURN_IF_ERROR(PortClaim::Take(address).status());
  try {
    return std::make_unique<CivetEndpoint>(address, metrics, std::move(ready));
  } catch (const std::exception& error) {
    return MakeError(Reason::kNodeUnavailable,
                     fmt::format("cannot serve HTTP on {}: {}", address.ToString(), error.what()));
  }
}

}  // namespace tilekv
