// What happens in a store's life.
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/store_life.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int64_t kDay_micros = 24 * 3'600 * int64_t{1'000'000};

}  // namespace

std::string StoreLife::Content::Name() const { return fmt::format("{}:{}", seed, length); }
std::string StoreLife::Content::Text() const { return TestContent(length, seed); }

std::string StoreLife::Model::Name() const {
  std::string name;
  for (const Content& tile : tiles) name += (name.empty() ? "" : "+") + tile.Name();
  return name;
}

Tree StoreLife::Model::Root() const {
  Tree root;
  root.level = 3;
  root.type = TreeType::kManifestRoot;
  for (const Content& tile : tiles) root.children.push_back(RefOf(0, AsBytes(tile.Text())));
  return root;
}

void StoreLife::DoSomething() {
  switch (random_.Below(21)) {
    case 0:
    case 1:
    case 2:
      return Put();
    case 3:
      return Delete();
    case 4:
      return BatchPut();
    case 5:
    case 6:
    case 7:
      return CommitModel();
    case 8:
      return SetTag();
    case 9:
      return RemoveTag();
    case 10:
    case 11:
      return DeleteVersion();
    case 12:
      return Undelete();
    case 13:
      return Collect();
    case 14:
      trace_ += " time";
      return store_.clock.Advance(static_cast<int64_t>(random_.Below(5)) * kDay_micros);
    case 15:
      return Copy();
    case 16:
      return Move();
    case 17:
      return Recode();
    case 18:
      return Repair();
    case 19:
      return SpoilAndHeal();
    default:
      return RestartOrCheck();
  }
}

void StoreLife::RestartOrCheck() {
  trace_ += " close";
  store_.env.RunJobs();
  store_.Close();
  if (store_.disk.is_off()) return;
  absl::Status opened = store_.Open();
  if (store_.disk.is_off()) return;
  if (!opened.ok()) return Fail("does not open again: " + ErrorText(opened));
  Compare();
}

