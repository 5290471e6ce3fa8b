// A folder of files for tests, gone with its object.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"

namespace tilekv {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tilekv_XXXXXX").string();
    TILEKV_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string Path(std::string_view name = "") const {
    return name.empty() ? path_ : path_ + "/" + std::string(name);
  }
  // Folders on the way are made.
  void Write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  void Link(std::string_view name, const std::string& target) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::filesystem::create_symlink(target, Path(name));
  }
  std::string Read(std::string_view name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Names directly in the folder.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::string path_;
};

// A safetensors file of U8 tensors, each of the bytes given, in the order given.
struct NamedBytes {
  std::string name;
  std::string bytes;
};
inline std::string SafetensorsFile(const std::vector<NamedBytes>& tensors,
                                   std::string_view metadata = "") {
  std::string json = "{";
  std::string data;
  if (!metadata.empty()) json += fmt::format("\"__metadata__\":{}", metadata);
  for (const NamedBytes& tensor : tensors) {
    json += fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json.size() > 1 ? "," : "", tensor.name, tensor.bytes.size(), data.size(),
                        data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  json += '}';
  json.resize(RoundUp(json.size(), 8), ' ');
  std::string file;
  AppendLe<uint64_t>(file, json.size());
  return file + json + data;
}

}  // namespace tilekv
