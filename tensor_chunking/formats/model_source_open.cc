// Opening a model: which files it has, their headers, and whether they fit together.
#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "tensor_chunking/formats/file_kinds.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/formats/text_list.h"

namespace tilekv {
namespace {

constexpr std::string_view kNpySuffix = ".npy";
constexpr std::string_view kNpzSuffix = ".npz";
constexpr std::string_view kZipStart = "PK";  // of every zip archive's first bytes

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Reason::kInvalidFile, fmt::format(format, std::forward<Args>(args)...));
}

std::string Quoted(std::string_view name) { return fmt::format("'{}'", Printable(name)); }

}  // namespace

class ModelSourceOpener {
 public:
  ModelSourceOpener(FileSystem& fs, std::string path, const SourceOptions& options)
      : path_(std::move(path)), options_(options) {
    source_.fs_ = &fs;
    source_.cache_ = std::make_unique<FileCache>(fs);
  }

  absl::StatusOr<ModelSource> Run() {
    absl::StatusOr<FileInfo> found = source_.fs_->Stat(path_);
    if (absl::IsNotFound(found.status())) {
      return MakeError(Reason::kNotFound, fmt::format("'{}' is not there", Printable(path_)));
    }
    TILEKV_ASSIGN_OR_RETURN(FileInfo info, found);
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    if (info.kind == FileInfo::Kind::kDirectory) {
      source_.folder_ = path_;
      TILEKV_RETURN_IF_ERROR(OpenFolder());
    } else if (info.kind == FileInfo::Kind::kFile) {
      TILEKV_RETURN_IF_ERROR(OpenSingleFile(info));
    } else {
      return Invalid("'{}' is neither a file nor a folder", Printable(path_));
    }
    MergeMetadata();
    DropDerivableHeader();
    auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(source_.side_files_.begin(), source_.side_files_.end(), by_path);
    std::sort(source_.left_out_.begin(), source_.left_out_.end(), by_path);
    return std::move(source_);
  }

 private:
  // --- which files ---

  absl::Status OpenSingleFile(const FileInfo& info) {
    size_t slash = path_.rfind('/');
    FolderFile file{path_.substr(slash + 1), info};
    source_.folder_ = slash == std::string::npos ? "" : slash == 0 ? "/." : path_.substr(0, slash);
    if (HasSuffix(file.path, kNpySuffix) || HasSuffix(file.path, kNpzSuffix)) {
      TILEKV_RETURN_IF_ERROR(AddArrays(file));
    } else if (HasSuffix(file.path, ".safetensors")) {
      TILEKV_RETURN_IF_ERROR(AddSafetensors(file));
    } else {
      TILEKV_RETURN_IF_ERROR(AddByContent(file));
    }
    return OrderTensors();
  }

  // A file without a telling name, as the blobs of a download cache are.
  absl::Status AddByContent(const FolderFile& file) {
    TILEKV_ASSIGN_OR_RETURN(std::string start, ReadStart(file));
    if (ForeignWeights placeholder = DescribePlaceholder(start); !placeholder.what.empty()) {
      return Invalid("'{}' is {}. {}", Printable(file.path), placeholder.what, placeholder.remedy);
    }
    ForeignWeights foreign = DescribeForeignWeights(file.path);
    if (!foreign.what.empty()) {
      return Invalid("'{}' is {}, which is not imported and never unpickled. {}",
                     Printable(file.path), foreign.what, foreign.remedy);
    }
    if (start.starts_with("\x93NUMPY")) return AddNpy(file);
    if (start.size() > kSafetensorsLengthBytes && start[kSafetensorsLengthBytes] == '{') {
      return AddSafetensors(file);
    }
    std::string_view stranger = DescribeStranger(start);
    return Invalid(
        "'{}' is {}; models are imported from .safetensors, .npy and .npz files and "
        "folders of them",
        Printable(file.path), stranger.empty() ? "of no known kind" : stranger);
  }

