// The files of a model's folder, sorted into weights, side files and what is left out, by names and
// sizes. Of files that their names call weights of another format the first bytes are looked at
// too: a Git-LFS pointer is called so; no other file is opened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"

namespace tilekv {

struct FolderFile {
  std::string path;  // relative, names joined by '/'
  FileInfo info;     // of the file that a link leads to
};

struct LeftOutFile {
  std::string path;
  uint64_t size_bytes = 0;  // of a folder: of all files in it
  std::string why;
  std::string remedy = {};  // a sentence; empty where nothing is to be done
};

// Globs as the shell has them (`*`, `?`, `[...]`); `*` also matches '/'. A glob without '/' is held
// against the file's own name too.
bool MatchesAny(const std::vector<std::string>& globs, const std::string& path);

struct FolderListing {
  std::vector<FolderFile> files;      // by path bytewise
  std::vector<LeftOutFile> left_out;  // excluded, hidden folders, what is no file
};

// Walks `root`, sub-folders and links included. Left out: what `exclude` matches, folders whose
// name begins with a dot (.git, .cache), and pipes, sockets and devices. INVALID_FILE lists links
// that lead nowhere and names that cannot be kept (not UTF-8, backslashes); it also ends walks of
// more than kMaxSourceFolderFiles files or kMaxSourceFolderDepth levels, as a loop of links gives.
absl::StatusOr<FolderListing> ListFolder(FileSystem& fs, const std::string& root,
                                         const std::vector<std::string>& exclude);

enum class FolderKind { kIndexed, kSafetensors, kArrays };

struct FolderPlan {
  FolderKind kind{};
  std::string index;                // path of the index; kIndexed only
  std::vector<FolderFile> weights;  // by path; of kIndexed, all safetensors files beside the index
  std::vector<FolderFile> rest;     // side files, by path
  std::vector<LeftOutFile> left_out;  // by path
};

// Decides what the folder holds. An index of safetensors shards comes first, then safetensors files
// beside each other, then .npy and .npz files; only those directly in the folder are weights, in
// sub-folders they are side files. Weights in other formats are left out unless `include` matches
// them: then they are side files, which alone make no model. INVALID_FILE when there is nothing to
// import, with what was found, included files too, and what to do with it.
absl::StatusOr<FolderPlan> PlanFolder(FileSystem& fs, FolderListing listing, std::string_view root,
                                      const std::vector<std::string>& include);

}  // namespace tilekv
