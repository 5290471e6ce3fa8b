// tilekv model import, export, load, verify: content goes in, comes out, or is checked.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/explain.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/codec_choice.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/formats/source_folder.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/tile_reader.h"

namespace tilekv {
namespace {

// "user@host", for the version's record.
std::string Author() {
  const passwd* account = getpwuid(geteuid());
  const char* user = account == nullptr ? nullptr : account->pw_name;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return fmt::format("{}@{}", user == nullptr ? "unknown" : user, host);
}

std::function<void(const WriteProgress&)> Report(Progress& progress) {
  return [&progress](const WriteProgress& done) {
    progress.Update(done.done_bytes, done.total_bytes);
  };
}

std::string Rate(uint64_t bytes, double seconds) {
  if (seconds <= 0) return FormatSize(bytes);
  return fmt::format("{} in {:.1f} s, {}/s", FormatSize(bytes), seconds,
                     FormatSize(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)));
}

uint64_t PackedBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const TensorEntry& tensor : manifest.tensors) {
    for (const TileRef& tile : tensor.tiles) bytes += tile.is_part() ? tile.length_bytes : 0;
  }
  return bytes;
}

// Of a read of `bytes` with these statistics.
ExplainedRun ReadRun(const Context& context, ModelReader& reader, double seconds, uint64_t bytes,
                     const ReadStats& stats) {
  const auto threads = static_cast<uint64_t>(DefaultThreads(reader.options().threads));
  return {.store_uri = reader.store().uri(),
          .seconds = seconds,
          .bytes = bytes,
          .memory_bytes = context.options().memory_bytes,
          .threads = static_cast<int>(std::clamp<uint64_t>(stats.exchanges, 1, threads)),
          .packed_bytes = PackedBytes(reader.manifest())};
}

// What --explain adds to a command's result.
void Explain(const Explanation& explanation, std::string& text, Json& json) {
  text += "\n\n" + ExplanationText(explanation);
  json["explain"] = ExplanationJson(explanation);
}

FlagSpec ExplainFlag() {
  return {"--explain", "", "", "say where the time went, what limited it, what may help"};
}

// --- import

absl::StatusOr<SourceOptions> ReadSourceOptions(const Context& context,
                                                const Arguments& arguments) {
  SourceOptions options{.include = arguments.Values("--include"),
                        .exclude = arguments.Values("--exclude"),
                        .memory_bytes = context.options().memory_bytes};
  for (const std::string& given : arguments.Values("--dtype")) {
    size_t equals = given.rfind('=');
    bool named = equals != std::string::npos;
    SourceOptions::ArrayDType& added = options.dtypes.emplace_back();
    added.tensors = named ? given.substr(0, equals) : "*";
    TILEKV_ASSIGN_OR_RETURN(added.dtype, ParseDType(named ? given.substr(equals + 1) : given));
  }
  return options;
}

absl::StatusOr<WriteOptions> ReadWriteOptions(Context& context, const Arguments& arguments) {
  WriteOptions options{.tags = arguments.Values("--tag"),
                       .message = arguments.Value("--message").value_or(""),
                       .author = Author(),
                       .memory_bytes = context.options().memory_bytes,
                       .context = context.call()};
  for (const std::string& tag : options.tags) TILEKV_RETURN_IF_ERROR(CheckTag(tag));
  if (std::optional<std::string> layout = arguments.Value("--layout")) {
    TILEKV_ASSIGN_OR_RETURN(options.layout, ParseLayout(*layout));
  }
  if (std::optional<std::string> codec = arguments.Value("--codec")) {
    TILEKV_ASSIGN_OR_RETURN(options.codec, ParseCodec(*codec));
  }
  if (std::optional<std::string> base = arguments.Value("--base")) {
    TILEKV_ASSIGN_OR_RETURN(options.base, context.Model(*base));
  }
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> version, arguments.Number("--if-version"));
  if (version.has_value()) options.if_latest = WriteCondition::Version(*version);
  return options;
}

Json LeftOutJson(const ModelSource& source) {
  Json list = Json::array();
  for (const LeftOutFile& file : source.left_out()) {
    list.push_back(
        {{"path", JsonText(file.path)}, {"bytes", file.size_bytes}, {"why", JsonText(file.why)}});
  }
  return list;
}

void RemarkOnSource(const Context& context, const ModelSource& source) {
  for (const std::string& warning : source.warnings()) context.Remark("warning: " + warning);
  for (const LeftOutFile& file : source.left_out()) {
    context.Remark(fmt::format("left out: {} ({}): {}", Printable(file.path),
                               FormatSize(file.size_bytes), file.why));
  }
}

