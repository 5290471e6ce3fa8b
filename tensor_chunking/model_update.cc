// UpdateSlice: tiles that the slice touches are read, patched and put again; all others are only
// named by the new manifest.

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/parallel.h"
#include "tensor_chunking/write_commit.h"

namespace tilekv {
namespace {

class SliceUpdate {
 public:
  SliceUpdate(ModelReader& reader, const WriteOptions& options,
              std::shared_ptr<const TensorEntry> entry, ReadPlan plan, Bytes content)
      : reader_(reader),
        options_(options),
        entry_(std::move(entry)),
        plan_(std::move(plan)),
        content_(content) {}

  absl::StatusOr<Manifest> Run(WriteSession& session) {
    Manifest manifest = reader_.manifest();
    auto position = std::find_if(manifest.tensors.begin(), manifest.tensors.end(),
                                 [&](const TensorEntry& e) { return e.name == entry_->name; });
    TILEKV_CHECK(position != manifest.tensors.end());
    *position = *entry_;  // with its tiles, where they were listed
    TileReader tiles(reader_.store(), reader_.pool(), reader_.budget(), 1);
    TILEKV_RETURN_IF_ERROR(ParallelFor(
        DefaultThreads(options_.threads), plan_.size(), options_.context, [&](size_t i) {
          TileWork work = plan_.Work(i);
          const TileRef& old = entry_->tiles[work.tile];
          absl::StatusOr<TileRef> fresh = Patch(work, old, tiles, session);
          if (!fresh.ok()) {
            return WithContext(fresh.status(), fmt::format("tensor '{}', tile {}",
                                                           Printable(entry_->name), work.tile));
          }
          // Works name distinct tiles; a tensor in a pack has one.
          if (old.is_part()) {
            ReplacePack(manifest, position - manifest.tensors.begin(), old.object, fresh->object);
          }
          position->tiles[work.tile] = *std::move(fresh);
          return absl::OkStatus();
        }));
    return manifest;
  }

 private:
  absl::StatusOr<TileRef> Patch(const TileWork& work, const TileRef& old, const TileReader& tiles,
                                WriteSession& session) {
    const bool packed = old.is_part();
    uint64_t object_bytes = packed ? old.object.length : old.length_bytes;
    uint64_t held = object_bytes + (old.parts == nullptr ? 0 : 2 * old.object.length);
    TILEKV_ASSIGN_OR_RETURN(Reservation reservation,
                            reader_.budget().Acquire(held, options_.context));
    Buffer object = reader_.pool().Get(object_bytes);
    if (packed) {
      ObjectRead read{.ref = old.object, .offset = 0, .out = object.span()};
      TILEKV_RETURN_IF_ERROR(reader_.store().ReadObjects({&read, 1}, nullptr, options_.context));
    } else if (!work.covers_tile) {
      TILEKV_RETURN_IF_ERROR(tiles.ReadTile(old, object.span(), nullptr, options_.context));
    }
    uint8_t* tile = object.data() + (packed ? old.offset_bytes : 0);
    for (const TileRead& read : work.reads) {
      for (const RegionCopy& copy : read.copies) {
        copy.Reversed().Run(content_.data(), tile + read.offset_bytes);
      }
    }
    std::optional<uint8_t> float_bytes;  // a pack has tensors of any dtype
    if (!packed) float_bytes = DTypeFloatBytes(entry_->dtype);
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, session.PutBlob({object.span(), float_bytes}));
    return packed ? TileWithin(ref, object.span(), old.offset_bytes, old.length_bytes)
                  : WholeTile(ref);
  }

  // All tensors of one pack move to its new object; there the neighbours keep their places and
  // hashes. Two packs of equal content are one object: what belongs to this pack are the neighbours
  // in name order whose offsets rise.
  static void ReplacePack(Manifest& manifest, size_t index, const ObjectRef& old,
                          const ObjectRef& fresh) {
    auto in_pack = [&](size_t i) {
      const TensorEntry& e = manifest.tensors[i];
      return e.tiles.size() == 1 && e.tiles[0].is_part() && e.tiles[0].object == old;
    };
    auto offset = [&](size_t i) { return manifest.tensors[i].tiles[0].offset_bytes; };
    auto skipped = [&](size_t i) {  // not in any pack: does not end one
      const TensorEntry& e = manifest.tensors[i];
      return e.is_alias() || e.tiles.size() != 1 || !e.tiles[0].is_part();
    };
    std::vector<size_t> members = {index};
    for (size_t i = index, last = index; i-- > 0;) {
      if (skipped(i)) continue;
      if (!in_pack(i) || offset(i) >= offset(last)) break;
      members.push_back(last = i);
    }
    for (size_t i = index + 1, last = index; i < manifest.tensors.size(); ++i) {
      if (skipped(i)) continue;
      if (!in_pack(i) || offset(i) <= offset(last)) break;
      members.push_back(last = i);
    }
    for (size_t i : members) manifest.tensors[i].tiles[0].object = fresh;
  }

  ModelReader& reader_;
  const WriteOptions& options_;
  const std::shared_ptr<const TensorEntry> entry_;
  const ReadPlan plan_;
  const Bytes content_;
};

}  // namespace

absl::StatusOr<WriteReport> UpdateSlice(KvStore& store, const ModelName& base,
                                        const std::string& tensor, const std::string& slice,
                                        Bytes content, const WriteOptions& write) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t max_object_bytes, store.MaxObjectBytes(write.context));
  TILEKV_ASSIGN_OR_RETURN(auto reader, ModelReader::Open(store, base,
                                                         {.memory_bytes = write.memory_bytes,
                                                          .context = write.context}));
  TILEKV_ASSIGN_OR_RETURN(auto entry, reader->Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ResolvedSlice resolved, ResolveSlice(slice, entry->shape));
  TILEKV_ASSIGN_OR_RETURN(ReadPlan plan, ReadPlan::Create(entry->dtype, entry->grid(), resolved));
  if (plan.result_bytes() != content.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("tensor '{}': the slice has {} bytes, its content {}",
                                 Printable(tensor), plan.result_bytes(), content.size()));
  }
  WriteOptions options = write;
  if (options.if_latest.kind == WriteCondition::Kind::kNone) {
    options.if_latest = WriteCondition::Version(reader->version().record().number());
  }
  const v1::VersionRecord& record = reader->version().record();
  CommitFacts facts{.tensors = record.tensor_count(),
                    .logical_bytes = record.logical_bytes(),
                    .base = VersionOf(*reader)};
  // Names, dtypes and shapes are the base's, so the files that it came from can still be made.
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRef> sources, reader->SourceFilesRef());
  ModelName target{.ns = base.ns, .name = base.name};
  SliceUpdate update(*reader, options, entry, std::move(plan), content);
  return CommitInSession(
      store, target, options, facts, [&](WriteSession& session) -> absl::StatusOr<CommitTrees> {
        TILEKV_ASSIGN_OR_RETURN(Manifest manifest, update.Run(session));
        TILEKV_ASSIGN_OR_RETURN(auto trees, EncodeManifest(manifest, max_object_bytes));
        TILEKV_RETURN_IF_ERROR(session.PutEncoded(trees));
        return CommitTrees{.root = trees.back().ref, .sources = sources};
      });
}

}  // namespace tilekv
