#include "kvstore/node/local_node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/cluster_check.h"
#include "kvstore/node/fsck.h"
#include "kvstore/node/recoding.h"
#include "kvstore/node/usage.h"
#include "kvstore/object/object_read.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr uint32_t kStoreFormatVersion = 1;
// Of content that is coded before the writer takes it; a multiple of a block.
constexpr uint64_t kCodedStepBytes = kMiB;

absl::Status CheckCount(int count, const char* what) {
  if (count <= static_cast<int>(kMaxBatchOperations)) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("{} {}; at most {}", count, what, kMaxBatchOperations));
}

absl::Status NoCluster() {
  return MakeError(Reason::kInvalidArgument,
                   "this store is no part of a cluster: name a node that was started with --etcd "
                   "and --cluster");
}

absl::Status ReadContentOf(const ObjectRead& read, ObjectReader& reader, BufferPool& pool,
                           ReadTimes* times) {
  if (!read.place) {
    return ReadContent(reader, read.offset, read.out, pool, read.verify, times);
  }
  if (!read.verify && read.pieces && reader.row().encoding.kind == EncodingKind::kNone) {
    return ReadUncodedIntoPieces(reader, read.offset, read.length(), read.pieces, times);
  }
  return ReadContentInSteps(reader, read.offset, read.length(), read.place, pool, read.verify,
                            times);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalNode>> LocalNode::Create(ObjectStore& objects, Catalog& catalog,
                                                             const NodeOptions& options) {
  auto node = std::unique_ptr<LocalNode>(new LocalNode(objects, catalog, options));
  TILEKV_RETURN_IF_ERROR(node->node_.Start());
  TILEKV_RETURN_IF_ERROR(objects.SettleRevisions(options.domain, node->node_.start_revision()));
  TILEKV_RETURN_IF_ERROR(node->collector_.Start());
  return node;
}

LocalNode::LocalNode(ObjectStore& objects, Catalog& catalog, const NodeOptions& options)
    : node_(objects, catalog, options),
      sessions_(node_),
      rolling_(node_, sessions_),
      values_(node_),
      models_(node_),
      committer_(node_, sessions_, rolling_),
      collector_(node_, sessions_, rolling_, models_) {}

absl::Status LocalNode::CheckDomain(Domain domain) const {
  if (domain == node_.domain) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("domain {} is not one of this store's", domain));
}

absl::StatusOr<v1::InfoResponse> LocalNode::Info(const v1::InfoRequest&, const CallContext&) {
  TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, node_.objects.Usage());
  // Who connects to a node of a cluster does not wait for etcd: what is opened is read on without.
  Revision revision;
  if (node_.cluster == nullptr) {
    TILEKV_ASSIGN_OR_RETURN(revision, node_.catalog.CurrentRevision());
  }
  v1::InfoResponse info;
  info.set_version(TILEKV_VERSION);
  info.set_max_object_bytes(node_.objects.max_object_bytes());
  info.set_store_uuid(node_.objects.store_uuid());
  info.set_format_version(kStoreFormatVersion);
  info.set_objects(usage.objects);
  info.set_content_bytes(usage.content_bytes);
  info.set_stored_bytes(usage.stored_bytes);
  info.set_disk_total_bytes(usage.disk_total_bytes);
  info.set_disk_available_bytes(usage.disk_available_bytes);
  info.set_quarantined_objects(usage.quarantined_objects);
  info.set_revision(revision.value);
  info.set_line_id(node_.line_id());
  info.set_kind(node_.kind);
  if (node_.cluster != nullptr) {
    info.set_cluster(node_.cluster->cluster_name());
    info.set_node_id(node_.cluster->node_id());
  }
  return info;
}

