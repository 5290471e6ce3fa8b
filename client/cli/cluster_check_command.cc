#include "client/cli/cluster_check_command.h"

#include <string>

#include "client/cli/arguments.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/output.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

const char* SeverityWord(v1::ClusterFinding::Severity severity) {
  switch (severity) {
    case v1::ClusterFinding::LOSS:
      return "loss";
    case v1::ClusterFinding::DEGRADED:
      return "degraded";
    default:
      return "note";
  }
}

const char* Verdict(const v1::ClusterCheckResponse& report) {
  return report.loss_count() > 0 ? "loss" : report.degraded_count() > 0 ? "degraded" : "well";
}

Json CheckJson(const v1::ClusterCheckRequest& request, const v1::ClusterCheckResponse& report) {
  Json json;
  json["verdict"] = Verdict(report);
  json["deep"] = request.deep();
  json["objects"] = report.objects();
  json["bytes"] = report.bytes();
  json["copies"] = report.copies();
  json["versions"] = report.versions();
  json["values"] = report.values();
  json["short_objects"] = report.short_objects();
  json["spare_objects"] = report.spare_objects();
  json["unused_objects"] = report.unused_objects();
  json["unused_bytes"] = report.unused_bytes();
  json["verified_copies"] = report.verified_copies();
  json["damaged_copies"] = report.damaged_copies();
  json["loss_count"] = report.loss_count();
  json["degraded_count"] = report.degraded_count();
  json["note_count"] = report.note_count();
  json["not_reached"] = Json::array();
  for (const std::string& node : report.not_reached()) {
    json["not_reached"].push_back(JsonText(node));
  }
  json["findings"] = Json::array();
  for (const v1::ClusterFinding& finding : report.findings()) {
    json["findings"].push_back({{"severity", SeverityWord(finding.severity())},
                                {"kind", finding.kind()},
                                {"where", JsonText(finding.where())},
                                {"text", JsonText(finding.text())}});
  }
  return json;
}

absl::Status PrintCheck(Output& out, const v1::ClusterCheckRequest& request,
                        const v1::ClusterCheckResponse& report) {
  if (out.is_json()) return out.Document(CheckJson(request, report));
  if (report.findings_size() > 0) {
    ListPrinter printer(out, {{"SEVERITY"}, {"KIND"}, {"WHERE"}, {"TEXT"}});
    for (const v1::ClusterFinding& finding : report.findings()) {
      TILEKV_RETURN_IF_ERROR(printer.Add({{SeverityWord(finding.severity()), finding.kind(),
                                           Shown(finding.where()), Shown(finding.text())},
                                          nullptr}));
    }
    TILEKV_RETURN_IF_ERROR(printer.Finish());
  }
  const uint64_t count = report.loss_count() + report.degraded_count() + report.note_count();
  const uint64_t hidden = count - static_cast<uint64_t>(report.findings_size());
  if (hidden > 0) TILEKV_RETURN_IF_ERROR(out.Line(fmt::format("... and {} more", hidden)));
  std::string text =
      fmt::format("{} ({}) in {}, {} and {}", Counted(report.objects(), "object"),
                  FormatSize(report.bytes()), FormatCount(report.copies()) + " good copies",
                  Counted(report.versions(), "version"), Counted(report.values(), "value"));
  if (request.deep()) {
    text += fmt::format(", {} copies read", FormatCount(report.verified_copies()));
  }
  if (report.loss_count() > 0) {
    TILEKV_RETURN_IF_ERROR(out.Line(text + ": " + out.style().Red("something is lost")));
    return out.Line(
        "What is lost comes back when the same model or value is stored again from its "
        "source, or with a node that has it.");
  }
  if (report.degraded_count() > 0) {
    TILEKV_RETURN_IF_ERROR(
        out.Line(text + ": " + out.style().Red("degraded") + ", and everything can be read"));
    return out.Line(
        "What has too few copies is repaired by the nodes themselves: 'tilekv cluster "
        "status' shows how far they are.");
  }
  return out.Line(text + ": " + out.style().Green("well"));
}

absl::StatusOr<int> Check(Context& context, const Arguments& arguments) {
  v1::ClusterCheckRequest request;
  request.set_deep(arguments.Has("--deep"));
  // What is found damaged is marked so.
  if (request.deep()) context.set_access(Access::kChange);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::ClusterCheckResponse report,
                          store->node().ClusterCheck(request, context.call()));
  TILEKV_RETURN_IF_ERROR(PrintCheck(context.out(), request, report));
  if (report.loss_count() > 0) return kExitDataLoss;
  return report.degraded_count() > 0 ? kExitDiffers : kExitDone;
}

}  // namespace

CommandSpec ClusterCheckSpec() {
  return {.noun = "cluster",
          .verb = "check",
          .summary = "nodes, map, copies of every object, and what names need",
          .help =
              "Compares what names need with what all nodes hold. Severities: a note is nothing "
              "wrong; where something is degraded everything can be read, and something is not "
              "as it should be; a loss is what a name needs and no node gives out. The exit "
              "status is 0 where all is well, 1 where something is degraded, 6 where something "
              "is lost. With --deep every node reads all its copies first, which takes as long "
              "as its disk needs; damaged ones are taken out of use and repaired.",
          .flags = {{"--deep", "", "", "read and hash every copy at its node"}},
          .examples = {{"tilekv --store tilekv://n1 cluster check", ""},
                       {"tilekv --store tilekv://n1 cluster check --deep -o json", ""}},
          .access = Access::kRead,
          .handler = Check};
}

}  // namespace tilekv
