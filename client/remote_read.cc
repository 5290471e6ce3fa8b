#include <algorithm>
#include <memory>

#include "client/range_assembler.h"
#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr char kMethod[] = "/tilekv.v1.Node/ReadObjects";
// Ranges of one call, as the service has it.
constexpr size_t kMaxRanges = 1'024;

// Content is placed and verified in gRPC's threads, as it comes.
class ReadReactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ReadReactor(std::span<const ObjectRead> reads, const std::string& node, bool timed)
      : assembler_(reads, node, timed), watch_(&call_) {}

  grpc::Status Run(RemoteChannels& channels, const v1::ReadObjectsRequest& request,
                   const CallContext& context) {
    SetDeadline(context, call_);
    watch_.SetStallTimeout(channels.options().progress_timeout_ms);
    std::string text = request.SerializeAsString();
    grpc::Slice slice(text.data(), text.size());
    request_ = grpc::ByteBuffer(&slice, 1);
    channels.NextBulk().PrepareBidiStreamingCall(&call_, kMethod, grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&response_);
    StartCall();
    return watch_.Wait(context);
  }

  // After Run.
  RangeAssembler& assembler() { return assembler_; }
  const absl::Status& failed() const { return failed_; }
  bool stalled() { return watch_.stalled(); }
  const grpc::ClientContext& call() const { return call_; }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    watch_.Progress();
    failed_ = assembler_.Take(PiecesOf(response_, slices_));
    slices_.clear();
    response_.Clear();
    if (failed_.ok()) {
      StartRead(&response_);
    } else {
      call_.TryCancel();
    }
  }
  void OnDone(const grpc::Status& status) override { watch_.Done(status); }

  grpc::ClientContext call_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::vector<grpc::Slice> slices_;
  RangeAssembler assembler_;
  absl::Status failed_;
  CallWatch watch_;
};

// Tells the node that what it sent is not the object: only there its copy can be taken out of use.
// Best effort; the reader's own error says what matters to it.
void ReportDamage(RemoteChannels& channels, const ObjectRef& ref, const CallContext& context) {
  grpc::ClientContext call;
  SetDeadline(context.WithTimeout(channels.options().sync_timeout_ms), call);
  v1::ReportDamageRequest request;
  request.set_domain(kDefaultDomain);
  ObjectRefToWire(ref, request.add_refs());
  v1::ReportDamageResponse response;
  channels.control().ReportDamage(&call, request, &response);
}

void AddTimes(const RangeAssembler& assembler, std::span<const ObjectRead> reads,
              int64_t exchange_nanos, const std::string& node, ReadStats& stats) {
  ReadTimes times = assembler.times();
  int64_t busy_nanos = times.verify_nanos + times.decode_nanos + times.place_nanos;
  times.fetch_nanos = std::max<int64_t>(0, exchange_nanos - busy_nanos);
  stats.times.Add(times);
  ++stats.exchanges;
  uint64_t bytes = 0;
  for (const ObjectRead& read : reads) bytes += read.length();
  stats.slowest.Offer({.nanos = exchange_nanos, .bytes = bytes, .node = node});
}

absl::Status ReadBatch(RemoteChannels& channels, std::span<const ObjectRead> reads,
                       ReadStats* stats, const CallContext& context) {
  v1::ReadObjectsRequest request;
  for (const ObjectRead& read : reads) {
    v1::ObjectRange* range = request.add_ranges();
    ObjectRefToWire(read.ref, range->mutable_ref());
    range->set_offset(read.offset);
    range->set_length(read.length());
  }
  for (const Encoding& encoding : KnownCodedEncodings()) {
    EncodingToWire(encoding, request.add_accept());
  }
  const bool timed = stats != nullptr && stats->timed;
  ReadReactor reactor(reads, channels.address(), timed);
  int64_t exchange_nanos = 0;
  grpc::Status status;
  {
    TimedScope exchange(timed ? &exchange_nanos : nullptr);
    status = reactor.Run(channels, request, context);
  }
  if (timed) AddTimes(reactor.assembler(), reads, exchange_nanos, channels.address(), *stats);
  if (stats != nullptr) stats->received_bytes += reactor.assembler().received_bytes();
  if (GetReason(reactor.failed()) == Reason::kDataLoss) {
    ReportDamage(channels, reads[reactor.assembler().current()].ref, context);
  }
  TILEKV_RETURN_IF_ERROR(reactor.failed());
  if (reactor.stalled()) {
    return Stalled(fmt::format("node {} sent nothing of {} for {} ms", channels.address(),
                               reactor.assembler().CurrentObject(),
                               channels.options().progress_timeout_ms));
  }
  if (!status.ok()) return FromGrpc(status, reactor.call(), context, channels.address());
  return reactor.assembler().Finish();
}

}  // namespace

absl::Status RemoteReadObjects(RemoteChannels& channels, std::span<const ObjectRead> reads,
                               ReadStats* stats, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (stats != nullptr) {
    for (const ObjectRead& read : reads) stats->asked_bytes += read.length();
  }
  while (!reads.empty()) {
    size_t n = std::min(reads.size(), kMaxRanges);
    TILEKV_RETURN_IF_ERROR(ReadBatch(channels, reads.first(n), stats, context));
    reads = reads.subspan(n);
  }
  return absl::OkStatus();
}

}  // namespace tilekv
