// Random operations on a whole store against a plain map, with losses of power at any change of the
// disk or named crash point, ends of the process, and restarts. What was acknowledged is there,
// what was deleted stays deleted; what was in progress has happened whole or not at all.
//
// A seed decides everything. It is printed when something is wrong: TILEKV_TEST_SEED=seed runs that
// life again. TILEKV_TEST_LONG=seconds makes the test run longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/tree.h"
#include "kvstore/simulated_store.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

using Loss = SimulatedDisk::Loss;
// What can be seen: "value KEY", "version MODEL/NUMBER", "tag MODEL/TAG", and what is there.
using State = std::map<std::string, std::string>;
// Happens as a whole or not at all; none: gone.
using Change = std::map<std::string, std::optional<std::string>>;

constexpr int64_t kDay_micros = 24 * 3'600 * int64_t{1'000'000};
const std::vector<std::string> kModels = {"a", "b"};
const std::vector<std::string> kTags = {"prod", "test"};

// Each lies on the way of what happens here, and each may be where the power goes.
const std::vector<std::string> kPoints = {"catalog.before_write",
                                          "catalog.after_write",
                                          "collector.purged",
                                          "collector.began",
                                          "collector.live_found",
                                          "collector.fence_stored",
                                          "collector.before_delete",
                                          "collector.swept",
                                          "commit.linked",
                                          "commit.tree_stored",
                                          "commit.before_transaction",
                                          "commit.after_transaction",
                                          "delete.before_row",
                                          "delete.row",
                                          "delete.unlinked",
                                          "link.before_row",
                                          "link.row",
                                          "open.directory",
                                          "open.superblock",
                                          "open.folders",
                                          "open.index",
                                          "open.counted",
                                          "open.catalog",
                                          "open.before_leases_end",
                                          "put.created",
                                          "put.written",
                                          "put.header",
                                          "put.synced",
                                          "put.entry_synced",
                                          "put.before_row",
                                          "put.row",
                                          "value.before_transaction",
                                          "value.after_transaction"};

void Apply(const Change& change, State& state) {
  for (const auto& [name, what] : change) {
    if (what.has_value()) {
      state[name] = *what;
    } else {
      state.erase(name);
    }
  }
}

// A content named by its seed and length, so that a state is short to print.
struct Content {
  uint64_t seed = 0;
  uint64_t length = 0;
  std::string Name() const { return fmt::format("{}:{}", seed, length); }
  std::string Text() const { return TestContent(length, seed); }
};

struct Model {
  std::vector<Content> tiles;
  std::string Name() const {
    std::string name;
    for (const Content& tile : tiles) name += (name.empty() ? "" : "+") + tile.Name();
    return name;
  }
  Tree Root() const {
    Tree root;
    root.level = 3;
    root.type = TreeType::kManifestRoot;
    for (const Content& tile : tiles) root.children.push_back(RefOf(0, AsBytes(tile.Text())));
    return root;
  }
};

// One store from its making on, through any number of ends.
class Life {
 public:
  explicit Life(uint64_t seed) : random_(seed), store_(seed + 1) {
    SetCrashHandler([this](std::string_view point) {
      trace_ += fmt::format(" {}", point);
      points_.insert(std::string(point));
      if (points_left_ > 0 && --points_left_ == 0) store_.disk.PowerOff();
    });
  }
  ~Life() { SetCrashHandler(nullptr); }

  // False: something is wrong; see problem().
  bool Run(int operations) {
    if (!Restart()) return false;
    for (int i = 0; i < operations && problem_.empty(); ++i) {
      if (random_.Below(5) == 0) ArmEnd(30);
      trace_ += fmt::format("\n{}:", i);
      DoSomething();
      if (store_.disk.is_off() && problem_.empty()) Restart();
    }
    store_.disk.PowerOffAtChange(0);
    points_left_ = 0;
    return problem_.empty() && Compare();
  }

  // Syncs of such calls and paths are left out from now on.
  void LeaveOut(std::function<bool(const std::string& call, const std::string& path)> which) {
    store_.disk.leave_out = std::move(which);
  }

  const std::string& problem() const { return problem_; }
  const std::string& trace() const { return trace_; }
  const std::set<std::string>& points() const { return points_; }
  int ends() const { return ends_; }

 private:
  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  // The power goes before one of the next changes, or at one of the next named points.
  void ArmEnd(uint64_t most_changes) {
    if (random_.Below(3) == 0) {
      points_left_ = 1 + random_.Below(10);
    } else {
      store_.disk.PowerOffAtChange(1 + random_.Below(most_changes));
    }
  }

