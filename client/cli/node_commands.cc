// tilekv node ...: the nodes of a cluster.
#include <poll.h>

#include <string>

#include "client/cli/arguments.h"
#include "client/cli/cluster_text.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/node_listing.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kWaitMillis = 1'000;

absl::StatusOr<ListedNode> FindNode(const v1::ClusterStatusResponse& status,
                                    const std::string& id) {
  for (const ListedNode& listed : NodesOf(status)) {
    if (listed.node->id() == id) return listed;
  }
  return MakeError(Reason::kNotFound,
                   fmt::format("there is no node '{}' in the cluster; 'tilekv node ls' lists them",
                               Printable(id)));
}

absl::StatusOr<int> NodeLs(Context& context, const Arguments&) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status,
                          store->node().ClusterStatus({}, context.call()));
  TILEKV_RETURN_IF_ERROR(PrintNodes(context.out(), status));
  return kExitDone;
}

absl::StatusOr<int> NodeShow(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status,
                          store->node().ClusterStatus({}, context.call()));
  TILEKV_ASSIGN_OR_RETURN(ListedNode listed, FindNode(status, arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(PrintNode(context.out(), listed));
  return kExitDone;
}

absl::StatusOr<int> Change(Context& context, const v1::ChangeClusterRequest& request,
                           const std::string& done) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ChangeClusterResponse response,
                          store->node().ChangeCluster(request, context.call()));
  Json json;
  json["changed"] = response.changed();
  json["map_version"] = response.version();
  TILEKV_RETURN_IF_ERROR(
      context.Done(response.changed() ? done : "nothing to change: it is so already", json));
  return kExitDone;
}

// Returns when the node holds nothing any more; says from time to time how much is left. It drains
// from that version of the map on.
absl::Status WaitUntilDrained(Context& context, const std::string& id, uint64_t map_version) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  uint64_t told_objects = 0;
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::ClusterStatusResponse status,
                            store->node().ClusterStatus({}, context.call()));
    TILEKV_ASSIGN_OR_RETURN(ListedNode listed, FindNode(status, id));
    const bool knows = status.map().version() >= map_version;  // the node that answers
    if (knows && listed.node->state() == v1::NODE_STATE_IN) {
      return MakeError(Reason::kVersionConflict,
                       fmt::format("somebody has let {} own objects again", Printable(id)));
    }
    if (!listed.status->registered()) {
      return MakeError(Reason::kNodeUnavailable,
                       fmt::format("{} is away, and gives nothing away until it is back; what it "
                                   "held is copied from the others once it counts as out",
                                   Printable(id)));
    }
    const v1::NodeRegistration& registration = listed.status->registration();
    if (knows && registration.objects() == 0 && registration.map_version() >= map_version) {
      return absl::OkStatus();
    }
    if (registration.objects() != told_objects) {
      told_objects = registration.objects();
      context.Remark(fmt::format("{} still holds {} objects, {}", Printable(id),
                                 FormatCount(told_objects),
                                 FormatSize(registration.stored_bytes())));
    }
    poll(nullptr, 0, kWaitMillis);  // a signal ends it early
    TILEKV_RETURN_IF_ERROR(context.call().Check());
  }
}

absl::StatusOr<int> NodeDrain(Context& context, const Arguments& arguments) {
  const std::string id = arguments.Word(0);
  v1::ChangeClusterRequest request;
  request.set_drain(id);
  if (!arguments.Has("--wait")) {
    return Change(
        context, request,
        fmt::format("{} owns nothing any more, and gives its copies away", Printable(id)));
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ChangeClusterResponse response,
                          store->node().ChangeCluster(request, context.call()));
  TILEKV_RETURN_IF_ERROR(WaitUntilDrained(context, id, response.version()));
  Json json;
  json["changed"] = response.changed();
  json["map_version"] = response.version();
  TILEKV_RETURN_IF_ERROR(
      context.Done(fmt::format("{} holds nothing any more; 'tilekv node remove {}' forgets it",
                               Printable(id), Printable(id)),
                   json));
  return kExitDone;
}