absl::StatusOr<v1::LinkResponse> LocalNode::Link(const v1::LinkRequest& request,
                                                 const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_RETURN_IF_ERROR(CheckDomain(request.domain()));
  TILEKV_RETURN_IF_ERROR(CheckCount(request.refs_size(), "objects in one link"));
  Revision session_rev{request.session_rev()};
  TILEKV_RETURN_IF_ERROR(sessions_.Use(session_rev));
  std::vector<ObjectRef> refs;
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_ASSIGN_OR_RETURN(refs.emplace_back(), ObjectRefFromWire(message));
  }
  TILEKV_ASSIGN_OR_RETURN(std::vector<LinkResult> results,
                          node_.objects.Link(node_.domain, refs, session_rev));
  v1::LinkResponse response;
  // What was not checked for long is sent again, and its copy is looked at then: storing heals.
  for (const LinkResult& result : results) {
    response.add_present(result.present && result.trusted);
  }
  return response;
}

absl::StatusOr<v1::ReportDamageResponse> LocalNode::ReportDamage(
    const v1::ReportDamageRequest& request, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckDomain(request.domain()));
  TILEKV_RETURN_IF_ERROR(CheckCount(request.refs_size(), "objects reported"));
  v1::ReportDamageResponse response;
  for (const v1::ObjectRef& message : request.refs()) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message));
    absl::StatusOr<bool> good = node_.objects.Verify(node_.domain, ref.id);
    if (!good.ok() && GetReason(good.status()) != Reason::kNotFound) {
      // Its copy cannot be read whole just now: read last, and replaced when it is stored again.
      TILEKV_RETURN_IF_ERROR(node_.objects.MarkSuspect(node_.domain, ref.id));
    }
    response.add_good(good.ok() && *good);
  }
  return response;
}

absl::StatusOr<v1::BeginSessionResponse> LocalNode::BeginSession(
    const v1::BeginSessionRequest& request, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(SessionHandle handle,
                          sessions_.Begin(request.holder(), request.lease_s()));
  v1::BeginSessionResponse response;
  response.set_token(handle.token);
  response.set_session_rev(handle.revision.value);
  return response;
}

absl::StatusOr<v1::EndSessionResponse> LocalNode::EndSession(const v1::EndSessionRequest& request,
                                                             const CallContext&) {
  TILEKV_RETURN_IF_ERROR(sessions_.End(request.token()));
  return v1::EndSessionResponse();
}

absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> LocalNode::KeepSession(
    const std::string& token, const CallContext&) {
  return sessions_.Keep(token);
}

absl::StatusOr<v1::CommitResponse> LocalNode::Commit(const v1::CommitRequest& request,
                                                     const CallContext& context) {
  return committer_.Commit(request, context);
}

absl::StatusOr<v1::CommitResponse> LocalNode::CopyVersion(const v1::CopyVersionRequest& request,
                                                          const CallContext& context) {
  return committer_.Copy(request, context);
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> LocalNode::NewObjectWriter(
    const v1::PutObjectHeader& header) {
  TILEKV_RETURN_IF_ERROR(CheckDomain(header.domain()));
  PutSpec spec;
  spec.domain = node_.domain;
  TILEKV_ASSIGN_OR_RETURN(spec.expected, ObjectRefFromWire(header.ref()));
  spec.level = spec.expected->level;
  TILEKV_ASSIGN_OR_RETURN(spec.encoding, EncodingFromWire(header.encoding()));
  spec.touched_rev = {header.session_rev()};
  TILEKV_RETURN_IF_ERROR(sessions_.Use(spec.touched_rev));
  return node_.objects.NewWriter(spec);
}

absl::StatusOr<bool> LocalNode::PutObject(const ObjectPut& put, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_RETURN_IF_ERROR(CheckDomain(put.domain));
  TILEKV_RETURN_IF_ERROR(sessions_.Use(put.session_rev));
  PutSpec spec;
  spec.domain = node_.domain;
  spec.level = put.ref.level;
  spec.expected = put.ref;
  spec.touched_rev = put.session_rev;
  if (put.encoding.kind != EncodingKind::kNone && !put.content.empty()) {
    spec.encoding = put.encoding;
    TILEKV_ASSIGN_OR_RETURN(std::optional<PutOutcome> outcome, PutCoded(spec, put));
    if (outcome) return outcome->stored;
    spec.encoding = {};
  }
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, node_.objects.NewWriter(spec));
  TILEKV_RETURN_IF_ERROR(writer->Append(put.content));
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer->Finish());
  if (put.stats != nullptr) put.stats->sent_bytes += put.content.size();
  return outcome.stored;
}

