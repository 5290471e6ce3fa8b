#include "client/cli/model_removal.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/cli/arguments.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kDay_s = 24 * 3600;

using VersionList = std::vector<v1::VersionInfo>;

// `rm MODEL` says too little: which versions?
absl::Status NeedsVersion(const ModelName& name) {
  const std::string model = name.ToString();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("which versions of '{0}'? Write 'tilekv model rm {0}@N' for version "
                               "N, or 'tilekv model rm {0} --all-versions'",
                               model));
}

absl::Status TaggedError(const VersionList& tagged) {
  std::string text;
  for (const v1::VersionInfo& version : tagged) {
    for (const std::string& tag : version.tags()) {
      text += fmt::format("{} is tagged '{}'; remove the tag first: tilekv model untag {} {}\n",
                          VersionText(version), tag, ModelText(version.ns(), version.name()), tag);
    }
  }
  return MakeError(Reason::kVersionConflict, text + "nothing was removed");
}

// The versions of the line's names, each once, none tagged.
absl::StatusOr<VersionList> NamedVersions(Context& context, KvStore& store,
                                          const std::vector<ModelName>& names) {
  VersionList versions;
  for (const ModelName& name : names) {
    TILEKV_ASSIGN_OR_RETURN(v1::VersionInfo version, ResolveModel(context, store, name));
    bool known = std::any_of(versions.begin(), versions.end(), [&](const v1::VersionInfo& other) {
      return VersionText(other) == VersionText(version);
    });
    if (!known) versions.push_back(std::move(version));
  }
  return versions;
}

absl::StatusOr<VersionList> AllVersions(Context& context, KvStore& store, const ModelName& name) {
  v1::ListVersionsRequest request;
  request.set_ns(name.ns);
  request.set_name(name.name);
  VersionList versions;
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::ListVersionsResponse page,
                            store.node().ListVersions(request, context.call()));
    if (!page.model_exists() || (page.versions().empty() && versions.empty())) {
      return MakeError(Reason::kNotFound,
                       page.model_exists()
                           ? fmt::format("'{}' has no live version", name.ToString())
                           : fmt::format("there is no model '{}'", name.ToString()));
    }
    versions.insert(versions.end(), page.versions().begin(), page.versions().end());
    if (!page.more() || page.versions().empty()) return versions;
    request.set_before(page.versions().rbegin()->record().number());
  }
}

std::string Plan(const VersionList& versions, bool now) {
  std::string plan = "This removes\n";
  for (const v1::VersionInfo& version : versions) {
    const v1::VersionRecord& record = version.record();
    plan += fmt::format(
        "  {}  {}, {}, of {}{}{}\n", VersionText(version), FormatSize(record.logical_bytes()),
        Counted(record.tensor_count(), "tensor"), FormatTime(record.created_micros()),
        record.message().empty() ? "" : "  ", Printable(record.message()));
  }
  plan += now ? "at once. It cannot be brought back."
              : fmt::format("For {} days 'tilekv model undelete MODEL@N' brings it back.",
                            kDeleteGrace_s / kDay_s);
  return plan;
}

VersionList TaggedOf(const VersionList& versions) {
  VersionList tagged;
  std::copy_if(versions.begin(), versions.end(), std::back_inserter(tagged),
               [](const v1::VersionInfo& version) { return !version.tags().empty(); });
  return tagged;
}

// One request a model. Numbers rather than "all": only what the plan showed goes.
absl::StatusOr<std::vector<std::string>> Remove(Context& context, KvStore& store,
                                                const VersionList& versions, bool now) {
  std::map<std::pair<std::string, std::string>, v1::DeleteVersionsRequest> requests;
  for (const v1::VersionInfo& version : versions) {
    v1::DeleteVersionsRequest& request = requests[{version.ns(), version.name()}];
    request.set_ns(version.ns());
    request.set_name(version.name());
    request.set_now(now);
    request.add_numbers(version.record().number());
  }
  std::vector<std::string> removed;
  for (const auto& [name, request] : requests) {
    TILEKV_ASSIGN_OR_RETURN(v1::DeleteVersionsResponse response,
                            store.node().DeleteVersions(request, context.call()));
    if (!response.tagged().empty()) {
      return TaggedError({response.tagged().begin(), response.tagged().end()});
    }
    for (uint64_t number : response.deleted()) {
      removed.push_back(ModelText(name.first, name.second, number));
    }
  }
  return removed;
}

