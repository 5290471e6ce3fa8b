// tilekv store ...: the store itself.
#include <poll.h>

#include <algorithm>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "kvstore/node/store_repair.h"

namespace tilekv {
namespace {

constexpr int kWaitMillis = 1'000;  // between two rounds of gc --wait

absl::StatusOr<v1::InfoResponse> AskInfo(Context& context, KvStore& store) {
  return store.node().Info(v1::InfoRequest(), context.call());
}

Json InfoJson(const KvStore& store, const v1::InfoResponse& info) {
  Json json;
  json["uri"] = JsonText(store.uri());
  json["kind"] = info.kind();
  json["version"] = info.version();
  json["format"] = info.format_version();
  json["store_uuid"] = info.store_uuid();
  json["max_object_bytes"] = info.max_object_bytes();
  json["objects"] = info.objects();
  json["content_bytes"] = info.content_bytes();
  json["stored_bytes"] = info.stored_bytes();
  json["quarantined_objects"] = info.quarantined_objects();
  json["disk_total_bytes"] = info.disk_total_bytes();
  json["disk_available_bytes"] = info.disk_available_bytes();
  json["revision"] = info.revision();
  if (!info.cluster().empty()) {
    json["cluster"] = info.cluster();
    json["node"] = info.node_id();
  }
  return json;
}

absl::Status PrintInfo(Context& context, const KvStore& store, const v1::InfoResponse& info) {
  if (context.out().is_json()) return context.out().Document(InfoJson(store, info));
  std::string text = fmt::format(
      "store         {} ({})\nuuid          {}\nformat        {}, written by TileKV {}\n"
      "object limit  {} ({} bytes)\nobjects       {}\ncontent       {}\nstored        {}\n",
      Printable(store.uri()), info.kind(), info.store_uuid(), info.format_version(), info.version(),
      FormatSizeShort(info.max_object_bytes()), FormatCount(info.max_object_bytes()),
      FormatCount(info.objects()), FormatSize(info.content_bytes()),
      FormatSize(info.stored_bytes()));
  if (info.disk_total_bytes() > 0) {
    text += fmt::format("disk          {} free of {}\n", FormatSize(info.disk_available_bytes()),
                        FormatSize(info.disk_total_bytes()));
  }
  if (info.revision() > 0) text += fmt::format("revision      {}\n", info.revision());
  if (!info.cluster().empty()) {
    text += fmt::format("cluster       {}, node {}; these figures are the node's\n",
                        Printable(info.cluster()), Printable(info.node_id()));
  }
  if (info.quarantined_objects() > 0) {
    text += context.out().style().Red(
        fmt::format("quarantined   {} damaged objects; see 'tilekv store fsck'\n",
                    FormatCount(info.quarantined_objects())));
  }
  return context.out().Write(text);
}

absl::StatusOr<int> StoreInit(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> limit, arguments.Size("--max-object-bytes"));
  if (!context.options().store.empty()) {
    TILEKV_ASSIGN_OR_RETURN(StoreUri uri, StoreUri::Parse(context.options().store));
    if (uri.kind == StoreUri::Kind::kNodes) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("{} is served by a node, which makes its store itself: "
                                   "tilekv-server --data-dir DIR [--max-object-bytes N]",
                                   Printable(context.options().store)));
    }
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store(limit));
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, AskInfo(context, *store));
  TILEKV_RETURN_IF_ERROR(PrintInfo(context, *store, info));
  return kExitDone;
}

absl::StatusOr<int> StoreInfo(Context& context, const Arguments&) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, AskInfo(context, *store));
  TILEKV_RETURN_IF_ERROR(PrintInfo(context, *store, info));
  return kExitDone;
}

Json CollectJson(const v1::CollectResponse& round, bool dry_run) {
  Json json;
  json["dry_run"] = dry_run;
  json["purged_versions"] = round.purged_versions();
  json["live_objects"] = round.live_objects();
  json["live_bytes"] = round.live_bytes();
  json["deleted_objects"] = round.deleted_objects();
  json["deleted_bytes"] = round.deleted_bytes();
  json["kept_by_sessions"] = round.kept_by_sessions();
  json["fence"] = round.fence();
  json["held"] = round.held();
  json["round"] = HexEncode(AsBytes(round.round()));
  json["unexplained_bytes"] = round.unexplained_bytes();
  json["sessions"] = Json::array();
  for (const std::string& session : round.sessions()) json["sessions"].push_back(JsonText(session));
  json["not_reached"] = Json::array();
  for (const std::string& node : round.not_reached()) json["not_reached"].push_back(JsonText(node));
  return json;
}

