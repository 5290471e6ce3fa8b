// A watch on a range of the catalog's keys (catalog_watch.h), on a thread of its own. After every
// loss of its stream (a member that went away, a compaction) it begins with everything again: etcd
// 3.4 may have forgotten what happened in between.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "kvstore/base/mutex.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/catalog_watch.h"
#include "kvstore/catalog/etcd/etcd_codec.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"

namespace tilekv {

// Everything in the range at one revision.
using ListEverything = std::function<absl::StatusOr<CatalogPage>()>;

class EtcdWatch : public CatalogWatch {
 public:
  // `rpc`, `codec` and `options` outlive the watch, and what `list` uses does too.
  EtcdWatch(EtcdRpc& rpc, const EtcdCodec& codec, const EtcdOptions& options, std::string start,
            std::string end, ListEverything list, CatalogUpdateCallback callback);
  ~EtcdWatch() override;

 private:
  void Run();
  // One listing and the stream after it. True when there was a listing.
  bool Follow();
  // False: the stream is of no more use.
  bool Tell(const etcdserverpb::WatchResponse& response);
  bool Stopping();

  EtcdRpc& rpc_;
  const EtcdCodec& codec_;
  const EtcdOptions& options_;
  const std::string start_;
  const std::string end_;
  const ListEverything list_;
  const CatalogUpdateCallback callback_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<EtcdWatchStream> stream_ ABSL_GUARDED_BY(mutex_);  // Read without the lock
  std::thread thread_;
};

}  // namespace tilekv
