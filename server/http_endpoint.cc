#include "server/http_endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/status.h"
#include "server/http_connections.h"

namespace tilekv {
namespace {

constexpr int kBacklog = 128;
// Figures and readiness may ask the disk: never where connections are served.
constexpr int kAnswerThreads = 2;

class Endpoint : public HttpEndpoint {
 public:
  Endpoint(std::unique_ptr<PortClaim> claim, const ServerMetrics& metrics,
           std::function<bool()> ready)
      : claim_(std::move(claim)),
        metrics_(metrics.collectable()),
        ready_(std::move(ready)),
        answers_("http", kAnswerThreads) {}

  absl::Status Start() {
    if (listen(claim_->fd(), kBacklog) != 0) {
      return MakeError(
          Reason::kNodeUnavailable,
          fmt::format("cannot serve HTTP on {}: {}", address().ToString(), std::strerror(errno)));
    }
    TILEKV_ASSIGN_OR_RETURN(
        connections_, HttpConnections::Start(claim_->fd(), [this](const std::string& path,
                                                                  HttpConnections::Reply reply) {
          Handle(path, std::move(reply));
        }));
    return absl::OkStatus();
  }

  const ListenAddress& address() const override { return claim_->address(); }

 private:
  void Handle(const std::string& path, HttpConnections::Reply reply) {
    if (path == "/healthz") {
      reply({.body = "ok\n"});
    } else if (path == "/readyz") {
      answers_.Post([this, reply = std::move(reply)] {
        bool ready = ready_();
        reply({.code = ready ? 200 : 503, .body = ready ? "ready\n" : "not ready\n"});
      });
    } else if (path == "/metrics") {
      answers_.Post([this, reply = std::move(reply)] {
        reply({.content_type = "text/plain; version=0.0.4; charset=utf-8",
               .body = prometheus::TextSerializer().Serialize(metrics_->Collect())});
      });
    } else {
      reply({.code = 404, .body = "there are /metrics, /healthz and /readyz\n"});
    }
  }

  const std::unique_ptr<PortClaim> claim_;
  const std::shared_ptr<prometheus::Collectable> metrics_;
  const std::function<bool()> ready_;
  ThreadPool answers_;
  std::unique_ptr<HttpConnections> connections_;  // stops first
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const ListenAddress& address,
                                                                  const ServerMetrics& metrics,
                                                                  std::function<bool()> ready) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<PortClaim> claim, PortClaim::Take(address));
  auto endpoint = std::make_unique<Endpoint>(std::move(claim), metrics, std::move(ready));
  TILEKV_RETURN_IF_ERROR(endpoint->Start());
  return endpoint;
}

}  // namespace tilekv
