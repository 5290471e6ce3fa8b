// tilekv store recode: what is stored, in another encoding.
#include <set>
#include <vector>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/codec_choice.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// Asked for in one call: as much as a node does in one step of its own.
constexpr uint64_t kStepBytes = 128 * kMiB;
constexpr size_t kStepObjects = 1'000;

void Add(v1::RecodeResponse& sum, const v1::RecodeResponse& step) {
  sum.set_objects(sum.objects() + step.objects());
  sum.set_changed(sum.changed() + step.changed());
  sum.set_damaged(sum.damaged() + step.damaged());
  sum.set_content_bytes(sum.content_bytes() + step.content_bytes());
  sum.set_stored_before(sum.stored_before() + step.stored_before());
  sum.set_stored_after(sum.stored_after() + step.stored_after());
}

struct ByRef {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const { return a.id < b.id; }
};
using RefSet = std::set<ObjectRef, ByRef>;

absl::StatusOr<RefSet> TilesOf(Context& context, KvStore& store, const std::string& prefix) {
  RefSet refs;
  TILEKV_RETURN_IF_ERROR(VisitModels(
      context, store, prefix, /*with_deleted=*/false,
      [&](const v1::ModelInfo& info) -> absl::Status {
        if (!info.has_latest()) return absl::OkStatus();
        TILEKV_ASSIGN_OR_RETURN(auto reader,
                                OpenModel(context, fmt::format("{}/{}", info.ns(), info.name())));
        for (const TensorEntry& tensor : reader->manifest().tensors) {
          TILEKV_ASSIGN_OR_RETURN(auto entry, reader->Find(tensor.name));
          for (const TileRef& tile : entry->tiles) refs.insert(tile.object);
        }
        return absl::OkStatus();
      }));
  return refs;
}

absl::Status RecodeRefs(Context& context, KvStore& store, v1::RecodeRequest& request,
                        const RefSet& refs, Progress& progress, v1::RecodeResponse& sum) {
  uint64_t total = 0;
  for (const ObjectRef& ref : refs) total += ref.length;
  uint64_t done = 0;
  for (auto it = refs.begin(); it != refs.end();) {
    request.clear_refs();
    uint64_t bytes = 0;
    for (size_t n = 0; it != refs.end() && n < kStepObjects && bytes < kStepBytes; ++n, ++it) {
      ObjectRefToWire(*it, request.add_refs());
      bytes += it->length;
    }
    TILEKV_ASSIGN_OR_RETURN(v1::RecodeResponse step, store.node().Recode(request, context.call()));
    Add(sum, step);
    done += bytes;
    progress.Update(done, total);
  }
  return absl::OkStatus();
}

absl::Status RecodeAll(Context& context, KvStore& store, v1::RecodeRequest& request,
                       Progress& progress, v1::RecodeResponse& sum) {
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, store.node().Info({}, context.call()));
  do {
    TILEKV_ASSIGN_OR_RETURN(v1::RecodeResponse step, store.node().Recode(request, context.call()));
    Add(sum, step);
    request.set_after(step.next());
    progress.Update(sum.content_bytes(), std::max(sum.content_bytes(), info.content_bytes()));
  } while (!request.after().empty());
  return absl::OkStatus();
}

absl::StatusOr<int> StoreRecode(Context& context, const Arguments& arguments) {
  std::optional<std::string> codec = arguments.Value("--codec");
  if (!codec.has_value()) {
    return MakeError(Reason::kInvalidArgument,
                     "say how to store it: --codec auto, none, zstd or planes");
  }
  TILEKV_RETURN_IF_ERROR(ParseCodec(*codec).status());
  v1::RecodeRequest request;
  request.set_codec(*codec);
  request.set_dry_run(arguments.Has("--dry-run"));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  std::unique_ptr<Progress> progress = context.StartProgress("recode");
  v1::RecodeResponse sum;
  if (arguments.count() == 0) {
    TILEKV_RETURN_IF_ERROR(RecodeAll(context, *store, request, *progress, sum));
  } else {
    TILEKV_ASSIGN_OR_RETURN(RefSet refs, TilesOf(context, *store, arguments.Word(0)));
    TILEKV_RETURN_IF_ERROR(RecodeRefs(context, *store, request, refs, *progress, sum));
  }
  progress->Finish();
  std::string text =
      fmt::format("{} {} of {}: {} of content, stored in {} {} {}",
                  request.dry_run() ? "would change" : "changed", sum.changed(),
                  Counted(sum.objects(), "object"), FormatSize(sum.content_bytes()),
                  FormatSize(sum.stored_after()), request.dry_run() ? "instead of" : "after",
                  FormatSize(sum.stored_before()));
  if (sum.damaged() > 0) text += fmt::format("; {} damaged, left alone", sum.damaged());
  Json json;
  json["dry_run"] = request.dry_run();
  json["codec"] = *codec;
  json["objects"] = sum.objects();
  json["changed"] = sum.changed();
  json["damaged"] = sum.damaged();
  json["content_bytes"] = sum.content_bytes();
  json["stored_before"] = sum.stored_before();
  json["stored_after"] = sum.stored_after();
  TILEKV_RETURN_IF_ERROR(context.Done(text, json));
  return sum.damaged() > 0 ? kExitDiffers : kExitDone;
}

}  // namespace

CommandSpec StoreRecodeSpec() {
  return {
      .noun = "store",
      .verb = "recode",
      .arguments = {{"PREFIX", "of models' names: their latest versions; none: everything", false}},
      .summary = "store what is there in another encoding",
      .help =
          "Names, manifests and ids stay as they are, and reads go on meanwhile. Each "
          "object is read, verified and written anew before its old copy goes; stopping "
          "half-way leaves some of them done. Trees and objects below 64 KiB are left "
          "alone. Exits with 1 when some were damaged.",
      .flags = {{"--codec", "", "C", "auto, none, zstd or planes; needed"},
                {"--dry-run", "", "", "code everything, store nothing, show the sizes"}},
      .examples = {{"tilekv store recode --codec auto --dry-run", "what it would save"},
                   {"tilekv store recode llama --codec planes", ""}},
      .access = Access::kChange,
      .handler = StoreRecode};
}

}  // namespace tilekv