// What in-use bytes have gone without anybody's doing.
std::string LossText(const v1::CollectResponse& round) {
  return fmt::format(
      "what names need fell by {} more than removals and overwrites explain: names may be lost, "
      "and "
      "with them what they need",
      FormatSize(round.unexplained_bytes()));
}

std::string CollectText(const v1::CollectResponse& round, bool dry_run) {
  if (round.held() && !dry_run) {
    return fmt::format(
        "nothing was deleted: {}. Look at 'tilekv ls' and 'tilekv store gc --dry-run', and if it "
        "is "
        "right: tilekv store gc --confirm {}",
        LossText(round), HexEncode(AsBytes(round.round())));
  }
  std::string text =
      fmt::format("{} {} ({}); in use: {} ({})", dry_run ? "would delete" : "deleted",
                  Counted(round.deleted_objects(), "object"), FormatSize(round.deleted_bytes()),
                  Counted(round.live_objects(), "object"), FormatSize(round.live_bytes()));
  if (round.purged_versions() > 0) {
    text += fmt::format("\nforgotten, as its grace is over: {}",
                        Counted(round.purged_versions(), "deleted version"));
  }
  if (round.unexplained_bytes() > 0) text += "\nwarning: " + LossText(round);
  if (round.kept_by_sessions() > 0) {
    text += fmt::format("\nkept for uploads under way: {}",
                        Counted(round.kept_by_sessions(), "object"));
    for (const std::string& session : round.sessions()) text += "\n  " + Printable(session);
  }
  if (round.not_reached_size() > 0) {
    text += fmt::format("\nnot reached, whose copies stay until a later collection: {}",
                        Counted(round.not_reached_size(), "node"));
    for (const std::string& node : round.not_reached()) text += "\n  " + Printable(node);
  }
  return text;
}

absl::StatusOr<v1::CollectRequest> ParseCollectRequest(const Arguments& arguments) {
  v1::CollectRequest request;
  request.set_dry_run(arguments.Has("--dry-run"));
  request.set_end_sessions(arguments.Has("--end-sessions"));
  if (std::optional<std::string> round = arguments.Value("--confirm")) {
    if (!HexDecode(*round, *request.mutable_confirm()) || request.confirm().empty()) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("'{}' is not the name of a round", Printable(*round)));
    }
  }
  if (request.dry_run() &&
      (arguments.Has("--wait") || request.end_sessions() || !request.confirm().empty())) {
    return MakeError(Reason::kInvalidArgument,
                     "--dry-run excludes --wait, --end-sessions and --confirm");
  }
  return request;
}

// Uploads under way are lost, so their holders are shown first.
absl::Status AskToEndSessions(Context& context, KvStore& store) {
  v1::CollectRequest dry;
  dry.set_dry_run(true);
  TILEKV_ASSIGN_OR_RETURN(v1::CollectResponse would, store.node().Collect(dry, context.call()));
  if (would.sessions_size() == 0) return absl::OkStatus();
  std::string plan = fmt::format("Ends {}, whose clients must begin again:",
                                 Counted(would.sessions_size(), "upload"));
  for (const std::string& session : would.sessions()) plan += "\n  " + Printable(session);
  return context.Ask(plan);
}

absl::StatusOr<int> StoreCollect(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(v1::CollectRequest request, ParseCollectRequest(arguments));
  bool wait = arguments.Has("--wait");
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  if (request.end_sessions()) TILEKV_RETURN_IF_ERROR(AskToEndSessions(context, *store));
  v1::CollectResponse sum;
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::CollectResponse round,
                            store->node().Collect(request, context.call()));
    round.set_deleted_objects(round.deleted_objects() + sum.deleted_objects());
    round.set_deleted_bytes(round.deleted_bytes() + sum.deleted_bytes());
    round.set_purged_versions(round.purged_versions() + sum.purged_versions());
    sum = round;
    if (sum.held()) break;
    request.clear_confirm();
    if (!wait || sum.kept_by_sessions() == 0) break;
    poll(nullptr, 0, kWaitMillis);  // a signal ends it early
    TILEKV_RETURN_IF_ERROR(context.call().Check());
  }
  TILEKV_RETURN_IF_ERROR(
      context.Done(CollectText(sum, request.dry_run()), CollectJson(sum, request.dry_run())));
  return sum.held() && !request.dry_run() ? kExitConditionUnmet : kExitDone;
}

