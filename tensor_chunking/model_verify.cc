#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/parallel.h"

namespace tilekv {
namespace {

struct CheckedObject {
  ObjectRef ref;
  std::string where;  // who needs it, the first of them
};

void AddObject(const ObjectRef& ref, std::string where, std::set<ObjectRef>& seen,
               std::vector<CheckedObject>& out) {
  if (seen.insert(ref).second) out.push_back({ref, std::move(where)});
}

absl::StatusOr<std::vector<CheckedObject>> TensorObjects(ModelReader& reader) {
  std::vector<CheckedObject> objects;
  std::set<ObjectRef> seen;
  for (const TensorEntry& named : reader.manifest().tensors) {
    if (named.is_alias()) continue;
    TILEKV_ASSIGN_OR_RETURN(auto entry, reader.Find(named.name));
    for (size_t i = 0; i < entry->tiles.size(); ++i) {
      const TileRef& tile = entry->tiles[i];
      std::string where =
          fmt::format("tensor '{}', tile {} of {}", Printable(entry->name), i, entry->tiles.size());
      if (tile.parts != nullptr) {
        AddObject(tile.parts->base, where, seen, objects);
        AddObject(tile.parts->delta, where, seen, objects);
      } else {
        AddObject(tile.object, where, seen, objects);
      }
    }
  }
  return objects;
}

// A whole object in pieces, so that a large one needs no more memory than a tile.
absl::Status CheckObject(ModelReader& reader, const ObjectRef& ref) {
  uint64_t piece = std::min(ref.length, kDefaultTileBytes);
  TILEKV_ASSIGN_OR_RETURN(Reservation held,
                          reader.budget().Acquire(piece, reader.options().context));
  Buffer buffer = reader.pool().Get(piece);
  for (uint64_t at = 0; at < ref.length; at += piece) {
    ObjectRead read{
        .ref = ref, .offset = at, .out = buffer.span().first(std::min(piece, ref.length - at))};
    TILEKV_RETURN_IF_ERROR(
        reader.store().ReadObjects({&read, 1}, nullptr, reader.options().context));
  }
  return absl::OkStatus();
}

bool IsDamage(const absl::Status& status) {
  Reason reason = GetReason(status);
  return reason == Reason::kDataLoss || reason == Reason::kNotFound;
}

class NullSink : public ByteSink {
 public:
  absl::Status Append(Bytes) override { return absl::OkStatus(); }
};

}  // namespace

absl::StatusOr<VerifyReport> VerifyModel(
    ModelReader& reader, const std::function<void(const WriteProgress&)>& progress) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<CheckedObject> objects, TensorObjects(reader));
  VerifyReport report;
  WriteProgress done;
  for (const CheckedObject& object : objects) done.total_bytes += object.ref.length;
  Mutex mutex;
  auto record = [&](const std::string& where, uint64_t bytes, const absl::Status& status) {
    MutexLock lock(mutex);
    ++report.objects;
    report.bytes += bytes;
    done.done_bytes += bytes;
    if (!status.ok()) report.damages.push_back({where, ErrorText(status)});
    if (progress != nullptr) progress(done);
  };
  TILEKV_RETURN_IF_ERROR(ParallelFor(DefaultThreads(reader.options().threads), objects.size(),
                                     reader.options().context, [&](size_t i) {
                                       absl::Status status = CheckObject(reader, objects[i].ref);
                                       if (!status.ok() && !IsDamage(status)) return status;
                                       record(objects[i].where, objects[i].ref.length, status);
                                       return absl::OkStatus();
                                     }));
  for (const SideFile& file : reader.manifest().side_files) {
    NullSink sink;
    absl::Status status = reader.ReadSideFile(file, sink);
    if (!status.ok() && !IsDamage(status)) return status;
    record(fmt::format("side file '{}'", Printable(file.path)), file.content.length_bytes, status);
  }
  std::sort(report.damages.begin(), report.damages.end(),
            [](const Damage& a, const Damage& b) { return a.where < b.where; });
  return report;
}

absl::StatusOr<uint64_t> LoadToNull(ModelReader& reader,
                                    const std::function<void(const WriteProgress&)>& progress) {
  TILEKV_ASSIGN_OR_RETURN(auto stream, reader.StreamTiles());
  WriteProgress done{.total_bytes = reader.manifest().logical_bytes()};
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(auto tile, stream->Next());
    if (!tile.has_value()) return done.done_bytes;
    done.done_bytes += tile->content.size();
    if (progress != nullptr) progress(done);
  }
}

}  // namespace tilekv
