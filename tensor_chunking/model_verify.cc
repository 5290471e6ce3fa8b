#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/content_reader.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/parallel.h"

namespace tilekv {
namespace {

struct CheckedPart {
  TileRef tile;
  std::string where;
};
struct CheckedObject {
  ObjectRef ref;
  std::string where;  // who needs it, the first of them
  std::vector<CheckedPart> parts;
};

// What two objects make, each result once.
struct CheckedXor {
  TileRef tile;
  std::string where;
};

// Objects in the order in which they are first needed, each once.
class ObjectList {
 public:
  void Add(const TileRef& tile, const std::string& where) {
    if (tile.parts != nullptr) {
      if (made_.insert({tile.parts->base, tile.parts->delta, tile.object}).second) {
        xors_.push_back({tile, where});
      }
      At(tile.parts->base, where);
      At(tile.parts->delta, where);
      return;
    }
    CheckedObject& object = At(tile.object, where);
    if (tile.is_part()) object.parts.push_back({tile, where});
  }
  std::vector<CheckedObject> TakeObjects() { return std::move(objects_); }
  std::vector<CheckedXor> TakeXors() { return std::move(xors_); }

 private:
  CheckedObject& At(const ObjectRef& ref, const std::string& where) {
    auto [found, added] = numbers_.try_emplace(ref, objects_.size());
    if (added) objects_.push_back({ref, where, {}});
    return objects_[found->second];
  }

