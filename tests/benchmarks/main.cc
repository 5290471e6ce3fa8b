// tilekv-bench SECTION: measures one claim and prints JSON. deploy/bench.sh runs them all.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "client/connect.h"
#include "kvstore/base/allocator.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/model_reader.h"
#include "tests/benchmarks/matrix.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/rivals.h"
#include "tests/benchmarks/sections.h"

namespace tilekv::bench {
namespace {

// Serves until standard input ends, so that nothing stays behind when whoever started it dies.
void ServeRivals(const Arguments& arguments) {
  std::cout << nlohmann::json{{"file_port", ServeFile(arguments.file)},
                              {"tile_port", ServeTileStore(arguments.folder)}}
            << std::endl;
  char ignored;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  _exit(0);  // threads are still accepting
}

// One opening, for whoever counts the node's calls meanwhile.
void OpenOnce(const Arguments& arguments, const std::string& name) {
  auto store = Must(Connect(arguments.store));
  Must(ModelReader::Open(*store, BenchName(name)));
}

int Run(int argc, char** argv) {
  Arguments arguments;
  arguments.bytes = kGiB;
  arguments.memory_bytes = DefaultClientMemoryBytes();
  std::string section;
  std::string model;
  CLI::App app("Measures TileKV and its rivals; prints JSON.");
  app.add_option("section", section)->required();
  app.add_option("--store", arguments.store);
  app.add_option("--folder", arguments.folder);
  app.add_option("--file", arguments.file);
  app.add_option("--bytes", arguments.bytes);
  app.add_option("--memory", arguments.memory_bytes);
  app.add_option("--rounds", arguments.rounds);
  app.add_option("--file-port", arguments.file_port);
  app.add_option("--tile-port", arguments.tile_port);
  app.add_option("--redis-port", arguments.redis_port);
  app.add_option("--etcd-port", arguments.etcd_port);
  app.add_option("--model", model);
  CLI11_PARSE(app, argc, argv);
  const std::map<std::string, nlohmann::json (*)(const Arguments&)> sections = {
      {"load", LoadOverTcp},   {"load-embedded", LoadEmbedded},
      {"store", StoreDurably}, {"shards", Shards},
      {"planes", Planes},      {"tensors", ManyTensors},
      {"values", SmallValues}};
  if (section == "serve-rivals") {
    ServeRivals(arguments);
  } else if (section == "open-once") {
    OpenOnce(arguments, model);
  } else if (auto found = sections.find(section); found != sections.end()) {
    std::cout << found->second(arguments) << std::endl;
  } else {
    std::fprintf(stderr, "no section '%s'\n", section.c_str());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace tilekv::bench

int main(int argc, char** argv) {
  tilekv::TuneAllocator();
  return tilekv::bench::Run(argc, argv);
}
