// For tests: this very test program again, as a process of its own that runs one of its tests. A
// fork would not do: a child has none of the threads that libraries started in its parent.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tilekv {

// Exit status of the child, -1 when it did not exit. `variables` are "NAME=value".
inline int RunTestProcess(const std::string& test_filter, std::vector<std::string> variables) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).substr(0, 5) != "GTEST") variables.push_back(*variable);
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::string filter = "--gtest_filter=" + test_filter;
  char* arguments[] = {program.data(), filter.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment.data()) != 0) {
    return -1;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tilekv
