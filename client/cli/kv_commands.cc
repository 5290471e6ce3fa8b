// tilekv kv ...: plain values by key.
#include <functional>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/local_file.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

absl::Status NoSuchKey(std::string_view key) {
  return MakeError(Reason::kNotFound, fmt::format("there is no value '{}'", Printable(key)));
}

absl::Status Conflict(std::string_view key, uint64_t found) {
  return MakeError(Reason::kVersionConflict,
                   found == 0 ? fmt::format("'{}' is absent; nothing was changed", Printable(key))
                              : fmt::format("'{}' is at version {}; nothing was changed",
                                            Printable(key), found));
}

Json ValueJson(const ValueInfo& info) {
  Json json;
  json["key"] = JsonText(info.key);
  if (!IsValidUtf8(info.key)) json["key_hex"] = HexEncode(AsBytes(info.key));
  json["version"] = info.version;
  json["length"] = info.length;
  json["modified"] = FormatTime(info.modified_micros, true);
  json["chunked"] = info.chunked;
  return json;
}

// A range that counts from the end, or a bar, needs the length first.
absl::StatusOr<ByteRange> ResolveRange(Context& context, KvStore& store, const std::string& key,
                                       const std::optional<std::string>& text,
                                       std::optional<uint64_t> length) {
  if (!text.has_value()) return ByteRange{};
  TILEKV_ASSIGN_OR_RETURN(RangeText range, ParseRange(*text));
  if (!length.has_value() && range.NeedsLength()) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info, store.Stat(key, context.call()));
    if (!info.has_value()) return NoSuchKey(key);
    length = info->length;
  }
  return range.Resolve(length.value_or(INT64_MAX));
}

absl::StatusOr<int> GetToOutput(Context& context, KvStore& store, const std::string& key,
                                const ByteRange& range) {
  OutputSink sink(context.out());
  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info,
                          store.Get(key, sink, range, context.call()));
  if (!info.has_value()) return NoSuchKey(key);
  return kExitDone;
}

absl::StatusOr<int> KvGet(Context& context, const Arguments& arguments) {
  const std::string key = arguments.Word(0);
  const std::string destination = arguments.Word(1);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(ByteRange range, ResolveRange(context, *store, key,
                                                        arguments.Value("--range"), std::nullopt));
  if (destination.empty() || destination == "-") return GetToOutput(context, *store, key, range);

  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> stat, store->Stat(key, context.call()));
  if (!stat.has_value()) return NoSuchKey(key);
  uint64_t start = std::min(range.offset, stat->length);
  uint64_t total = std::min(range.length.value_or(stat->length), stat->length - start);
  std::unique_ptr<Progress> progress = context.StartProgress("get");
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<LocalSink> sink,
      OpenLocalSink(
          destination, context.options().yes, context.call(),
          [&](uint64_t done, uint64_t all) { progress->Update(done, all); }, total));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info,
                          store->Get(key, *sink, range, context.call()));
  if (!info.has_value()) return NoSuchKey(key);
  TILEKV_RETURN_IF_ERROR(sink->Commit());
  progress->Finish();
  Json json = ValueJson(*info);
  json["destination"] = JsonText(destination);
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("'{}' version {} to {}", Printable(key), info->version, Printable(destination)),
      json));
  return kExitDone;
}

absl::StatusOr<int> KvPut(Context& context, const Arguments& arguments) {
  const std::string key = arguments.Word(0);
  PutOptions options{.chunked = arguments.Has("--chunked"), .context = context.call()};
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> version, arguments.Number("--if-version"));
  if (version.has_value() && arguments.Has("--if-absent")) {
    return MakeError(Reason::kInvalidArgument,
                     "--if-absent and --if-version exclude each other; --if-version 0 is absent");
  }
  if (version.has_value()) options.condition = WriteCondition::Version(*version);
  if (arguments.Has("--if-absent")) options.condition = WriteCondition::Absent();

  std::unique_ptr<Progress> progress = context.StartProgress("put");
  TILEKV_ASSIGN_OR_RETURN(
      std::unique_ptr<ByteSource> source,
      OpenLocalSource(arguments.Word(1), context.call(),
                      [&](uint64_t done, uint64_t total) { progress->Update(done, total); }));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(PutResult result, store->Put(key, *source, options));
  progress->Finish();
  if (!result.applied) return Conflict(key, result.version);
  Json json;
  json["key"] = JsonText(key);
  json["version"] = result.version;
  json["length"] = result.length;
  TILEKV_RETURN_IF_ERROR(context.Done(fmt::format("'{}' stored: {}, version {}", Printable(key),
                                                  FormatSize(result.length), result.version),
                                      json));
  return kExitDone;
}

absl::StatusOr<int> KvStat(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info,
                          store->Stat(arguments.Word(0), context.call()));
  if (!info.has_value()) return NoSuchKey(arguments.Word(0));
  if (context.out().is_json()) {
    TILEKV_RETURN_IF_ERROR(context.out().Document(ValueJson(*info)));
    return kExitDone;
  }
  TILEKV_RETURN_IF_ERROR(context.out().Line(fmt::format(
      "key       {}\nversion   {}\nlength    {} ({} bytes)\nmodified  {}\nstored    {}",
      Printable(info->key), info->version, FormatSize(info->length), FormatCount(info->length),
      FormatTime(info->modified_micros), info->chunked ? "in chunks" : "as one object")));
  return kExitDone;
}

