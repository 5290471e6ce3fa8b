#include "client/cli/explain.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr std::string_view kNodeScheme = "tilekv://";
// What whole leaves and blocks add to a sensible read.
constexpr double kReadTooMuch = 1.1;
constexpr char kRest[] = "rest";
// In less, beginning and ending are much of all.
constexpr double kShortSeconds = 0.5;

// "": the store is in this process.
std::string NodeOf(const std::string& uri) {
  return uri.rfind(kNodeScheme, 0) == 0 ? uri.substr(kNodeScheme.size()) : "";
}

double Seconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

std::string Percent(double share) { return fmt::format("{:.0f} %", share * 100); }

using Part = Explanation::Part;
using Block = Explanation::Block;

bool TookLonger(const Part& a, const Part& b) { return a.nanos > b.nanos; }

// Adds a block of what took time, most first, and what is left of `all_nanos`.
void AddBlock(Explanation& explanation, Block block, std::vector<Part> parts, int64_t all_nanos,
              const std::string& rest) {
  int64_t known_nanos = 0;
  for (Part& part : parts) {
    if (part.nanos <= 0) continue;
    known_nanos += part.nanos;
    block.parts.push_back(std::move(part));
  }
  if (block.parts.empty()) return;
  std::stable_sort(block.parts.begin(), block.parts.end(), TookLonger);
  // Clocks of many threads may have seen a little more than there was.
  block.nanos = std::max(all_nanos, known_nanos);
  if (block.nanos > known_nanos) {
    block.parts.push_back({kRest, rest, "not known", block.nanos - known_nanos});
  }
  explanation.blocks.push_back(std::move(block));
}

// Of the threads that do the work, added up.
void AddThreads(Explanation& explanation, std::vector<Part> parts) {
  const int threads = explanation.run.threads;
  const std::string head = threads == 0   ? "TIME OF ALL THREADS"
                           : threads == 1 ? "TIME OF 1 THREAD"
                                          : fmt::format("TIME OF {} THREADS, ADDED UP", threads);
  AddBlock(explanation, {.key = "threads", .head = head, .whose = "the time"}, std::move(parts),
           static_cast<int64_t>(explanation.run.seconds * 1e9 * threads),
           "on nothing of this (setting up, handing over, nothing to do)");
}

// Of the one beside them that writes what they have read.
void AddWriter(Explanation& explanation, int64_t destination_nanos) {
  AddBlock(explanation,
           {.key = "writer",
            .head = "BESIDE THEM, TIME OF THE THREAD THAT WRITES",
            .whose = "the writing thread's time"},
           {{"destination", "writing the destination", "the destination", destination_nanos}},
           static_cast<int64_t>(explanation.run.seconds * 1e9),
           "waiting for the others, and setting up");
}

struct Largest {
  const Block* block;
  const Part* part;
  double share() const { return ShareOf(*block, *part); }
  double rest_share() const {
    const Part& last = block->parts.back();
    return last.key == kRest ? ShareOf(*block, last) : 0;
  }
};

// Of all that is known. Readers that wait for memory wait for whoever takes what they have read:
// where that is a slow destination, memory is not what is missing.
Largest FindLargest(const Explanation& explanation) {
  const Block& first = explanation.blocks.front();
  Largest largest{&first, &first.parts.front()};
  for (const Block& block : explanation.blocks) {
    Largest other{&block, &block.parts.front()};
    const bool writes_mostly = block.key == "writer" && other.share() >= 0.5;
    if (writes_mostly || other.share() > largest.share()) largest = other;
  }
  return largest;
}

