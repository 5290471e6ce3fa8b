#include "tests/benchmarks/measure.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "kvstore/base/status.h"

namespace tilekv::bench {

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "tilekv-bench: %s\n", ErrorText(status).c_str());
  std::exit(1);
}

double SecondsOf(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Contest::Add(std::string name, double amount, std::string unit, std::function<void()> work,
                  std::function<void()> prepare) {
  contestants_.push_back(
      {std::move(name), amount, std::move(unit), std::move(work), std::move(prepare), {}});
}

void Contest::Run(int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (Contestant& contestant : contestants_) {
      if (contestant.prepare) contestant.prepare();
      double seconds = SecondsOf(contestant.work);
      if (round > 0) contestant.seconds.push_back(seconds);
    }
  }
}

nlohmann::json Contest::Rows() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Contestant& contestant : contestants_) {
    nlohmann::json values = nlohmann::json::array();
    for (double seconds : contestant.seconds) values.push_back(contestant.amount / seconds);
    rows.push_back(
        {{"name", contestant.name}, {"unit", contestant.unit + "/s"}, {"values", values}});
  }
  return rows;
}

}  // namespace tilekv::bench
