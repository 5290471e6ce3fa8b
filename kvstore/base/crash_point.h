// Named crash points: a branch when off. A test (or TILEKV_CRASH_POINT=name:count in the
// environment of a program that calls ArmCrashPointFromEnvironment) makes the process end, or a
// handler run, when the named step is reached.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace tilekv {

namespace crash_internal {
extern std::atomic<bool> g_armed;
void Reached(const char* name);
}  // namespace crash_internal

// The handler runs at every named point that is reached, in the thread that reaches it. Null turns
// all off.
void SetCrashHandler(std::function<void(std::string_view name)> handler);
// The default action: _exit(137) at the count-th reaching (from 1) of the point.
void ArmCrashPoint(std::string name, int count);
void ArmCrashPointFromEnvironment();

}  // namespace tilekv

#define TILEKV_CRASH_POINT(name)                                                          \
  do {                                                                                    \
    if (::tilekv::crash_internal::g_armed.load(std::memory_order_relaxed)) [[unlikely]] { \
      ::tilekv::crash_internal::Reached(name);                                            \
    }                                                                                     \
  } while (false)
