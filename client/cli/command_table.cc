#include "client/cli/command_table.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"

namespace tilekv {
namespace {

// Insertions, deletions, changes and swaps of neighbours that make `a` to `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

void Append(std::vector<CommandSpec>& all, std::vector<CommandSpec> part) {
  std::move(part.begin(), part.end(), std::back_inserter(all));
}

}  // namespace

std::string CommandSpec::Usage() const {
  std::string out = path();
  for (const ArgumentSpec& argument : arguments) {
    std::string name = argument.name + (argument.repeats ? "..." : "");
    out += argument.required ? " " + name : " [" + name + "]";
  }
  for (const FlagSpec& flag : flags) {
    out += fmt::format(" [{}{}{}]{}", flag.short_name.empty() ? flag.name : flag.short_name,
                       flag.value.empty() ? "" : " ", flag.value, flag.repeats ? "..." : "");
  }
  return out;
}

const std::vector<NounSpec>& Nouns() {
  static const std::vector<NounSpec> nouns = {
      {"kv", "plain values by key"},
      {"model", "models: import, export, versions, tags"},
      {"manifest", "how a model's matrices are cut and where the tiles are"},
      {"tensor", "tensors of a model, and slices of them"},
      {"store", "the store itself"},
      {"cluster", "a cluster of nodes: making it, its state, its settings"},
      {"node", "the nodes of a cluster"},
  };
  return nouns;
}

const std::vector<CommandSpec>& Commands() {
  static const std::vector<CommandSpec> commands = [] {
    std::vector<CommandSpec> all;
    Append(all, TopCommandSpecs());
    all.push_back(PerfSpec());
    Append(all, CompletionCommandSpecs());
    Append(all, KvCommandSpecs());
    Append(all, ModelFileCommandSpecs());
    Append(all, ModelDiffCommandSpecs());
    Append(all, ModelVersionCommandSpecs());
    Append(all, ManifestCommandSpecs());
    Append(all, TensorCommandSpecs());
    Append(all, StoreCommandSpecs());
    Append(all, ClusterCommandSpecs());
    Append(all, NodeCommandSpecs());
    return all;
  }();
  return commands;
}

const std::vector<FlagSpec>& GlobalFlags() {
  static const std::vector<FlagSpec> flags = {
      {"--store", "", "URI",
       "the store: tilekv://HOST[:PORT], file:DIR or DIR (default: $TILEKV_STORE)"},
      {"--output",
       "-o",
       "FORMAT",
       "table, wide, json or jsonl (default: table)",
       false,
       {"table", "wide", "json", "jsonl"}},
      {"--memory", "", "BYTES",
       fmt::format("memory for what is in flight (default: 1/{} of the machine's, {} to {})",
                   kClientMemoryShare, FormatSizeShort(kLeastMemoryBytes),
                   FormatSizeShort(kGreatestDefaultClientMemoryBytes))},
      {"--quiet", "-q", "", "no progress, no remarks; results and errors only"},
      {"--yes", "-y", "", "do not ask; overwrite existing files"},
      {"--help", "-h", "", "show help"},
  };
  return flags;
}

const CommandSpec* FindCommand(std::string_view noun, std::string_view verb) {
  for (const CommandSpec& command : Commands()) {
    if (command.noun == noun && command.verb == verb) return &command;
  }
  return nullptr;
}

bool IsNoun(std::string_view word) {
  return std::any_of(Nouns().begin(), Nouns().end(),
                     [&](const NounSpec& noun) { return noun.noun == word; });
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  // Words that nobody mistypes are not worth the table.
  if (word.size() > kMaxNameBytes) return "";
  std::string nearest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(word, candidate);
    if (distance < least && distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace tilekv
