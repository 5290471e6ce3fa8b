// Buffers that are touched once and used again: on a virtual machine a page fault costs more than
// the copy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/base/bytes.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

class BufferPool;

// Memory aligned to kDirectIoAlignBytes, not zeroed; goes back to its pool when destroyed. Movable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Release(); }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }  // what was asked for
  uint64_t capacity() const {
    return capacity_;
  }  // what may be written, a multiple of the alignment
  explicit operator bool() const { return data_ != nullptr; }
  MutableBytes span() { return {data_, size_}; }
  Bytes span() const { return {data_, size_}; }
  void Release();

 private:
  friend class BufferPool;
  std::shared_ptr<BufferPool> pool_;
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t capacity_ = 0;
};

// Thread-safe. Keeps at most `max_idle_bytes` of returned buffers; the budget of what is in use is
// a ByteBudget's work. Owned by shared_ptr: a buffer keeps its pool alive.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> Create(uint64_t max_idle_bytes);
  ~BufferPool();
  // At least one aligned unit even for 0 bytes. Aborts when the machine has no memory, as new does.
  Buffer Get(uint64_t bytes);
  // What a buffer of so many bytes takes.
  static uint64_t CapacityFor(uint64_t bytes);
  uint64_t idle_bytes();

 private:
  friend class Buffer;
  explicit BufferPool(uint64_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}
  void Return(uint8_t* data, uint64_t capacity);

  const uint64_t max_idle_bytes_;
  Mutex mutex_;
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::vector<uint8_t*>> idle_ ABSL_GUARDED_BY(mutex_);  // by capacity
};

}  // namespace tilekv
