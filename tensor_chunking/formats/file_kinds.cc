#include "tensor_chunking/formats/file_kinds.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace tilekv {
namespace {

absl::string_view AsAbsl(std::string_view text) { return {text.data(), text.size()}; }

bool StartsWithIgnoreCase(std::string_view text, std::string_view prefix) {
  return absl::StartsWithIgnoreCase(AsAbsl(text), AsAbsl(prefix));
}

constexpr std::string_view kConvertTorch =
    "Load it where you trust it and save it with safetensors: "
    "torch.load(PATH, weights_only=True), then safetensors.torch.save_file(state_dict, "
    "'model.safetensors').";
constexpr std::string_view kConvertProgram =
    "Load it where you trust it, with torch.export.load(PATH), and save its state_dict with "
    "safetensors.torch.save_file.";
constexpr std::string_view kUnpack = "Unpack it and import the folder that comes out of it.";
constexpr std::string_view kPullLfs =
    "Run 'git lfs pull' where the pointers were cloned, then import again.";
constexpr std::string_view kDownloadAgain = "Download it again.";
constexpr std::string_view kConvertNpz = "Import it by itself, as a model of its own.";
constexpr std::string_view kConvertKeras =
    "Load the model in its framework and save its weights with safetensors.numpy.save_file.";
constexpr std::string_view kConvertGguf =
    "Import the safetensors files from which it was made; its quantised blocks are no tensors of "
    "a plain dtype.";
constexpr std::string_view kConvertOnnx =
    "Read its initializers with onnx.numpy_helper.to_array and save them with "
    "safetensors.numpy.save_file.";
constexpr std::string_view kConvertPickle =
    "Load it where you trust it and save its arrays with safetensors.numpy.save_file.";

struct Extension {
  std::string_view suffix;
  ForeignWeights weights;
};

constexpr Extension kExtensions[] = {
    {".bin", {"weights in a binary format, most often a pickle of PyTorch", kConvertTorch}},
    {".pt", {"a pickle of PyTorch", kConvertTorch}},
    {".pth", {"a pickle of PyTorch", kConvertTorch}},
    {".pt2", {"an exported program of PyTorch", kConvertProgram}},
    {".ckpt", {"a checkpoint, most often a pickle of PyTorch", kConvertTorch}},
    {".pkl", {"a pickle", kConvertPickle}},
    {".pickle", {"a pickle", kConvertPickle}},
    {".joblib", {"a pickle of joblib", kConvertPickle}},
    {".npz", {"a zip of NumPy arrays", kConvertNpz}},
    {".zip", {"a zip archive", kUnpack}},
    {".gguf", {"weights of llama.cpp", kConvertGguf}},
    {".ggml", {"weights of llama.cpp", kConvertGguf}},
    {".onnx", {"a graph of ONNX", kConvertOnnx}},
    {".onnx_data", {"weights of an ONNX graph", kConvertOnnx}},
    {".h5", {"an HDF5 file", kConvertKeras}},
    {".hdf5", {"an HDF5 file", kConvertKeras}},
    {".keras", {"an archive of Keras", kConvertKeras}},
    {".msgpack", {"weights of Flax", kConvertKeras}},
    {".tflite", {"a graph of TensorFlow Lite", kConvertKeras}},
    {".pb", {"a graph of TensorFlow", kConvertKeras}},
    {".ot", {"weights of rust-bert", kConvertTorch}},
};

}  // namespace

bool HasSuffix(std::string_view file_name, std::string_view suffix) {
  return absl::EndsWithIgnoreCase(AsAbsl(file_name), AsAbsl(suffix));
}

bool IsGitLfsPointer(std::string_view start) {
  return start.starts_with("version https://git-lfs");
}

ForeignWeights DescribePlaceholder(std::string_view start) {
  if (IsGitLfsPointer(start)) {
    return {"a Git-LFS pointer: the file itself was not downloaded (run 'git lfs pull')", kPullLfs};
  }
  std::string_view text = start;
  while (!text.empty() && (text[0] == ' ' || text[0] == '\n' || text[0] == '\r' || text[0] == '\t'))
    text.remove_prefix(1);
  if (StartsWithIgnoreCase(text, "<!doctype") || StartsWithIgnoreCase(text, "<html") ||
      StartsWithIgnoreCase(text, "<?xml")) {
    return {"a web page: most likely an error or a log-in page was saved instead of the file",
            kDownloadAgain};
  }
  return {};
}

std::string_view DescribeStranger(std::string_view start) {
  // Length, then a brace: a safetensors file, whatever the length's bytes look like.
  if (start.size() > 8 && start[8] == '{') return {};
  if (ForeignWeights placeholder = DescribePlaceholder(start); !placeholder.what.empty()) {
    return placeholder.what;
  }
  if (start.starts_with("PK\x03\x04")) {
    return "a zip archive, as torch.save writes them (numpy.savez too: call it .npz); save it as "
           "safetensors";
  }
  if (start.starts_with("\x93NUMPY")) return "a NumPy array (rename it to .npy)";
  if (start.starts_with("GGUF")) return "a GGUF file of llama.cpp";
  if (start.starts_with("\x89HDF\r\n")) return "an HDF5 file";
  if (start.starts_with("\x1f\x8b")) return "a gzip archive: unpack it first";
  // A pickle: PROTO 2 to 5, then usually a mark, a frame or an empty collection.
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 &&
      std::string_view("}]()c\x95X\x8a").find(start[2]) != std::string_view::npos) {
    return "a Python pickle, which is never unpickled here; save it as safetensors";
  }
  return {};
}

ForeignWeights DescribeForeignWeights(std::string_view file_name) {
  for (const Extension& extension : kExtensions) {
    if (HasSuffix(file_name, extension.suffix)) {
      return extension.weights;
    }
  }
  return {};
}

}  // namespace tilekv
