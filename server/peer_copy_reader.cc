#include "server/peer_copy_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/blocking_stream.h"
#include "kvstore/object/object_read.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"
#include "server/grpc_peer.h"

namespace tilekv {
namespace {

constexpr char kMethod[] = "/tilekv.v1.Peer/ReadCopy";
// Of one call that reads ahead. All of it is received without anybody asking for it, since it is
// less than what gRPC takes ahead of a stream (channel_arguments.cc).
constexpr uint64_t kAheadBytes = 2 * kMiB;
constexpr size_t kCallsAhead = 2;

// One call of ReadCopy, and what is left of it.
class CopyStream {
 public:
  CopyStream(GrpcPeer& peer, const v1::ReadCopyRequest& request, const ObjectId& id,
             const CallContext& context)
      : peer_(peer),
        what_(fmt::format("object {}", id.Short())),
        stream_(peer.NextBulk(), kMethod, peer.name(), kCopyStall_ms, context) {
    std::string text = request.SerializeAsString();
    grpc::Slice slice(text);
    sent_ = stream_.Write(grpc::ByteBuffer(&slice, 1), true);
  }

  // The next message; its data is taken by Take.
  absl::Status Next(v1::ReadCopyResponse& fields) {
    pieces_.clear();
    next_piece_ = 0;
    grpc::ByteBuffer message;
    if (!sent_ || !stream_.Read(message)) {
      TILEKV_RETURN_IF_ERROR(Finish());
      return Wrong("the answer ended before everything had come");
    }
    absl::Status decoded = DecodeBulk(PiecesOf(message, slices_), fields, pieces_);
    return decoded.ok() ? decoded : Wrong(ErrorText(decoded));
  }
  // As much of the data of the message as there is; how much it was.
  uint64_t Take(MutableBytes out) {
    uint64_t taken = 0;
    while (taken < out.size() && next_piece_ < pieces_.size()) {
      Bytes& piece = pieces_[next_piece_];
      const uint64_t n = std::min<uint64_t>(piece.size(), out.size() - taken);
      std::memcpy(out.data() + taken, piece.data(), n);
      taken += n;
      piece = piece.subspan(n);
      if (piece.empty()) ++next_piece_;
    }
    return taken;
  }
  uint64_t left_in_message() const {
    return TotalBytes(std::span<const Bytes>(pieces_).subspan(next_piece_));
  }
  absl::Status Fill(MutableBytes out) {
    while (!out.empty()) {
      const uint64_t n = Take(out);
      out = out.subspan(n);
      if (out.empty()) break;
      v1::ReadCopyResponse fields;
      TILEKV_RETURN_IF_ERROR(Next(fields));
      if (pieces_.empty()) return Wrong("a message without data");
    }
    return absl::OkStatus();
  }
  // The end, after which nothing is read.
  absl::Status Finish() { return peer_.Ended(stream_.Finish(what_)); }

  absl::Status Wrong(const std::string& what) const {
    return MakeError(Reason::kInternal, fmt::format("node {} answered a read of {} wrongly: {}",
                                                    peer_.name(), what_, what));
  }

 private:
  GrpcPeer& peer_;
  const std::string what_;
  BlockingStream stream_;
  bool sent_ = false;
  std::vector<grpc::Slice> slices_;  // that the pieces lie in
  std::vector<Bytes> pieces_;
  size_t next_piece_ = 0;
};

class PeerCopyReader final : public ObjectReader {
 public:
  PeerCopyReader(std::shared_ptr<GrpcPeer> peer, Domain domain, const CallContext& context)
      : peer_(std::move(peer)), domain_(domain), context_{.cancel = context.cancel} {}

  absl::Status Open(const ObjectId& id, const CallContext& context) {
    v1::ReadCopyRequest request = Request(id);
    CopyStream stream(*peer_, request, id, context);
    v1::ReadCopyResponse message;
    TILEKV_RETURN_IF_ERROR(stream.Next(message));
    absl::Status taken = TakeHeader(id, message.header());
    if (!taken.ok()) return stream.Wrong(ErrorText(taken));
    if (message.header().data_follows()) {
      content_is_here_ = true;
      content_.resize(row_.stored_length);
      TILEKV_RETURN_IF_ERROR(stream.Fill(content_));
    }
    if (stream.left_in_message() > 0) return stream.Wrong("more data than it has");
    return stream.Finish();
  }