  absl::Status OpenFolder() {
    TILEKV_ASSIGN_OR_RETURN(FolderListing listing,
                            ListFolder(*source_.fs_, path_, options_.exclude));
    TILEKV_ASSIGN_OR_RETURN(FolderPlan plan,
                            PlanFolder(*source_.fs_, std::move(listing), path_, options_.include));
    std::optional<SafetensorsIndex> index;
    if (plan.kind == FolderKind::kIndexed) {
      TILEKV_ASSIGN_OR_RETURN(index, ReadIndex(plan));
      TILEKV_RETURN_IF_ERROR(KeepShardsOnly(*index, plan));
    }
    for (const FolderFile& file : plan.weights) {
      TILEKV_RETURN_IF_ERROR(plan.kind == FolderKind::kArrays ? AddArrays(file)
                                                              : AddSafetensors(file));
    }
    for (const FolderFile& file : plan.rest) {
      source_.side_files_.push_back({file.path, file.info});
    }
    source_.left_out_ = std::move(plan.left_out);
    TILEKV_RETURN_IF_ERROR(WarnOfPointers(plan.rest));
    WarnOfTensorsInside(plan.rest);
    TILEKV_RETURN_IF_ERROR(OrderTensors());
    return index.has_value() ? CheckAgainstIndex(*index) : absl::OkStatus();
  }

  // A side file that is a Git-LFS pointer is kept, but hardly what was meant.
  absl::Status WarnOfPointers(const std::vector<FolderFile>& side_files) {
    std::vector<std::string> pointers;
    for (const FolderFile& file : side_files) {
      if (file.info.size_bytes > kGitLfsPointerBytes) continue;
      TILEKV_ASSIGN_OR_RETURN(std::string start, ReadStart(file));
      if (IsGitLfsPointer(start)) pointers.push_back(Quoted(file.path));
    }
    if (!pointers.empty()) {
      source_.warnings_.push_back(fmt::format(
          "side files that are Git-LFS pointers, not the files themselves (run 'git lfs pull'): {}",
          ListForMessage(pointers)));
    }
    return absl::OkStatus();
  }

  // Arrays beside safetensors, and weights in sub-folders: kept, but their tensors are not the
  // model's.
  void WarnOfTensorsInside(const std::vector<FolderFile>& side_files) {
    std::vector<std::string> shown;
    for (const FolderFile& file : side_files) {
      if (HasSuffix(file.path, ".safetensors") || HasSuffix(file.path, kNpySuffix) ||
          HasSuffix(file.path, kNpzSuffix)) {
        shown.push_back(Quoted(file.path));
      }
    }
    if (shown.empty()) return;
    source_.warnings_.push_back(fmt::format(
        "taken along as side files, their tensors not as the model's: {}", ListForMessage(shown)));
  }

  absl::StatusOr<SafetensorsIndex> ReadIndex(const FolderPlan& plan) {
    SourceIndexFile file;
    file.path = plan.index;
    TILEKV_ASSIGN_OR_RETURN(file.identity, source_.fs_->Stat(source_.FullPath(plan.index)));
    TILEKV_ASSIGN_OR_RETURN(file.content, ReadFile(*source_.fs_, source_.FullPath(plan.index),
                                                   kMaxSafetensorsHeaderBytes));
    if (std::string_view stranger = DescribeStranger(file.content); !stranger.empty()) {
      return Invalid("'{}' is {}", Printable(file.path), stranger);
    }
    source_.index_ = std::move(file);
    return ParseSafetensorsIndex(source_.index_->content, plan.index);
  }

  // Weights become the index's shards, wherever in the folder they are; other safetensors files
  // beside them are left out.
  absl::Status KeepShardsOnly(const SafetensorsIndex& index, FolderPlan& plan) {
    std::set<std::string, std::less<>> shards(index.shards.begin(), index.shards.end());
    std::vector<FolderFile> weights;
    std::vector<FolderFile> rest;
    auto sort_out = [&](std::vector<FolderFile>& files, bool beside) {
      for (FolderFile& file : files) {
        if (shards.erase(file.path) > 0) {
          weights.push_back(std::move(file));
        } else if (!beside || MatchesAny(options_.include, file.path)) {
          rest.push_back(std::move(file));
        } else {
          plan.left_out.push_back({file.path, file.info.size_bytes, "not named by the index"});
        }
      }
    };
    sort_out(plan.weights, true);
    sort_out(plan.rest, false);
    if (!shards.empty()) {
      std::vector<std::string> missing;
      for (const std::string& shard : shards) missing.push_back(Quoted(shard));
      return Invalid("'{}' names shards that are not there: {}", Printable(plan.index),
                     ListForMessage(missing));
    }
    std::sort(weights.begin(), weights.end(),
              [](const FolderFile& a, const FolderFile& b) { return a.path < b.path; });
    plan.weights = std::move(weights);
    plan.rest = std::move(rest);
    return absl::OkStatus();
  }