absl::StatusOr<std::optional<PutOutcome>> LocalNode::PutCoded(const PutSpec& spec,
                                                              const ObjectPut& put) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<BlockCodec> codec, NewBlockCodec(spec.encoding));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, node_.objects.NewWriter(spec));
  Buffer step = node_.pool->Get(std::min<uint64_t>(kCodedStepBytes, put.content.size()));
  uint64_t stored_bytes = BlockCount(put.content.size()) * sizeof(uint32_t);  // of the table
  for (Bytes rest = put.content; !rest.empty();) {
    uint64_t used = 0;
    std::vector<uint32_t> table;
    {
      TimedScope timed(put.stats == nullptr ? nullptr : &put.stats->encode_nanos);
      for (uint64_t taken = 0; taken < step.size() && !rest.empty();) {
        Bytes block = rest.first(std::min<uint64_t>(kBlockBytes, rest.size()));
        table.push_back(codec->Encode(block, step.span().subspan(used)));
        used += table.back() & ~kRawBlockBit;
        taken += block.size();
        rest = rest.subspan(block.size());
      }
    }
    stored_bytes += used;
    TILEKV_RETURN_IF_ERROR(writer->Append(step.span().first(used), table));
  }
  if (stored_bytes >= put.content.size()) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer->Finish());
  if (put.stats != nullptr) {
    put.stats->sent_bytes += stored_bytes - BlockCount(put.content.size()) * sizeof(uint32_t);
  }
  return outcome;
}

absl::Status LocalNode::ReadOne(const ObjectRead& read, ReadStats* stats) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader,
                          node_.objects.Open(node_.domain, read.ref.id));
  if (reader->row().ref != read.ref) {
    return MakeError(Reason::kNotFound,
                     fmt::format("object {} is here, but not with level {} and {} bytes",
                                 read.ref.id.Hex(), read.ref.level, read.ref.length));
  }
  ReadTimes* times = stats != nullptr && stats->timed ? &stats->times : nullptr;
  TILEKV_RETURN_IF_ERROR(ReadContentOf(read, *reader, *node_.pool, times));
  if (stats == nullptr) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(CoveringRange covering, CoverRange(reader->row(), reader->block_table(),
                                                             read.offset, read.length()));
  stats->asked_bytes += read.length();
  stats->received_bytes += covering.stored_length;
  return absl::OkStatus();
}

absl::Status LocalNode::ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                                    const CallContext& context) {
  const bool timed = stats != nullptr && stats->timed;
  const int64_t began_nanos = timed ? TimedScope::NowNanos() : 0;
  uint64_t bytes = 0;
  for (const ObjectRead& read : reads) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_RETURN_IF_ERROR(ReadOne(read, stats));
    bytes += read.length();
  }
  if (timed) {
    ++stats->exchanges;
    stats->slowest.Offer({.nanos = TimedScope::NowNanos() - began_nanos, .bytes = bytes});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ValueWriter>> LocalNode::BeginPutValue(
    const v1::PutValueHeader& header) {
  return ValueWriter::Begin(node_, sessions_, rolling_, header);
}

absl::StatusOr<v1::PutValueOutcome> LocalNode::PutValue(const v1::PutValueHeader& header,
                                                        ByteSource* source,
                                                        const CompareFixed& fixed,
                                                        const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ValueWriter> writer, BeginPutValue(header));
  if (fixed != nullptr) fixed(writer->compare());
  if (!header.has_root()) {
    Buffer buffer = node_.pool->Get(kTransferChunkBytes);
    while (true) {
      TILEKV_RETURN_IF_ERROR(context.Check());
      TILEKV_ASSIGN_OR_RETURN(uint64_t read, source->Read(buffer.span()));
      if (read == 0) break;
      TILEKV_RETURN_IF_ERROR(writer->Append(buffer.span().first(read)));
    }
  }
  return writer->Finish(context);
}