  // Opens the store, ends on the way included, and settles what was in progress.
  bool Restart() {
    do {
      if (store_.disk.is_off() || store_.is_open()) {
        auto loss = static_cast<Loss>(random_.Below(4));
        trace_ += fmt::format(" [end {}]", static_cast<int>(loss));
        store_.LosePower(loss);
        ++ends_;
      }
      points_left_ = 0;
      if (random_.Below(4) == 0) ArmEnd(60);
      absl::Status opened = store_.Open();
      if (!opened.ok() && !store_.disk.is_off()) {
        Fail("does not open: " + ErrorText(opened));
        return false;
      }
      if (opened.ok() && !store_.disk.is_off()) {
        store_.disk.PowerOffAtChange(0);
        points_left_ = 0;
      }
    } while (store_.disk.is_off());
    return Compare();
  }

  // Whether an operation was acknowledged. If not, its changes are open until the next opening.
  bool Acknowledged(const absl::Status& status, const std::vector<Change>& changes) {
    if (status.ok() && !store_.disk.is_off()) {
      for (const Change& change : changes) Apply(change, state_);
      return true;
    }
    trace_ += " ?";
    if (!store_.disk.is_off()) Fail("an error without a cause: " + ErrorText(status));
    open_changes_.insert(open_changes_.end(), changes.begin(), changes.end());
    return false;
  }

  // Compares what is there with what must be, once it is known which open changes happened.
  bool Compare() {
    absl::StatusOr<State> seen = See();
    if (!seen.ok()) {
      Fail("cannot be read: " + ErrorText(seen.status()));
      return false;
    }
    for (const Change& change : open_changes_) {
      State with = state_;
      Apply(change, with);
      bool happened = std::all_of(change.begin(), change.end(), [&](const auto& part) {
        auto expected = with.find(part.first);
        auto found = seen->find(part.first);
        return expected == with.end() ? found == seen->end()
                                      : found != seen->end() && found->second == expected->second;
      });
      if (happened) state_ = std::move(with);
    }
    open_changes_.clear();
    // A commit that was not acknowledged may have taken its number.
    for (const auto& [name, what] : *seen) {
      if (name.rfind("version ", 0) != 0) continue;
      uint64_t& next = next_[name.substr(8, 1)];
      next = std::max<uint64_t>(next, std::stoull(name.substr(10)) + 1);
    }
    if (*seen == state_) return true;
    std::string difference;
    for (const auto& [name, what] : state_) {
      auto found = seen->find(name);
      if (found == seen->end()) difference += fmt::format("\n  lost: {} = {}", name, what);
      if (found != seen->end() && found->second != what) {
        difference += fmt::format("\n  {} is {}, not {}", name, found->second, what);
      }
    }
    for (const auto& [name, what] : *seen) {
      if (state_.count(name) == 0) difference += fmt::format("\n  is there: {} = {}", name, what);
    }
    Fail("differs:" + difference);
    return false;
  }

  // Reads everything.
  absl::StatusOr<State> See() {
    State seen;
    ListOptions list;
    list.limit = 3;
    while (true) {
      TILEKV_ASSIGN_OR_RETURN(ValuePage page, store_->List(list));
      for (const ValueInfo& info : page.values) {
        TILEKV_ASSIGN_OR_RETURN(std::optional<Value> value, store_->Get(info.key));
        if (!value.has_value()) return MakeError(Reason::kInternal, "listed and not there");
        auto known = names_.find(value->content);
        seen["value " + info.key] = known == names_.end() ? "unknown bytes" : known->second;
      }
      if (!page.more) break;
      list.after = page.values.back().key;
    }
    for (const std::string& model : kModels) TILEKV_RETURN_IF_ERROR(SeeModel(model, seen));
    return seen;
  }

