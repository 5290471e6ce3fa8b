// Puts a value into a store in a directory and gets it back, through the installed library.
#include <cstdio>
#include <memory>
#include <string>

#include "client/connect.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto store = tilekv::Connect(std::string("file:") + argv[1]);
  if (!store.ok()) {
    std::fprintf(stderr, "open: %s\n", store.status().ToString().c_str());
    return 1;
  }
  auto put = (*store)->Put("greeting", "hello");
  if (!put.ok() || !put->applied) {
    std::fprintf(stderr, "put: %s\n", put.status().ToString().c_str());
    return 1;
  }
  auto value = (*store)->Get("greeting");
  if (!value.ok() || !*value || (*value)->content != "hello") {
    std::fprintf(stderr, "get: %s\n", value.status().ToString().c_str());
    return 1;
  }
  return 0;
}