  const ObjectRow& row() const override { return row_; }
  std::span<const LeafHash> leaves() const override { return leaves_; }
  std::span<const uint32_t> block_table() const override { return table_; }

  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    if (stored_offset > row_.stored_length || out.size() > row_.stored_length - stored_offset) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("{} bytes from {} are not within the {} stored bytes of object "
                      "{}",
                      out.size(), stored_offset, row_.stored_length, row_.ref.id.Short()));
    }
    if (out.empty()) return absl::OkStatus();
    if (content_is_here_) {
      std::memcpy(out.data(), content_.data() + stored_offset, out.size());
      return absl::OkStatus();
    }
    TILEKV_RETURN_IF_ERROR(context_.Check());
    bool goes_on = false;
    if (!TakeTurn(stored_offset, goes_on)) return ReadAlone(stored_offset, out);
    absl::Status status = ReadInTurn(stored_offset, out, goes_on);
    EndTurn(stored_offset + out.size(), status.ok());
    return status;
  }

  void ReportDamage() override { (void)peer_->ReportDamage(domain_, row_.ref.id, context_); }

 private:
  // A part of the stored bytes that is on its way.
  struct Ahead {
    uint64_t at = 0;  // of what is not taken yet
    uint64_t end = 0;
    Reservation reservation;
    std::unique_ptr<CopyStream> stream;
  };

  v1::ReadCopyRequest Request(const ObjectId& id) const {
    v1::ReadCopyRequest request;
    *request.mutable_peer() = peer_->Header();
    request.set_domain(domain_);
    request.set_id(id.bytes.data(), id.bytes.size());
    return request;
  }

  absl::Status TakeHeader(const ObjectId& id, const v1::CopyHeader& header) {
    TILEKV_ASSIGN_OR_RETURN(row_.ref, ObjectRefFromWire(header.ref()));
    if (row_.ref.id != id || row_.ref.length > kGreatestMaxObjectBytes) {
      return MakeError(Reason::kInvalidArgument, "another object");
    }
    name_ = header.copy();
    TILEKV_ASSIGN_OR_RETURN(row_.encoding, EncodingFromWire(name_.encoding()));
    row_.state = header.state() == static_cast<uint32_t>(RowState::kGood) ? RowState::kGood
                                                                          : RowState::kSuspect;
    row_.stored_length = name_.stored_length();
    row_.file_number = name_.file_number();
    row_.touched_rev = Revision{header.touched_rev()};
    row_.verified_at_micros = header.verified_at_micros();
    TILEKV_ASSIGN_OR_RETURN(leaves_, LeavesFromWire(header.leaf_hashes(), row_.ref.length));
    table_.assign(header.block_table().begin(), header.block_table().end());
    if (row_.encoding.kind != EncodingKind::kNone) {
      return CheckBlockTable(row_.ref.length, row_.stored_length, table_);
    }
    if (row_.stored_length != row_.ref.length || !table_.empty()) {
      return MakeError(Reason::kInvalidArgument, "lengths of an uncoded copy that differ");
    }
    return absl::OkStatus();
  }

  std::unique_ptr<CopyStream> Start(uint64_t offset, uint64_t length) {
    v1::ReadCopyRequest request = Request(row_.ref.id);
    *request.mutable_range()->mutable_copy() = name_;
    request.mutable_range()->set_offset(offset);
    request.mutable_range()->set_length(length);
    return std::make_unique<CopyStream>(*peer_, request, row_.ref.id, context_);
  }

  absl::Status ReadAlone(uint64_t offset, MutableBytes out) {
    auto stream = Start(offset, out.size());
    TILEKV_RETURN_IF_ERROR(stream->Fill(out));
    return stream->Finish();
  }

  // One read at a time has what is read ahead. False: another one has it.
  bool TakeTurn(uint64_t offset, bool& goes_on) {
    MutexLock lock(mutex_);
    if (taken_) return false;
    taken_ = true;
    goes_on = offset > 0 && offset == next_offset_;
    return true;
  }
  void EndTurn(uint64_t next_offset, bool well) {
    if (!well) ahead_.clear();
    MutexLock lock(mutex_);
    taken_ = false;
    next_offset_ = well ? next_offset : 0;
  }

  absl::Status ReadInTurn(uint64_t offset, MutableBytes out, bool goes_on) {
    if (!goes_on) ahead_.clear();
    // What is asked for and not on its way comes by a call of its own, behind what is.
    const uint64_t end = offset + out.size();
    const uint64_t coming = ahead_.empty() ? offset : ahead_.back().end;
    if (coming < end) {
      ahead_.push_back({.at = coming, .end = end, .stream = Start(coming, end - coming)});
    }
    if (goes_on) ReadAhead(end);
    while (!out.empty()) {
      Ahead& first = ahead_.front();
      MutableBytes part = out.first(std::min<uint64_t>(out.size(), first.end - first.at));
      TILEKV_RETURN_IF_ERROR(first.stream->Fill(part));
      first.at += part.size();
      out = out.subspan(part.size());
      if (first.at < first.end) break;
      TILEKV_RETURN_IF_ERROR(first.stream->Finish());
      ahead_.pop_front();
    }
    if (goes_on) ReadAhead(end);
    return absl::OkStatus();
  }

  // Of the reads that follow one that ends here.
  void ReadAhead(uint64_t end) {
    while (ahead_.size() < 1 + kCallsAhead) {
      const uint64_t at = ahead_.empty() ? end : ahead_.back().end;
      const uint64_t length = std::min(row_.stored_length - at, kAheadBytes);
      if (length == 0) return;
      auto reservation = peer_->caller().read_ahead->TryAcquire(length);
      if (!reservation.has_value()) return;
      ahead_.push_back({.at = at,
                        .end = at + length,
                        .reservation = *std::move(reservation),
                        .stream = Start(at, length)});
    }
  }

  const std::shared_ptr<GrpcPeer> peer_;
  const Domain domain_;
  const CallContext context_;
  ObjectRow row_;
  v1::CopyName name_;
  LeafTable leaves_;
  std::vector<uint32_t> table_;
  bool content_is_here_ = false;
  std::vector<uint8_t> content_;

  Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_offset_ ABSL_GUARDED_BY(mutex_) = 0;  // where the read before ended
  std::deque<Ahead> ahead_;                           // of whoever has the turn
};

}  // namespace

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPeerCopy(std::shared_ptr<GrpcPeer> peer,
                                                           Domain domain, const ObjectId& id,
                                                           const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  auto reader = std::make_shared<PeerCopyReader>(std::move(peer), domain, context);
  TILEKV_RETURN_IF_ERROR(reader->Open(id, context));
  return reader;
}

}  // namespace tilekv