// Makes the index of a store in a directory anew, before the store is opened. Gives the number of
// objects in it.
absl::StatusOr<uint64_t> RebuildIndexFirst(Context& context) {
  TILEKV_ASSIGN_OR_RETURN(StoreUri uri, StoreUri::Parse(context.options().store));
  if (uri.kind != StoreUri::Kind::kDirectory) {
    return MakeError(Reason::kInvalidArgument,
                     "--rebuild-index works on a store's directory that nobody has open: stop its "
                     "server and name the directory");
  }
  LocalEngineOptions options;
  options.directory = uri.directory;
  TILEKV_ASSIGN_OR_RETURN(IndexRebuildReport report, RebuildStoreIndex(options, context.call()));
  std::string text = fmt::format("the index was made anew: {}, {} of them damaged, {} taken over",
                                 Counted(report.rows, "object"), report.damaged,
                                 Counted(report.small_contents, "small content"));
  if (report.set_aside > 0) {
    text += fmt::format("; {} whose header cannot be read moved to {}/damaged",
                        Counted(report.set_aside, "file"), Printable(uri.directory));
  }
  if (!report.old_index.empty()) {
    text += fmt::format("; the old one is {}", Printable(report.old_index));
  }
  if (!report.old_index_error.empty()) text += "; what is damaged in it: " + report.old_index_error;
  context.Remark(text);
  return report.rows;
}

// Payload files outlive their names until a collection: a new index has the objects of all of them.
void RemarkOnUnneeded(const Context& context, uint64_t rows, uint64_t checked) {
  if (rows <= checked) return;
  context.Remark(
      fmt::format("{} of {} in the new index {} needed by no name: deleted before, and back with "
                  "{} files until "
                  "'tilekv store gc' takes them",
                  FormatCount(rows - checked), Counted(rows, "object"),
                  rows - checked == 1 ? "is" : "are", rows - checked == 1 ? "its" : "their"));
}

Json FsckJson(const v1::FsckRequest& request, const v1::FsckResponse& report) {
  Json json;
  json["objects"] = report.objects();
  json["bytes"] = report.bytes();
  json["versions"] = report.versions();
  json["values"] = report.values();
  json["content_verified"] = request.verify_content();
  json["problem_count"] = report.problem_count();
  json["lost_count"] = report.lost_count();
  json["repaired_count"] = report.repaired_count();
  json["problems"] = Json::array();
  for (const v1::FsckProblem& problem : report.problems()) {
    json["problems"].push_back({{"kind", problem.kind()},
                                {"where", JsonText(problem.where())},
                                {"text", JsonText(problem.text())},
                                {"lost", problem.lost()},
                                {"repaired", problem.repaired()}});
  }
  return json;
}

