#include "kvstore/object/group_sync.h"

#include "kvstore/base/status.h"

namespace tilekv {

absl::Status GroupSync::SyncDirectory(const std::string& path) {
  mutex_.Lock();
  Round& round = rounds_[path];
  uint64_t mine = ++round.asked;
  while (round.failure.ok() && round.covered < mine) {
    if (round.running) {
      ended_.Wait(mutex_);
      continue;
    }
    round.running = true;
    uint64_t covers = round.asked;
    mutex_.Unlock();
    absl::Status status = fs_->SyncDirectory(path);
    mutex_.Lock();
    round.running = false;
    ended_.SignalAll();
    if (GetReason(status) == Reason::kOverloaded) {
      mutex_.Unlock();
      return status;
    }
    round.covered = covers;
    if (!status.ok()) round.failure = status;
  }
  absl::Status result = round.failure;
  mutex_.Unlock();
  return result;
}

}  // namespace tilekv