std::vector<std::string> AdviceFor(const Explanation& explanation, std::string_view key) {
  if (key == "fetch" && !NodeOf(explanation.run.store_uri).empty()) {
    return {"'tilekv perf' tells whether it is the network or the node",
            "coded tiles are fewer bytes: 'tilekv store recode'",
            "read less: 'tensor get' with a slice, or a shard"};
  }
  if (key == "fetch") return {"'tilekv perf' compares the store with its disk"};
  if (key == "verify") {
    return {"who trusts disk and network can read without verifying: try 'model load --no-verify'"};
  }
  if (key == "decode") return {"tiles that are not coded: 'tilekv store recode --codec none'"};
  if (key == "place") return {"a layout that is nearer to what is read: 'model import --layout'"};
  if (key == "budget") {
    return {fmt::format("more --memory: it was {}", FormatSizeShort(explanation.run.memory_bytes))};
  }
  if (key == "retry")
    return {"the node is overloaded: fewer clients at once, or more memory for it"};
  if (key == "destination") return {"a faster disk for the destination"};
  if (key == "source") return {"a faster disk for the source"};
  if (key == "inflate") return {"numpy.savez, which does not deflate"};
  if (key == "turn") {
    return {"arrays in C order and of this machine's byte order, as numpy.ascontiguousarray gives"};
  }
  if (key == "put") {
    return {"'tilekv perf' compares the store with disk and network",
            "coded tiles are fewer bytes: '--codec auto'"};
  }
  if (key == "encode") return {"'--codec none' codes nothing, and stores more"};
  if (key == "link" || key == "commit") return {"the node's disk syncs slowly, or it is far away"};
  return {};
}

void Conclude(Explanation& explanation) {
  if (explanation.blocks.empty()) return;
  const Largest largest = FindLargest(explanation);
  const Part& part = *largest.part;
  if (largest.share() >= largest.rest_share()) {
    explanation.limit = fmt::format("{}: {} of {} was spent {}", part.who, Percent(largest.share()),
                                    largest.block->whose, part.what);
    explanation.advice = AdviceFor(explanation, part.key);
  } else {
    const double seconds = explanation.run.seconds;
    explanation.limit = fmt::format(
        "not known{}: the largest part was {} ({}) with {} of {}, and {} is the rest",
        seconds < kShortSeconds ? fmt::format(", {:.3f} s are too short to tell", seconds) : "",
        part.what, part.who, Percent(largest.share()), largest.block->whose,
        Percent(largest.rest_share()));
  }
  const auto asked = static_cast<double>(explanation.asked_bytes);
  const auto received = static_cast<double>(explanation.received_bytes);
  if (asked == 0 || received <= asked * kReadTooMuch) return;
  // Which small tensors share an object goes by their names: a layout has no say in it.
  const bool packs = explanation.run.packed_bytes > explanation.run.bytes / 2;
  explanation.advice.push_back(
      fmt::format("{:.1f} times the bytes asked for were read: {}", received / asked,
                  packs ? "small tensors share objects in the order of their names, and were asked "
                          "for in another or in part"
                        : "another layout fits better"));
}

double BytesPerSecond(const ExplainedRun& run) {
  return run.seconds > 0 ? static_cast<double>(run.bytes) / run.seconds : 0;
}

std::string SlowestText(const SlowestExchange& slowest) {
  std::string text = fmt::format("slowest exchange: {:.3f} s", Seconds(slowest.nanos));
  if (slowest.bytes > 0) text += fmt::format(" for {}", FormatSize(slowest.bytes));
  if (!slowest.what.empty()) text += " from " + slowest.what;
  if (!slowest.node.empty()) text += ", node " + slowest.node;
  return text;
}

}  // namespace

Explanation ExplainRead(const ExplainedRun& run, const ReadStats& stats,
                        int64_t destination_nanos) {
  Explanation out{.run = run,
                  .asked_bytes = stats.asked_bytes,
                  .received_bytes = stats.received_bytes,
                  .exchanges = stats.exchanges,
                  .retries = stats.retries,
                  .slowest = stats.slowest};
  const std::string node = NodeOf(run.store_uri);
  AddThreads(out, {{"fetch", node.empty() ? "reading the store's disk" : "waiting for node " + node,
                    node.empty() ? "the disk" : "the network or the node", stats.times.fetch_nanos},
                   {"verify", "verifying", "the processor", stats.times.verify_nanos},
                   {"decode", "decoding", "the processor", stats.times.decode_nanos},
                   {"place", "copying to where it goes", "the processor", stats.times.place_nanos},
                   {"budget", "waiting for memory", "memory", stats.budget_nanos},
                   {"retry", "waiting to try again", "the node", stats.retry_nanos}});
  AddWriter(out, destination_nanos);
  Conclude(out);
  return out;
}

