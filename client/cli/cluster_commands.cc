// tilekv cluster ...: the cluster as a whole.
#include <poll.h>

#include <algorithm>
#include <map>

#include "client/cli/arguments.h"
#include "client/cli/cluster_check_command.h"
#include "client/cli/cluster_text.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/node_listing.h"
#include "client/cli/repair_listing.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/map_version.h"

namespace tilekv {
namespace {

constexpr int kWatchMillis = 2'000;
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

absl::StatusOr<v1::ClusterStatusResponse> AskStatus(Context& context) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  return store->node().ClusterStatus({}, context.call());
}

Json CatalogJson(const v1::CatalogStatus& catalog) {
  Json json;
  json["answers"] = catalog.error().empty();
  json["error"] = JsonText(catalog.error());
  json["etcd_version"] = JsonText(catalog.version());
  json["database_bytes"] = catalog.database_bytes();
  json["in_use_bytes"] = catalog.in_use_bytes();
  json["quota_bytes"] = catalog.quota_bytes();
  return json;
}

Json StatusJson(const v1::ClusterStatusResponse& status) {
  Json json;
  json["cluster"] = status.map().cluster_name();
  json["cluster_uuid"] = status.map().cluster_uuid();
  json["map_version"] = status.map().version();
  json["line_id"] = status.line_id();
  json["answered_by"] = status.answered_by();
  for (const ClusterSetting& setting : ClusterSettingsOf(status.map())) {
    json["settings"][setting.key] = setting.json;
  }
  json["catalog"] = CatalogJson(status.catalog());
  json["repair"] = RepairJson(RepairOf(status));
  json["nodes"] = Json::array();
  for (const ListedNode& listed : NodesOf(status)) json["nodes"].push_back(NodeJson(listed));
  return json;
}

std::string CatalogText(const Output& out, const v1::CatalogStatus& catalog) {
  if (!catalog.error().empty()) {
    return out.style().Red("does not answer: " + Printable(catalog.error()));
  }
  const uint64_t percent =
      catalog.quota_bytes() == 0 ? 0 : catalog.database_bytes() / (catalog.quota_bytes() / 100 + 1);
  std::string text = fmt::format("etcd {}, {} of {} ({} %)", Printable(catalog.version()),
                                 FormatSize(catalog.database_bytes()),
                                 FormatSizeShort(catalog.quota_bytes()), percent);
  return percent < kEtcdWarnPercent ? text : out.style().Red(text);
}

std::string NodesText(const Output& out, const v1::ClusterStatusResponse& status) {
  std::map<std::string, int> states;
  int away = 0;
  for (const ListedNode& listed : NodesOf(status)) {
    ++states[StateText(*listed.node)];
    away += !listed.status->registered();
  }
  std::string text = fmt::format("{}", status.nodes_size());
  for (const auto& [state, count] : states) text += fmt::format(", {} {}", count, state);
  if (away > 0) text += out.style().Red(fmt::format(", {} away", away));
  return text;
}

absl::Status PrintStatus(Context& context, const v1::ClusterStatusResponse& status) {
  Output& out = context.out();
  if (out.is_json()) return out.Document(StatusJson(status));
  uint64_t stored_bytes = 0;
  uint64_t free_bytes = 0;
  for (const v1::ClusterNodeStatus& node : status.nodes()) {
    stored_bytes += node.registration().stored_bytes();
    free_bytes += node.registration().disk_available_bytes();
  }
  TILEKV_RETURN_IF_ERROR(out.Write(fmt::format(
      "cluster       {} ({}), map {}, as node {} sees it\nnodes         {}\n"
      "copies        {}, at least {}\nstored        {}, all copies; {} free\nrepair        {}\n"
      "catalog       {}\n\n",
      status.map().cluster_name(), status.map().cluster_uuid(),
      MapVersion{status.map().version()}.number(), status.answered_by(), NodesText(out, status),
      status.map().replication(), status.map().min_copies(), FormatSize(stored_bytes),
      FormatSize(free_bytes), RepairText(out, RepairOf(status)),
      CatalogText(out, status.catalog()))));
  return PrintNodes(out, status);
}

absl::StatusOr<int> ClusterStatus(Context& context, const Arguments& arguments) {
  const bool watch = arguments.Has("--watch");
  Output& out = context.out();
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status, AskStatus(context));
    if (watch && !out.is_json() && out.terminal().stdout_tty) {
      TILEKV_RETURN_IF_ERROR(out.Write(kClearScreen));
    }
    TILEKV_RETURN_IF_ERROR(PrintStatus(context, status));
    if (!watch) return kExitDone;
    TILEKV_RETURN_IF_ERROR(out.Flush());
    poll(nullptr, 0, kWatchMillis);  // a signal ends it early
    TILEKV_RETURN_IF_ERROR(context.call().Check());
  }
}

