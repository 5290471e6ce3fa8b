// Interleaved measurements: every contestant runs once a round, so that what the machine does
// meanwhile meets them all. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tilekv::bench {

// Benchmarks end at the first error: there is nothing to measure then.
void Must(const absl::Status& status);
template <typename T>
T Must(absl::StatusOr<T> result) {
  Must(result.status());
  return *std::move(result);
}

double SecondsOf(const std::function<void()>& work);

class Contest {
 public:
  // `work` is timed, `prepare` before it is not. `amount` of `unit` is done each time.
  void Add(std::string name, double amount, std::string unit, std::function<void()> work,
           std::function<void()> prepare = {});
  // One round that is not counted, then `rounds`.
  void Run(int rounds);
  // [{"name":, "unit": "GB/s", "values": [amount a second, one a round]}]; bytes are counted in GB.
  nlohmann::json Rows() const;

 private:
  struct Contestant {
    std::string name;
    double amount = 0;
    std::string unit;
    std::function<void()> work;
    std::function<void()> prepare;
    std::vector<double> seconds;
  };
  std::vector<Contestant> contestants_;
};

}  // namespace tilekv::bench
