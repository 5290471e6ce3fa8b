#include "kvstore/node/commit_tree.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr uint16_t kCommitVersion = 1;

}  // namespace

Tree ToTree(const CommitTree& commit) {
  TILEKV_CHECK(commit.commit_id.size() == kCommitIdBytes);
  TILEKV_CHECK(commit.line_id.size() == kCommitIdBytes);
  TILEKV_CHECK(commit.previous_commit_id.size() == kCommitIdBytes);
  Tree tree;
  tree.level = kCommitTreeLevel;
  tree.type = TreeType::kCommit;
  tree.children.push_back(commit.root);
  if (commit.sources) tree.children.push_back(*commit.sources);
  std::string& out = tree.opaque;
  AppendLe<uint16_t>(out, kCommitVersion);
  AppendLe<uint16_t>(out, 0);
  AppendLe<uint32_t>(out, 0);
  AppendLe<uint64_t>(out, commit.number);
  out += commit.commit_id;
  out += commit.line_id;
  out += commit.previous_commit_id;
  AppendLe<int64_t>(out, commit.created_micros);
  AppendLe<uint64_t>(out, commit.logical_bytes);
  AppendLe<uint64_t>(out, commit.tensor_count);
  AppendLe<uint64_t>(out, commit.base_number);
  for (const std::string* text : {&commit.ns, &commit.name, &commit.base_ns, &commit.base_name,
                                  &commit.message, &commit.author}) {
    AppendText(out, *text);
  }
  return tree;
}

absl::StatusOr<CommitTree> ParseCommitTree(const Tree& tree) {
  if (tree.type != TreeType::kCommit || tree.level != kCommitTreeLevel || tree.children.empty() ||
      tree.children.size() > 2) {
    return MakeError(Reason::kInvalidArgument, "the tree is not a commit");
  }
  ByteReader reader(AsBytes(tree.opaque));
  uint16_t version = reader.Read<uint16_t>();
  if (version != kCommitVersion) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the commit has version {}; this program reads version {}",
                                 version, kCommitVersion));
  }
  bool padded = reader.Read<uint16_t>() == 0;
  padded = reader.Read<uint32_t>() == 0 && padded;
  CommitTree commit;
  commit.number = reader.Read<uint64_t>();
  commit.commit_id = AsText(reader.Take(kCommitIdBytes));
  commit.line_id = AsText(reader.Take(kCommitIdBytes));
  commit.previous_commit_id = AsText(reader.Take(kCommitIdBytes));
  commit.created_micros = reader.Read<int64_t>();
  commit.logical_bytes = reader.Read<uint64_t>();
  commit.tensor_count = reader.Read<uint64_t>();
  commit.base_number = reader.Read<uint64_t>();
  for (std::string* text : {&commit.ns, &commit.name, &commit.base_ns, &commit.base_name,
                            &commit.message, &commit.author}) {
    *text = reader.TakeText();
  }
  if (!reader.ok() || !reader.empty() || !padded) {
    return MakeError(Reason::kInvalidArgument, "the commit's record is damaged");
  }
  commit.root = tree.children[0];
  if (tree.children.size() == 2) commit.sources = tree.children[1];
  return commit;
}

}  // namespace tilekv
