// LocalNode: NodeService on objects and a catalog of this process. Embedded stores call it; the
// server exposes it. Thread-safe and blocking.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvstore/node/batch_writer.h"
#include "kvstore/node/collector.h"
#include "kvstore/node/commit.h"
#include "kvstore/node/models.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/node_service.h"
#include "kvstore/node/sessions.h"
#include "kvstore/node/value_writer.h"
#include "kvstore/node/values.h"

namespace tilekv {

class LocalNode : public NodeService {
 public:
  // Objects and catalog outlive the node, and the node all writers and keepers that it gave.
  static absl::StatusOr<std::unique_ptr<LocalNode>> Create(ObjectStore& objects, Catalog& catalog,
                                                           const NodeOptions& options = {});

  // STORE_FAILED once objects or names can be added no more.
  absl::Status CheckHealth() { return node_.CheckHealth(); }
  // Whether the collector's last round was held (collector.h).
  bool collection_held() const { return collector_.held(); }
  // How long until rounds that begin so far apart have one begin again, whichever node of a cluster
  // began the last one; 0: it is due. As the clock on the wall says.
  absl::StatusOr<int64_t> CollectionDueIn_ms(int64_t every_ms) {
    return collector_.DueIn_ms(every_ms);
  }

#define TILEKV_NODE_CALL(Name)                                              \
  absl::StatusOr<v1::Name##Response> Name(const v1::Name##Request& request, \
                                          const CallContext& context = {}) override
  TILEKV_NODE_CALL(Info);
  TILEKV_NODE_CALL(Link);
  TILEKV_NODE_CALL(ReportDamage);
  TILEKV_NODE_CALL(BeginSession);
  TILEKV_NODE_CALL(EndSession);
  TILEKV_NODE_CALL(Commit);
  TILEKV_NODE_CALL(GetValue);
  TILEKV_NODE_CALL(DeleteValue);
  TILEKV_NODE_CALL(ListValues);
  TILEKV_NODE_CALL(BatchGet);
  TILEKV_NODE_CALL(ListModels);
  TILEKV_NODE_CALL(ResolveVersion);
  TILEKV_NODE_CALL(ListVersions);
  TILEKV_NODE_CALL(SetTag);
  TILEKV_NODE_CALL(RemoveTag);
  TILEKV_NODE_CALL(DeleteVersions);
  TILEKV_NODE_CALL(UndeleteVersion);
  TILEKV_NODE_CALL(MoveModel);
  TILEKV_NODE_CALL(Locate);
  TILEKV_NODE_CALL(FindReferrers);
  TILEKV_NODE_CALL(Usage);
  TILEKV_NODE_CALL(Collect);
  TILEKV_NODE_CALL(Fsck);
  TILEKV_NODE_CALL(Recode);
  TILEKV_NODE_CALL(ClusterStatus);
  TILEKV_NODE_CALL(ClusterCheck);
  TILEKV_NODE_CALL(ChangeCluster);
#undef TILEKV_NODE_CALL
  absl::StatusOr<v1::CommitResponse> CopyVersion(const v1::CopyVersionRequest& request,
                                                 const CallContext& context = {}) override;
  absl::StatusOr<std::unique_ptr<SessionKeeper>> KeepSession(
      const std::string& token, const CallContext& context = {}) override;
  absl::StatusOr<bool> PutObject(const ObjectPut& put, const CallContext& context = {}) override;
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats = nullptr,
                           const CallContext& context = {}) override;
  absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header, ByteSource* source,
                                               const CompareFixed& fixed,
                                               const CallContext& context = {}) override;
  absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                const ComparesFixed& fixed,
                                                const CallContext& context = {}) override;

  // --- for a server, which streams ---
  // Checks the session; then as ObjectStore::NewWriter.
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewObjectWriter(const v1::PutObjectHeader& header);
  absl::StatusOr<std::unique_ptr<ValueWriter>> BeginPutValue(const v1::PutValueHeader& header);
  absl::StatusOr<std::unique_ptr<BatchWriter>> BeginBatchPut(v1::BatchPutRequest request);
  // For ReadObjects, whose stored blocks go out as they are.
  ObjectStore& objects() { return node_.objects; }
  Domain domain() const { return node_.domain; }

 private:
  LocalNode(ObjectStore& objects, Catalog& catalog, const NodeOptions& options);
  absl::Status CheckDomain(Domain domain) const;
  // Codes what the writer takes step by step. None: nothing is gained by it, and nothing was
  // stored.
  absl::StatusOr<std::optional<PutOutcome>> PutCoded(const PutSpec& spec, const ObjectPut& put);
  absl::Status ReadOne(const ObjectRead& read, ReadStats* stats);

  NodeContext node_;
  Sessions sessions_;
  RollingSession rolling_;
  Values values_;
  Models models_;
  Committer committer_;
  Collector collector_;
};

}  // namespace tilekv
