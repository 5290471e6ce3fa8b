#include "tensor_chunking/formats/source_folder.h"

#include <fnmatch.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/file_kinds.h"
#include "tensor_chunking/formats/output_file.h"
#include "tensor_chunking/formats/safetensors_header.h"
#include "tensor_chunking/formats/text_list.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Reason::kInvalidFile, fmt::format(format, std::forward<Args>(args)...));
}

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }
bool AtTop(std::string_view path) { return path.find('/') == path.npos; }

class Walk {
 public:
  Walk(FileSystem& fs, std::string root, const std::vector<std::string>& exclude)
      : fs_(fs), root_(std::move(root)), exclude_(exclude) {}

  absl::StatusOr<FolderListing> Run() {
    TILEKV_RETURN_IF_ERROR(Folder("", 0));
    if (!broken_links_.empty()) {
      return Invalid(
          "'{}': links that lead nowhere (a download that did not finish?): {}; --exclude leaves "
          "them out",
          Printable(root_), ListForMessage(broken_links_));
    }
    if (!bad_names_.empty()) {
      return Invalid(
          "'{}': names that cannot be kept (not UTF-8, or with a backslash): {}; "
          "--exclude leaves them out",
          Printable(root_), ListForMessage(bad_names_));
    }
    auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(listing_.files.begin(), listing_.files.end(), by_path);
    std::sort(listing_.left_out.begin(), listing_.left_out.end(), by_path);
    return std::move(listing_);
  }

 private:
  absl::Status Folder(const std::string& relative, int depth) {
    if (depth > kMaxSourceFolderDepth) {
      return Invalid(
          "'{}': more than {} folders inside each other at '{}': a loop of links? --exclude "
          "leaves it out",
          Printable(root_), kMaxSourceFolderDepth, Printable(relative));
    }
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(root_ + "/" + relative));
    for (const std::string& name : names) {
      TILEKV_RETURN_IF_ERROR(Entry(relative.empty() ? name : relative + "/" + name, depth));
    }
    return absl::OkStatus();
  }

  absl::Status Entry(const std::string& path, int depth) {
    if (++entries_ > kMaxSourceFolderFiles) {
      return Invalid("'{}' holds more than {} files", Printable(root_),
                     FormatCount(kMaxSourceFolderFiles));
    }
    absl::StatusOr<FileInfo> info = fs_.Stat(root_ + "/" + path);
    bool excluded = MatchesAny(exclude_, path);
    if (absl::IsNotFound(info.status())) {
      if (!excluded) broken_links_.push_back(fmt::format("'{}'", Printable(path)));
      return absl::OkStatus();
    }
    if (!info.ok()) return info.status();
    bool folder = info->kind == FileInfo::Kind::kDirectory;
    std::string_view why = excluded                                         ? "excluded"
                           : folder && FileName(path).front() == '.'        ? "a hidden folder"
                           : !folder && info->kind != FileInfo::Kind::kFile ? "no file"
                           : FileName(path).substr(0, kTemporaryPrefix.size()) == kTemporaryPrefix
                               ? "left over from an export that did not end"
                               : "";
    if (!why.empty()) return LeaveOut(path, *info, why, depth);
    if (folder) return Folder(path, depth + 1);
    if (!CheckRelativePath(path, Reason::kInvalidFile).ok()) {
      bad_names_.push_back(fmt::format("'{}'", Printable(path)));
      return absl::OkStatus();
    }
    listing_.files.push_back({path, *info});
    return absl::OkStatus();
  }

  absl::Status LeaveOut(const std::string& path, const FileInfo& info, std::string_view why,
                        int depth) {
    uint64_t size_bytes = 0;
    if (info.kind == FileInfo::Kind::kFile) size_bytes = info.size_bytes;
    if (info.kind == FileInfo::Kind::kDirectory) {
      TILEKV_ASSIGN_OR_RETURN(size_bytes, FolderBytes(path, depth + 1));
    }
    std::string shown = info.kind == FileInfo::Kind::kDirectory ? path + "/" : path;
    listing_.left_out.push_back({std::move(shown), size_bytes, std::string(why)});
    return absl::OkStatus();
  }

  // Of what is left out anyway: links, broken or not, are not followed, and neither is depth.
  absl::StatusOr<uint64_t> FolderBytes(const std::string& relative, int depth) {
    uint64_t total = 0;
    if (depth > kMaxSourceFolderDepth) return total;
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(root_ + "/" + relative));
    for (const std::string& name : names) {
      std::string path = relative + "/" + name;
      absl::StatusOr<FileInfo> info = fs_.Stat(root_ + "/" + path);
      if (!info.ok() || info->is_link) continue;
      if (info->kind == FileInfo::Kind::kFile) total += info->size_bytes;
      if (info->kind == FileInfo::Kind::kDirectory) {
        TILEKV_ASSIGN_OR_RETURN(uint64_t inner, FolderBytes(path, depth + 1));
        total += inner;
      }
    }
    return total;
  }

  FileSystem& fs_;
  const std::string root_;
  const std::vector<std::string>& exclude_;
  FolderListing listing_;
  size_t entries_ = 0;
  std::vector<std::string> broken_links_;
  std::vector<std::string> bad_names_;
};

