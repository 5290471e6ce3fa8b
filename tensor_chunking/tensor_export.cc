#include "tensor_chunking/tensor_export.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/convert.h"
#include "tensor_chunking/formats/tensor_file_writer.h"
#include "tensor_chunking/parallel.h"
#include "tensor_chunking/slice_parts.h"

namespace tilekv {
namespace {

constexpr uint64_t kConvertElements = 32 * kKiB;  // at a time

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Where the result goes, front to back.
class Destination {
 public:
  virtual ~Destination() = default;
  virtual absl::Status Append(Bytes content) = 0;
  virtual absl::Status Finish() = 0;
};

class RawDestination : public Destination {
 public:
  explicit RawDestination(ByteSink& sink) : sink_(sink) {}
  absl::Status Append(Bytes content) override { return sink_.Append(content); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  ByteSink& sink_;
};

class FileDestination : public Destination {
 public:
  explicit FileDestination(std::unique_ptr<TensorFileWriter> writer) : writer_(std::move(writer)) {}
  absl::Status Append(Bytes content) override {
    uint64_t at = written_bytes_;
    written_bytes_ += content.size();
    return writer_->Write(0, at, content);
  }
  absl::Status Finish() override { return writer_->Finish(); }

 private:
  std::unique_ptr<TensorFileWriter> writer_;
  uint64_t written_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<Destination>> OpenDestination(const std::string& path, ByteSink* raw,
                                                             const TensorView& view,
                                                             bool overwrite) {
  if (raw != nullptr) return std::make_unique<RawDestination>(*raw);
  TensorFilePlan plan;
  if (EndsWith(path, ".npy")) {
    TILEKV_ASSIGN_OR_RETURN(plan, PlanNpyFile(view));
  } else if (EndsWith(path, ".safetensors")) {
    TILEKV_ASSIGN_OR_RETURN(plan, PlanSafetensorsFile({view}, std::nullopt));
  } else {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' is neither .npy nor .safetensors nor '-'", Printable(path)));
  }
  TILEKV_ASSIGN_OR_RETURN(auto writer, TensorFileWriter::Create(*FileSystem::Posix(), path,
                                                                std::move(plan), overwrite));
  return std::make_unique<FileDestination>(std::move(writer));
}

// Content of one dtype into a destination of another, a little at a time.
absl::Status AppendConverted(ElementConverter& converter, DType from, DType to, Bytes content,
                             uint64_t& elements, Destination& destination) {
  if (from == to) return destination.Append(content);
  std::vector<uint8_t> converted(kConvertElements * DTypeBytes(to));
  const uint64_t step = kConvertElements * DTypeBytes(from);
  for (uint64_t at = 0; at < content.size(); at += step) {
    const Bytes piece = content.subspan(at, std::min(step, content.size() - at));
    const uint64_t count = piece.size() / DTypeBytes(from);
    const MutableBytes out(converted.data(), count * DTypeBytes(to));
    TILEKV_RETURN_IF_ERROR(converter.Convert(piece, out, elements));
    TILEKV_RETURN_IF_ERROR(destination.Append(out));
    elements += count;
  }
  return absl::OkStatus();
}

struct ReadPart {
  Buffer content;
  ReadStats stats;
};

}  // namespace

absl::StatusOr<TensorExportReport> ExportTensor(ModelReader& reader, const std::string& tensor,
                                                const std::string& path, ByteSink* raw,
                                                const TensorExportOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(auto entry, reader.Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ResolvedSlice slice, ResolveSlice(options.slice, entry->shape));
  // What is wrong with the selection is told before the destination is touched.
  TILEKV_RETURN_IF_ERROR(ReadPlan::Create(entry->dtype, entry->grid(), slice).status());
  TensorExportReport report{.dtype = options.as.value_or(entry->dtype),
                            .shape = slice.result_shape};
  if (report.dtype != entry->dtype) {
    TILEKV_RETURN_IF_ERROR(ElementConverter::Check(entry->dtype, report.dtype));
  }
  TILEKV_ASSIGN_OR_RETURN(report.bytes, TensorBytes(report.dtype, report.shape));
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<Destination> destination,
      OpenDestination(path, raw, {tensor, report.dtype, report.shape}, options.overwrite));

  const uint64_t memory = reader.stream_memory_bytes();
  const SliceParts parts(entry->dtype, entry->grid(), slice, std::max(memory / 4, kMiB));
  ByteBudget budget(memory / 2);
  OrderedPrefetch<ReadPart> stream(
      DefaultThreads(reader.options().threads), parts.size(), budget, reader.options().context,
      [&parts](size_t i) { return parts.At(i).bytes; },
      [&](size_t i, const CallContext&) -> absl::StatusOr<ReadPart> {
        SlicePart part = parts.At(i);
        ReadPart read{.content = reader.pool().Get(part.bytes)};
        TILEKV_RETURN_IF_ERROR(
            reader.ReadSlice(tensor, part.slice, read.content.span(), &read.stats));
        return read;
      });
  ElementConverter converter(entry->dtype, report.dtype);
  WriteProgress done{.total_bytes = parts.total_bytes()};
  uint64_t elements = 0;
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ReadPart> part, stream.Next());
    if (!part.has_value()) break;
    absl::Status appended = AppendConverted(converter, entry->dtype, report.dtype,
                                            part->content.span(), elements, *destination);
    if (!appended.ok()) {
      return WithContext(appended, fmt::format("tensor '{}'", Printable(tensor)));
    }
    report.read.asked_bytes += part->stats.asked_bytes;
    report.read.received_bytes += part->stats.received_bytes;
    done.done_bytes += part->content.size();
    if (options.progress != nullptr) options.progress(done);
  }
  report.overflowed = converter.overflowed();
  TILEKV_RETURN_IF_ERROR(destination->Finish());
  return report;
}

}  // namespace tilekv