absl::StatusOr<v1::BatchPutResponse> LocalNode::BatchPut(const v1::BatchPutRequest& request,
                                                         const ComparesFixed& fixed,
                                                         const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<BatchWriter> writer, BeginBatchPut(request));
  if (fixed != nullptr) TILEKV_RETURN_IF_ERROR(fixed(writer->compares()));
  TILEKV_ASSIGN_OR_RETURN(v1::BatchPutResponse response, writer->Finish(context));
  response.mutable_compares()->Assign(writer->compares().begin(), writer->compares().end());
  return response;
}

absl::StatusOr<std::unique_ptr<BatchWriter>> LocalNode::BeginBatchPut(v1::BatchPutRequest request) {
  return BatchWriter::Begin(node_, sessions_, rolling_, std::move(request));
}

absl::StatusOr<v1::GetValueResponse> LocalNode::GetValue(const v1::GetValueRequest& request,
                                                         const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  return values_.Get(request.key(), request.with_content());
}

#define TILEKV_FORWARD(Name, call)                                                     \
  absl::StatusOr<v1::Name##Response> LocalNode::Name(const v1::Name##Request& request, \
                                                     const CallContext& context) {     \
    TILEKV_RETURN_IF_ERROR(context.Check());                                           \
    return call;                                                                       \
  }
TILEKV_FORWARD(DeleteValue, values_.Delete(request))
TILEKV_FORWARD(ListValues, values_.List(request))
TILEKV_FORWARD(BatchGet, values_.BatchGet(request))
TILEKV_FORWARD(ListModels, models_.List(request))
TILEKV_FORWARD(ResolveVersion, models_.Resolve(request))
TILEKV_FORWARD(ListVersions, models_.ListVersions(request))
TILEKV_FORWARD(SetTag, models_.SetTag(request))
TILEKV_FORWARD(RemoveTag, models_.RemoveTag(request))
TILEKV_FORWARD(DeleteVersions, models_.Delete(request))
TILEKV_FORWARD(UndeleteVersion, models_.Undelete(request))
TILEKV_FORWARD(MoveModel, models_.Move(request))
TILEKV_FORWARD(Locate, tilekv::Locate(node_, request))
TILEKV_FORWARD(FindReferrers, tilekv::FindReferrers(node_, request, context))
TILEKV_FORWARD(Usage, ComputeUsage(node_, request, context))
TILEKV_FORWARD(Recode, RunRecode(node_, request, context))
#undef TILEKV_FORWARD

absl::StatusOr<v1::CollectResponse> LocalNode::Collect(const v1::CollectRequest& request,
                                                       const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  // From its own disk alone nothing can be deleted that others hold.
  if (node_.cluster != nullptr && node_.collection == nullptr) {
    return MakeError(Reason::kInvalidArgument, "this node of a cluster does not collect");
  }
  return collector_.Collect(request, context);
}

absl::StatusOr<v1::FsckResponse> LocalNode::Fsck(const v1::FsckRequest& request,
                                                 const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  // From its own disk alone, what only others hold would seem lost.
  if (node_.cluster != nullptr) {
    return MakeError(Reason::kInvalidArgument,
                     "a node of a cluster does not check by itself that everything named is there: "
                     "most of it is on other nodes");
  }
  return RunFsck(node_, request, context);
}

absl::StatusOr<v1::ClusterStatusResponse> LocalNode::ClusterStatus(const v1::ClusterStatusRequest&,
                                                                   const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (node_.cluster == nullptr) return NoCluster();
  return node_.cluster->Status(context);
}

absl::StatusOr<v1::ClusterCheckResponse> LocalNode::ClusterCheck(
    const v1::ClusterCheckRequest& request, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (node_.cluster == nullptr || node_.survey == nullptr) return NoCluster();
  return RunClusterCheck(node_, request, context);
}

absl::StatusOr<v1::ChangeClusterResponse> LocalNode::ChangeCluster(
    const v1::ChangeClusterRequest& request, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (node_.cluster == nullptr) return NoCluster();
  if (request.lost()) {
    if (!request.has_remove() || node_.survey == nullptr) {
      return MakeError(Reason::kInvalidArgument, "only a node that is removed can be lost");
    }
    TILEKV_RETURN_IF_ERROR(CheckNotNeeded(node_, request.remove(), context));
  }
  return node_.cluster->Change(request, context);
}

}  // namespace tilekv
