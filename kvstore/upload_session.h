// An upload session of a client, over one node.
#pragma once

#include <memory>
#include <string>

#include "kvstore/base/random.h"
#include "kvstore/kv_store.h"

namespace tilekv {

class NodeUploadSession : public UploadSession {
 public:
  // `node` and `random` outlive the session, and the session's calls are over when it is destroyed.
  static absl::StatusOr<std::unique_ptr<UploadSession>> Begin(NodeService& node, Random& random,
                                                              const std::string& holder);
  ~NodeUploadSession() override;

  absl::StatusOr<std::vector<bool>> Link(std::span<const ObjectRef> refs,
                                         const CallContext& context = {}) override;
  absl::StatusOr<bool> Put(const ObjectRef& ref, Bytes content, const Encoding& encoding = {},
                           const CallContext& context = {}) override;
  absl::StatusOr<v1::CommitResponse> Commit(v1::CommitRequest request,
                                            const CallContext& context = {}) override;
  const std::string& token() const override { return token_; }
  Revision session_rev() const override { return session_rev_; }

 private:
  NodeUploadSession(NodeService& node, std::string commit_id, std::string token,
                    Revision session_rev)
      : node_(node),
        commit_id_(std::move(commit_id)),
        token_(std::move(token)),
        session_rev_(session_rev) {}

  NodeService& node_;
  const std::string commit_id_;
  const std::string token_;
  const Revision session_rev_;
  std::unique_ptr<NodeService::SessionKeeper> keeper_;
};

}  // namespace tilekv
