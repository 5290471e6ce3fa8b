#include "kvstore/base/crash_point.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "kvstore/base/mutex.h"

namespace tilekv {
namespace crash_internal {

std::atomic<bool> g_armed{false};

namespace {
Mutex g_mutex;
std::shared_ptr<std::function<void(std::string_view)>> g_handler ABSL_GUARDED_BY(g_mutex);
}  // namespace

void Reached(const char* name) {
  std::shared_ptr<std::function<void(std::string_view)>> handler;
  {
    MutexLock lock(g_mutex);
    handler = g_handler;
  }
  if (handler != nullptr) (*handler)(name);
}

}  // namespace crash_internal

void SetCrashHandler(std::function<void(std::string_view)> handler) {
  MutexLock lock(crash_internal::g_mutex);
  crash_internal::g_armed = handler != nullptr;
  crash_internal::g_handler =
      handler == nullptr
          ? nullptr
          : std::make_shared<std::function<void(std::string_view)>>(std::move(handler));
}

void ArmCrashPoint(std::string name, int count) {
  auto left = std::make_shared<std::atomic<int>>(count);
  SetCrashHandler([name = std::move(name), left](std::string_view reached) {
    if (reached == name && --*left == 0) _exit(137);
  });
}

void ArmCrashPointFromEnvironment() {
  const char* value = std::getenv("TILEKV_CRASH_POINT");
  if (value == nullptr) return;
  std::string name(value);
  size_t colon = name.find(':');
  int count = colon == std::string::npos ? 1 : std::atoi(name.c_str() + colon + 1);
  ArmCrashPoint(name.substr(0, colon), count);
}

}  // namespace tilekv
