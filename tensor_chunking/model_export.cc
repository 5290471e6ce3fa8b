#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/export_plan.h"
#include "tensor_chunking/formats/file_kinds.h"
#include "tensor_chunking/formats/output_file.h"
#include "tensor_chunking/formats/source_folder.h"
#include "tensor_chunking/formats/tensor_file_writer.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// What was done so far: told as it goes, and what it cost.
class Progress {
 public:
  Progress(const ModelReader& reader, const ExportOptions& options, uint64_t total_bytes)
      : options_(options), timed_(reader.options().timed) {
    progress_.total_bytes = total_bytes;
  }
  void Add(uint64_t bytes) {
    progress_.done_bytes += bytes;
    if (options_.progress != nullptr) options_.progress(progress_);
  }
  void AddRead(const ReadStats& stats) { read_.Add(stats); }
  // Where the time of writing to the destination is added; null where nobody wants it.
  int64_t* write_nanos() { return timed_ ? &write_nanos_ : nullptr; }
  void Report(ExportReport& report) const {
    report.read = read_;
    report.write_nanos = write_nanos_;
  }

 private:
  const ExportOptions& options_;
  const bool timed_;
  WriteProgress progress_;
  ReadStats read_;
  int64_t write_nanos_ = 0;
};

// The content of a file's slots in their order, piece by piece.
absl::Status ForEachPiece(ModelReader& reader, const std::vector<std::string>& tensors,
                          Progress& progress,
                          const std::function<absl::Status(const StreamedPiece&)>& visit) {
  if (tensors.empty()) return absl::OkStatus();
  uint64_t piece_bytes = std::max(reader.budget().total_bytes() / 4, kLeastTileBytes);
  TILEKV_ASSIGN_OR_RETURN(auto stream, reader.StreamPieces(tensors, piece_bytes));
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(auto piece, stream->Next());
    if (!piece.has_value()) {
      progress.AddRead(stream->stats());
      return absl::OkStatus();
    }
    progress.Add(piece->content.size());
    TimedScope writing(progress.write_nanos());
    TILEKV_RETURN_IF_ERROR(visit(*piece));
  }
}

absl::Status WriteTensorFile(ModelReader& reader, ExportFile file, const std::string& path,
                             bool overwrite, Progress& progress) {
  TILEKV_ASSIGN_OR_RETURN(auto writer, TensorFileWriter::Create(*FileSystem::Posix(), path,
                                                                std::move(file.plan), overwrite));
  progress.Add(writer->plan().head.size());
  TILEKV_RETURN_IF_ERROR(
      ForEachPiece(reader, file.tensors, progress, [&](const StreamedPiece& piece) {
        return writer->Write(piece.index, piece.offset_bytes, piece.content.span());
      }));
  TimedScope writing(progress.write_nanos());
  return writer->Finish();
}

absl::Status CreateParents(const std::string& folder, const std::string& relative) {
  for (size_t slash = relative.find('/'); slash != std::string::npos;
       slash = relative.find('/', slash + 1)) {
    TILEKV_RETURN_IF_ERROR(
        FileSystem::Posix()->CreateDirectory(folder + "/" + relative.substr(0, slash)));
  }
  return absl::OkStatus();
}

// A sink into a file that appears whole or not at all.
class FileSink : public ByteSink {
 public:
  FileSink(OutputFile& file, Progress& progress) : file_(file), progress_(progress) {}
  absl::Status Append(Bytes piece) override {
    progress_.Add(piece.size());
    uint64_t at = offset_;
    offset_ += piece.size();
    return file_.WriteAt(at, piece);
  }

 private:
  OutputFile& file_;
  Progress& progress_;
  uint64_t offset_ = 0;
};

absl::Status WriteSideFile(ModelReader& reader, const SideFile& file, const std::string& folder,
                           bool overwrite, Progress& progress) {
  TILEKV_ASSIGN_OR_RETURN(
      auto out, OutputFile::Create(*FileSystem::Posix(), folder + "/" + file.path, overwrite));
  FileSink sink(*out, progress);
  TILEKV_RETURN_IF_ERROR(reader.ReadSideFile(file, sink));
  return out->Commit();
}

absl::Status WriteText(const std::string& path, const std::string& text, bool overwrite) {
  TILEKV_ASSIGN_OR_RETURN(auto out, OutputFile::Create(*FileSystem::Posix(), path, overwrite));
  TILEKV_RETURN_IF_ERROR(out->WriteAt(0, AsBytes(text)));
  return out->Commit();
}

