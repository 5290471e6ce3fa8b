#include "kvstore/base/buffer_pool.h"

#include <bit>
#include <cstdlib>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
// Classes of four steps to each doubling: at most a quarter is lost, and buffers of nearly equal
// tiles are shared.
uint64_t BufferPool::CapacityFor(uint64_t bytes) {
  uint64_t units = CeilDiv(bytes == 0 ? 1 : bytes, kDirectIoAlignBytes);
  if (units <= 4) return units * kDirectIoAlignBytes;
  uint64_t step = std::bit_floor(units - 1) / 4;
  if (step == 0) step = 1;
  return RoundUp(units, step) * kDirectIoAlignBytes;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::move(other.pool_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

void Buffer::Release() {
  if (data_ != nullptr) pool_->Return(data_, capacity_);
  data_ = nullptr;
  size_ = capacity_ = 0;
  pool_.reset();
}

std::shared_ptr<BufferPool> BufferPool::Create(uint64_t max_idle_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(max_idle_bytes));
}

BufferPool::~BufferPool() {
  for (auto& [capacity, buffers] : idle_) {
    for (uint8_t* data : buffers) std::free(data);
  }
}

Buffer BufferPool::Get(uint64_t bytes) {
  uint64_t capacity = CapacityFor(bytes);
  uint8_t* data = nullptr;
  {
    MutexLock lock(mutex_);
    auto found = idle_.find(capacity);
    if (found != idle_.end() && !found->second.empty()) {
      data = found->second.back();
      found->second.pop_back();
      idle_bytes_ -= capacity;
    }
  }
  if (data == nullptr) {
    data = static_cast<uint8_t*>(std::aligned_alloc(kDirectIoAlignBytes, capacity));
    TILEKV_CHECK(data != nullptr);
  }
  Buffer buffer;
  buffer.pool_ = shared_from_this();
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.capacity_ = capacity;
  return buffer;
}

uint64_t BufferPool::idle_bytes() {
  MutexLock lock(mutex_);
  return idle_bytes_;
}

void BufferPool::Return(uint8_t* data, uint64_t capacity) {
  std::vector<uint8_t*> freed;
  {
    MutexLock lock(mutex_);
    if (capacity > max_idle_bytes_) {
      freed.push_back(data);
    } else {
      idle_[capacity].push_back(data);
      idle_bytes_ += capacity;
      // Other sizes give way first, the largest before the smallest, so that what is in use now
      // stays.
      for (auto it = idle_.rbegin(); it != idle_.rend() && idle_bytes_ > max_idle_bytes_; ++it) {
        while (idle_bytes_ > max_idle_bytes_ && !it->second.empty() &&
               (it->first != capacity || idle_.size() == 1)) {
          freed.push_back(it->second.back());
          it->second.pop_back();
          idle_bytes_ -= it->first;
        }
      }
      auto& own = idle_[capacity];
      while (idle_bytes_ > max_idle_bytes_ && !own.empty()) {
        freed.push_back(own.back());
        own.pop_back();
        idle_bytes_ -= capacity;
      }
    }
  }
  for (uint8_t* buffer : freed) std::free(buffer);
}

}  // namespace tilekv
