#include "kvstore/object/tree.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr char kMagic[] = "TKVT";

absl::Status Bad(std::string text) { return MakeError(Reason::kInvalidArgument, "tree: " + text); }

absl::Status TooShort(uint64_t bytes) {
  return Bad(fmt::format("{} bytes are shorter than its header", bytes));
}

// All that the header alone tells.
absl::StatusOr<TreeHeader> ParseHeader(uint8_t level, Bytes content) {
  ByteReader in(content);
  if (AsText(in.Take(4)) != kMagic) return Bad("it does not begin with TKVT");
  TreeHeader header;
  header.version = in.Read<uint16_t>();
  header.level = in.Read<uint8_t>();
  header.type = in.Read<uint8_t>();
  header.children = in.Read<uint32_t>();
  header.opaque_length = in.Read<uint64_t>();
  if (!in.ok()) return TooShort(content.size());
  if (header.version != kTreeVersion)
    return Bad(fmt::format("version {} is not known", header.version));
  if (header.level != level || level < 1 || level > kMaxLevel) {
    return Bad(fmt::format("its level is {}, the object's {}", header.level, level));
  }
  if (header.children > kMaxChildren) {
    return Bad(fmt::format("{} children are more than {}", header.children, kMaxChildren));
  }
  return header;
}

absl::Status CheckTotal(const TreeHeader& header, uint64_t total_bytes) {
  uint64_t table = header.children * kTreeChildBytes;
  uint64_t rest = total_bytes - kTreeHeaderBytes;
  if (rest >= table && rest - table == header.opaque_length) return absl::OkStatus();
  return Bad(fmt::format("{} children and {} opaque bytes do not make its {} bytes",
                         header.children, header.opaque_length, total_bytes));
}

// `content` may lack the end of the opaque part of a tree of `total_bytes`.
absl::StatusOr<TreeHeader> DecodeHeader(uint8_t level, Bytes content, uint64_t total_bytes) {
  TILEKV_ASSIGN_OR_RETURN(TreeHeader header, ParseHeader(level, content));
  TILEKV_RETURN_IF_ERROR(CheckTotal(header, total_bytes));
  if (content.size() - kTreeHeaderBytes < header.children * kTreeChildBytes) {
    return Bad(
        fmt::format("{} bytes are shorter than its {} children", content.size(), header.children));
  }
  return header;
}

// Child number `index`, of kTreeChildBytes.
absl::StatusOr<ObjectRef> DecodeChild(const TreeHeader& header, uint32_t index, Bytes entry) {
  ByteReader in(entry);
  ObjectRef child;
  Bytes id = in.Take(child.id.bytes.size());
  std::memcpy(child.id.bytes.data(), id.data(), id.size());
  child.length = in.Read<uint64_t>();
  child.level = in.Read<uint8_t>();
  Bytes padding = in.Take(3);
  uint32_t reserved = in.Read<uint32_t>();
  if (child.level >= header.level) {
    return Bad(
        fmt::format("child {} has level {}, not below {}", index, child.level, header.level));
  }
  if (reserved != 0 || padding[0] != 0 || padding[1] != 0 || padding[2] != 0) {
    return Bad(fmt::format("child {} has bytes that must be zero", index));
  }
  return child;
}

absl::StatusOr<std::vector<ObjectRef>> DecodeTable(const TreeHeader& header, Bytes table) {
  std::vector<ObjectRef> children(header.children);
  for (uint32_t i = 0; i < header.children; ++i) {
    TILEKV_ASSIGN_OR_RETURN(
        children[i], DecodeChild(header, i, table.subspan(i * kTreeChildBytes, kTreeChildBytes)));
  }
  return children;
}

}  // namespace

std::string EncodeTree(const Tree& tree) {
  TILEKV_CHECK(tree.level >= 1 && tree.level <= kMaxLevel && tree.children.size() <= kMaxChildren);
  std::string out;
  out.reserve(TreeBytes(tree.children.size(), tree.opaque.size()));
  out.append(kMagic, 4);
  AppendLe<uint16_t>(out, kTreeVersion);
  AppendLe<uint8_t>(out, tree.level);
  AppendLe<uint8_t>(out, static_cast<uint8_t>(tree.type));
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tree.children.size()));
  AppendLe<uint64_t>(out, tree.opaque.size());
  for (const ObjectRef& child : tree.children) {
    TILEKV_CHECK(child.level < tree.level);
    out.append(child.id.view());
    AppendLe<uint64_t>(out, child.length);
    AppendLe<uint8_t>(out, child.level);
    out.append(3, '\0');
    AppendLe<uint32_t>(out, 0);
  }
  out.append(tree.opaque);
  return out;
}

absl::StatusOr<std::vector<ObjectRef>> DecodeTreeHead(uint8_t level, Bytes head,
                                                      uint64_t total_bytes) {
  TILEKV_ASSIGN_OR_RETURN(TreeHeader header, DecodeHeader(level, head, total_bytes));
  return DecodeTable(header, head.subspan(kTreeHeaderBytes, header.children * kTreeChildBytes));
}

absl::StatusOr<std::vector<ObjectRef>> DecodeTreeChildren(uint8_t level, Bytes content) {
  return DecodeTreeHead(level, content, content.size());
}

void TreeCheck::Add(Bytes piece) {
  while (!piece.empty() && status_.ok() && (!header_ || children_ < header_->children)) {
    uint64_t entry_bytes = header_ ? kTreeChildBytes : kTreeHeaderBytes;
    Bytes part = piece.first(std::min<uint64_t>(piece.size(), entry_bytes - entry_.size()));
    piece = piece.subspan(part.size());
    entry_.append(AsText(part));
    if (entry_.size() == entry_bytes) TakeEntry();
  }
}

void TreeCheck::TakeEntry() {
  if (header_) {
    status_ = DecodeChild(*header_, children_++, AsBytes(entry_)).status();
  } else {
    absl::StatusOr<TreeHeader> header = ParseHeader(level_, AsBytes(entry_));
    status_ = header.status();
    if (header.ok()) header_ = *header;
  }
  entry_.clear();
}

absl::Status TreeCheck::Finish(uint64_t total_bytes) const {
  TILEKV_RETURN_IF_ERROR(status_);
  return header_ ? CheckTotal(*header_, total_bytes) : TooShort(total_bytes);
}

uint64_t TreeHeadBytes(Bytes beginning) {
  constexpr size_t kCountOffset = 8;
  ByteReader in(beginning);
  in.Take(kCountOffset);
  return TreeBytes(std::min(in.Read<uint32_t>(), kMaxChildren), 0);
}

absl::StatusOr<Tree> DecodeTree(uint8_t level, Bytes content) {
  TILEKV_ASSIGN_OR_RETURN(TreeHeader header, DecodeHeader(level, content, content.size()));
  Tree tree;
  tree.level = header.level;
  tree.type = static_cast<TreeType>(header.type);
  TILEKV_ASSIGN_OR_RETURN(
      tree.children,
      DecodeTable(header, content.subspan(kTreeHeaderBytes, header.children * kTreeChildBytes)));
  tree.opaque = AsText(content.last(header.opaque_length));
  return tree;
}

}  // namespace tilekv
