// What an import keeps of the files that a model came from, so that an export gives the same bytes
// (docs/formats.md, section 9). A side object of the commit tree, never part of the model's digest.
// Pure and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/stored_content.h"

namespace tilekv {

inline constexpr uint8_t kSourceFilesLevel = 3;

enum class SourceKind : uint8_t { kSafetensors = 1 };

struct KeptSourceFile {
  std::string path;  // relative, see relative_path.h
  SourceKind kind = SourceKind::kSafetensors;
  uint64_t length_bytes = 0;  // of the whole file
  // Its first bytes, verbatim: for safetensors the 8 bytes of the length and the header itself.
  StoredContent header;

  friend bool operator==(const KeptSourceFile&, const KeptSourceFile&) = default;
};

struct SourceFiles {
  struct Index {
    std::string path;
    StoredContent content;

    friend bool operator==(const Index&, const Index&) = default;
  };
  std::vector<KeptSourceFile> files;  // ascending by path, bytewise
  std::optional<Index> index;         // the *.index.json beside them

  friend bool operator==(const SourceFiles&, const SourceFiles&) = default;
};

// INVALID_ARGUMENT for paths out of order or outside the folder and for a header longer than its
// file; OBJECT_TOO_LARGE where there are too many files for one object.
absl::StatusOr<EncodedObject> EncodeSourceFiles(const SourceFiles& sources,
                                                uint64_t max_object_bytes);
// DATA_LOSS says what is wrong.
absl::StatusOr<SourceFiles> DecodeSourceFiles(Bytes content);

}  // namespace tilekv
