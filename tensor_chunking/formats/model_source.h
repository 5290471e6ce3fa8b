// A model on disk, opened for import: one safetensors, .npy or .npz file, or a folder of them.
//
// Opening reads and checks the headers of all files, and nothing else; whatever is wrong with any
// of them is an error before anything is imported. Content is then read in pieces, from any thread.
// Nothing is unpickled, and nothing written but for a scratch file of a deflated array in Fortran
// order (inflated_copy.h).
//
//   folder with model.safetensors.index.json   the shards that it names; every tensor in exactly
//                                              the shard that it names, and no other
//   folder of .safetensors files               all of them, by name; no tensor twice
//   folder of .npy and .npz files              each .npy file a tensor, called as it is without
//                                              .npy; of an .npz file each member
//
// Everything else in the folder travels as side files, sub-folders included, but for weights in
// other formats, hidden folders and safetensors files that an index does not name: those are listed
// as left out. Links are followed wherever they lead (a Hugging Face snapshot consists of them);
// only names inside an index may not leave the folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/machine_memory.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/formats/file_cache.h"
#include "tensor_chunking/formats/inflated_copy.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/npz.h"
#include "tensor_chunking/formats/safetensors_header.h"
#include "tensor_chunking/formats/safetensors_index.h"
#include "tensor_chunking/formats/source_folder.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

struct SourceOptions {
  // Globs on paths within the folder (MatchesAny). What `include` matches is taken as a side file
  // although it would be left out; what `exclude` matches is not there.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // What raw elements of arrays are (.npy, .npz; see ParseNpyHeader): of the first whose glob
  // matches the tensor's name.
  struct ArrayDType {
    std::string tensors;
    DType dtype{};
  };
  std::vector<ArrayDType> dtypes;
  // For headers while they are read, tables and kept headers: a model that needs more is refused,
  // and the error says how much that is.
  uint64_t memory_bytes = DefaultClientMemoryBytes();
};

// A view into the ModelSource. Content is row-major and little-endian for ReadTensor; the file may
// have it otherwise.
struct SourceTensor {
  std::string_view name;
  DType dtype{};
  ShapeSpan shape;
  uint32_t file = 0;          // index into files()
  uint64_t length_bytes = 0;  // of the content
  // Boxes are read as they are, by ReadTensorBox, where it would be slow to put them together from
  // rows.
  bool read_by_boxes = false;
  uint64_t scratch_bytes = 0;  // what each read holds beside its destination
};

struct WeightFile {
  enum class Kind { kSafetensors, kNpy, kNpz };
  std::string path;  // relative to the folder; the file's name for a single file
  Kind kind{};
  FileInfo identity;  // when it was opened, size included
  // The first 8 + N bytes of a safetensors file, verbatim. Empty where they can be derived: the
  // model is this one file, in the reference writer's form, with metadata() as its metadata. Empty
  // for arrays.
  std::string header;
};

struct SourceSideFile {
  std::string path;
  FileInfo identity;
};

struct SourceIndexFile {
  std::string path;
  std::string content;  // verbatim
  FileInfo identity;
};

// Where the time of ReadTensor and ReadTensorBox went beside reading files, of all threads. Counted
// for arrays only.
struct SourceTimes {
  int64_t inflate_nanos = 0;
  int64_t turn_nanos = 0;  // from Fortran order or from big-endian
};

// Movable; reading is thread-safe. The file system must outlive it.
class ModelSource {
 public:
  size_t tensor_count() const { return order_.size(); }
  SourceTensor tensor(size_t index) const;                         // in name order, bytewise
  const std::vector<WeightFile>& files() const { return files_; }  // by path
  const std::vector<SourceSideFile>& side_files() const { return side_files_; }  // by path
  const std::vector<LeftOutFile>& left_out() const { return left_out_; }         // by path
  const std::optional<SourceIndexFile>& index() const { return index_; }
  // `__metadata__` of all files together; of a key with several values, the first file's.
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // What a person should know: a wrong total_size, contradicting metadata.
  const std::vector<std::string>& warnings() const { return warnings_; }
  uint64_t tensor_bytes() const { return tensor_bytes_; }
  // Held by tables and kept headers.
  uint64_t memory_bytes() const;

  // Content of a tensor, row-major and little-endian, from `offset`.
  absl::Status ReadTensor(size_t index, uint64_t offset, MutableBytes out) const;
  // A box of a tensor that is `read_by_boxes` (checked), in C order.
  absl::Status ReadTensorBox(size_t index, const Region& box, MutableBytes out) const;
  // Bytes of a file as they are.
  absl::Status ReadAt(uint32_t file, uint64_t offset, MutableBytes out) const;
  absl::Status ReadSideFile(size_t index, uint64_t offset, MutableBytes out) const;
  // Whether every file is still the one that was opened (device, inode, size and times), and
  // members of archives have their checksums. INVALID_FILE lists what is not. Call it when
  // everything has been read, before the commit; what was not read of archives is read then.
  absl::Status VerifyUnchanged() const;
  SourceTimes times() const;

 private:
  friend class ModelSourceOpener;
  struct Tables {  // of files_[i]: one of the three, as its kind says
    SafetensorsHeader safetensors;
    NpyHeader npy;
    std::string npy_name;
    NpzFile npz;
    std::map<uint32_t, std::unique_ptr<InflatedCopy>> copies;  // of members of npz, by row
  };
  struct Counters {
    std::atomic<int64_t> inflate_nanos{0};
    std::atomic<int64_t> turn_nanos{0};
  };
  struct TensorRef {
    uint32_t file;
    uint32_t row;
  };
  const NpyHeader* ArrayHeader(const TensorRef& ref) const;  // null: safetensors
  absl::Status ReadArray(const TensorRef& ref, uint64_t bytes,
                         absl::FunctionRef<absl::Status(ReadFileBytes)> decode) const;
  std::string FullPath(std::string_view path) const;

  FileSystem* fs_ = nullptr;
  std::unique_ptr<FileCache> cache_;
  std::string folder_;  // what paths are relative to
  std::vector<WeightFile> files_;
  std::vector<Tables> tables_;
  std::vector<TensorRef> order_;
  std::vector<SourceSideFile> side_files_;
  std::vector<LeftOutFile> left_out_;
  std::optional<SourceIndexFile> index_;
  SafetensorsMetadata metadata_;
  std::vector<std::string> warnings_;
  uint64_t tensor_bytes_ = 0;
  std::unique_ptr<Counters> counters_ = std::make_unique<Counters>();
};

// `path` is a file or a folder. NOT_FOUND when it is absent; INVALID_FILE says which file, which
// tensor and what is wrong, or lists what is there when nothing of it can be imported;
// INVALID_ARGUMENT says how much memory the headers need.
absl::StatusOr<ModelSource> OpenModelSource(FileSystem& fs, const std::string& path,
                                            const SourceOptions& options = {});

}  // namespace tilekv
