#include "tensor_chunking/manifest_wire.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

enum TileForm : uint8_t { kWhole = 0, kXor = 1, kPart = 2 };

}  // namespace

void AppendOpaqueHead(std::string& out) {
  AppendLe<uint16_t>(out, kManifestVersion);
  AppendLe<uint16_t>(out, 0);
}

uint32_t ChildTable::Number(const ObjectRef& ref) {
  auto [at, added] = numbers_.try_emplace(ref, static_cast<uint32_t>(refs_.size()));
  if (added) refs_.push_back(ref);
  return at->second;
}

uint64_t TileRefBytes(const TileRef& tile) {
  if (tile.parts != nullptr) return kXorTileBytes;
  return tile.is_part() ? kPartTileBytes : kWholeTileBytes;
}

void AppendTileRef(const TileRef& tile, ChildTable& children, std::string& out) {
  if (tile.parts != nullptr) {
    AppendLe<uint8_t>(out, kXor);
    AppendLe<uint32_t>(out, children.Number(tile.parts->base));
    AppendLe<uint32_t>(out, children.Number(tile.parts->delta));
    out.append(tile.object.id.view());
    return;
  }
  AppendLe<uint8_t>(out, tile.is_part() ? kPart : kWhole);
  AppendLe<uint32_t>(out, children.Number(tile.object));
  if (!tile.is_part()) return;
  AppendLe<uint64_t>(out, tile.offset_bytes);
  AppendLe<uint64_t>(out, tile.length_bytes);
  out.append(tile.part_hash.begin(), tile.part_hash.end());
}

void AppendContent(const StoredContent& content, ChildTable& children, std::string& out) {
  AppendLe<uint32_t>(out, children.Number(content.ref));
  AppendLe<uint64_t>(out, content.length_bytes);
}

OpaqueReader::OpaqueReader(const char* what, Tree tree)
    : what_(what),
      tree_(std::make_unique<Tree>(std::move(tree))),
      in_(AsBytes(tree_->opaque)),
      status_(absl::OkStatus()) {}

absl::StatusOr<OpaqueReader> OpaqueReader::Open(const char* what, TreeType type, uint8_t level,
                                                Bytes content) {
  absl::StatusOr<Tree> tree = DecodeTree(level, content);
  if (!tree.ok()) {
    absl::string_view why = tree.status().message();
    return MakeError(Reason::kDataLoss,
                     fmt::format("{}: {}", what, std::string_view(why.data(), why.size())));
  }
  OpaqueReader reader(what, *std::move(tree));
  if (reader.tree_->type != type) {
    reader.Fail(fmt::format("its type is {} instead of {}", static_cast<int>(reader.tree_->type),
                            static_cast<int>(type)));
  }
  std::unordered_set<ObjectRef, ObjectRefHash> seen;
  for (const ObjectRef& child : reader.tree_->children) {
    if (!seen.insert(child).second) reader.Fail("a child stands in it twice");
  }
  uint16_t version = reader.Read<uint16_t>();
  if (version != kManifestVersion) reader.Fail(fmt::format("version {} is not known", version));
  if (reader.Read<uint16_t>() != 0) reader.Fail("it has bytes that must be zero");
  TILEKV_RETURN_IF_ERROR(reader.status());
  return reader;
}

std::string_view OpaqueReader::TakeText() {
  return status_.ok() ? in_.TakeText() : std::string_view();
}

uint32_t OpaqueReader::ReadCount(uint64_t least_bytes) {
  uint32_t count = Read<uint32_t>();
  if (in_.ok() && count > in_.rest().size() / least_bytes) {
    Fail(fmt::format("a count of {} in its last {} bytes", count, in_.rest().size()));
  }
  return status().ok() ? count : 0;
}

ObjectRef OpaqueReader::ReadChild() {
  uint32_t number = Read<uint32_t>();
  if (!status().ok()) return {};
  if (number >= tree_->children.size() || number > children_used_) {
    Fail(fmt::format("child {} of {} where {} have been used", number, tree_->children.size(),
                     children_used_));
    return {};
  }
  if (number == children_used_) ++children_used_;
  return tree_->children[number];
}

TileRef OpaqueReader::ReadTileRef() {
  const uint8_t form = Read<uint8_t>();
  if (form == kWhole) return WholeTile(ReadChild());
  if (form == kXor) return ReadXorTile();
  if (form == kPart) return ReadPartTile();
  Fail(fmt::format("tile form {} is not known", form));
  return {};
}

TileRef OpaqueReader::ReadXorTile() {
  XorParts parts;
  parts.base = ReadChild();
  parts.delta = ReadChild();
  ObjectRef result;
  result.length = parts.base.length;
  ReadBytes(result.id.bytes);
  TileRef tile = WholeTile(result);
  tile.parts = std::make_shared<const XorParts>(parts);
  return tile;
}

TileRef OpaqueReader::ReadPartTile() {
  TileRef tile;
  tile.object = ReadChild();
  tile.offset_bytes = Read<uint64_t>();
  tile.length_bytes = Read<uint64_t>();
  ReadBytes(tile.part_hash);
  if (status().ok() && !tile.is_part()) Fail("a whole object in the form of a part");
  return tile;
}

void OpaqueReader::ReadBytes(MutableBytes out) {
  Bytes bytes = status().ok() ? in_.Take(out.size()) : Bytes();
  std::copy(bytes.begin(), bytes.end(), out.begin());
}

StoredContent OpaqueReader::ReadStoredContent() {
  StoredContent content;
  content.ref = ReadChild();
  content.length_bytes = Read<uint64_t>();
  if (!status().ok()) return {};
  absl::Status checked = CheckStoredContent(content, Reason::kDataLoss);
  if (!checked.ok()) {
    absl::string_view why = checked.message();
    Fail(std::string(why.data(), why.size()));
  }
  return content;
}

void OpaqueReader::Fail(std::string why) {
  if (!status_.ok()) return;
  status_ = MakeError(Reason::kDataLoss, context_.empty()
                                             ? fmt::format("{}: {}", what_, why)
                                             : fmt::format("{}: {}: {}", what_, context_, why));
}

absl::Status OpaqueReader::status() {
  if (!in_.ok()) Fail("it ends too early");
  return status_;
}

absl::Status OpaqueReader::Finish() {
  TILEKV_RETURN_IF_ERROR(status());
  context_.clear();
  if (!in_.empty()) Fail(fmt::format("{} bytes are left over", in_.rest().size()));
  if (children_used_ != tree_->children.size()) {
    Fail(fmt::format("{} of its {} children are not named", tree_->children.size() - children_used_,
                     tree_->children.size()));
  }
  return status_;
}

}  // namespace tilekv
