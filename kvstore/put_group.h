// Puts of small values that many threads make at once, sent together.
//
// A call that finds fewer than `at_once` others on their way goes by itself, at once. The others
// wait, and whoever comes back next sends all that wait (of one key only the first) as one batch:
// the more wait, the larger the batches become, and nobody waits for a clock. Each put keeps its
// own condition and its own outcome. A batch that fails is nobody's end: each of its puts is told
// what is known of it and goes on by itself. Where the node does not answer, or refuses, nobody
// waits for anybody: all that wait go by themselves, each with the time that a call has.
//
// Only for calls that nobody can cancel and that have no deadline: a batch has one caller.
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/revision.h"
#include "kvstore/kv_store.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// A first try that was not applied though its condition holds for the version found: another write
// came between, nothing was written, and the put begins anew.
bool CameBetween(const v1::Condition& condition, const PutResult& result);

class PutGroup {
 public:
  // One put, as its caller knows it.
  struct Put {
    std::string_view key;
    const std::string& content;
    const v1::Condition* condition = nullptr;
  };
  // What a batch has made of it. Neither: it was not in one, and is to be sent by itself.
  struct Result {
    std::optional<PutResult> done;  // never "another write came between"
    absl::Status failed;
    // Of a batch that failed after its node may have written: the try that a retry must repeat.
    std::optional<Revision> compare;
    std::string request_id;
  };
  // Sends a batch and fills `compares` once they are fixed (NodeService::BatchPut).
  using Send = std::function<absl::StatusOr<std::vector<PutResult>>(
      const v1::BatchPutRequest& request, std::vector<uint64_t>& compares)>;

  // `new_request_id` and `send` are called from any thread.
  PutGroup(int at_once, std::function<std::string()> new_request_id, Send send)
      : at_once_(at_once), new_request_id_(std::move(new_request_id)), send_(std::move(send)) {}

  // Whether a put of this size may join.
  static bool Takes(uint64_t content_bytes);
  // What sends one put by itself. It calls `in_trouble` before it waits to try again.
  using Alone = std::function<absl::StatusOr<PutResult>(const Result&,
                                                        const std::function<void()>& in_trouble)>;
  // Calls `alone`, from this thread, where the put goes by itself.
  absl::StatusOr<PutResult> Run(const Put& put, const Alone& alone);

  // How many wait now, for tests.
  size_t waiting();

 private:
  struct Waiter {
    const Put& put;
    CondVar changed;
    enum { kWaits, kSends, kDone } state = kWaits;
    Result result;
  };
  using Waiters = std::vector<Waiter*>;

  // `first`, who sends it, and those that wait and fit.
  Waiters TakeLocked(Waiter* first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendBatch(const Waiters& batch);
  // One that was on its way is back; in trouble: all that wait go by themselves.
  void ComeBack(bool in_trouble);

  const int at_once_;
  const std::function<std::string()> new_request_id_;
  const Send send_;
  Mutex mutex_;
  int on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Waiter*> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
