// Metrics and health for machines: GET /metrics (Prometheus's text), /healthz (the process lives),
// /readyz (the node serves).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/listen_address.h"
#include "server/server_metrics.h"

namespace tilekv {

class HttpEndpoint {
 public:
  // Metrics and `ready` outlive the endpoint; `ready` may be asked from any thread.
  // NODE_UNAVAILABLE when the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const ListenAddress& address,
                                                             const ServerMetrics& metrics,
                                                             std::function<bool()> ready);
  virtual ~HttpEndpoint() = default;
  virtual const ListenAddress& address() const = 0;  // with the port that was chosen
};

}  // namespace tilekv
