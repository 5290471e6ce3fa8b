// What a running command has: the store, standard output, progress, questions, and the token that
// Ctrl-C cancels. One command, one thread; the call context may be copied to others.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cli/command_table.h"
#include "client/cli/output.h"
#include "client/cli/parse.h"
#include "client/cli/progress.h"
#include "client/cli/terminal.h"
#include "kvstore/base/mutex.h"
#include "kvstore/kv_store.h"
#include "kvstore/model_name.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {

struct StoreRequest {
  std::string uri;
  Access access = Access::kRead;
  uint64_t memory_bytes = 0;
  std::optional<uint64_t> max_object_bytes;  // of a store to be made
  CallContext context;                       // of the opening alone
  // Told, from any thread, that a call waits for a node and tries again.
  std::function<void(const absl::Status& failed)> waiting;
};
using StoreOpener =
    std::function<absl::StatusOr<std::unique_ptr<KvStore>>(const StoreRequest& request)>;

struct ClusterInitRequest {
  std::string etcd;     // URLs, with commas; empty: as the environment has it
  std::string cluster;  // the same
  ClusterSettings settings;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string user;
  std::string password_file;
};
using ClusterMaker = std::function<absl::StatusOr<ClusterMap>(const ClusterInitRequest& request)>;

// What differs between the program and a test of it.
struct Surroundings {
  std::FILE* in = stdin;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  Terminal terminal;
  Clock* clock = nullptr;
  std::shared_ptr<CancelToken> cancel;
  StoreOpener open_store;
  ClusterMaker init_cluster;
};

class Context {
 public:
  Context(const GlobalOptions& options, Access access, const Surroundings& surroundings);

  const GlobalOptions& options() const { return options_; }
  const Terminal& terminal() const { return surroundings_.terminal; }
  Output& out() { return output_; }
  CallContext call() const { return {.cancel = surroundings_.cancel}; }
  std::FILE* in() const { return surroundings_.in; }

  // Opened at the first call, with the access of the command. INVALID_ARGUMENT where no store is
  // named.
  absl::StatusOr<KvStore*> Store(std::optional<uint64_t> max_object_bytes = std::nullopt);
  absl::StatusOr<ClusterMap> InitCluster(const ClusterInitRequest& request) const {
    return surroundings_.init_cluster(request);
  }
  // For a command that only some of its flags make a changing one; before Store.
  void set_access(Access access) { access_ = access; }
  // A model's name; a store in it becomes this command's store. INVALID_ARGUMENT where two
  // different ones are named.
  absl::StatusOr<ModelName> Model(std::string_view text);

  // The result of a command that has no list: `text` for people (not with -q), `json` for programs.
  absl::Status Done(std::string_view text, const Json& json);
  // A remark on standard error, not with -q.
  void Remark(std::string_view text) const;
  absl::Status Ask(std::string_view plan) const;
  std::unique_ptr<Progress> StartProgress(const std::string& what) const;

 private:
  // That a node is waited for, now and then, however many calls wait.
  void TellWaiting(const absl::Status& failed);

  GlobalOptions options_;
  Access access_;
  Surroundings surroundings_;
  Output output_;
  std::string model_store_;  // of the models named so far
  std::unique_ptr<KvStore> store_;
  Mutex waiting_mutex_;
  std::optional<int64_t> told_waiting_nanos_ ABSL_GUARDED_BY(waiting_mutex_);
};

}  // namespace tilekv
