#include "tensor_chunking/source_files.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/manifest_wire.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

constexpr uint64_t kLeastFileBytes = 4 + 1 + 8 + 4 + 8;

absl::Status CheckSourceFiles(const SourceFiles& sources, Reason reason) {
  const KeptSourceFile* previous = nullptr;
  for (const KeptSourceFile& file : sources.files) {
    TILEKV_RETURN_IF_ERROR(CheckRelativePath(file.path, reason));
    TILEKV_RETURN_IF_ERROR(CheckStoredContent(file.header, reason));
    if (file.kind != SourceKind::kSafetensors) {
      return MakeError(reason, fmt::format("source file '{}' is of kind {}, which is not known",
                                           Printable(file.path), static_cast<int>(file.kind)));
    }
    if (file.header.length_bytes > file.length_bytes) {
      return MakeError(
          reason, fmt::format("source file '{}' is {} bytes, its header {}", Printable(file.path),
                              file.length_bytes, file.header.length_bytes));
    }
    if (previous != nullptr && file.path <= previous->path) {
      return MakeError(reason, fmt::format("source file '{}' stands after '{}'; paths ascend",
                                           Printable(file.path), Printable(previous->path)));
    }
    previous = &file;
  }
  if (!sources.index.has_value()) return absl::OkStatus();
  TILEKV_RETURN_IF_ERROR(CheckRelativePath(sources.index->path, reason));
  return CheckStoredContent(sources.index->content, reason);
}

}  // namespace

absl::StatusOr<EncodedObject> EncodeSourceFiles(const SourceFiles& sources,
                                                uint64_t max_object_bytes) {
  TILEKV_RETURN_IF_ERROR(CheckSourceFiles(sources, Reason::kInvalidArgument));
  ChildTable children;
  Tree tree{kSourceFilesLevel, TreeType::kSourceFiles, {}, {}};
  std::string& opaque = tree.opaque;
  AppendOpaqueHead(opaque);
  AppendLe<uint32_t>(opaque, static_cast<uint32_t>(sources.files.size()));
  for (const KeptSourceFile& file : sources.files) {
    AppendText(opaque, file.path);
    AppendLe<uint8_t>(opaque, static_cast<uint8_t>(file.kind));
    AppendLe<uint64_t>(opaque, file.length_bytes);
    AppendContent(file.header, children, opaque);
  }
  AppendLe<uint8_t>(opaque, sources.index.has_value() ? 1 : 0);
  if (sources.index.has_value()) {
    AppendText(opaque, sources.index->path);
    AppendContent(sources.index->content, children, opaque);
  }
  const uint64_t bytes = TreeBytes(children.size(), opaque.size());
  if (bytes > max_object_bytes || children.size() > kMaxChildren) {
    return MakeError(Reason::kObjectTooLarge,
                     fmt::format("what is kept of {} source files takes {} bytes; this store takes "
                                 "objects up to {} bytes ({})",
                                 sources.files.size(), FormatCount(bytes),
                                 FormatCount(max_object_bytes), FormatSizeShort(max_object_bytes)));
  }
  tree.children = children.Take();
  return EncodeTreeObject(tree);
}

absl::StatusOr<SourceFiles> DecodeSourceFiles(Bytes content) {
  TILEKV_ASSIGN_OR_RETURN(
      OpaqueReader in,
      OpaqueReader::Open("source files", TreeType::kSourceFiles, kSourceFilesLevel, content));
  SourceFiles sources;
  const uint32_t count = in.ReadCount(kLeastFileBytes);
  for (uint32_t i = 0; i < count && in.status().ok(); ++i) {
    KeptSourceFile& file = sources.files.emplace_back();
    file.path = in.TakeText();
    file.kind = static_cast<SourceKind>(in.Read<uint8_t>());
    file.length_bytes = in.Read<uint64_t>();
    file.header = in.ReadStoredContent();
  }
  const uint8_t indexes = in.Read<uint8_t>();
  if (indexes > 1) in.Fail(fmt::format("it has {} indexes", indexes));
  if (indexes == 1) {
    SourceFiles::Index index;
    index.path = in.TakeText();
    index.content = in.ReadStoredContent();
    sources.index = std::move(index);
  }
  TILEKV_RETURN_IF_ERROR(in.Finish());
  if (absl::Status checked = CheckSourceFiles(sources, Reason::kDataLoss); !checked.ok()) {
    return WithContext(checked, "source files");
  }
  return sources;
}

}  // namespace tilekv
