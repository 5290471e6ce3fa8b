// Plain values: put, get a range, compare and set, list.
//
//     values DIR-OR-URI        for example  values tilekv://127.0.0.1:7070   or   values /tmp/store

#include <cstdio>
#include <string>

#include "client/connect.h"
#include "kvstore/base/status.h"

namespace {

// Every call gives an absl::Status or StatusOr; an example just prints it and ends.
template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", tilekv::ErrorText(result.status()).c_str());
    std::exit(1);
  }
  return *std::move(result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto store = OrDie(tilekv::Connect(argv[1]));

  auto put = OrDie(store->Put("greeting", "hello, tiles"));
  std::printf("greeting is at version %llu\n", static_cast<unsigned long long>(put.version));

  // A missing key is a result, not an error.
  auto missing = OrDie(store->Get("nobody"));
  std::printf("nobody: %s\n", missing.has_value() ? "found" : "not there");

  auto range = OrDie(store->Get("greeting", {.offset = 7, .length = 5}));
  std::printf("bytes 7 to 12: %s\n", range->content.c_str());

  // Compare and set: only if nobody has written since.
  tilekv::PutOptions if_unchanged{.condition = tilekv::WriteCondition::Version(put.version)};
  auto first = OrDie(store->Put("greeting", "hello again", if_unchanged));
  auto second = OrDie(store->Put("greeting", "too late", if_unchanged));
  std::printf("first write %s, second %s\n", first.applied ? "applied" : "refused",
              second.applied ? "applied" : "refused");

  for (const tilekv::ValueInfo& value : OrDie(store->List({.prefix = "greet"})).values) {
    std::printf("%s: %llu bytes\n", value.key.c_str(),
                static_cast<unsigned long long>(value.length));
  }
  return first.applied && !second.applied ? 0 : 1;
}