// Every file of an export, relative to its folder.
std::vector<std::string> PathsOf(const ExportPlan& plan, const Manifest& manifest) {
  std::vector<std::string> paths;
  for (const ExportFile& file : plan.files) paths.push_back(file.path);
  for (const SideFile& file : manifest.side_files) paths.push_back(file.path);
  if (!plan.index_path.empty()) paths.push_back(plan.index_path);
  return paths;
}

absl::Status CheckPaths(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  std::set<std::string> files;
  for (const std::string& path : paths) {
    // Stored paths were checked when they were written, by whatever wrote them: again before they
    // touch a disk.
    TILEKV_RETURN_IF_ERROR(CheckRelativePath(path, Reason::kDataLoss));
    bool collides = !files.insert(path).second;
    for (size_t slash = path.find('/'); slash != std::string::npos && !collides;
         slash = path.find('/', slash + 1)) {
      collides = files.contains(path.substr(0, slash));
    }
    if (collides) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("two files of the export want the place '{}'; export with "
                                   "--no-weights into one folder and the weights to a file "
                                   "elsewhere",
                                   Printable(path)));
    }
  }
  return absl::OkStatus();
}

// What is in the folder already: nothing of ours without `overwrite`, and no weights beside ours
// that a reader of the folder would take for the model's.
absl::Status CheckFolder(const std::string& folder, const std::vector<std::string>& paths,
                         bool weights, bool overwrite) {
  FileSystem& fs = *FileSystem::Posix();
  TILEKV_ASSIGN_OR_RETURN(bool exists, fs.Exists(folder));
  if (!exists) return absl::OkStatus();
  for (const std::string& path : paths) {
    TILEKV_ASSIGN_OR_RETURN(bool there, fs.Exists(folder + "/" + path));
    if (there && !overwrite) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("'{}' exists already; -y overwrites it, and nothing was written",
                                   Printable(folder + "/" + path)));
    }
  }
  if (!weights) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names) {
    bool ours = std::find(paths.begin(), paths.end(), name) != paths.end();
    if (ours || !(EndsWith(name, ".safetensors") || EndsWith(name, ".safetensors.index.json"))) {
      continue;
    }
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' is not part of this export and would be taken for the "
                                 "model's; remove it or choose another folder",
                                 Printable(folder + "/" + name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportReport> ExportFolder(ModelReader& reader, const std::string& folder,
                                          const ExportOptions& options) {
  ExportPlan plan;
  if (options.weights) {
    TILEKV_ASSIGN_OR_RETURN(plan, PlanExport(reader, options, false));
  }
  std::vector<std::string> paths = PathsOf(plan, reader.manifest());
  TILEKV_RETURN_IF_ERROR(CheckPaths(paths));
  TILEKV_RETURN_IF_ERROR(CheckFolder(folder, paths, options.weights, options.overwrite));
  uint64_t total = plan.bytes;
  for (const SideFile& file : reader.manifest().side_files) total += file.content.length_bytes;
  Progress progress(reader, options, total);
  ExportReport report{.is_folder = true,
                      .files = {},
                      .tensors = plan.tensors,
                      .bytes = total,
                      .as_imported = plan.as_imported};
  FileSystem& fs = *FileSystem::Posix();
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(folder));
  for (const std::string& path : paths) {
    TILEKV_RETURN_IF_ERROR(CreateParents(folder, path));
    report.files.push_back(folder + "/" + path);
  }
  if (!plan.index_path.empty()) {
    // An index is written last, and an older one goes first: a folder is never taken for whole
    // before it is.
    absl::Status removed = fs.Unlink(folder + "/" + plan.index_path);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  for (ExportFile& file : plan.files) {
    std::string path = folder + "/" + file.path;
    TILEKV_RETURN_IF_ERROR(
        WriteTensorFile(reader, std::move(file), path, options.overwrite, progress));
  }
  for (const SideFile& file : reader.manifest().side_files) {
    TILEKV_RETURN_IF_ERROR(WriteSideFile(reader, file, folder, options.overwrite, progress));
  }
  if (!plan.index_path.empty()) {
    TILEKV_RETURN_IF_ERROR(
        WriteText(folder + "/" + plan.index_path, plan.index_content, options.overwrite));
  }
  progress.Report(report);
  return report;
}

absl::StatusOr<ExportReport> ExportSafetensors(ModelReader& reader, const std::string& path,
                                               const ExportOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(ExportPlan plan, PlanExport(reader, options, true));
  Progress progress(reader, options, plan.bytes);
  TILEKV_RETURN_IF_ERROR(
      WriteTensorFile(reader, std::move(plan.files[0]), path, options.overwrite, progress));
  ExportReport report{.files = {path},
                      .tensors = plan.tensors,
                      .bytes = plan.bytes,
                      .as_imported = plan.as_imported};
  progress.Report(report);
  return report;
}

// One tensor as .npy, content taken as a stream of row ranges.
absl::Status WriteNpy(ModelReader& reader, const TensorEntry& entry, const std::string& path,
                      bool overwrite, Progress& progress) {
  ExportFile file{.path = path, .tensors = {entry.name}};
  TILEKV_ASSIGN_OR_RETURN(file.plan, PlanNpyFile({entry.name, entry.dtype, entry.shape}));
  return WriteTensorFile(reader, std::move(file), path, overwrite, progress);
}

absl::StatusOr<ExportReport> ExportNpy(ModelReader& reader, const std::string& path,
                                       const ExportOptions& options) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : reader.manifest().tensors) {
    if (options.include.empty() || MatchesAny(options.include, entry.name)) {
      names.push_back(entry.name);
    }
  }
  if (names.size() != 1) {
    return MakeError(
        Reason::kInvalidArgument,
        options.include.empty()
            ? fmt::format("a .npy file holds one tensor, {} has {}; use 'tilekv tensor get'",
                          reader.full_name(), names.size())
        : names.empty()
            ? NoTensorMatches(reader.manifest(), options)
            : fmt::format("a .npy file holds one tensor, --include matches {}", names.size()));
  }
  TILEKV_ASSIGN_OR_RETURN(auto entry, reader.Find(names[0]));
  Progress progress(reader, options, entry->bytes());
  TILEKV_RETURN_IF_ERROR(WriteNpy(reader, *entry, path, options.overwrite, progress));
  ExportReport report{.files = {path}, .tensors = 1, .bytes = entry->bytes()};
  progress.Report(report);
  return report;
}