// The index to follow; empty when there is none.
absl::StatusOr<std::string> ChooseIndex(const std::vector<FolderFile>& files,
                                        std::string_view root) {
  std::vector<std::string> found;
  for (const FolderFile& file : files) {
    if (!AtTop(file.path) || !file.path.ends_with(kIndexSuffix)) continue;
    if (file.path == kIndexName) return file.path;
    found.push_back(file.path);
  }
  if (found.size() > 1) {
    std::vector<std::string> shown;
    for (const std::string& path : found) shown.push_back(fmt::format("'{}'", Printable(path)));
    return Invalid("'{}' holds {} indexes: {}; --exclude leaves all but one out", Printable(root),
                   found.size(), ListForMessage(shown));
  }
  return found.empty() ? std::string() : found[0];
}

// What a file of a telling name really is; empty: what its name says. One that cannot be read is
// left out anyway.
ForeignWeights Placeholder(FileSystem& fs, std::string_view root, const FolderFile& file) {
  absl::StatusOr<std::unique_ptr<File>> opened =
      fs.Open(fmt::format("{}/{}", root, file.path), FileSystem::OpenMode::kRead);
  if (!opened.ok()) return {};
  std::string start(std::min<uint64_t>(kSafetensorsStartBytes, file.info.size_bytes), '\0');
  absl::StatusOr<uint64_t> read =
      (*opened)->Read(0, {reinterpret_cast<uint8_t*>(start.data()), start.size()});
  if (!read.ok()) return {};
  start.resize(*read);
  return DescribePlaceholder(start);
}

// Why a file is no side file; empty when it is one.
ForeignWeights ForeignReason(FileSystem& fs, std::string_view root, const FolderFile& file) {
  std::string_view name = FileName(file.path);
  if (name.ends_with(".bin.index.json")) return {"an index of weights that are left out", {}};
  if (AtTop(file.path) && name.ends_with(kIndexSuffix)) {
    return {"another index than the one followed", {}};
  }
  ForeignWeights by_name = DescribeForeignWeights(name);
  if (by_name.what.empty()) return {};
  ForeignWeights placeholder = Placeholder(fs, root, file);
  return placeholder.what.empty() ? by_name : placeholder;
}

// "'pytorch_model.bin' (5 B; a pickle of PyTorch)"
std::string Described(const LeftOutFile& file) {
  return fmt::format("'{}' ({}; {})", Printable(file.path), FormatSize(file.size_bytes), file.why);
}