absl::Status PrintPlanJson(Output& out, const ModelSource& source, const WriteForecast& forecast) {
  Json json;
  json["tensors"] = Json::array();
  for (const WritePlanRow& row : forecast.rows) {
    json["tensors"].push_back({{"name", JsonText(row.name)},
                               {"dtype", DTypeName(row.dtype)},
                               {"shape", row.shape},
                               {"tile_shape", row.tile_shape},
                               {"tiles", row.tiles},
                               {"bytes", row.bytes}});
  }
  json["tiles"] = forecast.tiles;
  json["side_files"] = Json::array();
  for (const SourceSideFile& file : source.side_files()) {
    json["side_files"].push_back(
        {{"path", JsonText(file.path)}, {"bytes", file.identity.size_bytes}});
  }
  json["left_out"] = LeftOutJson(source);
  return out.Document(json);
}

absl::StatusOr<int> PrintPlan(Context& context, KvStore& store, const ModelName& target,
                              const ModelSource& source, const WriteOptions& options) {
  WriteInput input = InputFromSource(source);
  TILEKV_ASSIGN_OR_RETURN(WriteForecast forecast, PlanWrite(store, target, input, options));
  const std::vector<WritePlanRow>& plan = forecast.rows;
  if (context.out().is_json()) {
    TILEKV_RETURN_IF_ERROR(PrintPlanJson(context.out(), source, forecast));
    return kExitDone;
  }
  ListPrinter printer(
      context.out(), {{"TENSOR"}, {"DTYPE"}, {"SHAPE"}, {"TILE"}, {"TILES", true}, {"SIZE", true}});
  for (const WritePlanRow& row : plan) {
    TILEKV_RETURN_IF_ERROR(
        printer.Add({{Printable(row.name), std::string(DTypeName(row.dtype)),
                      FormatShape(row.shape), FormatShape(row.tile_shape),
                      row.tiles == 0 ? "pack" : FormatCount(row.tiles), FormatSize(row.bytes)},
                     nullptr}));
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish("no tensors"));
  context.Remark(fmt::format("would import {} ({}) in {}, and {}", Counted(plan.size(), "tensor"),
                             FormatSize(source.tensor_bytes()), Counted(forecast.tiles, "tile"),
                             Counted(source.side_files().size(), "side file")));
  return kExitDone;
}

absl::Status PrintImported(Context& context, const ModelSource& source, const WriteReport& report,
                           const ExplainedRun& run, bool explain) {
  Json json;
  json["model"] = VersionText(report.version);
  json.update(VersionJson(report.version));
  json["tiles"] = report.tiles;
  json["new_objects"] = report.new_objects;
  json["new_bytes"] = report.new_bytes;
  json["shared_objects"] = report.shared_objects;
  json["shared_bytes"] = report.shared_bytes;
  json["left_out"] = LeftOutJson(source);
  std::string tags = TagsText(report.version);
  std::string text =
      fmt::format("{}  {}\n{} in {}, {}\nnew: {} ({}); there already: {} ({})",
                  VersionText(report.version), tags, Counted(report.tensors, "tensor"),
                  Counted(report.tiles, "tile"), Rate(report.logical_bytes, run.seconds),
                  Counted(report.new_objects, "object"), FormatSize(report.new_bytes),
                  Counted(report.shared_objects, "object"), FormatSize(report.shared_bytes));
  if (explain) Explain(ExplainWrite(run, report.cost), text, json);
  return context.Done(text, json);
}

// Objects are found by their content, however they are stored: what is there already was not coded
// anew.
void RemarkOnCodec(const Context& context, const ModelName& target, const Arguments& arguments,
                   const WriteReport& report) {
  std::optional<std::string> codec = arguments.Value("--codec");
  if (!codec.has_value() || report.shared_bytes < kInlineContentBytes) return;
  context.Remark(fmt::format(
      "--codec {} is for what is new; {} there already stay stored as they were: 'tilekv store "
      "recode {} --codec {}' changes that",
      *codec, FormatSize(report.shared_bytes), target.ToString(), *codec));
}

absl::StatusOr<int> ModelImport(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName target, context.Model(arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(target, "import makes a new version of"));
  TILEKV_ASSIGN_OR_RETURN(SourceOptions source_options, ReadSourceOptions(context, arguments));
  TILEKV_ASSIGN_OR_RETURN(WriteOptions options, ReadWriteOptions(context, arguments));
  TILEKV_ASSIGN_OR_RETURN(ModelSource source,
                          OpenModelSource(*FileSystem::Posix(), arguments.Word(1), source_options));
  RemarkOnSource(context, source);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  if (arguments.Has("--dry-run")) return PrintPlan(context, *store, target, source, options);

  std::unique_ptr<Progress> progress = context.StartProgress("import");
  options.progress = Report(*progress);
  TILEKV_ASSIGN_OR_RETURN(WriteReport report, ImportModel(*store, target, source, options));
  progress->Finish();
  if (!report.applied) {
    return MakeError(Reason::kVersionConflict,
                     fmt::format("the latest version of '{}' is {}; nothing was imported",
                                 target.ToString(), report.latest_found));
  }
  ExplainedRun run{.store_uri = store->uri(),
                   .seconds = progress->seconds(),
                   .bytes = report.logical_bytes,
                   .memory_bytes = options.memory_bytes,
                   .threads = report.threads};
  TILEKV_RETURN_IF_ERROR(PrintImported(context, source, report, run, arguments.Has("--explain")));
  RemarkOnCodec(context, target, arguments, report);
  return kExitDone;
}

