// What every part of a node works on: its objects, the catalog and its line, time and randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/node/live_list.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

class ClusterAdmin;
class CopySurvey;
class SharedCollection;

struct NodeOptions {
  std::string kind = "memory";  // what Info says: "memory", "embedded" or "node"
  Domain domain = kDefaultDomain;
  Clock* clock = Clock::System();
  Random* random = Random::System();
  std::shared_ptr<BufferPool> pool;  // for reads; none: one of the node's own
  ScratchSpace scratch;              // of the collector; none: all of its lists are in memory
  // Of a node that others rely on: a collector's round with a loss that nothing explains waits for
  // a person. Others say so and go on.
  bool holds_rounds = false;
  // Of the cluster whose node this is; outlives the node. Null: a store by itself.
  ClusterAdmin* cluster = nullptr;
  // Of a node of a cluster, without which it does not collect; outlives the node.
  SharedCollection* collection = nullptr;
  // Likewise, without which it does not check the cluster.
  CopySurvey* survey = nullptr;
};

// What a transaction is for, on a disk that is full or has failed.
enum class TxnPurpose {
  kAdd,     // refused there, as objects are: STORE_FULL, STORE_FAILED
  kRemove,  // takes names away, is part of that or undoes it: room is made for it
};

// Thread-safe after Start. Everything that it refers to outlives it.
class NodeContext {
 public:
  NodeContext(ObjectStore& objects, Catalog& catalog, const NodeOptions& options);

  // Reads which line the catalog is on. DATA_LOSS when that record is gone.
  absl::Status Start();
  // The transaction, with the line compared last. CATALOG_REWOUND when the line is another.
  absl::StatusOr<TxnResult> Txn(CatalogTxn txn, TxnPurpose purpose = TxnPurpose::kAdd);
  // Whether objects and names can be added. STORE_FAILED; a full store is no failure.
  absl::Status CheckHealth();

  ObjectStore& objects;
  Catalog& catalog;
  Clock& clock;
  Random& random;
  const std::shared_ptr<BufferPool> pool;
  const Domain domain;
  const std::string kind;
  const ScratchSpace scratch;
  const bool holds_rounds;
  ClusterAdmin* const cluster;         // null: a store by itself
  SharedCollection* const collection;  // null: of its own objects, if they are its own
  CopySurvey* const survey;            // of the cluster; null: a store by itself

  const std::string& line_id() const { return line_id_; }
  // The catalog's when the node started.
  Revision start_revision() const { return start_revision_; }

 private:
  std::string line_id_;
  Revision line_revision_;
  Revision start_revision_;
};

}  // namespace tilekv