absl::StatusOr<int> NodeUndrain(Context& context, const Arguments& arguments) {
  v1::ChangeClusterRequest request;
  request.set_undrain(arguments.Word(0));
  return Change(context, request, fmt::format("{} is in", Printable(arguments.Word(0))));
}

absl::StatusOr<int> NodeRemove(Context& context, const Arguments& arguments) {
  v1::ChangeClusterRequest request;
  request.set_remove(arguments.Word(0));
  request.set_lost(arguments.Has("--lost"));
  TILEKV_RETURN_IF_ERROR(
      context.Ask(fmt::format("Removes node {} from the cluster{}.", Printable(arguments.Word(0)),
                              request.lost() ? ", with all that it may still hold" : "")));
  return Change(
      context, request,
      fmt::format("{} is no part of the cluster any more: stop it", Printable(arguments.Word(0))));
}

absl::StatusOr<int> NodeSet(Context& context, const Arguments& arguments) {
  v1::ChangeClusterRequest request;
  TILEKV_ASSIGN_OR_RETURN(*request.mutable_node(),
                          ParseNodeChange(arguments.Word(0), arguments.WordsFrom(1)));
  return Change(context, request, fmt::format("{} is changed", Printable(arguments.Word(0))));
}

}  // namespace

std::vector<CommandSpec> NodeCommandSpecs() {
  const ArgumentSpec node = {"NODE", "its name, as 'tilekv node ls' has it"};
  return {
      {.noun = "node",
       .verb = "ls",
       .summary = "the cluster's nodes: state, health, address, what they hold",
       .help = "STATE is what the cluster has agreed on: a node that is in owns objects; one that "
               "drains gives its copies away; one that is out counts as away. HEALTH is what the "
               "node says of itself, or for how long nobody heard of it.",
       .access = Access::kRead,
       .handler = NodeLs},
      {.noun = "node",
       .verb = "show",
       .arguments = {node},
       .summary = "everything that is known of one node",
       .access = Access::kRead,
       .handler = NodeShow},
      {.noun = "node",
       .verb = "drain",
       .arguments = {node},
       .summary = "let a node own nothing any more, so that it can be removed",
       .help = "Refused where fewer nodes than the replication would stay in. With --wait it ends "
               "when the node holds nothing any more; Ctrl-C ends the waiting, not the draining.",
       .flags = {{"--wait", "", "", "until all that it holds is at its new owners"}},
       .access = Access::kChange,
       .handler = NodeDrain},
      {.noun = "node",
       .verb = "undrain",
       .arguments = {node},
       .summary = "let a node that drains, or is out, own objects again",
       .access = Access::kChange,
       .handler = NodeUndrain},
      {.noun = "node",
       .verb = "remove",
       .arguments = {node},
       .summary = "forget a node that holds nothing any more",
       .help = "Refused while the node is in, while it holds objects, and while it is away and so "
               "cannot say what it holds. With --lost one that is gone for good is removed, once "
               "everything has all its copies without it: drain it first, or wait until it is out.",
       .flags = {{"--lost", "", "", "the node is gone for good"}},
       .access = Access::kChange,
       .handler = NodeRemove},
      {.noun = "node",
       .verb = "set",
       .arguments = {node,
                     {"KEY=VALUE", "weight=2, zone=b, host=h, maintenance=on or off, store=UUID",
                      true, true}},
       .summary = "change a node's share, or where it stands",
       .help =
           "A node under maintenance is meant to be away: it is not marked out. `store` is "
           "for a node whose disk was replaced by an empty one, while it is stopped: its server "
           "says which UUID.",
       .examples = {{"tilekv node set n4 weight=2 zone=b", ""},
                    {"tilekv node set n4 maintenance=on", "before its machine is restarted"}},
       .access = Access::kChange,
       .handler = NodeSet},
  };
}

}  // namespace tilekv
