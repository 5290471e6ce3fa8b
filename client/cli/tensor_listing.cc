#include "client/cli/tensor_listing.h"

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool InPack(const TensorEntry& tensor) {
  return tensor.tiles.size() == 1 && tensor.tiles[0].object.length != tensor.tiles[0].length_bytes;
}

std::string PackText(const TensorEntry& tensor) {
  if (!InPack(tensor)) return "";
  return fmt::format("{} at {}", tensor.tiles[0].object.id.Short(), tensor.tiles[0].offset_bytes);
}

Row TensorRow(const TensorEntry& tensor) {
  Json json = TensorJson(tensor);
  if (tensor.is_alias()) {
    return {{Printable(tensor.name), "", "",
             fmt::format("alias of {}", Printable(*tensor.alias_of)), "", "", "", "", "", ""},
            json};
  }
  return {{Printable(tensor.name), std::string(DTypeName(tensor.dtype)), FormatShape(tensor.shape),
           LayoutName(tensor), FormatShape(tensor.tile_shape), FormatShape(tensor.grid().counts()),
           FormatCount(TileCount(tensor)), FormatSize(tensor.bytes()), FormatCount(tensor.bytes()),
           PackText(tensor)},
          json};
}

}  // namespace

std::string LayoutName(const TensorEntry& tensor) {
  if (tensor.is_alias()) return "alias";
  uint64_t tiles = TileCount(tensor);
  if (tiles == 0) return "empty";
  if (InPack(tensor)) return "pack";
  if (tiles == 1) return "whole";
  return tensor.shape.size() > 1 && tensor.tile_shape.back() < tensor.shape.back() ? "bands"
                                                                                   : "rows";
}

uint64_t TileCount(const TensorEntry& tensor) {
  return tensor.is_alias() ? 0 : tensor.grid().tile_count();
}

Json TensorJson(const TensorEntry& tensor) {
  Json json;
  json["name"] = JsonText(tensor.name);
  json["layout"] = LayoutName(tensor);
  if (tensor.is_alias()) {
    json["alias_of"] = JsonText(*tensor.alias_of);
    return json;
  }
  json["dtype"] = DTypeName(tensor.dtype);
  json["shape"] = tensor.shape;
  json["tile_shape"] = tensor.tile_shape;
  json["grid"] = tensor.grid().counts();
  json["tiles"] = TileCount(tensor);
  json["bytes"] = tensor.bytes();
  if (InPack(tensor)) {
    json["pack"] = {{"id", tensor.tiles[0].object.id.Hex()},
                    {"offset", tensor.tiles[0].offset_bytes},
                    {"bytes", tensor.tiles[0].object.length}};
  }
  return json;
}

absl::Status PrintTensors(Output& out, const Manifest& manifest) {
  ListPrinter printer(out, {{"TENSOR"},
                            {"DTYPE"},
                            {"SHAPE"},
                            {"LAYOUT"},
                            {"TILE"},
                            {"GRID"},
                            {"TILES", true},
                            {"SIZE", true},
                            {"BYTES", true, true},
                            {"PACK", false, true}});
  for (const TensorEntry& tensor : manifest.tensors) {
    TILEKV_RETURN_IF_ERROR(printer.Add(TensorRow(tensor)));
  }
  return printer.Finish("no tensors");
}

}  // namespace tilekv