Explanation ExplainWrite(const ExplainedRun& run, const WriteCost& cost) {
  Explanation out{.run = run, .is_write = true, .sent_bytes = cost.put.sent_bytes};
  out.retries = cost.put.retries;
  const std::string node = NodeOf(run.store_uri);
  out.slowest = {.nanos = cost.slowest_put_nanos, .node = node};
  // One thread commits, and all others have nothing to do.
  const int64_t commit_nanos = cost.commit_nanos * std::max(run.threads, 1);
  AddThreads(out,
             {{"source", "reading the source", "the source", cost.source_nanos},
              {"inflate", "inflating the source", "the processor", cost.inflate_nanos},
              {"turn", "turning the source's elements around", "the processor", cost.turn_nanos},
              {"hash", "hashing", "the processor", cost.hash_nanos},
              {"link", "asking what the store has", node.empty() ? "the disk" : "the node",
               cost.link_nanos},
              {"encode", "coding", "the processor", cost.put.encode_nanos},
              {"put",
               node.empty() ? "writing to the store's disk"
                            : fmt::format("sending to node {} until it was on its disk", node),
               node.empty() ? "the disk" : "the network or the node's disk", cost.put_nanos},
              {"commit", "committing", node.empty() ? "the disk" : "the node", commit_nanos},
              {"budget", "waiting for memory", "memory", cost.budget_nanos},
              {"retry", "waiting to try again", "the node", cost.put.retry_nanos}});
  Conclude(out);
  return out;
}

double ShareOf(const Block& block, const Part& part) {
  return block.nanos == 0 ? 0 : static_cast<double>(part.nanos) / static_cast<double>(block.nanos);
}

std::string ExplanationText(const Explanation& explanation) {
  std::string out;
  if (explanation.is_write) {
    out = fmt::format("sent {}", FormatSize(explanation.sent_bytes));
  } else {
    out = fmt::format("asked for {}, read {} in {}", FormatSize(explanation.asked_bytes),
                      FormatSize(explanation.received_bytes),
                      Counted(explanation.exchanges, "exchange"));
  }
  out += fmt::format("; {} of content, {}/s; {} tried again", FormatSize(explanation.run.bytes),
                     FormatSize(static_cast<uint64_t>(BytesPerSecond(explanation.run))),
                     Counted(explanation.retries, "call"));
  if (explanation.blocks.empty()) return out;
  size_t width = 0;
  for (const Block& block : explanation.blocks) {
    width = std::max(width, block.head.size());
    for (const Part& part : block.parts) width = std::max(width, part.what.size());
  }
  for (const Block& block : explanation.blocks) {
    out += fmt::format("\n\n{:<{}}  {:>9.3f} s  {:>5}", block.head, width, Seconds(block.nanos),
                       Percent(1));
    for (const Part& part : block.parts) {
      out += fmt::format("\n{:<{}}  {:>9.3f} s  {:>5}", part.what, width, Seconds(part.nanos),
                         Percent(ShareOf(block, part)));
    }
  }
  out += "\n\nlimit: " + explanation.limit;
  for (const std::string& advice : explanation.advice) out += "\ntry: " + advice;
  if (explanation.slowest.nanos > 0) out += "\n" + SlowestText(explanation.slowest);
  return out;
}

Json ExplanationJson(const Explanation& explanation) {
  Json json;
  json["seconds"] = explanation.run.seconds;
  json["bytes_per_second"] = BytesPerSecond(explanation.run);
  if (explanation.is_write) {
    json["sent_bytes"] = explanation.sent_bytes;
  } else {
    json["asked_bytes"] = explanation.asked_bytes;
    json["received_bytes"] = explanation.received_bytes;
    json["exchanges"] = explanation.exchanges;
  }
  json["retries"] = explanation.retries;
  json["parts"] = Json::array();
  for (const Block& block : explanation.blocks) {
    for (const Part& part : block.parts) {
      json["parts"].push_back({{"of", block.key},
                               {"part", part.key},
                               {"seconds", Seconds(part.nanos)},
                               {"share", ShareOf(block, part)}});
    }
  }
  json["slowest"] = {{"seconds", Seconds(explanation.slowest.nanos)},
                     {"bytes", explanation.slowest.bytes},
                     {"node", JsonText(explanation.slowest.node)},
                     {"what", JsonText(explanation.slowest.what)}};
  json["limit"] = explanation.limit;
  json["advice"] = explanation.advice;
  return json;
}

}  // namespace tilekv
