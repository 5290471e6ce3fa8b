// What a file of a model is, by its name and its first bytes, and what to do with one that cannot
// be imported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilekv {

// A Git-LFS pointer has at most so many bytes, as Git LFS itself takes it.
inline constexpr uint64_t kGitLfsPointerBytes = 1'024;
bool IsGitLfsPointer(std::string_view start);

// Whether a name ends so, in capitals or not.
bool HasSuffix(std::string_view file_name, std::string_view suffix);

// What a file that claims to be safetensors or .npy really is, judged by its first bytes, with what
// to do: "a Git-LFS pointer; ...". Empty when it looks like neither of the usual strangers.
std::string_view DescribeStranger(std::string_view start);

// Weights that are not imported, and what to do about it.
struct ForeignWeights {
  std::string_view what;    // "a pickle of PyTorch"; empty: not such a file
  std::string_view remedy;  // how to get safetensors out of it, a sentence
};

// Of a format that is not imported (pickles, archives, other runtimes' files), by the name's
// extension. Never unpickled.
ForeignWeights DescribeForeignWeights(std::string_view file_name);

// What stands where a file was not downloaded, a Git-LFS pointer or a web page, by its first bytes:
// whatever its name says, it is no such file.
ForeignWeights DescribePlaceholder(std::string_view start);

}  // namespace tilekv