// What was asked for and the destination cannot give is an error, never passed over.
absl::Status CheckOptions(const ExportOptions& options, bool one_file) {
  auto refuse = [](std::string text) {
    return MakeError(Reason::kInvalidArgument, std::move(text));
  };
  if (one_file && !options.weights) return refuse("without weights the destination is a folder");
  if (one_file && options.max_shard_bytes > 0) {
    return refuse("--max-shard-size makes several files: the destination is then a folder");
  }
  if (!options.weights && options.max_shard_bytes > 0) {
    return refuse("--max-shard-size cuts weights, which --no-weights leaves out");
  }
  if (!options.weights && !options.include.empty()) {
    return refuse("--include chooses tensors, which --no-weights leaves out");
  }
  return absl::OkStatus();
}

// A folder under the name of a file that is not written would be taken for one.
absl::Status CheckFolderName(const std::string& destination) {
  std::string_view what = DescribeForeignWeights(destination).what;
  if (EndsWith(destination, ".npz")) what = "an archive of NumPy";
  if (what.empty()) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' would be {}, which is not written; name a .safetensors or "
                               ".npy file, or a folder",
                               Printable(destination), what));
}

}  // namespace

absl::StatusOr<ExportReport> ExportModel(ModelReader& reader, const std::string& destination,
                                         const ExportOptions& options) {
  bool one_file = EndsWith(destination, ".safetensors") || EndsWith(destination, ".npy");
  TILEKV_RETURN_IF_ERROR(CheckOptions(options, one_file));
  if (!one_file) TILEKV_RETURN_IF_ERROR(CheckFolderName(destination));
  if (EndsWith(destination, ".safetensors")) return ExportSafetensors(reader, destination, options);
  if (EndsWith(destination, ".npy")) return ExportNpy(reader, destination, options);
  return ExportFolder(reader, destination, options);
}

absl::StatusOr<ExportReport> ExportModelToSink(ModelReader& reader, ByteSink& sink,
                                               const ExportOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(ExportPlan plan, PlanExport(reader, options, true));
  Progress progress(reader, options, plan.bytes);
  ExportFile& file = plan.files[0];
  TensorStreamWriter writer(sink, std::move(file.plan));
  TILEKV_RETURN_IF_ERROR(writer.Begin());
  TILEKV_RETURN_IF_ERROR(ForEachPiece(
      reader, file.tensors, progress,
      [&](const StreamedPiece& piece) { return writer.Append(piece.content.span()); }));
  TILEKV_RETURN_IF_ERROR(writer.Finish());
  ExportReport report{
      .tensors = plan.tensors, .bytes = plan.bytes, .as_imported = plan.as_imported};
  progress.Report(report);
  return report;
}

}  // namespace tilekv