absl::StatusOr<int> ModelRemove(Context& context, const Arguments& arguments) {
  bool all = arguments.Has("--all-versions");
  bool now = arguments.Has("--now");
  std::vector<ModelName> names;
  for (const std::string& word : arguments.WordsFrom(0)) {
    TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(word));
    if (!all && name.version.empty()) return NeedsVersion(name);
    if (all && !name.version.empty()) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("'{}' names a version; --all-versions takes a model without one",
                                   name.ToString()));
    }
    names.push_back(std::move(name));
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  VersionList versions;
  if (all) {
    for (const ModelName& name : names) {
      TILEKV_ASSIGN_OR_RETURN(VersionList part, AllVersions(context, *store, name));
      std::move(part.begin(), part.end(), std::back_inserter(versions));
    }
  } else {
    TILEKV_ASSIGN_OR_RETURN(versions, NamedVersions(context, *store, names));
  }
  if (VersionList tagged = TaggedOf(versions); !tagged.empty()) return TaggedError(tagged);
  TILEKV_RETURN_IF_ERROR(context.Ask(Plan(versions, now)));
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> removed, Remove(context, *store, versions, now));
  Json json;
  json["removed"] = removed;
  json["purged"] = now;
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("removed{}: {}", now ? " for good" : "", fmt::join(removed, ", ")), json));
  return kExitDone;
}

absl::StatusOr<int> ModelUndelete(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(arguments.Word(0)));
  if (name.version.empty()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("which version? Write '{0}@N'; 'tilekv model log {0} --deleted' "
                                 "lists the deleted ones",
                                 name.ToString()));
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::VersionInfo version, ResolveModel(context, *store, name, true));
  v1::UndeleteVersionRequest request;
  request.set_ns(version.ns());
  request.set_name(version.name());
  request.set_number(version.record().number());
  TILEKV_ASSIGN_OR_RETURN(v1::UndeleteVersionResponse response,
                          store->node().UndeleteVersion(request, context.call()));
  if (!response.restored()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("{} is not a deleted version", VersionText(version)));
  }
  Json json;
  json["restored"] = VersionText(version);
  TILEKV_RETURN_IF_ERROR(
      context.Done(fmt::format("{} is back; tags it had are not", VersionText(version)), json));
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> ModelRemovalSpecs() {
  const std::string grace = fmt::format("{} days", kDeleteGrace_s / kDay_s);
  return {
      {.noun = "model",
       .verb = "rm",
       .arguments = {{"MODEL", "[NS/]NAME@VERSION; [NS/]NAME with --all-versions", true, true}},
       .summary = "remove versions",
       .help =
           fmt::format("Shows what goes and asks; -y does not. For {} 'model undelete' brings a "
                       "version back. A tagged version is not removed. Numbers are never used "
                       "again.",
                       grace),
       .flags = {{"--all-versions", "", "", "every live version of MODEL"},
                 {"--now", "", "", fmt::format("for good, without the {}", grace)}},
       .examples = {{"tilekv model rm minilm@1 minilm@2", ""},
                    {"tilekv model rm minilm --all-versions", ""}},
       .access = Access::kChange,
       .handler = ModelRemove},
      {.noun = "model",
       .verb = "undelete",
       .arguments = {{"MODEL", "[NS/]NAME@N"}},
       .summary = fmt::format("bring back a version removed less than {} ago", grace),
       .access = Access::kChange,
       .handler = ModelUndelete},
  };
}

}  // namespace tilekv
