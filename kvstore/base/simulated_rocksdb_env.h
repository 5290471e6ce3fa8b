// For tests: RocksDB on a SimulatedDisk. Its files lose with the disk's power what it has not
// synced, like everyone's. Flushes and compactions wait until RunJobs runs them in the caller's
// thread, so that a test which does one thing after the other repeats itself exactly.
#pragma once

#include <deque>

#include "kvstore/base/mutex.h"
#include "kvstore/base/simulated_disk.h"
#include "rocksdb/env.h"

namespace tilekv {

// Outlives every database that is opened with it; the disk outlives it.
class SimulatedRocksDbEnv : public rocksdb::EnvWrapper {
 public:
  explicit SimulatedRocksDbEnv(SimulatedDisk* disk);
  const char* Name() const override { return "SimulatedRocksDbEnv"; }

  // Until there are none. At a loss of power what is left stays undone.
  void RunJobs();

  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag,
                void (*on_unschedule)(void*)) override;
  int UnSchedule(void* tag, Priority priority) override;
  void IncBackgroundThreadsIfNeeded(int /*number*/, Priority /*priority*/) override {}
  int GetBackgroundThreads(Priority /*priority*/) override { return 1; }
  void SetBackgroundThreads(int /*number*/, Priority /*priority*/) override {}
  unsigned int GetThreadPoolQueueLen(Priority /*priority*/) const override { return 0; }
  // After a failed job RocksDB gives the disk a second.
  void SleepForMicroseconds(int /*micros*/) override {}

 private:
  struct Job {
    void (*function)(void*);
    void* argument;
    Priority priority;
    void* tag;
    void (*on_unschedule)(void*);
  };

  SimulatedDisk* const disk_;
  Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