StoreLife::Content StoreLife::SomeContent(uint64_t most_bytes) {
  constexpr uint64_t kLengths[] = {0, 100, 600, 5'000, 40'000, 70'000, 200'000, 600'000};
  size_t count = std::size(kLengths) - (most_bytes < kLengths[std::size(kLengths) - 1]);
  Content content{random_.Below(3), kLengths[random_.Below(count)]};
  if (content.length == 0) content.seed = 0;
  names_[content.Text()] = content.Name();
  return content;
}

std::string StoreLife::SomeKey() { return fmt::format("k{}", random_.Below(6)); }

void StoreLife::Put() {
  std::string key = SomeKey();
  Content content = SomeContent(kMiB);
  trace_ += fmt::format(" put {} {}", key, content.Name());
  PutOptions options;
  options.chunked = content.length > kMaxObjectBytes;
  bool absent = state_.count("value " + key) == 0;
  bool conditional = random_.Below(3) == 0;
  if (conditional) options.condition = WriteCondition::Absent();
  std::vector<Change> changes;
  if (absent || !conditional) changes.push_back({{"value " + key, content.Name()}});
  auto put = store_->Put(key, content.Text(), options);
  if (Acknowledged(put.status(), changes) && put->applied != !changes.empty()) {
    Fail("a put whose condition was not kept");
  }
}

void StoreLife::Delete() {
  std::string key = SomeKey();
  trace_ += " delete " + key;
  bool existed = state_.count("value " + key) != 0;
  auto deleted = store_->Delete(key);
  if (Acknowledged(deleted.status(), {{{"value " + key, std::nullopt}}}) &&
      deleted->existed != existed) {
    Fail("a delete that found something else");
  }
}

void StoreLife::BatchPut() {
  std::vector<BatchPutEntry> entries;
  std::vector<Change> changes;
  for (const char* key : {"k1", "k3", "k5"}) {
    Content content = SomeContent();
    entries.push_back({key, content.Text(), {}});
    changes.push_back({{std::string("value ") + key, content.Name()}});
  }
  trace_ += " batch";
  Acknowledged(store_->BatchPut(entries).status(), changes);
}

void StoreLife::CommitModel() {
  const std::string& name = models_[random_.Below(models_.size())];
  Model model;
  for (uint64_t i = 0; i <= random_.Below(3); ++i) model.tiles.push_back(SomeContent());
  std::string root = EncodeTree(model.Root());
  names_[root] = model.Name();
  bool commit = random_.Below(6) != 0;
  uint64_t number = next_[name];
  std::string tag = random_.Below(3) == 0 ? tags_[random_.Below(tags_.size())] : "";
  trace_ += fmt::format(" {} {}/{} {}", commit ? "commit" : "abandon", name, number, tag);
  Change change{{VersionName(name, number), "live " + model.Name()}};
  if (!tag.empty()) change[fmt::format("tag {}/{}", name, tag)] = std::to_string(number);
  std::vector<Change> changes;
  if (commit) changes.push_back(std::move(change));
  absl::StatusOr<uint64_t> made = Upload(name, model, root, commit, tag);
  if (Acknowledged(made.status(), changes) && commit) {
    if (*made != number) Fail(fmt::format("version {} instead of {}", *made, number));
    next_[name] = number + 1;
  }
}

absl::StatusOr<uint64_t> StoreLife::Upload(const std::string& name, const Model& model,
                                           const std::string& root, bool commit,
                                           const std::string& tag) {
  TILEKV_ASSIGN_OR_RETURN(auto session, store_->BeginSession("test"));
  std::vector<std::string> contents;
  std::vector<ObjectRef> refs = model.Root().children;
  for (const Content& tile : model.tiles) contents.push_back(tile.Text());
  refs.push_back(RefOf(3, AsBytes(root)));
  contents.push_back(root);
  TILEKV_ASSIGN_OR_RETURN(std::vector<bool> present, session->Link(refs));
  for (size_t i = 0; i < refs.size(); ++i) {
    if (present[i]) continue;
    TILEKV_RETURN_IF_ERROR(session->Put(refs[i], AsBytes(contents[i])).status());
  }
  if (!commit) return 0;
  v1::CommitRequest request;
  request.set_ns("default");
  request.set_name(name);
  ObjectRefToWire(refs.back(), request.mutable_root());
  if (!tag.empty()) request.add_tags(tag);
  TILEKV_ASSIGN_OR_RETURN(v1::CommitResponse response, session->Commit(request));
  if (!response.applied()) return MakeError(Reason::kInternal, "a commit was refused");
  return response.version().record().number();
}

std::optional<StoreLife::Version> StoreLife::SomeVersion(
    const std::function<bool(const Version&)>& fits) {
  std::vector<Version> found;
  for (const auto& [name, what] : state_) {
    if (name.rfind("version ", 0) != 0) continue;
    Version version{name.substr(8, 1), std::stoull(name.substr(10)), what, false};
    for (const std::string& tag : tags_) {
      auto at = state_.find(fmt::format("tag {}/{}", version.model, tag));
      version.tagged |= at != state_.end() && at->second == std::to_string(version.number);
    }
    if (fits(version)) found.push_back(std::move(version));
  }
  if (found.empty()) return std::nullopt;
  return found[random_.Below(found.size())];
}

void StoreLife::SetTag() {
  auto version = SomeVersion(&Version::IsLive);
  if (!version.has_value()) return;
  const std::string& tag = tags_[random_.Below(tags_.size())];
  trace_ += fmt::format(" tag {}/{} {}", version->model, version->number, tag);
  v1::SetTagRequest request;
  request.set_ns("default");
  request.set_name(version->model);
  request.set_tag(tag);
  request.set_number(version->number);
  Acknowledged(
      store_->node().SetTag(request).status(),
      {{{fmt::format("tag {}/{}", version->model, tag), std::to_string(version->number)}}});
}

void StoreLife::RemoveTag() {
  const std::string& model = models_[random_.Below(models_.size())];
  const std::string& tag = tags_[random_.Below(tags_.size())];
  trace_ += fmt::format(" untag {} {}", model, tag);
  v1::RemoveTagRequest request;
  request.set_ns("default");
  request.set_name(model);
  request.set_tag(tag);
  Acknowledged(store_->node().RemoveTag(request).status(),
               {{{fmt::format("tag {}/{}", model, tag), std::nullopt}}});
}

void StoreLife::DeleteVersion() {
  auto version = SomeVersion([](const Version& v) { return v.IsLive() && !v.tagged; });
  if (!version.has_value()) return;
  bool now = random_.Below(2) == 0;
  trace_ += fmt::format(" rm {}/{}{}", version->model, version->number, now ? " now" : "");
  v1::DeleteVersionsRequest request;
  request.set_ns("default");
  request.set_name(version->model);
  request.add_numbers(version->number);
  request.set_now(now);
  std::string name = VersionName(version->model, version->number);
  std::optional<std::string> left;
  if (!now) left = "deleted" + version->what.substr(4);
  deleted_at_[name] = store_.clock.WallMicros();
  Acknowledged(store_->node().DeleteVersions(request).status(), {{{name, left}}});
}

void StoreLife::Undelete() {
  auto version = SomeVersion([](const Version& v) { return !v.IsLive(); });
  if (!version.has_value()) return;
  trace_ += fmt::format(" undelete {}/{}", version->model, version->number);
  v1::UndeleteVersionRequest request;
  request.set_ns("default");
  request.set_name(version->model);
  request.set_number(version->number);
  Acknowledged(
      store_->node().UndeleteVersion(request).status(),
      {{{VersionName(version->model, version->number), "live" + version->what.substr(7)}}});
}

void StoreLife::Collect() {
  trace_ += " collect";
  std::vector<Change> purges;
  for (const auto& [name, what] : state_) {
    bool over = deleted_at_[name] <= store_.clock.WallMicros() - kDeleteGrace_s * 1'000'000;
    if (what.rfind("deleted", 0) == 0 && over) purges.push_back({{name, std::nullopt}});
  }
  v1::CollectRequest request;
  request.set_end_sessions(random_.Below(4) == 0);
  Acknowledged(store_->node().Collect(request).status(), purges);
  store_.env.RunJobs();
}

}  // namespace tilekv
