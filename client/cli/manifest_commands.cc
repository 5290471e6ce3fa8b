// tilekv manifest show: how matrices are cut, where each tile is, and a picture of it.
#include <algorithm>
#include <set>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "client/cli/tensor_listing.h"
#include "client/cli/tile_places.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"

namespace tilekv {
namespace {

constexpr size_t kNodeDigits = 8;
constexpr size_t kIdDigits = 12;    // for people
constexpr size_t kOthersShown = 3;  // versions that share a tile; -o wide shows all
constexpr int kMapLines = 24;

using TensorPtr = std::shared_ptr<const TensorEntry>;

struct Totals {
  std::set<ObjectId> objects;  // tiles and packs, of tensors whose tile lists were read
  bool all_read = true;
};

Totals Count(const Manifest& manifest) {
  Totals totals;
  for (const TensorEntry& tensor : manifest.tensors) {
    totals.all_read = totals.all_read && !tensor.is_listed();
    for (const TileRef& tile : tensor.tiles) totals.objects.insert(tile.object.id);
  }
  return totals;
}

std::string ModelHead(const ModelReader& reader, const Style& style) {
  const v1::VersionInfo& version = reader.version();
  const v1::VersionRecord& record = version.record();
  const Manifest& manifest = reader.manifest();
  Totals totals = Count(manifest);
  uint64_t side_bytes = 0;
  for (const SideFile& file : manifest.side_files) side_bytes += file.content.length_bytes;
  std::string tags = TagsText(version);
  std::string out =
      fmt::format("{}  b3:{}  {}\n", style.Bold(VersionText(version)),
                  HexEncode(AsBytes(record.root().id())).substr(0, kIdDigits), style.Cyan(tags));
  out += fmt::format("created {}{}{}\n", FormatTime(record.created_micros()),
                     record.message().empty() ? "" : ": ", Printable(record.message()));
  out += fmt::format("{}, {} in {}{}; {}, {}\n", Counted(manifest.tensors.size(), "tensor"),
                     FormatSize(manifest.logical_bytes()), totals.all_read ? "" : "more than ",
                     Counted(totals.objects.size(), "tile object"),
                     Counted(manifest.side_files.size(), "side file"), FormatSize(side_bytes));
  return out;
}

Json ModelJson(const ModelReader& reader) {
  Json json = VersionJson(reader.version());
  json["tile_objects"] = Count(reader.manifest()).objects.size();
  json["side_files"] = Json::array();
  for (const SideFile& file : reader.manifest().side_files) {
    json["side_files"].push_back(
        {{"path", JsonText(file.path)}, {"bytes", file.content.length_bytes}});
  }
  return json;
}

// --- tiles

std::string RegionText(const Region& region) {
  std::string out;
  for (size_t i = 0; i < region.start.size(); ++i) {
    out += fmt::format("{}{}:{}", i == 0 ? "" : ", ", region.start[i],
                       region.start[i] + region.extent[i]);
  }
  return "[" + out + "]";
}

std::string EncodingText(const v1::ObjectCopy& copy) {
  return EncodingName({.kind = static_cast<EncodingKind>(copy.encoding().kind()),
                       .width = static_cast<uint8_t>(copy.encoding().width())});
}

const char* StateWord(TileState state) {
  switch (state) {
    case TileState::kShared:
      return "shared";
    case TileState::kUnique:
      return "unique";
    case TileState::kSuspect:
      return "suspect";
    case TileState::kMissing:
      return "missing";
  }
  return "?";
}

Json TileJson(const TensorEntry& tensor, uint64_t index, const TilePlace& place) {
  const TileRef& tile = tensor.tiles[index];
  TileGrid grid = tensor.grid();
  Region region = grid.TileRegion(index);
  Json json;
  json["tile"] = index;
  json["at"] = grid.Coordinates(index);
  json["start"] = region.start;
  json["extent"] = region.extent;
  json["id"] = tile.object.id.Hex();
  json["offset"] = tile.offset_bytes;
  json["bytes"] = tile.length_bytes;
  if (tile.parts != nullptr) {
    json["base"] = tile.parts->base.id.Hex();
    json["xor"] = tile.parts->delta.id.Hex();
  }
  json["state"] = StateWord(place.state);
  json["copies"] = Json::array();
  for (const v1::ObjectCopy& copy : place.copies) {
    json["copies"].push_back({{"node", JsonText(copy.node())},
                              {"state", copy.state()},
                              {"encoding", EncodingText(copy)},
                              {"stored_bytes", copy.stored_length()}});
  }
  json["shared_with"] = place.others;
  return json;
}

std::string CopiesText(const TilePlace& place) {
  std::string out;
  for (const v1::ObjectCopy& copy : place.copies) {
    if (!out.empty()) out += ", ";
    out += copy.node().substr(0, kNodeDigits);
    if (copy.state() != "good") out += " (" + copy.state() + ")";
  }
  return out.empty() ? "nowhere" : out;
}

std::string OthersText(const TilePlace& place, bool all) {
  size_t shown = all ? place.others.size() : std::min(place.others.size(), kOthersShown);
  std::string out = fmt::format(
      "{}",
      fmt::join(place.others.begin(), place.others.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < place.others.size()) out += fmt::format(" and {} more", place.others.size() - shown);
  return out;
}

Row TileRow(const TensorEntry& tensor, uint64_t index, const TilePlace& place, bool wide) {
  const TileRef& tile = tensor.tiles[index];
  TileGrid grid = tensor.grid();
  std::string stored = "-";
  std::string encoding = "-";
  if (!place.copies.empty()) {
    stored = FormatSize(place.copies[0].stored_length());
    encoding = EncodingText(place.copies[0]);
  }
  if (tile.parts != nullptr) encoding = "base, xor";
  return {{std::to_string(index), fmt::format("{}", fmt::join(grid.Coordinates(index), ",")),
           RegionText(grid.TileRegion(index)), wide ? tile.object.id.Hex() : tile.object.id.Short(),
           FormatSize(tile.length_bytes), stored, encoding, StateWord(place.state),
           CopiesText(place), OthersText(place, wide), std::to_string(tile.offset_bytes)},
          nullptr};
}

absl::Status PrintTiles(Output& out, const TensorEntry& tensor,
                        const std::vector<TilePlace>& places) {
  ListPrinter printer(out, {{"TILE", true},
                            {"AT"},
                            {"REGION"},
                            {"ID"},
                            {"SIZE", true},
                            {"STORED", true},
                            {"CODEC"},
                            {"STATE", false, true},
                            {"COPIES"},
                            {"ALSO IN"},
                            {"OFFSET", true, true}});
  for (uint64_t i = 0; i < tensor.tiles.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(printer.Add(TileRow(tensor, i, places[i], out.wide())));
  }
  return printer.Finish("no tiles");
}

// --- one tensor

std::string TensorHead(const TensorEntry& tensor, const Style& style) {
  std::string out =
      fmt::format("{}  {} {}  {}\n", style.Bold(Printable(tensor.name)), DTypeName(tensor.dtype),
                  FormatShape(tensor.shape), FormatSize(tensor.bytes()));
  const std::string layout = LayoutName(tensor);
  if (layout == "pack") {
    const TileRef& tile = tensor.tiles[0];
    return out + fmt::format("in a pack of {}: object {} at byte {}\n",
                             FormatSize(tile.object.length), tile.object.id.Short(),
                             FormatCount(tile.offset_bytes));
  }
  return out + fmt::format("layout {}: tiles of {}, {} of them in a grid of {}\n", layout,
                           FormatShape(tensor.tile_shape), FormatCount(TileCount(tensor)),
                           FormatShape(tensor.grid().counts()));
}

absl::Status ShowTensor(Context& context, ModelReader& reader, const TensorEntry& tensor,
                        bool with_tiles, bool with_map) {
  Output& out = context.out();
  TILEKV_ASSIGN_OR_RETURN(std::vector<TilePlace> places,
                          LocateTiles(context, reader.store(), tensor, reader.version()));
  TILEKV_RETURN_IF_ERROR(out.Write("\n" + TensorHead(tensor, out.style())));
  bool in_pack = LayoutName(tensor) == "pack";
  if (with_map && !in_pack && !places.empty()) {
    TileMapStyle style{.width = out.terminal().width,
                       .max_lines = kMapLines,
                       .utf8 = out.terminal().utf8,
                       .colour = out.terminal().colour};
    TILEKV_RETURN_IF_ERROR(out.Write("\n" + RenderTileMap(MapOf(tensor, places), style)));
  }
  if (!with_tiles) return absl::OkStatus();
  TILEKV_RETURN_IF_ERROR(out.Write("\n"));
  return PrintTiles(out, tensor, places);
}

// --- the command

// The largest tensor that is cut; "" where none is.
std::string LargestCut(const Manifest& manifest) {
  const TensorEntry* largest = nullptr;
  for (const TensorEntry& tensor : manifest.tensors) {
    if (TileCount(tensor) < 2) continue;
    if (largest == nullptr || tensor.bytes() > largest->bytes()) largest = &tensor;
  }
  return largest == nullptr ? "" : largest->name;
}

absl::StatusOr<std::vector<TensorPtr>> Selected(ModelReader& reader,
                                                const std::optional<std::string>& name) {
  std::vector<TensorPtr> out;
  if (name.has_value()) {
    TILEKV_ASSIGN_OR_RETURN(TensorPtr tensor, reader.Find(*name));
    out.push_back(std::move(tensor));
    return out;
  }
  for (const TensorEntry& tensor : reader.manifest().tensors) {
    if (tensor.is_alias()) continue;
    TILEKV_ASSIGN_OR_RETURN(TensorPtr found, reader.Find(tensor.name));
    out.push_back(std::move(found));
  }
  return out;
}

absl::Status ShowJson(Context& context, ModelReader& reader, const std::optional<std::string>& name,
                      bool with_tiles) {
  Json json;
  json["model"] = ModelJson(reader);
  json["tensors"] = Json::array();
  for (const TensorEntry& tensor : reader.manifest().tensors) {
    if (name.has_value() && tensor.name != *name) continue;
    Json one = TensorJson(tensor);
    if (with_tiles && !tensor.is_alias()) {
      TILEKV_ASSIGN_OR_RETURN(TensorPtr whole, reader.Find(tensor.name));
      TILEKV_ASSIGN_OR_RETURN(std::vector<TilePlace> places,
                              LocateTiles(context, reader.store(), *whole, reader.version()));
      one["tile_list"] = Json::array();
      for (uint64_t i = 0; i < whole->tiles.size(); ++i) {
        one["tile_list"].push_back(TileJson(*whole, i, places[i]));
      }
    }
    json["tensors"].push_back(std::move(one));
  }
  return context.out().Document(json);
}

absl::Status ShowOverview(Context& context, ModelReader& reader) {
  Output& out = context.out();
  TILEKV_RETURN_IF_ERROR(out.Write("\n"));
  TILEKV_RETURN_IF_ERROR(PrintTensors(out, reader.manifest()));
  std::string largest = LargestCut(reader.manifest());
  if (largest.empty()) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(TensorPtr tensor, reader.Find(largest));
  return ShowTensor(context, reader, *tensor, false, true);
}

absl::StatusOr<int> ManifestShow(Context& context, const Arguments& arguments) {
  std::optional<std::string> name = arguments.Value("--tensor");
  bool with_tiles = arguments.Has("--tiles");
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  if (name.has_value()) TILEKV_RETURN_IF_ERROR(reader->Find(*name).status());
  if (context.out().is_json()) {
    TILEKV_RETURN_IF_ERROR(ShowJson(context, *reader, name, with_tiles));
    return kExitDone;
  }
  TILEKV_RETURN_IF_ERROR(context.out().Write(ModelHead(*reader, context.out().style())));
  if (!name.has_value() && !with_tiles) {
    TILEKV_RETURN_IF_ERROR(ShowOverview(context, *reader));
    return kExitDone;
  }
  TILEKV_ASSIGN_OR_RETURN(std::vector<TensorPtr> tensors, Selected(*reader, name));
  const std::string largest = LargestCut(reader->manifest());
  for (const TensorPtr& tensor : tensors) {
    bool with_map = name.has_value() || tensor->name == largest;
    TILEKV_RETURN_IF_ERROR(ShowTensor(context, *reader, *tensor, with_tiles, with_map));
  }
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> ManifestCommandSpecs() {
  return {
      {.noun = "manifest",
       .verb = "show",
       .arguments = {{"MODEL", "[NS/]NAME[@VERSION]"}},
       .summary = "grids, tiles, where each copy is, and a picture of the matrix",
       .help =
           "Without options: every tensor, and the tile map of the largest one that is cut. The "
           "map keeps the matrix's proportions; a tile is marked by whether other versions hold "
           "it too, and where no sound copy is left.",
       .flags = {{"--tensor", "", "T", "this tensor and its tile map"},
                 {"--tiles", "", "",
                  "every tile: place, id, size, encoding, copies, versions that hold it too"}},
       .examples = {{"tilekv manifest show matrix --tiles", ""},
                    {"tilekv manifest show minilm --tensor embeddings.word_embeddings.weight", ""}},
       .access = Access::kRead,
       .handler = ManifestShow},
  };
}

}  // namespace tilekv
