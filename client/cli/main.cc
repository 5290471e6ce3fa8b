// tilekv: the command line of TileKV.
#include <cstdlib>

#include "client/cli/cli.h"
#include "client/cli/init_cluster.h"
#include "client/cli/interrupt.h"
#include "client/cli/open_store.h"
#include "kvstore/base/allocator.h"
#include "kvstore/base/clock.h"

int main(int argc, char** argv) {
  tilekv::TuneAllocator();
  const char* store = std::getenv("TILEKV_STORE");
  tilekv::Surroundings surroundings;
  surroundings.terminal =
      tilekv::Terminal::Detect([](const char* name) -> const char* { return std::getenv(name); });
  surroundings.clock = tilekv::Clock::System();
  surroundings.cancel = tilekv::InstallInterruptHandlers();
  surroundings.open_store = tilekv::OpenStore;
  surroundings.init_cluster = tilekv::InitClusterInEtcd;
  return tilekv::RunCli({argv + 1, argv + argc}, store == nullptr ? "" : store, surroundings);
}