  std::map<ObjectRef, size_t> numbers_;
  std::set<std::tuple<ObjectRef, ObjectRef, ObjectRef>> made_;
  std::vector<CheckedObject> objects_;
  std::vector<CheckedXor> xors_;
};

absl::StatusOr<ObjectList> TensorObjects(ModelReader& reader) {
  ObjectList objects;
  for (const TensorEntry& named : reader.manifest().tensors) {
    if (named.is_alias()) continue;
    TILEKV_ASSIGN_OR_RETURN(auto entry, reader.Find(named.name));
    for (size_t i = 0; i < entry->tiles.size(); ++i) {
      objects.Add(entry->tiles[i], fmt::format("tensor '{}', tile {} of {}", Printable(entry->name),
                                               i, entry->tiles.size()));
    }
  }
  return objects;
}

// Finds parts that are not what the manifest says that they are.
std::vector<Damage> CheckParts(const CheckedObject& object, Bytes content) {
  std::vector<Damage> damages;
  for (const auto& [tile, where] : object.parts) {
    Bytes part = content.subspan(tile.offset_bytes, tile.length_bytes);
    if (HashPart(part) == tile.part_hash) continue;
    damages.push_back(
        {where, fmt::format("the {} bytes at {} of object {} are not those that the manifest's "
                            "hash was made of",
                            tile.length_bytes, tile.offset_bytes, object.ref.id.Short())});
  }
  return damages;
}

// A whole object, in pieces where only its own id is checked, so that a large one needs no more
// memory than a tile.
absl::StatusOr<std::vector<Damage>> CheckObject(ModelReader& reader, const CheckedObject& object) {
  const ObjectRef& ref = object.ref;
  uint64_t piece = object.parts.empty() ? std::min(ref.length, kDefaultTileBytes) : ref.length;
  TILEKV_ASSIGN_OR_RETURN(Reservation held,
                          reader.budget().Acquire(piece, reader.options().context));
  Buffer buffer = reader.pool().Get(piece);
  for (uint64_t at = 0; at < ref.length; at += piece) {
    ObjectRead read{
        .ref = ref, .offset = at, .out = buffer.span().first(std::min(piece, ref.length - at))};
    TILEKV_RETURN_IF_ERROR(
        reader.store().ReadObjects({&read, 1}, nullptr, reader.options().context));
  }
  return CheckParts(object, buffer.span());
}

// That base and delta make what the manifest names. Their own bytes are checked as objects.
absl::Status CheckXor(ModelReader& reader, const TileRef& tile) {
  const CallContext& context = reader.options().context;
  TILEKV_ASSIGN_OR_RETURN(Reservation held,
                          reader.budget().Acquire(3 * tile.length_bytes, context));
  Buffer buffer = reader.pool().Get(tile.length_bytes);
  TileReader tiles(reader.store(), reader.pool(), reader.budget(), 1);
  return tiles.ReadTile(tile, buffer.span(), nullptr, context);
}

bool IsDamage(const absl::Status& status) {
  Reason reason = GetReason(status);
  return reason == Reason::kDataLoss || reason == Reason::kNotFound;
}

class NullSink : public ByteSink {
 public:
  absl::Status Append(Bytes) override { return absl::OkStatus(); }
};

// The commit tree, and what is kept of the files that the model came from.
absl::Status CheckSourceFiles(ModelReader& reader) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<SourceFiles> sources, reader.ReadSourceFiles());
  if (!sources.has_value()) return absl::OkStatus();
  NullSink sink;
  for (const KeptSourceFile& file : sources->files) {
    TILEKV_RETURN_IF_ERROR(
        ReadContent(reader.store(), file.header, reader.pool(), reader.options().context, sink));
  }
  if (!sources->index.has_value()) return absl::OkStatus();
  return ReadContent(reader.store(), sources->index->content, reader.pool(),
                     reader.options().context, sink);
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyModel(
    ModelReader& reader, const std::function<void(const WriteProgress&)>& progress) {
  TILEKV_ASSIGN_OR_RETURN(ObjectList list, TensorObjects(reader));
  const std::vector<CheckedObject> objects = list.TakeObjects();
  const std::vector<CheckedXor> xors = list.TakeXors();
  VerifyReport report;
  WriteProgress done;
  for (const CheckedObject& object : objects) done.total_bytes += object.ref.length;
  for (const SideFile& file : reader.manifest().side_files) {
    done.total_bytes += file.content.length_bytes;
  }
  Mutex mutex;
  auto record = [&](uint64_t bytes, std::vector<Damage> damages) {
    MutexLock lock(mutex);
    ++report.objects;
    report.bytes += bytes;
    done.done_bytes += bytes;
    std::move(damages.begin(), damages.end(), std::back_inserter(report.damages));
    if (progress != nullptr) progress(done);
  };
  TILEKV_RETURN_IF_ERROR(
      ParallelFor(DefaultThreads(reader.options().threads), objects.size(),
                  reader.options().context, [&](size_t i) {
                    const CheckedObject& object = objects[i];
                    absl::StatusOr<std::vector<Damage>> damages = CheckObject(reader, object);
                    if (!damages.ok()) {
                      if (!IsDamage(damages.status())) return damages.status();
                      damages = std::vector<Damage>{{object.where, ErrorText(damages.status())}};
                    }
                    record(object.ref.length, *std::move(damages));
                    return absl::OkStatus();
                  }));
  TILEKV_RETURN_IF_ERROR(ParallelFor(DefaultThreads(reader.options().threads), xors.size(),
                                     reader.options().context, [&](size_t i) {
                                       absl::Status made = CheckXor(reader, xors[i].tile);
                                       if (made.ok() || !IsDamage(made)) return made;
                                       MutexLock lock(mutex);
                                       report.damages.push_back({xors[i].where, ErrorText(made)});
                                       return absl::OkStatus();
                                     }));
  for (const SideFile& file : reader.manifest().side_files) {
    NullSink sink;
    absl::Status status = reader.ReadSideFile(file, sink);
    if (!status.ok() && !IsDamage(status)) return status;
    std::vector<Damage> damages;
    if (!status.ok()) {
      damages.push_back({fmt::format("side file '{}'", Printable(file.path)), ErrorText(status)});
    }
    record(file.content.length_bytes, std::move(damages));
  }
  absl::Status kept = CheckSourceFiles(reader);
  if (!kept.ok() && !IsDamage(kept)) return kept;
  std::vector<Damage> kept_damages;
  if (!kept.ok()) kept_damages.push_back({"headers of the source files", ErrorText(kept)});
  record(0, std::move(kept_damages));
  std::sort(report.damages.begin(), report.damages.end(),
            [](const Damage& a, const Damage& b) { return a.where < b.where; });
  return report;
}

absl::StatusOr<LoadReport> LoadToNull(ModelReader& reader,
                                      const std::function<void(const WriteProgress&)>& progress) {
  TILEKV_ASSIGN_OR_RETURN(auto stream, reader.StreamTiles());
  WriteProgress done{.total_bytes = reader.manifest().logical_bytes()};
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(auto tile, stream->Next());
    if (!tile.has_value()) return LoadReport{done.done_bytes, stream->stats()};
    done.done_bytes += tile->content.size();
    if (progress != nullptr) progress(done);
  }
}

}  // namespace tilekv
