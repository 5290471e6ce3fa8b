#include "kvstore/upload_session.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr size_t kCommitIdBytes = 16;
constexpr int64_t kEndWithin_ms = 2'000;

// Errors after which the commit has surely not happened and will not.
bool IsRefused(const absl::Status& status) {
  Reason reason = GetReason(status);
  return reason == Reason::kInvalidArgument || reason == Reason::kTooFewCopies ||
         reason == Reason::kNotFound || reason == Reason::kSessionLost;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadSession>> NodeUploadSession::Begin(
    NodeService& node, Random& random, const std::string& holder, const CallContext& context) {
  v1::BeginSessionRequest request;
  request.set_holder(holder);
  TILEKV_ASSIGN_OR_RETURN(v1::BeginSessionResponse begun, node.BeginSession(request, context));
  auto session = std::unique_ptr<NodeUploadSession>(
      new NodeUploadSession(node, random, begun.token(), Revision{begun.session_rev()}));
  TILEKV_ASSIGN_OR_RETURN(session->keeper_, node.KeepSession(session->token_, context));
  return session;
}

NodeUploadSession::~NodeUploadSession() {
  keeper_.reset();
  v1::EndSessionRequest request;
  request.set_token(token_);
  // If this fails its lease ends it: not worth a wait for a node that is gone.
  node_.EndSession(request, CallContext().WithTimeout(kEndWithin_ms)).IgnoreError();
}

absl::StatusOr<std::vector<bool>> NodeUploadSession::Link(std::span<const ObjectRef> refs,
                                                          const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(keeper_->status());
  std::vector<bool> present;
  present.reserve(refs.size());
  while (!refs.empty()) {
    auto some = refs.first(std::min(refs.size(), kMaxBatchOperations));
    refs = refs.subspan(some.size());
    v1::LinkRequest request;
    request.set_domain(kDefaultDomain);
    request.set_session_rev(session_rev_.value);
    for (const ObjectRef& ref : some) ObjectRefToWire(ref, request.add_refs());
    TILEKV_ASSIGN_OR_RETURN(v1::LinkResponse response, node_.Link(request, context));
    if (response.present_size() != static_cast<int>(some.size())) {
      return MakeError(Reason::kInternal, "a link was answered for another number of objects");
    }
    present.insert(present.end(), response.present().begin(), response.present().end());
  }
  return present;
}

absl::StatusOr<bool> NodeUploadSession::Put(const ObjectRef& ref, Bytes content,
                                            const Encoding& encoding, const CallContext& context,
                                            PutStats* stats) {
  TILEKV_RETURN_IF_ERROR(keeper_->status());
  ObjectPut put;
  put.session_rev = session_rev_;
  put.ref = ref;
  put.encoding = encoding;
  put.content = content;
  put.stats = stats;
  return node_.PutObject(put, context);
}

absl::StatusOr<v1::CommitResponse> NodeUploadSession::Commit(v1::CommitRequest request,
                                                             const CallContext& context) {
  request.set_token(token_);
  request.set_session_rev(session_rev_.value);
  std::string what =
      fmt::format("{}/{}/{}", request.ns(), request.name(), request.root().SerializeAsString());
  {
    MutexLock lock(mutex_);
    std::string& id = commit_ids_[what];
    if (id.empty()) id = random_.Bytes(kCommitIdBytes);
    request.set_commit_id(id);
  }
  absl::StatusOr<v1::CommitResponse> response = node_.Commit(request, context);
  if (response.ok() || IsRefused(response.status())) {
    MutexLock lock(mutex_);
    commit_ids_.erase(what);
  }
  return response;
}

}  // namespace tilekv
