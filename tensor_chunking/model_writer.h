// Writing a version of a model: tensors are cut into tiles, hashed, linked where the store has them
// and sent where it has not, then the manifest, then one commit. Nothing is visible before the
// commit; after it everything is.
//
// One pass over each source within a byte budget. A lost session is replaced and the pass repeated:
// what the store holds already is only linked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/kv_store.h"
#include "kvstore/model_name.h"
#include "kvstore/object/codec_choice.h"
#include "tensor_chunking/layout.h"
#include "tensor_chunking/manifest.h"
#include "tensor_chunking/source_files.h"
#include "tensor_chunking/write_cost.h"

namespace tilekv {

// Where a tensor's bytes come from: memory, or `read`, which fills `out` with row-major content
// from `offset`; it is called from several threads, in any order, more than once for the same bytes
// when a session is lost.
struct TensorSource {
  std::string name;
  DType dtype{};
  Shape shape;
  std::function<absl::Status(uint64_t offset, MutableBytes out)> read = nullptr;
  // Where it is not empty, all of the tensor, row-major; nothing else is asked then. Tiles that lie
  // in it in one piece are sent from there; it stays unchanged until the write has ended.
  Bytes content = {};
  // Where it is set: fills `out` with a box in C order, for sources that are not stored by rows.
  std::function<absl::Status(const Region& box, MutableBytes out)> read_box = nullptr;
  uint64_t scratch_bytes = 0;  // what each read holds beside `out`, taken from the budget too
};
struct SideFileSource {
  std::string path;  // relative
  uint64_t length = 0;
  std::function<absl::Status(uint64_t offset, MutableBytes out)> read;
};
// Files that the model came from, for an export that is the same to the byte. The references to
// headers and index in `files` are filled in by the writer.
struct SourceFilesInput {
  SourceFiles files;
  // Verbatim, one for each of files.files; they stay where they are until the write has ended.
  std::vector<std::string_view> headers;
  std::string index;  // verbatim, where files.index is set
};

struct WriteProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

struct WriteOptions {
  LayoutRequest layout;
  uint64_t tile_bytes = kDefaultTileBytes;
  Codec codec = Codec::kNone;  // how new tiles and files are stored
  WriteCondition if_latest;    // on the latest live number
  std::vector<std::string> tags;
  std::string message;
  std::string author;
  // Its tile shapes are taken for equal dtype and shape where the layout is `auto`, so that
  // unchanged tiles are shared, and it is recorded as what the version was made from. None: the
  // tile shapes of the target's latest version, where it can be read.
  std::optional<ModelName> base;
  // Of what is in flight, and of plan and manifest; those leave half of it at least.
  uint64_t memory_bytes = DefaultClientMemoryBytes();
  int threads = 0;  // 0: twice as many as the machine has processors, 4 to 16
  std::function<void(const WriteProgress&)> progress;  // from any thread, one call at a time
  std::function<absl::Status()> before_commit;         // a last check of the sources
  CallContext context;
};

struct WriteInput {
  std::vector<TensorSource> tensors;
  std::map<std::string, std::string> aliases;  // name -> tensor that it shares
  std::map<std::string, std::string> metadata;
  std::vector<SideFileSource> side_files;
  std::optional<SourceFilesInput> source_files;
};

struct WriteReport {
  bool applied = false;       // false: the condition was not met
  uint64_t latest_found = 0;  // then
  v1::VersionInfo version;
  uint64_t tensors = 0;
  uint64_t tiles = 0;  // references, packs counted once
  uint64_t logical_bytes = 0;
  uint64_t new_objects = 0;  // sent and stored, manifest included
  uint64_t new_bytes = 0;
  uint64_t shared_objects = 0;  // linked
  uint64_t shared_bytes = 0;
  WriteCost cost;   // of all passes
  int threads = 0;  // that had work
};

absl::StatusOr<WriteReport> WriteModel(KvStore& store, const ModelName& target,
                                       const WriteInput& input, const WriteOptions& options = {});

// What WriteModel would do, without reading content and without writing: layouts, tiles, sizes.
struct WritePlanRow {
  std::string name;
  DType dtype{};
  Shape shape;
  Shape tile_shape;
  uint64_t bytes = 0;
  uint64_t tiles = 0;  // 0: in a pack
};
struct WriteForecast {
  std::vector<WritePlanRow> rows;  // in name order
  uint64_t tiles = 0;              // as WriteReport has them
};
absl::StatusOr<WriteForecast> PlanWrite(KvStore& store, const ModelName& target,
                                        const WriteInput& input, const WriteOptions& options = {});

// A new version in which one slice of one tensor is replaced; every tile that the slice does not
// touch is shared. `content` is row-major, of the slice's shape. The base must still be the latest
// version (VERSION_CONFLICT is in the report).
absl::StatusOr<WriteReport> UpdateSlice(KvStore& store, const ModelName& base,
                                        const std::string& tensor, const std::string& slice,
                                        Bytes content, const WriteOptions& options = {});

}  // namespace tilekv