  absl::Status SeeModel(const std::string& model, State& seen) {
    v1::ListVersionsRequest request;
    request.set_ns("default");
    request.set_name(model);
    request.set_with_deleted(true);
    TILEKV_ASSIGN_OR_RETURN(v1::ListVersionsResponse response,
                            store_->node().ListVersions(request));
    for (const v1::VersionInfo& version : response.versions()) {
      TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(version.record().root()));
      // Reading verifies to the id.
      TILEKV_ASSIGN_OR_RETURN(std::string content, store_->ReadObject(root));
      TILEKV_ASSIGN_OR_RETURN(Tree tree, DecodeTree(root.level, AsBytes(content)));
      for (const ObjectRef& tile : tree.children) {
        TILEKV_RETURN_IF_ERROR(store_->ReadObject(tile).status());
      }
      auto known = names_.find(content);
      seen[VersionName(model, version.record().number())] =
          fmt::format("{} {}", version.record().deleted_micros() == 0 ? "live" : "deleted",
                      known == names_.end() ? "unknown root" : known->second);
      for (const std::string& tag : version.tags()) {
        seen[fmt::format("tag {}/{}", model, tag)] = std::to_string(version.record().number());
      }
    }
    return absl::OkStatus();
  }

  static std::string VersionName(const std::string& model, uint64_t number) {
    return fmt::format("version {}/{}", model, number);
  }

  // --- operations ---

  void DoSomething() {
    switch (random_.Below(16)) {
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
      default:
        return RestartOrCheck();
    }
  }

  void RestartOrCheck() {
    trace_ += " close";
    store_.env.RunJobs();
    store_.Close();
    if (store_.disk.is_off()) return;
    absl::Status opened = store_.Open();
    if (store_.disk.is_off()) return;
    if (!opened.ok()) return Fail("does not open again: " + ErrorText(opened));
    Compare();
  }

  Content SomeContent() {
    constexpr uint64_t kLengths[] = {0, 100, 600, 5'000, 40'000, 70'000, 200'000};
    Content content{random_.Below(3), kLengths[random_.Below(std::size(kLengths))]};
    if (content.length == 0) content.seed = 0;
    names_[content.Text()] = content.Name();
    return content;
  }

  std::string SomeKey() { return fmt::format("k{}", random_.Below(6)); }

  void Put() {
    std::string key = SomeKey();
    Content content = SomeContent();
    trace_ += fmt::format(" put {} {}", key, content.Name());
    PutOptions options;
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

  void Delete() {
    std::string key = SomeKey();
    trace_ += " delete " + key;
    bool existed = state_.count("value " + key) != 0;
    auto deleted = store_->Delete(key);
    if (Acknowledged(deleted.status(), {{{"value " + key, std::nullopt}}}) &&
        deleted->existed != existed) {
      Fail("a delete that found something else");
    }
  }

  void BatchPut() {
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

  void CommitModel() {
    const std::string& name = kModels[random_.Below(kModels.size())];
    Model model;
    for (uint64_t i = 0; i <= random_.Below(3); ++i) model.tiles.push_back(SomeContent());
    std::string root = EncodeTree(model.Root());
    names_[root] = model.Name();
    bool commit = random_.Below(6) != 0;
    uint64_t number = next_[name];
    std::string tag = random_.Below(3) == 0 ? kTags[random_.Below(kTags.size())] : "";
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

  absl::StatusOr<uint64_t> Upload(const std::string& name, const Model& model,
                                  const std::string& root, bool commit, const std::string& tag) {
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

  struct Version {
    std::string model;
    uint64_t number = 0;
    std::string what;  // "live ..." or "deleted ..."
    bool tagged = false;
  };
  // Some version that fits, if there is one.
  template <typename Fits>
  std::optional<Version> SomeVersion(Fits fits) {
    std::vector<Version> found;
    for (const auto& [name, what] : state_) {
      if (name.rfind("version ", 0) != 0) continue;
      Version version{name.substr(8, 1), std::stoull(name.substr(10)), what, false};
      for (const std::string& tag : kTags) {
        auto at = state_.find(fmt::format("tag {}/{}", version.model, tag));
        version.tagged |= at != state_.end() && at->second == std::to_string(version.number);
      }
      if (fits(version)) found.push_back(std::move(version));
    }
    if (found.empty()) return std::nullopt;
    return found[random_.Below(found.size())];
  }
  static bool IsLive(const Version& version) { return version.what.rfind("live", 0) == 0; }

  void SetTag() {
    auto version = SomeVersion(IsLive);
    if (!version.has_value()) return;
    const std::string& tag = kTags[random_.Below(kTags.size())];
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

  void RemoveTag() {
    const std::string& model = kModels[random_.Below(kModels.size())];
    const std::string& tag = kTags[random_.Below(kTags.size())];
    trace_ += fmt::format(" untag {} {}", model, tag);
    v1::RemoveTagRequest request;
    request.set_ns("default");
    request.set_name(model);
    request.set_tag(tag);
    Acknowledged(store_->node().RemoveTag(request).status(),
                 {{{fmt::format("tag {}/{}", model, tag), std::nullopt}}});
  }

  void DeleteVersion() {
    auto version = SomeVersion([](const Version& v) { return IsLive(v) && !v.tagged; });
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

  void Undelete() {
    auto version = SomeVersion([](const Version& v) { return !IsLive(v); });
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

  void Collect() {
    trace_ += " collect";
    std::vector<Change> purges;
    for (const auto& [name, what] : state_) {
      bool over = deleted_at_[name] <= store_.clock.WallMicros() - kDeleteGrace_s * 1'000'000;
      if (what.rfind("deleted", 0) == 0 && over) purges.push_back({{name, std::nullopt}});
    }
    Acknowledged(store_->node().Collect({}).status(), purges);
    store_.env.RunJobs();
  }

  SeededRandom random_;
  SimulatedStore store_;
  State state_;
  std::vector<Change> open_changes_;
  std::map<std::string, std::string> names_;  // of contents
  std::map<std::string, uint64_t> next_{{"a", 1}, {"b", 1}};
  std::map<std::string, int64_t> deleted_at_;  // when, by name of version
  uint64_t points_left_ = 0;
  int ends_ = 0;
  std::set<std::string> points_;
  std::string trace_;
  std::string problem_;
};

constexpr int kOperations = 60;
constexpr uint64_t kLives = 200;  // of the short run

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(KvStoreModel, RandomOperationsAndLossesOfPowerAgreeWithAMap) {
  bool one = std::getenv("TILEKV_TEST_SEED") != nullptr;
  // The short run takes the same lives every time; the long one others.
  bool long_run = std::getenv("TILEKV_TEST_LONG") != nullptr;
  uint64_t first =
      FromEnvironment("TILEKV_TEST_SEED", long_run ? Random::System()->Next() >> 16 : 1);
  auto end = std::chrono::steady_clock::now() +
             std::chrono::seconds(FromEnvironment("TILEKV_TEST_LONG", 0));
  std::set<std::string> points;
  int ends = 0;
  uint64_t seed = first;
  do {
    Life life(seed);
    ASSERT_TRUE(life.Run(kOperations)) << "TILEKV_TEST_SEED=" << seed << "\n"
                                       << life.problem() << "\n"
                                       << life.trace();
    points.insert(life.points().begin(), life.points().end());
    ends += life.ends();
    ++seed;
  } while (!one && (long_run ? std::chrono::steady_clock::now() < end : seed - first < kLives));
  std::cout << fmt::format("{} lives from seed {}, {} ends\n", seed - first, first, ends);
  if (one) return;
  EXPECT_THAT(points, testing::IsSupersetOf(kPoints));
}

// It sees what it is there to see.
TEST(KvStoreModel, FindsTheLossWhereAKindOfSyncIsLeftOut) {
  const std::map<std::string, std::pair<std::string, std::string>> kKinds = {
      {"payload files", {"sync", "/store/payload/"}},
      {"payload folders", {"sync_directory", "/store/payload/"}},
      {"directory of payload folders", {"sync_directory", "/store/payload"}},
      {"index", {"sync", "/store/index/"}},
      {"index directory", {"sync_directory", "/store/index"}},
      {"catalog", {"sync", "/store/catalog/"}},
      {"catalog directory", {"sync_directory", "/store/catalog"}},
      {"superblock", {"sync", "/store/SUPERBLOCK"}}};
  for (const auto& [kind, of] : kKinds) {
    bool found = false;
    for (uint64_t seed = 0; seed < 50 && !found; ++seed) {
      Life life(seed);
      life.LeaveOut([&of = of](const std::string& call, const std::string& path) {
        bool whole = of.second.back() != '/' && of.first == "sync_directory";
        return call == of.first && (whole ? path == of.second : path.rfind(of.second, 0) == 0);
      });
      found = !life.Run(kOperations);
    }
    EXPECT_TRUE(found) << kind;
  }
}

TEST(KvStoreModel, ASeedRepeatsItselfExactly) {
  std::vector<std::string> traces;
  for (int i = 0; i < 2; ++i) {
    Life life(7);
    EXPECT_TRUE(life.Run(kOperations)) << life.problem();
    EXPECT_GT(life.ends(), 0);
    traces.push_back(life.trace());
  }
  EXPECT_EQ(traces[0], traces[1]);
}

}  // namespace
}  // namespace tilekv