absl::Status PrintFsck(Context& context, const v1::FsckRequest& request,
                       const v1::FsckResponse& report) {
  Output& out = context.out();
  if (out.is_json()) return out.Document(FsckJson(request, report));
  ListPrinter printer(out, {{"PROBLEM"}, {"WHERE"}, {"STATE"}, {"TEXT"}});
  for (const v1::FsckProblem& problem : report.problems()) {
    const char* state = problem.lost() ? "lost" : problem.repaired() ? "repaired" : "";
    TILEKV_RETURN_IF_ERROR(printer.Add(
        {{problem.kind(), Shown(problem.where()), state, Shown(problem.text())}, nullptr}));
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  uint64_t hidden = report.problem_count() - static_cast<uint64_t>(report.problems_size());
  if (hidden > 0) TILEKV_RETURN_IF_ERROR(out.Line(fmt::format("... and {} more", hidden)));
  std::string checked = fmt::format(
      "{} ({}), {} and {} checked{}", Counted(report.objects(), "object"),
      FormatSize(report.bytes()), Counted(report.versions(), "version"),
      Counted(report.values(), "value"), request.verify_content() ? ", every byte read" : "");
  if (report.problem_count() == 0) {
    return out.Line(checked + ": " + out.style().Green("sound"));
  }
  TILEKV_RETURN_IF_ERROR(out.Line(
      fmt::format("{}: {} ({} lost, {} repaired)", checked,
                  out.style().Red(Counted(report.problem_count(), "problem")),
                  FormatCount(report.lost_count()), FormatCount(report.repaired_count()))));
  if (report.lost_count() == 0) return absl::OkStatus();
  return out.Line(
      "What is lost comes back when the same model or value is stored again from its source.");
}

absl::StatusOr<int> StoreFsck(Context& context, const Arguments& arguments) {
  v1::FsckRequest request;
  request.set_verify_content(arguments.Has("--content"));
  request.set_repair(arguments.Has("--repair"));
  uint64_t rebuilt_rows = 0;
  if (arguments.Has("--rebuild-index")) {
    TILEKV_ASSIGN_OR_RETURN(rebuilt_rows, RebuildIndexFirst(context));
  }
  // What is found damaged is marked so.
  if (request.verify_content() || request.repair()) context.set_access(Access::kChange);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::FsckResponse report, store->node().Fsck(request, context.call()));
  TILEKV_RETURN_IF_ERROR(PrintFsck(context, request, report));
  RemarkOnUnneeded(context, rebuilt_rows, report.objects());
  if (report.lost_count() > 0) return kExitDataLoss;
  return report.problem_count() > 0 ? kExitDiffers : kExitDone;
}

}  // namespace

std::vector<CommandSpec> StoreCommandSpecs() {
  return {
      {.noun = "store",
       .verb = "init",
       .summary = "make a store in a directory",
       .help =
           "The first writing command does so too. The object limit is a property of the store, "
           "set when it is made; asking for another one later is an error.",
       .flags = {{"--max-object-bytes", "", "N",
                  fmt::format("the object limit, {} to {} (default: {})",
                              FormatSizeShort(kLeastMaxObjectBytes),
                              FormatSizeShort(kGreatestMaxObjectBytes),
                              FormatSizeShort(kDefaultMaxObjectBytes))}},
       .examples = {{"tilekv --store ./data store init --max-object-bytes 16MiB", ""}},
       .access = Access::kWrite,
       .handler = StoreInit},
      {.noun = "store",
       .verb = "info",
       .summary = "limits, contents and disk of the store",
       .access = Access::kRead,
       .handler = StoreInfo},
      {.noun = "store",
       .verb = "gc",
       .summary = "delete what nothing refers to",
       .help =
           fmt::format("What an upload under way has sent or found is kept until it ends. A node "
                       "deletes nothing (exit code 4) when what names need has fallen, since "
                       "the last time, by more than {} % and {} that no removal or overwriting "
                       "explains: then names were lost, and their contents can still be saved. "
                       "No store deletes anything (exit code 6) while the end of the log of "
                       "its names is in doubt, torn by a loss of power or damaged (fsck: "
                       "'log', of the 'catalog'): the newest names may be missing. Either way: "
                       "look at 'tilekv ls' and --dry-run, then --confirm the round that is "
                       "named.",
                       kCollectHoldPercent, FormatSizeShort(kCollectHoldBytes)),
       .flags = {{"--dry-run", "", "", "say what would be deleted"},
                 {"--wait", "", "", "repeat until no upload holds anything back"},
                 {"--end-sessions", "", "", "end uploads under way first; asks unless -y"},
                 {"--confirm", "", "ROUND", "delete although that round was held"}},
       .access = Access::kChange,
       .handler = StoreCollect},
      {.noun = "store",
       .verb = "fsck",
       .summary = "check that everything named is there and sound",
       .help =
           "Exits with 6 when a name needs what cannot be read, else with 1 when there are "
           "problems. Repairing deletes nothing that may be the last copy: bad copies are put in "
           "quarantine, files that belong to no object are removed, counts are set right.",
       .flags = {{"--content", "", "", "read and hash every object too"},
                 {"--repair", "", "", "repair what can be"},
                 {"--rebuild-index", "", "",
                  fmt::format("first make the index anew from the payload files; what was below {} "
                              "is lost with an index that cannot be read",
                              FormatSizeShort(kInlineContentBytes))}},
       .access = Access::kRead,
       .handler = StoreFsck},
      StoreRecodeSpec(),
  };
}

}  // namespace tilekv