  // --- their headers ---

  absl::StatusOr<std::string> ReadStart(const FolderFile& file) {
    std::string start(std::min<uint64_t>(kSafetensorsStartBytes, file.info.size_bytes), '\0');
    TILEKV_RETURN_IF_ERROR(Read(file, start));
    return start;
  }
  absl::Status Read(const FolderFile& file, std::string& out) {
    return source_.cache_->ReadAt(source_.FullPath(file.path), 0,
                                  {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  }

  absl::Status AddSafetensors(const FolderFile& file) {
    uint64_t size = file.info.size_bytes;
    TILEKV_ASSIGN_OR_RETURN(std::string start, ReadStart(file));
    TILEKV_ASSIGN_OR_RETURN(uint64_t length,
                            SafetensorsHeaderLength(AsBytes(start), size, file.path));
    TILEKV_RETURN_IF_ERROR(
        TakeMemory(file, kSafetensorsLengthBytes + length + SafetensorsTableBytes(length)));
    std::string header(kSafetensorsLengthBytes + length, '\0');
    TILEKV_RETURN_IF_ERROR(Read(file, header));
    ModelSource::Tables tables;
    TILEKV_ASSIGN_OR_RETURN(
        tables.safetensors,
        ParseSafetensorsHeader(std::string_view(header).substr(kSafetensorsLengthBytes), size,
                               file.path));
    memory_bytes_ += header.capacity() + tables.safetensors.tensors.memory_bytes() +
                     length / 4;  // by_name, and what sorts the tensors of several files
    source_.files_.push_back({.path = file.path,
                              .kind = WeightFile::Kind::kSafetensors,
                              .identity = file.info,
                              .header = std::move(header)});
    source_.tables_.push_back(std::move(tables));
    return absl::OkStatus();
  }

  // Beside what the files before it hold.
  absl::Status TakeMemory(const FolderFile& file, uint64_t bytes) const {
    if (memory_bytes_ + bytes <= options_.memory_bytes) return absl::OkStatus();
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format(
            "'{}': reading its header can take {} of memory{}, more than the {} that "
            "--memory gives; give at least {}",
            Printable(file.path), FormatSize(bytes),
            memory_bytes_ == 0
                ? ""
                : fmt::format(" beside {} for the files before it", FormatSize(memory_bytes_)),
            FormatSize(options_.memory_bytes), FormatSize(RoundUp(memory_bytes_ + bytes, kMiB))));
  }

  std::optional<DType> ArrayDType(std::string_view tensor) const {
    for (const SourceOptions::ArrayDType& given : options_.dtypes) {
      if (MatchesAny({given.tensors}, std::string(tensor))) return given.dtype;
    }
    return std::nullopt;
  }

  absl::Status AddArrays(const FolderFile& file) {
    return HasSuffix(file.path, kNpzSuffix) ? AddNpz(file) : AddNpy(file);
  }

  absl::Status AddNpy(const FolderFile& file) {
    uint64_t size = file.info.size_bytes;
    TILEKV_ASSIGN_OR_RETURN(std::string preamble, ReadStart(file));
    TILEKV_ASSIGN_OR_RETURN(uint64_t data_start, NpyDataStart(AsBytes(preamble), size, file.path));
    preamble.resize(data_start);
    TILEKV_RETURN_IF_ERROR(Read(file, preamble));
    std::string_view name = file.path;
    if (HasSuffix(name, kNpySuffix)) name.remove_suffix(kNpySuffix.size());
    if (!IsValidUtf8(name)) {
      return Invalid("'{}': its name is to be the tensor's, but is not UTF-8; rename it",
                     Printable(file.path));
    }
    ModelSource::Tables tables;
    TILEKV_ASSIGN_OR_RETURN(tables.npy,
                            ParseNpyHeader(AsBytes(preamble), size, file.path, ArrayDType(name)));
    tables.npy_name = name;
    source_.files_.push_back(
        {.path = file.path, .kind = WeightFile::Kind::kNpy, .identity = file.info, .header = {}});
    source_.tables_.push_back(std::move(tables));
    return absl::OkStatus();
  }

  absl::Status AddNpz(const FolderFile& file) {
    TILEKV_ASSIGN_OR_RETURN(std::string start, ReadStart(file));
    std::string_view stranger = DescribeStranger(start);
    if (!start.starts_with(kZipStart) && !stranger.empty()) {
      return Invalid("'{}': not an .npz file, but {}", Printable(file.path), stranger);
    }
    auto read = [&](uint64_t at, MutableBytes to) {
      return source_.cache_->ReadAt(source_.FullPath(file.path), at, to);
    };
    ModelSource::Tables tables;
    TILEKV_ASSIGN_OR_RETURN(
        tables.npz, NpzFile::Open(read, file.info.size_bytes, file.path,
                                  [&](std::string_view tensor) { return ArrayDType(tensor); }));
    memory_bytes_ += tables.npz.memory_bytes();
    TILEKV_RETURN_IF_ERROR(TakeMemory(file, 0));
    AddCopies(tables);
    source_.files_.push_back(
        {.path = file.path, .kind = WeightFile::Kind::kNpz, .identity = file.info, .header = {}});
    source_.tables_.push_back(std::move(tables));
    return absl::OkStatus();
  }

  // Of arrays whose readers jump within what can only be decoded forwards.
  void AddCopies(ModelSource::Tables& tables) {
    for (uint32_t row = 0; row < tables.npz.members().size(); ++row) {
      const NpzFile::Member& member = tables.npz.members()[row];
      if (!member.content->member().deflated || !member.header.fortran_order ||
          member.header.data_bytes < kLeastCopiedBytes) {
        continue;
      }
      tables.copies.emplace(row, std::make_unique<InflatedCopy>(*source_.fs_, *member.content));
    }
  }

  // --- whether they fit together ---

  absl::Status OrderTensors() {
    std::vector<ModelSource::TensorRef>& order = source_.order_;
    size_t count = 0;
    for (size_t f = 0; f < source_.files_.size(); ++f) count += RowsOf(f);
    order.reserve(count);
    for (uint32_t f = 0; f < source_.files_.size(); ++f) {
      bool safetensors = source_.files_[f].kind == WeightFile::Kind::kSafetensors;
      for (uint32_t i = 0; i < RowsOf(f); ++i) {
        order.push_back({f, safetensors ? source_.tables_[f].safetensors.by_name[i] : i});
      }
      // Each file's tables are only walked by row from here on.
      source_.tables_[f].safetensors.by_name = std::vector<uint32_t>();
    }
    if (source_.files_.size() > 1) {
      std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
        int compared = NameOf(a).compare(NameOf(b));
        return compared != 0 ? compared < 0 : a.file < b.file;
      });
    }
    std::vector<std::string> twice;
    for (size_t i = 0; i < order.size(); ++i) {
      source_.tensor_bytes_ += source_.tensor(i).length_bytes;
      if (i == 0 || NameOf(order[i - 1]) != NameOf(order[i])) continue;
      twice.push_back(fmt::format("'{}' in {} and {}", Printable(NameOf(order[i])),
                                  Quoted(source_.files_[order[i - 1].file].path),
                                  Quoted(source_.files_[order[i].file].path)));
    }
    if (twice.empty()) return absl::OkStatus();
    return Invalid(
        "'{}': tensors in two files: {}. If the files are variants of one model, --exclude leaves "
        "all but one out",
        Printable(path_), ListForMessage(twice));
  }

  size_t RowsOf(size_t file) const {
    const ModelSource::Tables& tables = source_.tables_[file];
    switch (source_.files_[file].kind) {
      case WeightFile::Kind::kSafetensors:
        return tables.safetensors.tensors.size();
      case WeightFile::Kind::kNpy:
        return 1;
      case WeightFile::Kind::kNpz:
        return tables.npz.members().size();
    }
    return 0;
  }
  std::string_view NameOf(const ModelSource::TensorRef& ref) const {
    const ModelSource::Tables& tables = source_.tables_[ref.file];
    switch (source_.files_[ref.file].kind) {
      case WeightFile::Kind::kSafetensors:
        return tables.safetensors.tensors[ref.row].name;
      case WeightFile::Kind::kNpy:
        return tables.npy_name;
      case WeightFile::Kind::kNpz:
        return tables.npz.members()[ref.row].tensor;
    }
    return {};
  }

  // Both sides are in name order: one walk over them.
  absl::Status CheckAgainstIndex(const SafetensorsIndex& index) {
    std::vector<std::string> missing;
    std::vector<std::string> elsewhere;
    std::vector<std::string> unnamed;
    size_t e = 0;
    size_t t = 0;
    const auto& order = source_.order_;
    while (e < index.entries.size() || t < order.size()) {
      int compared = e == index.entries.size() ? 1
                     : t == order.size()       ? -1
                                               : index.entries[e].tensor.compare(NameOf(order[t]));
      if (compared < 0) {
        missing.push_back(InShard(index.entries[e].tensor, index.shards[index.entries[e].shard]));
        ++e;
      } else if (compared > 0) {
        unnamed.push_back(InShard(NameOf(order[t]), source_.files_[order[t].file].path));
        ++t;
      } else {
        // Shards and files are the same list in the same order.
        if (index.entries[e].shard != order[t].file) {
          elsewhere.push_back(
              InShard(index.entries[e].tensor, index.shards[index.entries[e].shard]));
        }
        ++e;
        ++t;
      }
    }
    CheckTotalSize(index);
    return IndexError(missing, elsewhere, unnamed);
  }

  static std::string InShard(std::string_view tensor, std::string_view shard) {
    return fmt::format("'{}' in '{}'", Printable(tensor), Printable(shard));
  }

  absl::Status IndexError(const std::vector<std::string>& missing,
                          const std::vector<std::string>& elsewhere,
                          const std::vector<std::string>& unnamed) const {
    std::string text;
    auto add = [&](std::string_view what, const std::vector<std::string>& list) {
      if (list.empty()) return;
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, ListForMessage(list));
    };
    add("tensors that are in none of the shards", missing);
    add("tensors that are in another shard than named", elsewhere);
    add("tensors of the shards that it does not name", unnamed);
    if (text.empty()) return absl::OkStatus();
    return Invalid(
        "'{}' and its shards contradict each other. {}. --exclude '*.index.json' imports "
        "what the shards hold",
        Printable(source_.index_->path), text);
  }

  void CheckTotalSize(const SafetensorsIndex& index) {
    if (!index.total_size.has_value() || *index.total_size == source_.tensor_bytes_) return;
    source_.warnings_.push_back(
        fmt::format("'{}' says that the tensors have {} bytes (total_size), but they have {}",
                    Printable(source_.index_->path), FormatCount(*index.total_size),
                    FormatCount(source_.tensor_bytes_)));
  }

  void MergeMetadata() {
    for (size_t f = 0; f < source_.files_.size(); ++f) {
      const auto& metadata = source_.tables_[f].safetensors.metadata;
      if (!metadata.has_value()) continue;
      for (const auto& [key, value] : *metadata) {
        auto [kept, added] = source_.metadata_.emplace(key, value);
        if (added || kept->second == value) continue;
        source_.warnings_.push_back(
            fmt::format("'{}' has another value of the metadata key '{}' than a file before it, "
                        "whose value stands for the model",
                        Printable(source_.files_[f].path), Printable(key)));
      }
    }
  }

  void DropDerivableHeader() {
    if (source_.files_.size() != 1 || source_.index_.has_value()) return;
    WeightFile& file = source_.files_[0];
    if (file.kind != WeightFile::Kind::kSafetensors) return;
    const SafetensorsHeader& header = source_.tables_[0].safetensors;
    // A model without metadata does not tell an empty `__metadata__` from none.
    if (header.metadata.has_value() && header.metadata->empty()) return;
    std::string_view json = std::string_view(file.header).substr(kSafetensorsLengthBytes);
    if (IsReferenceForm(json, header)) file.header = std::string();
  }

  std::string path_;
  const SourceOptions& options_;
  ModelSource source_;
  uint64_t memory_bytes_ = 0;  // held by the files that were read
};

absl::StatusOr<ModelSource> OpenModelSource(FileSystem& fs, const std::string& path,
                                            const SourceOptions& options) {
  return ModelSourceOpener(fs, path, options).Run();
}

}  // namespace tilekv