// --- export, load

// A tensor is not divided: the size that was asked for is then not that of every file.
void RemarkLargerThanShard(Context& context, const Manifest& manifest,
                           const ExportOptions& options) {
  if (options.max_shard_bytes == 0) return;
  auto larger = std::count_if(
      manifest.tensors.begin(), manifest.tensors.end(), [&](const TensorEntry& tensor) {
        return tensor.bytes() > options.max_shard_bytes &&
               (options.include.empty() || MatchesAny(options.include, tensor.name));
      });
  if (larger == 0) return;
  context.Remark(fmt::format("{} larger than --max-shard-size, alone in {}.",
                             Counted(static_cast<uint64_t>(larger), "tensor"),
                             larger == 1 ? "its file" : "their files"));
}

absl::StatusOr<int> ModelExport(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> shard, arguments.Size("--max-shard-size"));
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelReader> reader,
      OpenModel(context, arguments.Word(0), {.timed = arguments.Has("--explain")}));
  std::unique_ptr<Progress> progress = context.StartProgress("export");
  ExportOptions options{.max_shard_bytes = shard.value_or(0),
                        .include = arguments.Values("--include"),
                        .weights = !arguments.Has("--no-weights"),
                        .overwrite = context.options().yes,
                        .progress = Report(*progress)};
  TILEKV_ASSIGN_OR_RETURN(ExportReport report, ExportModel(*reader, arguments.Word(1), options));
  progress->Finish();
  Json json;
  json["model"] = reader->full_name();
  json["destination"] = JsonText(arguments.Word(1));
  json["files"] = Json::array();
  for (const std::string& file : report.files) json["files"].push_back(JsonText(file));
  json["tensors"] = report.tensors;
  json["bytes"] = report.bytes;
  json["as_imported"] = report.as_imported;
  std::string text = fmt::format(
      "{} to {}{}: {}, {}, {}{}", VersionText(reader->version()), report.is_folder ? "folder " : "",
      Printable(arguments.Word(1)), Counted(report.tensors, "tensor"),
      Counted(report.files.size(), "file"), Rate(report.bytes, progress->seconds()),
      report.as_imported ? "\nweights in the files that they were imported from" : "");
  if (arguments.Has("--explain")) {
    ExplainedRun run = ReadRun(context, *reader, progress->seconds(), report.bytes, report.read);
    Explain(ExplainRead(run, report.read, report.write_nanos), text, json);
  }
  TILEKV_RETURN_IF_ERROR(context.Done(text, json));
  RemarkLargerThanShard(context, reader->manifest(), options);
  return kExitDone;
}

absl::StatusOr<int> ModelLoad(Context& context, const Arguments& arguments) {
  if (arguments.Value("--to").value_or("null") != "null") {
    return MakeError(Reason::kInvalidArgument,
                     "load knows --to null only: every tile is read, verified and thrown away");
  }
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelReader> reader,
      OpenModel(context, arguments.Word(0),
                {.verify = !arguments.Has("--no-verify"), .timed = arguments.Has("--explain")}));
  std::unique_ptr<Progress> progress = context.StartProgress("load");
  TILEKV_ASSIGN_OR_RETURN(LoadReport report, LoadToNull(*reader, Report(*progress)));
  progress->Finish();
  double seconds = progress->seconds();
  Json json;
  json["model"] = reader->full_name();
  json["bytes"] = report.bytes;
  json["seconds"] = seconds;
  std::string text =
      fmt::format("{}: {}", VersionText(reader->version()), Rate(report.bytes, seconds));
  if (arguments.Has("--explain")) {
    ExplainedRun run = ReadRun(context, *reader, seconds, report.bytes, report.read);
    Explain(ExplainRead(run, report.read, 0), text, json);
  }
  TILEKV_RETURN_IF_ERROR(context.Done(text, json));
  return kExitDone;
}

// --- verify

