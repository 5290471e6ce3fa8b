#include "client/cli/node_listing.h"

#include "client/cli/cluster_text.h"
#include "client/cli/repair_listing.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {
namespace {

std::string HealthText(const ListedNode& listed) {
  if (!listed.status->registered()) {
    const int64_t missing_s = listed.status->missing_seconds();
    return missing_s > 0 ? fmt::format("away {}", FormatSeconds(missing_s)) : "away";
  }
  switch (listed.status->registration().health()) {
    case v1::NODE_HEALTH_GOOD:
      return "good";
    case v1::NODE_HEALTH_FULL:
      return "full";
    case v1::NODE_HEALTH_FAILED:
      return "disk failed";
    default:
      return "unknown";
  }
}

std::string Coloured(const Output& out, const ListedNode& listed, const std::string& text) {
  const bool good =
      listed.status->registered() && listed.status->registration().health() == v1::NODE_HEALTH_GOOD;
  return good ? text : out.style().Red(text);
}

std::string StateWord(v1::NodeState state) {
  return std::string(NodeStateName(static_cast<NodeState>(state)));
}

}  // namespace

std::vector<ListedNode> NodesOf(const v1::ClusterStatusResponse& status) {
  std::vector<ListedNode> nodes;
  for (int i = 0; i < status.nodes_size() && i < status.map().nodes_size(); ++i) {
    nodes.push_back({&status.map().nodes(i), &status.nodes(i)});
  }
  return nodes;
}

std::string StateText(const v1::ClusterMapNode& node) {
  return StateWord(node.state()) + (node.automatic_out() ? " by itself" : "");
}

Json NodeJson(const ListedNode& listed) {
  const v1::ClusterMapNode& node = *listed.node;
  const v1::NodeRegistration& registration = listed.status->registration();
  Json json;
  json["node"] = node.id();
  json["state"] = StateWord(node.state());
  json["automatic_out"] = node.automatic_out();
  json["maintenance"] = node.maintenance();
  json["registered"] = listed.status->registered();
  json["health"] = HealthText(listed);
  json["missing_seconds"] = listed.status->missing_seconds();
  json["held"] = listed.status->held();
  json["address"] = JsonText(node.address());
  json["host"] = JsonText(node.host());
  json["zone"] = JsonText(node.zone());
  json["weight"] = node.weight_milli() / 1'000.0;
  json["store_uuid"] = node.store_uuid();
  json["version"] = JsonText(registration.version());
  json["objects"] = registration.objects();
  json["stored_bytes"] = registration.stored_bytes();
  json["disk_total_bytes"] = registration.disk_total_bytes();
  json["disk_available_bytes"] = registration.disk_available_bytes();
  json["map_version"] = registration.map_version();
  json["repair"] = RepairJson(registration.repair());
  return json;
}

absl::Status PrintNodes(Output& out, const v1::ClusterStatusResponse& status) {
  ListPrinter printer(out, {{"NODE"},
                            {"STATE"},
                            {"HEALTH"},
                            {"ADDRESS"},
                            {"HOST", false, true},
                            {"ZONE"},
                            {"WEIGHT", true},
                            {"OBJECTS", true},
                            {"STORED", true},
                            {"FREE", true},
                            {"STORE", false, true}});
  for (const ListedNode& listed : NodesOf(status)) {
    const v1::ClusterMapNode& node = *listed.node;
    const v1::NodeRegistration& registration = listed.status->registration();
    const bool here = listed.status->registered();
    TILEKV_RETURN_IF_ERROR(printer.Add(
        {{node.id(), StateText(node), Coloured(out, listed, HealthText(listed)),
          Printable(node.address()), Printable(node.host()), Printable(node.zone()),
          FormatWeight(node.weight_milli()), here ? FormatCount(registration.objects()) : "",
          here ? FormatSize(registration.stored_bytes()) : "",
          here ? FormatSize(registration.disk_available_bytes()) : "", node.store_uuid()},
         NodeJson(listed)}));
  }
  return printer.Finish("no nodes yet: start 'tilekv-server --etcd URL --cluster NAME'");
}

absl::Status PrintNode(Output& out, const ListedNode& listed) {
  if (out.is_json()) return out.Document(NodeJson(listed));
  const v1::ClusterMapNode& node = *listed.node;
  std::string text = fmt::format(
      "node          {}\nstate         {}{}\nhealth        {}\naddress       {}\nhost          {}\n"
      "zone          {}\nweight        {}\nstore         {}\n",
      node.id(), StateText(node), node.maintenance() ? ", under maintenance" : "",
      Coloured(out, listed, HealthText(listed)), Printable(node.address()), Printable(node.host()),
      Printable(node.zone()), FormatWeight(node.weight_milli()), node.store_uuid());
  if (!listed.status->held().empty()) {
    text += fmt::format("not out       {}\n", Printable(listed.status->held()));
  }
  if (listed.status->registered()) {
    const v1::NodeRegistration& registration = listed.status->registration();
    text += fmt::format(
        "since         {}\nversion       {}\nobjects       {}\nstored        {}\n"
        "disk          {} free of {}\n",
        FormatTime(registration.started_micros()), Printable(registration.version()),
        FormatCount(registration.objects()), FormatSize(registration.stored_bytes()),
        FormatSize(registration.disk_available_bytes()),
        FormatSize(registration.disk_total_bytes()));
    if (const v1::RepairStatus& repair = registration.repair(); repair.objects_to_pull() > 0) {
      text += fmt::format("lacks         {} objects, {}\n", FormatCount(repair.objects_to_pull()),
                          FormatSize(repair.bytes_to_pull()));
    }
  }
  return out.Write(text);
}

}  // namespace tilekv