absl::StatusOr<int> KvList(Context& context, const Arguments& arguments) {
  ListOptions options{.prefix = arguments.Word(0),
                      .after = arguments.Value("--after").value_or("")};
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> limit, arguments.Number("--limit"));
  uint64_t left = limit.value_or(UINT64_MAX);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  ListPrinter printer(context.out(), {{"KEY"},
                                      {"VERSION", true},
                                      {"SIZE", true},
                                      {"MODIFIED"},
                                      {"BYTES", true, true},
                                      {"STORED", false, true}});
  while (left > 0) {
    TILEKV_RETURN_IF_ERROR(context.call().Check());
    options.limit = static_cast<uint32_t>(std::min<uint64_t>(left, kMaxListPageEntries));
    TILEKV_ASSIGN_OR_RETURN(ValuePage page, store->List(options, context.call()));
    for (const ValueInfo& info : page.values) {
      TILEKV_RETURN_IF_ERROR(
          printer.Add({{Printable(info.key), std::to_string(info.version), FormatSize(info.length),
                        FormatTime(info.modified_micros), FormatCount(info.length),
                        info.chunked ? "chunked" : "whole"},
                       ValueJson(info)}));
    }
    left -= std::min<uint64_t>(left, page.values.size());
    if (!page.more || page.values.empty()) break;
    options.after = page.values.back().key;
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  return kExitDone;
}

absl::StatusOr<int> KvRemove(Context& context, const Arguments& arguments) {
  const std::string key = arguments.Word(0);
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> version, arguments.Number("--if-version"));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info, store->Stat(key, context.call()));
  if (!info.has_value()) return NoSuchKey(key);
  TILEKV_RETURN_IF_ERROR(context.Ask(
      fmt::format("This removes the value '{}' ({}, version {}). It cannot be brought back.",
                  Printable(key), FormatSize(info->length), info->version)));
  TILEKV_ASSIGN_OR_RETURN(
      DeleteResult result,
      store->Delete(
          key, version.has_value() ? WriteCondition::Version(*version) : WriteCondition::None(),
          context.call()));
  if (!result.applied) return Conflict(key, result.version_found);
  if (!result.existed) return NoSuchKey(key);
  Json json;
  json["key"] = JsonText(key);
  json["removed"] = true;
  TILEKV_RETURN_IF_ERROR(context.Done(fmt::format("'{}' removed", Printable(key)), json));
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> KvCommandSpecs() {
  const FlagSpec if_version = {"--if-version", "", "N",
                               "only if the value is at this version; 0: only if it is absent"};
  return {
      {.noun = "kv",
       .verb = "get",
       .arguments = {{"KEY", "the value's key"},
                     {"DST", "a file, or - for standard output (the default)", false}},
       .summary = "read a value",
       .help =
           "The bytes are verified before they are written. A file appears whole or not at all; "
           "an existing one needs -y.",
       .flags = {{"--range", "", "A:B",
                  "bytes A to B, B not included; negative numbers count from the end"}},
       .examples = {{"tilekv kv get config.json", "to standard output"},
                    {"tilekv kv get log tail.txt --range -64KiB:", "the last 64 KiB"}},
       .access = Access::kRead,
       .handler = KvGet},
      {.noun = "kv",
       .verb = "put",
       .arguments = {{"KEY", fmt::format("1 to {} bytes", FormatCount(kMaxKeyBytes))},
                     {"SRC", "a file, or - for standard input"}},
       .summary = "store a value",
       .help = "A value above the store's object limit is refused (OBJECT_TOO_LARGE) unless "
               "--chunked is given; a matrix is better stored with 'tilekv model import'.",
       .flags = {{"--chunked", "", "", "store a value above the object limit in chunks"},
                 {"--if-absent", "", "", "only if there is no such value"},
                 if_version},
       .examples = {{"tilekv kv put config.json ./config.json", "from a file"},
                    {"tar c data | tilekv kv put data.tar - --chunked", "of unknown length"}},
       .access = Access::kWrite,
       .handler = KvPut},
      {.noun = "kv",
       .verb = "stat",
       .arguments = {{"KEY", "the value's key"}},
       .summary = "version, length and time of a value",
       .access = Access::kRead,
       .handler = KvStat},
      {.noun = "kv",
       .verb = "ls",
       .arguments = {{"PREFIX", "of keys", false}},
       .summary = "list values in order of key",
       .flags = {{"--after", "", "KEY", "resume: keys above this one"},
                 {"--limit", "", "N", "at most N values"}},
       .access = Access::kRead,
       .handler = KvList},
      {.noun = "kv",
       .verb = "rm",
       .arguments = {{"KEY", "the value's key"}},
       .summary = "remove a value",
       .help = "Asks first; -y does not. A value cannot be brought back.",
       .flags = {if_version},
       .access = Access::kChange,
       .handler = KvRemove},
  };
}

}  // namespace tilekv