absl::StatusOr<int> ModelVerify(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  std::unique_ptr<Progress> progress = context.StartProgress("verify");
  TILEKV_ASSIGN_OR_RETURN(VerifyReport report, VerifyModel(*reader, Report(*progress)));
  progress->Finish();
  bool sound = report.damages.empty();
  Output& out = context.out();
  if (out.is_json()) {
    Json json;
    json["model"] = reader->full_name();
    json["objects"] = report.objects;
    json["bytes"] = report.bytes;
    json["damages"] = Json::array();
    for (const Damage& damage : report.damages) {
      json["damages"].push_back(
          {{"where", JsonText(damage.where)}, {"text", JsonText(damage.text)}});
    }
    TILEKV_RETURN_IF_ERROR(out.Document(json));
    return sound ? kExitDone : kExitDiffers;
  }
  for (const Damage& damage : report.damages) {
    TILEKV_RETURN_IF_ERROR(
        out.Line(fmt::format("{}: {}", out.style().Red(damage.where), damage.text)));
  }
  std::string verdict = sound ? out.style().Green("sound")
                              : out.style().Red(fmt::format("{} damaged", report.damages.size()));
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("{}: {} objects read, {}: {}", VersionText(reader->version()),
                  FormatCount(report.objects), Rate(report.bytes, progress->seconds()), verdict),
      nullptr));
  return sound ? kExitDone : kExitDiffers;
}

CommandSpec ImportSpec() {
  return {
      .noun = "model",
      .verb = "import",
      .arguments = {{"MODEL", "[NS/]NAME of the model that gets a new version"},
                    {"SRC", "a .safetensors, .npy or .npz file, or a folder of them"}},
      .summary = "store a model from files as a new version",
      .help =
          "All or nothing: the headers of all files are checked first, and the version appears "
          "when everything is stored. Tensors are cut into tiles below the object limit; what "
          "the store has already is not sent again. Config and tokenizer files travel along.",
      .flags =
          {{"--tag", "", "T", "a tag for the new version", true},
           {"--message", "-m", "TEXT", "what this version is"},
           {"--if-version", "", "N", "only if N is the latest version; 0: only if there is none"},
           {"--base", "", "MODEL",
            "take the tile shapes of this version, to share its tiles (default: the latest)"},
           {"--layout", "", "L", "auto, rows, bands, or a tile shape such as 1024x512"},
           {"--codec", "", "C", "how tiles are stored: auto, none, zstd or planes (default: none)"},
           {"--dtype", "", "[T=]D",
            "dtype of arrays that do not name one, such as BF16; T: only of tensors like T", true},
           {"--include", "", "G", "take files like G along that would be left out", true},
           {"--exclude", "", "G", "leave out files like G", true},
           {"--dry-run", "", "", "show how tensors would be cut; store nothing"},
           ExplainFlag()},
      .examples = {{"tilekv model import minilm ./all-MiniLM-L6-v2 --tag first", "a folder"},
                   {"tilekv model import matrix weights.npy", "one matrix"},
                   {"tilekv model import params params.npz --dtype 'h.*=BF16'",
                    "arrays that NumPy saved as raw bytes"}},
      .access = Access::kWrite,
      .handler = ModelImport};
}

CommandSpec ExportSpec() {
  return {
      .noun = "model",
      .verb = "export",
      .arguments = {{"MODEL", "[NS/]NAME[@VERSION]"},
                    {"DST", "a .safetensors or .npy file, or a folder"}},
      .summary = "write a model to files",
      .help =
          "Safetensors files come out as they went in, byte for byte. They appear when they are "
          "complete; existing ones need -y.",
      .flags = {{"--max-shard-size", "", "SIZE",
                 "several files of at most SIZE, with an index, in a folder"},
                {"--include", "", "G", "only tensors like G", true},
                {"--no-weights", "", "", "side files only"},
                ExplainFlag()},
      .examples = {{"tilekv model export minilm@first ./minilm", ""},
                   {"tilekv model export llama ./llama --max-shard-size 5GB", ""}},
      .access = Access::kRead,
      .handler = ModelExport};
}

}  // namespace

std::vector<CommandSpec> ModelFileCommandSpecs() {
  const ArgumentSpec model = {"MODEL", "[NS/]NAME[@VERSION]"};
  return {
      ImportSpec(),
      ExportSpec(),
      {.noun = "model",
       .verb = "load",
       .arguments = {model},
       .summary = "stream a model and throw it away: what a load costs",
       .flags = {{"--to", "", "null", "where it goes; null, the only place, is the default"},
                 {"--no-verify", "", "", "do not check tiles to their hashes"},
                 ExplainFlag()},
       .examples = {{"tilekv model load minilm --to null --memory 64MiB", "within a budget"},
                    {"tilekv model load minilm --explain", "where the time goes"}},
       .access = Access::kRead,
       .handler = ModelLoad},
      {.noun = "model",
       .verb = "verify",
       .arguments = {model},
       .summary = "read every object of a version and check it",
       .help = "Goes on after damage and lists all of it. Exits with 1 when there is any.",
       .access = Access::kRead,
       .handler = ModelVerify},
  };
}

}  // namespace tilekv