absl::StatusOr<int> ClusterGet(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status, AskStatus(context));
  const std::vector<ClusterSetting> settings = ClusterSettingsOf(status.map());
  const std::string wanted = arguments.Word(0);
  if (!wanted.empty()) {
    for (const ClusterSetting& setting : settings) {
      if (setting.key != wanted) continue;
      Json json;
      json[setting.key] = setting.json;
      if (context.out().is_json()) {
        TILEKV_RETURN_IF_ERROR(context.out().Document(json));
      } else {
        TILEKV_RETURN_IF_ERROR(context.out().Line(setting.text));
      }
      return kExitDone;
    }
    return MakeError(Reason::kNotFound, fmt::format("a cluster has no setting '{}'; 'tilekv "
                                                    "cluster get' lists them",
                                                    Printable(wanted)));
  }
  if (context.out().is_json()) {
    Json json;
    for (const ClusterSetting& setting : settings) json[setting.key] = setting.json;
    TILEKV_RETURN_IF_ERROR(context.out().Document(json));
    return kExitDone;
  }
  ListPrinter printer(context.out(), {{"SETTING"}, {"VALUE"}, {"CHANGES"}});
  for (const ClusterSetting& setting : settings) {
    TILEKV_RETURN_IF_ERROR(
        printer.Add({{setting.key, setting.text, setting.may_change ? "yes" : "no"}, nullptr}));
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  return kExitDone;
}

absl::StatusOr<int> ClusterSet(Context& context, const Arguments& arguments) {
  v1::ChangeClusterRequest request;
  TILEKV_ASSIGN_OR_RETURN(*request.mutable_settings(), ParseSettingsChange(arguments.WordsFrom(0)));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ChangeClusterResponse response,
                          store->node().ChangeCluster(request, context.call()));
  Json json;
  json["changed"] = response.changed();
  json["map_version"] = response.version();
  TILEKV_RETURN_IF_ERROR(context.Done(
      response.changed() ? "the settings are changed" : "nothing to change: it is so already",
      json));
  return kExitDone;
}

absl::StatusOr<ClusterInitRequest> ParseInit(const Arguments& arguments) {
  ClusterInitRequest request;
  request.etcd = arguments.Value("--etcd").value_or("");
  request.cluster = arguments.Value("--cluster").value_or("");
  request.ca_file = arguments.Value("--etcd-ca").value_or("");
  request.cert_file = arguments.Value("--etcd-cert").value_or("");
  request.key_file = arguments.Value("--etcd-key").value_or("");
  request.user = arguments.Value("--etcd-user").value_or("");
  request.password_file = arguments.Value("--etcd-password-file").value_or("");
  const auto number = [&](const char* flag, uint32_t& to) -> absl::Status {
    TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> value, arguments.Number(flag));
    // One that does not fit is out of range in any case.
    if (value.has_value()) to = static_cast<uint32_t>(std::min<uint64_t>(*value, UINT32_MAX));
    return absl::OkStatus();
  };
  TILEKV_RETURN_IF_ERROR(number("--replication", request.settings.replication));
  // What is left out follows a replication that is below it.
  request.settings.min_copies = std::min(kDefaultMinCopies, request.settings.replication);
  TILEKV_RETURN_IF_ERROR(number("--min-copies", request.settings.min_copies));
  TILEKV_RETURN_IF_ERROR(number("--partition-bits", request.settings.partition_bits));
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> limit, arguments.Size("--max-object-bytes"));
  request.settings.max_object_bytes = limit.value_or(kDefaultMaxObjectBytes);
  return request;
}

