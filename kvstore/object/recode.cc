#include "kvstore/object/recode.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"

namespace tilekv {
namespace {

// A multiple of a block.
constexpr uint64_t kStepBytes = kMiB;

class Recoding {
 public:
  Recoding(ObjectStore& store, BufferPool& pool, Domain domain, ObjectReader& reader)
      : store_(store),
        pool_(pool),
        domain_(domain),
        reader_(reader),
        row_(reader.row()),
        content_(pool.Get(std::min(kStepBytes, std::max<uint64_t>(row_.ref.length, 1)))) {}

  absl::StatusOr<RecodeOutcome> Run(Codec codec, bool dry_run) {
    RecodeOutcome outcome{.stored_before = row_.stored_length, .stored_after = row_.stored_length};
    TILEKV_ASSIGN_OR_RETURN(Encoding encoding, Choose(codec));
    while (encoding != row_.encoding) {
      TILEKV_ASSIGN_OR_RETURN(uint64_t stored, Copy(encoding, dry_run));
      if (stored != 0) {
        outcome.stored_after = stored;
        outcome.changed = true;
        break;
      }
      encoding = Encoding{};
    }
    return outcome;
  }

 private:
  absl::StatusOr<Encoding> Choose(Codec codec) {
    uint64_t length = row_.ref.length;
    std::vector<uint8_t> sample(std::min(length, kSampleBytes));
    if (length <= kSampleBytes) {
      TILEKV_RETURN_IF_ERROR(ReadContent(reader_, 0, sample, pool_));
    } else {
      for (uint64_t i = 0; i < kSamplePieces; ++i) {
        MutableBytes piece = MutableBytes(sample).subspan(i * kSamplePieceBytes, kSamplePieceBytes);
        TILEKV_RETURN_IF_ERROR(ReadContent(reader_, SamplePieceOffset(length, i), piece, pool_));
      }
    }
    return ChooseEncodingBySample(codec, std::nullopt, sample);
  }

  // Stored bytes of the new copy; 0 where coding it gains nothing, and then it is given up.
  absl::StatusOr<uint64_t> Copy(const Encoding& encoding, bool dry_run) {
    bool coded = encoding.kind != EncodingKind::kNone;
    std::unique_ptr<BlockCodec> codec;
    if (coded) {
      TILEKV_ASSIGN_OR_RETURN(codec, NewBlockCodec(encoding));
    }
    std::unique_ptr<ObjectWriter> writer;
    if (!dry_run) {
      PutSpec spec{
          .domain = domain_, .level = row_.ref.level, .expected = row_.ref, .encoding = encoding};
      TILEKV_ASSIGN_OR_RETURN(writer, store_.NewReplacement(spec, row_));
    }
    Buffer block = pool_.Get(kBlockBytes);
    uint64_t stored = 0;
    for (uint64_t at = 0; at < row_.ref.length; at += kStepBytes) {
      MutableBytes step = content_.span().first(std::min(kStepBytes, row_.ref.length - at));
      TILEKV_RETURN_IF_ERROR(ReadContent(reader_, at, step, pool_));
      if (!coded) {
        stored += step.size();
        if (writer != nullptr) TILEKV_RETURN_IF_ERROR(writer->Append(step));
      }
      for (uint64_t in = 0; coded && in < step.size(); in += kBlockBytes) {
        Bytes content = step.subspan(in, std::min(kBlockBytes, step.size() - in));
        uint32_t entry = codec->Encode(content, block.span().first(kBlockBytes));
        Bytes bytes = block.span().first(entry & ~kRawBlockBit);
        stored += bytes.size();
        if (writer != nullptr) TILEKV_RETURN_IF_ERROR(writer->Append(bytes, {&entry, 1}));
      }
    }
    uint64_t table_bytes = coded ? BlockCount(row_.ref.length) * sizeof(uint32_t) : 0;
    if (coded && stored + table_bytes >= row_.ref.length) return 0;
    if (writer == nullptr) return stored;
    TILEKV_ASSIGN_OR_RETURN(PutOutcome put, writer->Finish());
    if (put.stored) return stored;
    return MakeError(
        Reason::kNotFound,
        fmt::format("object {}: its copy went or was replaced meanwhile", row_.ref.id.Short()));
  }

  ObjectStore& store_;
  BufferPool& pool_;
  const Domain domain_;
  ObjectReader& reader_;
  const ObjectRow row_;
  Buffer content_;
};

}  // namespace

absl::StatusOr<RecodeOutcome> RecodeObject(ObjectStore& store, BufferPool& pool, Domain domain,
                                           const ObjectId& id, Codec codec, bool dry_run) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> reader, store.Open(domain, id));
  if (reader->row().state != RowState::kGood) {
    return MakeError(Reason::kNotFound,
                     fmt::format("object {} has no good copy to store otherwise", id.Short()));
  }
  return Recoding(store, pool, domain, *reader).Run(codec, dry_run);
}

}  // namespace tilekv
