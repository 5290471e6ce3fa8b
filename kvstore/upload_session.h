// An upload session of a client, over one node.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/kv_store.h"

namespace tilekv {

class NodeUploadSession : public UploadSession {
 public:
  // `node` and `random` outlive the session, and the session's calls are over when it is destroyed.
  static absl::StatusOr<std::unique_ptr<UploadSession>> Begin(NodeService& node, Random& random,
                                                              const std::string& holder,
                                                              const CallContext& context = {});
  ~NodeUploadSession() override;

  absl::StatusOr<std::vector<bool>> Link(std::span<const ObjectRef> refs,
                                         const CallContext& context = {}) override;
  absl::StatusOr<bool> Put(const ObjectRef& ref, Bytes content, const Encoding& encoding = {},
                           const CallContext& context = {}, PutStats* stats = nullptr) override;
  absl::StatusOr<v1::CommitResponse> Commit(v1::CommitRequest request,
                                            const CallContext& context = {}) override;
  const std::string& token() const override { return token_; }
  Revision session_rev() const override { return session_rev_; }

 private:
  NodeUploadSession(NodeService& node, Random& random, std::string token, Revision session_rev)
      : node_(node), random_(random), token_(std::move(token)), session_rev_(session_rev) {}

  NodeService& node_;
  Random& random_;
  const std::string token_;
  const Revision session_rev_;
  std::unique_ptr<NodeService::SessionKeeper> keeper_;
  Mutex mutex_;
  // Ids of commits of which it is not known whether they happened, by name and root.
  std::map<std::string, std::string> commit_ids_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
