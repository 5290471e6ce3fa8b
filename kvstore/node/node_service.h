// NodeService: what one node does for a client, as calls. LocalNode does it (in process, and behind
// the server); RemoteNode (client/) carries the same calls over gRPC. A transport is a way from an
// address to a NodeService.
//
// Blocking and thread-safe. Control calls take and give the messages of service.proto: one
// definition for both sides. Bulk calls take memory of the caller and copy as little as their
// carrier allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/revision.h"
#include "kvstore/base/stream.h"
#include "kvstore/node/transfer_stats.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_id.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// One range of one object, to be placed at `out`, or handed to `place`. Verified to the id by
// whoever fills it.
struct ObjectRead {
  ObjectRef ref;
  uint64_t offset = 0;
  MutableBytes out;  // its size is the range's length, unless `place` is set
  // For content that does not go into one piece of memory: takes it in order, `placed_bytes` in
  // all, while it is in the processor's cache. From the start again when the read is repeated.
  PlaceContent place = {};
  uint64_t placed_bytes = 0;
  // Where `place` is set, and what it copies to are long pieces of memory: those, for who can read
  // straight into them.
  PiecesOfContent pieces = {};
  // False: only lengths are checked. For who trusts disk and network, and says so.
  bool verify = true;

  uint64_t length() const { return place ? placed_bytes : out.size(); }
};

struct ObjectPut {
  Domain domain = kDefaultDomain;
  Revision session_rev;
  ObjectRef ref;
  Encoding encoding;  // in which it is sent and stored; falls back to none where nothing is gained
  Bytes content;      // not coded; stays the caller's and unchanged until the call returns
  PutStats* stats = nullptr;  // added to, where it is not null
};

class NodeService {
 public:
  virtual ~NodeService() = default;

#define TILEKV_NODE_CALL(Name)                                                      \
  virtual absl::StatusOr<v1::Name##Response> Name(const v1::Name##Request& request, \
                                                  const CallContext& context = {}) = 0
  TILEKV_NODE_CALL(Info);
  TILEKV_NODE_CALL(Link);
  // From a reader that received what does not hash to the id. The node reads its own copies: a bad
  // one counts no more, so that storing the object again heals it.
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
  virtual absl::StatusOr<v1::CommitResponse> CopyVersion(const v1::CopyVersionRequest& request,
                                                         const CallContext& context = {}) = 0;

  // Keeps the session alive until the returned object is destroyed. SESSION_LOST when it is gone
  // already.
  class SessionKeeper {
   public:
    virtual ~SessionKeeper() = default;
    // SESSION_LOST once it is known that the session has ended all the same.
    virtual absl::Status status() { return absl::OkStatus(); }
  };
  virtual absl::StatusOr<std::unique_ptr<SessionKeeper>> KeepSession(
      const std::string& token, const CallContext& context = {}) = 0;

  // DATA_LOSS when the content does not hash to the id, SESSION_LOST, OBJECT_TOO_LARGE, STORE_FULL.
  // True: stored; false: it was there.
  virtual absl::StatusOr<bool> PutObject(const ObjectPut& put, const CallContext& context = {}) = 0;
  // Fills all ranges, verified, in one exchange. The first that fails ends the call: NOT_FOUND or
  // DATA_LOSS names the object; `out` may then hold anything.
  virtual absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats = nullptr,
                                   const CallContext& context = {}) = 0;

  // Told the compare that the first exchange fixed, before the transaction is sent (for retries).
  using CompareFixed = std::function<void(Revision)>;
  // `header` names key, condition, length or a root; `source` gives the bytes (null with a root).
  virtual absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header,
                                                       ByteSource* source,
                                                       const CompareFixed& fixed,
                                                       const CallContext& context = {}) = 0;
  // `fixed` is told all compares, in the order of items, before anything is written. Its error ends
  // the call there.
  using ComparesFixed = std::function<absl::Status(const std::vector<uint64_t>&)>;
  virtual absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                        const ComparesFixed& fixed,
                                                        const CallContext& context = {}) = 0;
};

// From an address to a node. The seam at which a simulation puts its network.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual absl::StatusOr<std::shared_ptr<NodeService>> Connect(const std::string& address) = 0;
};

}  // namespace tilekv