// `included` are those of plan.rest that would have been left out.
absl::Status NothingToImport(const FolderPlan& plan, const std::vector<LeftOutFile>& included,
                             std::string_view root) {
  for (const FolderFile& file : plan.rest) {
    if (!HasSuffix(file.path, ".safetensors")) continue;
    return Invalid(
        "'{}' holds no weights itself; its sub-folder '{}' does: import that folder as a model of "
        "its own",
        Printable(root), Printable(file.path.substr(0, file.path.rfind('/'))));
  }
  if (plan.left_out.empty() && included.empty()) {
    return Invalid(
        "'{}' holds no weights to import: no .safetensors, .npy or .npz file among its {} "
        "files",
        Printable(root), FormatCount(plan.rest.size()));
  }
  std::string text = fmt::format("'{}' holds no .safetensors, .npy or .npz file", Printable(root));
  std::vector<std::string> remedies;  // in order, each once
  auto list = [&](std::string_view what, const std::vector<LeftOutFile>& files) {
    if (files.empty()) return;
    std::vector<std::string> shown;
    for (const LeftOutFile& file : files) {
      shown.push_back(Described(file));
      bool known = std::find(remedies.begin(), remedies.end(), file.remedy) != remedies.end();
      if (!file.remedy.empty() && !known) remedies.push_back(file.remedy);
    }
    text += fmt::format(". {}: {}", what, ListForMessage(shown));
  };
  list("Included, but files beside tensors make no model alone", included);
  list("Not imported", plan.left_out);
  if (!included.empty()) {
    text += ". To keep such a file as it is: 'tilekv kv put KEY FILE --chunked'";
  }
  for (const std::string& remedy : remedies) text += (text.ends_with('.') ? " " : ". ") + remedy;
  return Invalid("{}", text);
}

}  // namespace

bool MatchesAny(const std::vector<std::string>& globs, const std::string& path) {
  std::string name(FileName(path));
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), path.c_str(), 0) == 0 ||
           (AtTop(glob) && fnmatch(glob.c_str(), name.c_str(), 0) == 0);
  });
}

absl::StatusOr<FolderListing> ListFolder(FileSystem& fs, const std::string& root,
                                         const std::vector<std::string>& exclude) {
  return Walk(fs, root, exclude).Run();
}

absl::StatusOr<FolderPlan> PlanFolder(FileSystem& fs, FolderListing listing, std::string_view root,
                                      const std::vector<std::string>& include) {
  FolderPlan plan;
  std::vector<LeftOutFile> included;
  TILEKV_ASSIGN_OR_RETURN(plan.index, ChooseIndex(listing.files, root));
  auto at_top = [&](std::string_view suffix) {
    return std::any_of(listing.files.begin(), listing.files.end(), [&](const FolderFile& file) {
      return AtTop(file.path) && HasSuffix(file.path, suffix);
    });
  };
  plan.kind = !plan.index.empty()      ? FolderKind::kIndexed
              : at_top(".safetensors") ? FolderKind::kSafetensors
                                       : FolderKind::kArrays;
  auto is_weights = [&](const std::string& path) {
    if (plan.kind != FolderKind::kArrays) return HasSuffix(path, ".safetensors");
    return HasSuffix(path, ".npy") || HasSuffix(path, ".npz");
  };
  plan.left_out = std::move(listing.left_out);
  for (FolderFile& file : listing.files) {
    if (file.path == plan.index) continue;
    if (AtTop(file.path) && is_weights(file.path)) {
      plan.weights.push_back(std::move(file));
      continue;
    }
    ForeignWeights foreign = ForeignReason(fs, root, file);
    if (foreign.what.empty()) {
      plan.rest.push_back(std::move(file));
      continue;
    }
    LeftOutFile left_out{file.path, file.info.size_bytes, std::string(foreign.what),
                         std::string(foreign.remedy)};
    if (MatchesAny(include, file.path)) {
      included.push_back(std::move(left_out));
      plan.rest.push_back(std::move(file));
    } else {
      plan.left_out.push_back(std::move(left_out));
    }
  }
  if (plan.index.empty() && plan.weights.empty()) return NothingToImport(plan, included, root);
  return plan;
}

}  // namespace tilekv
