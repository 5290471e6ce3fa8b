// tilekv perf: what a store does, beside what its machine does without one.
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/perf.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/tile_reader.h"

namespace tilekv {
namespace {

constexpr int64_t kMostSeconds = 3'600;

constexpr uint64_t kLeastPerfBytes = 64 * kKiB;

// Whoever measures wants nothing else deleted: least of all names that were lost a moment ago,
// whose contents a collection would take.
constexpr char kLeftBehind[] =
    "what was stored has no name and takes its room until the next collection: a node's own, or "
    "'tilekv store gc'.";

struct PerfRow {
  std::string what;
  PerfFigure figure;
  PerfVerdict verdict;  // limit "": of the machine itself
};

std::vector<PerfRow> RowsOf(const PerfReport& report) {
  const PerfNeed hash{"hashing", report.hash.rate()};
  std::vector<PerfNeed> put = {hash};
  std::vector<PerfNeed> get = {hash};
  std::vector<PerfRow> rows = {{"hash", report.hash, {}}};
  std::string rest = "the store's own work";
  if (report.disk_write.has_value()) {
    rows.push_back({"disk write", *report.disk_write, {}});
    rows.push_back({"disk read", *report.disk_read, {}});
    put.push_back({"the disk", report.disk_write->rate()});
    get.push_back({"the disk", report.disk_read->rate()});
  }
  if (report.tcp.has_value()) {
    rows.push_back({"tcp", *report.tcp, {}});
    put.push_back({"the network", report.tcp->rate()});
    get.push_back({"the network", report.tcp->rate()});
    rest = report.disk_write.has_value() ? "the node's own work"
                                         : "the node: its disk, or its own work";
  } else if (!report.disk_write.has_value()) {
    rest = "not hashing: the network or the node, not measured";
  }
  rows.push_back({"put", report.put, JudgePerf(report.put, put, rest)});
  rows.push_back({"get", report.get, JudgePerf(report.get, get, rest)});
  rows.push_back({"slice", report.slice, JudgePerf(report.slice, get, rest)});
  return rows;
}

std::string LimitText(const PerfVerdict& verdict) {
  if (verdict.limit.empty()) return "-";
  if (verdict.passed.empty()) return verdict.limit;
  return fmt::format("{} (from memory: faster than {})", verdict.limit, verdict.passed);
}

Json RowJson(const PerfRow& row) {
  Json json;
  json["what"] = row.what;
  json["bytes"] = row.figure.bytes;
  json["seconds"] = row.figure.seconds;
  json["bytes_per_second"] = row.figure.rate();
  if (!row.verdict.limit.empty()) {
    json["share_of_machine"] = row.verdict.share;
    json["limit"] = row.verdict.limit;
    json["faster_than"] = row.verdict.passed;
  }
  return json;
}

absl::Status PrintReport(Context& context, const PerfReport& report, const std::string& uri) {
  const std::vector<PerfRow> rows = RowsOf(report);
  if (context.out().is_json()) {
    Json json;
    json["store"] = JsonText(uri);
    json["tile_bytes"] = report.tile_bytes;
    json["figures"] = Json::array();
    for (const PerfRow& row : rows) json["figures"].push_back(RowJson(row));
    json["not_measured"] = report.not_measured;
    json["left_bytes"] = report.put.bytes;
    return context.out().Document(json);
  }
  ListPrinter printer(context.out(), {{"WHAT"},
                                      {"BYTES", true},
                                      {"SECONDS", true},
                                      {"MB/S", true},
                                      {"OF MACHINE", true},
                                      {"LIMIT"}});
  for (const PerfRow& row : rows) {
    const PerfVerdict& verdict = row.verdict;
    TILEKV_RETURN_IF_ERROR(printer.Add(
        {{row.what, FormatSize(row.figure.bytes), fmt::format("{:.2f}", row.figure.seconds),
          fmt::format("{:.0f}", row.figure.rate() / 1e6),
          verdict.limit.empty() || verdict.share <= 0
              ? "-"
              : fmt::format("{:.0f} %", verdict.share * 100),
          LimitText(verdict)},
         nullptr}));
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  if (!report.not_measured.empty()) context.Remark(report.not_measured + ".");
  context.Remark(kLeftBehind);
  return absl::OkStatus();
}

absl::StatusOr<int> Perf(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> bytes, arguments.Size("--bytes"));
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> seconds, arguments.Number("--seconds"));
  if (bytes.value_or(kPerfBytes) < kLeastPerfBytes ||
      (seconds.has_value() && (*seconds == 0 || *seconds > kMostSeconds))) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("--bytes is at least {}, --seconds 1 to {}",
                                 FormatSizeShort(kLeastPerfBytes), kMostSeconds));
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  PerfOptions options{.bytes = bytes.value_or(kPerfBytes),
                      .seconds = static_cast<int64_t>(seconds.value_or(kPerfSeconds_s)),
                      .threads = DefaultThreads(0),
                      .disk_folder = arguments.Value("--disk").value_or(""),
                      .context = context.call()};
  absl::StatusOr<PerfReport> report = MeasureStore(*store, options);
  if (!report.ok()) {
    context.Remark(kLeftBehind);
    return report.status();
  }
  TILEKV_RETURN_IF_ERROR(PrintReport(context, *report, store->uri()));
  return kExitDone;
}

}  // namespace

CommandSpec PerfSpec() {
  return {
      .verb = "perf",
      .summary = "what the store does, beside what its machine does without one",
      .help =
          "Puts tiles of random bytes, gets them, and gets a slice of each; beside that it hashes, "
          "and writes and reads files in the store's directory (embedded) or sends over the "
          "loopback (a node on this machine; with --disk also files on its disk). The network to "
          "another machine cannot be measured from one end: run it there too, and compare. LIMIT "
          "names what is used up; what is faster than the disk came from memory. Nothing that is "
          "stored gets a name, and nothing is deleted: the next collection takes it (a node's "
          "own, or 'tilekv store gc').",
      .flags = {{"--bytes", "", "SIZE",
                 fmt::format("how much is stored at most (default: {})",
                             FormatSizeShort(kPerfBytes))},
                {"--seconds", "", "S",
                 fmt::format("time for each figure (default: {})", kPerfSeconds_s)},
                {"--disk", "", "FOLDER",
                 "a folder on the disk of a node on this machine, for files beside its own"}},
      .examples = {{"tilekv perf --store tilekv://localhost --disk /srv",
                    "a node on this machine"}},
      .access = Access::kChange,
      .handler = Perf};
}

}  // namespace tilekv
