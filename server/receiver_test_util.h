// What streams are tested with: an executor that waits to be told; and for those that receive, a
// carrier and a sink that write down what they are asked.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/bulk_receiver.h"

namespace tilekv {

class QueueExecutor : public Executor {
 public:
  void Post(std::function<void()> work) override { queue.push_back(std::move(work)); }
  void RunAll() {
    while (!queue.empty()) {
      auto work = std::move(queue.front());
      queue.pop_front();
      work();
    }
  }
  std::deque<std::function<void()>> queue;
};

class FakeCarrier : public BulkCarrier {
 public:
  void AskForMessage() override { asked = true; }
  void FinishCall(const absl::Status& status) override { finished.push_back(status); }
  bool asked = false;
  std::vector<absl::Status> finished;
};

struct Seen {
  std::string content;
  std::vector<uint64_t> appends;
  std::vector<uint32_t> table;
  int begun = 0;
  int ended = 0;
  bool complete = false;
};

class FakeSink : public BulkSink {
 public:
  explicit FakeSink(Seen* seen) : seen_(seen) {}
  absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) override {
    IncomingMessage message;
    message.data.assign(pieces.begin(), pieces.end());
    message.table = std::exchange(next_table, {});
    message.last = std::exchange(next_last, false);
    if (!refuse.ok()) return refuse;
    return message;
  }
  absl::StatusOr<bool> Begin() override {
    ++seen_->begun;
    return wanted;
  }
  absl::Status Append(Bytes data, std::span<const uint32_t> table) override {
    seen_->content += AsText(data);
    seen_->appends.push_back(data.size());
    seen_->table.insert(seen_->table.end(), table.begin(), table.end());
    return append_result;
  }
  absl::Status End(bool complete) override {
    ++seen_->ended;
    seen_->complete = complete;
    return absl::OkStatus();
  }
  std::vector<uint32_t> next_table;
  bool next_last = false;
  bool wanted = true;
  absl::Status append_result;
  absl::Status refuse;

 private:
  Seen* seen_;
};

}  // namespace tilekv