absl::StatusOr<int> ClusterInit(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ClusterInitRequest request, ParseInit(arguments));
  TILEKV_ASSIGN_OR_RETURN(ClusterMap map, context.InitCluster(request));
  Json json;
  json["cluster"] = map.cluster_name();
  json["cluster_uuid"] = map.cluster_uuid();
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("cluster {} ({}) is made; nodes join by starting: tilekv-server --etcd URL "
                  "--cluster {} --data-dir DIR",
                  map.cluster_name(), map.cluster_uuid(), map.cluster_name()),
      json));
  return kExitDone;
}

CommandSpec InitSpec() {
  return {
      .noun = "cluster",
      .verb = "init",
      .summary = "make a cluster, in etcd",
      .help =
          "Once, before or after its first nodes are started: nodes wait for it. Its object "
          "limit and its partitions stay as they are made; the rest can be set later.",
      .flags =
          {{"--etcd", "", "URL[,URL...]", "where etcd is (default: $TILEKV_ETCD)"},
           {"--cluster", "", "NAME", "the cluster's name (default: $TILEKV_CLUSTER)"},
           {"--replication", "", "N",
            fmt::format("copies of each object (default: {})", kDefaultReplication)},
           {"--min-copies", "", "N",
            fmt::format("copies without which a write fails (default: {})", kDefaultMinCopies)},
           {"--max-object-bytes", "", "N",
            fmt::format("the object limit (default: {})", FormatSizeShort(kDefaultMaxObjectBytes))},
           {"--partition-bits", "", "N",
            fmt::format("1 to {} (default: {})", kMaxPartitionBits, kDefaultPartitionBits)},
           {"--etcd-ca", "", "FILE", "who signs the certificates of etcd's members"},
           {"--etcd-cert", "", "FILE", "certificate to show to etcd"},
           {"--etcd-key", "", "FILE", "its key"},
           {"--etcd-user", "", "NAME", "user of etcd"},
           {"--etcd-password-file", "", "FILE", "its first line is the user's password"}},
      .examples = {{"tilekv cluster init --etcd http://127.0.0.1:2379 --cluster prod", ""}},
      .access = Access::kNone,
      .handler = ClusterInit};
}

}  // namespace

std::vector<CommandSpec> ClusterCommandSpecs() {
  return {
      InitSpec(),
      {.noun = "cluster",
       .verb = "status",
       .summary = "nodes, copies, repair, catalog, as the node that is asked sees them",
       .help = "Any node answers, also while etcd does not.",
       .flags = {{"--watch", "", "", "again every two seconds, until Ctrl-C"}},
       .examples = {{"tilekv --store tilekv://n1 cluster status --watch", ""}},
       .access = Access::kRead,
       .handler = ClusterStatus},
      ClusterCheckSpec(),
      {.noun = "cluster",
       .verb = "get",
       .arguments = {{"KEY",
                      "a setting; none: all",
                      false,
                      false,
                      {"replication", "min-copies", "out-after", "repair-rate", "max-object-bytes",
                       "partition-bits"}}},
       .summary = "the cluster's settings",
       .access = Access::kRead,
       .handler = ClusterGet},
      {.noun = "cluster",
       .verb = "set",
       .arguments = {{"KEY=VALUE", "replication=3, min-copies=2, out-after=10m, repair-rate=64MiB",
                      true, true}},
       .summary = "change the cluster's settings",
       .examples = {{"tilekv cluster set replication=2 min-copies=1", ""}},
       .access = Access::kChange,
       .handler = ClusterSet},
  };
}

}  // namespace tilekv
