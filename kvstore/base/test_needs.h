// For tests of what not every machine can do.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

// Ends a test that cannot run here. In CI (CI is set) that is a failure: there nothing is left
// untested without being noticed.
#define TILEKV_PASS_OVER(why)                                                              \
  do {                                                                                     \
    const char* ci = std::getenv("CI");                                                    \
    if (ci != nullptr && *ci != '\0') GTEST_FAIL() << "CI passes nothing over: " << (why); \
    GTEST_SKIP() << (why);                                                                 \
  } while (false)
