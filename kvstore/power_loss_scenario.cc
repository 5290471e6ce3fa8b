#include "kvstore/power_loss_scenario.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/local_catalog.h"
#include "kvstore/object/index_rebuild.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/recode.h"
#include "kvstore/object/store_health.h"

namespace tilekv {
namespace {

constexpr char kDirectory[] = "/store";

class EngineScenario : public PowerLossScenario {
 public:
  using PowerLossScenario::PowerLossScenario;

  const std::vector<std::string>& steps() const override {
    static const std::vector<std::string> kSteps = {"make the store",
                                                    "put in a file",
                                                    "put in the index",
                                                    "link",
                                                    "put what is there",
                                                    "report damage",
                                                    "verify",
                                                    "turn a bit",
                                                    "quarantine",
                                                    "heal",
                                                    "recode",
                                                    "lose a name",
                                                    "repair",
                                                    "put another",
                                                    "spoil a header",
                                                    "rebuild",
                                                    "delete",
                                                    "close",
                                                    "put once more"};
    return kSteps;
  }

  absl::Status Do(size_t step) override {
    const std::string& name = steps()[step];
    if (name == "rebuild") return Rebuild();
    TILEKV_RETURN_IF_ERROR(Open(step == 0));
    if (name == "make the store") {
      uuid_ = engine_->store_uuid();
      return absl::OkStatus();
    }
    if (name == "put in a file") return Put(kLarge, 1);
    if (name == "put in the index") return Put(kSmall, 1);
    if (name == "link") {
      ObjectRef refs[] = {RefOf(kLarge), RefOf(kSmall)};
      return engine_->Link(kDefaultDomain, refs, {7}).status();
    }
    if (name == "put what is there") return Put(kLarge, 8);
    if (name == "report damage") return engine_->MarkSuspect(kDefaultDomain, RefOf(kLarge).id);
    if (name == "verify") return engine_->Verify(kDefaultDomain, RefOf(kLarge).id).status();
    if (name == "turn a bit") {
      disk.FlipBit(PayloadOf(kLarge), 10'000);
      return absl::OkStatus();
    }
    if (name == "quarantine") {
      return engine_->Verify(kDefaultDomain, RefOf(kLarge).id).status();
    }
    if (name == "heal") return Put(kLarge, 9);
    if (name == "recode") {
      auto pool = BufferPool::Create(kMiB);
      return RecodeObject(*engine_, *pool, kDefaultDomain, RefOf(kLarge).id, Codec::kZstd, false)
          .status();
    }
    if (name == "lose a name") return LoseName(kLarge);
    if (name == "repair") {
      return engine_->CheckCopies(kDefaultDomain, true, [](const CopyProblem&) {}, {});
    }
    if (name == "put another") return Put(kSpoiled, 10);
    if (name == "spoil a header") {
      spoiled_ = true;
      disk.FlipBit(PayloadOf(kSpoiled), 0);
      return absl::OkStatus();
    }
    if (name == "delete") {
      ObjectId ids[] = {RefOf(kLarge).id, RefOf(kSmall).id};
      return engine_->DeleteAllBelow(kDefaultDomain, ids, {20}).status();
    }
    if (name == "close") {
      Close();
      return absl::OkStatus();
    }
    return Put(kLast, 30);
  }

  void Close() override { engine_.reset(); }

  std::string State() override {
    // A rebuild that ended between its two renames leaves a store without an index, and is done
    // again.
    if (rebuilding_ && !Exists(std::string(kDirectory) + "/index")) {
      absl::Status rebuilt = Rebuild();
      if (!rebuilt.ok()) return ErrorText(rebuilt);
    }
    absl::Status opened = Open(uuid_.empty());
    if (!opened.ok()) return ErrorText(opened);
    if (uuid_.empty()) return kNoStore;
    std::string state = engine_->store_uuid() == uuid_ ? "store\n" : "another store\n";
    size_t files = 0;
    for (int seed : {kLarge, kSmall, kLast, kSpoiled}) state += StateOf(seed, files);
    if (spoiled_) state += fmt::format("{} bytes of the spoiled file\n", SpoiledBytes());
    StoreUsage usage = *engine_->Usage();
    state += fmt::format("{} objects, {} bytes\n", usage.objects, usage.content_bytes);
    // Nothing but what rows name, once it is collected. The disk damages no log: what it tears was
    // never acknowledged.
    absl::Status ended = engine_->NothingIsMissing();
    if (!ended.ok()) return state + ErrorText(ended);
    auto removed = engine_->RemoveUnnamedFiles();
    if (!removed.ok()) return state + ErrorText(removed.status());
    return state + (files == CountFiles() ? "" : "garbage stays\n");
  }

 private:
  // Seeds of contents.
  static constexpr int kLarge = 1, kSmall = 2, kLast = 3, kSpoiled = 4;
  static std::string Content(int seed) {
    return TestContent(seed == kSmall ? 3'000 : 150'000, static_cast<uint64_t>(seed));
  }
  static ObjectRef RefOf(int seed) { return tilekv::RefOf(0, AsBytes(Content(seed))); }

  LocalEngineOptions Options(bool create) {
    LocalEngineOptions options;
    options.directory = kDirectory;
    options.create_if_missing = create;
    options.file_system = disk.file_system();
    options.rocksdb_env = &env;
    options.clock = &clock;
    options.random = &random;
    return options;
  }

  absl::Status Open(bool create) {
    if (engine_ != nullptr) return absl::OkStatus();
    TILEKV_ASSIGN_OR_RETURN(engine_, LocalEngine::Open(Options(create)));
    return absl::OkStatus();
  }

  absl::Status Rebuild() {
    Close();
    rebuilding_ = true;
    TILEKV_RETURN_IF_ERROR(RebuildIndex(Options(false), {15}).status());
    rebuilding_ = false;
    return absl::OkStatus();
  }

  // The index forgets that a row names this object's file. Done by the test, so its syncs are none
  // of the engine's.
  absl::Status LoseName(int seed) {
    TILEKV_ASSIGN_OR_RETURN(auto row, engine_->Stat(kDefaultDomain, RefOf(seed).id));
    auto leave_out = std::exchange(disk.leave_out, nullptr);
    Close();
    StoreHealth health(nullptr);
    absl::Status written;
    {
      TILEKV_ASSIGN_OR_RETURN(
          auto index,
          ObjectIndex::OpenWriter(std::string(kDirectory) + "/index", false, &env, &health));
      ObjectIndex::Batch batch(*index);
      batch.DeleteRow(kDefaultDomain, *row);
      batch.PutRow(kDefaultDomain, *row);
      written = index->WriteSynced(batch);
    }
    disk.leave_out = std::move(leave_out);
    return written;
  }

  absl::Status Put(int seed, uint64_t touched_rev) {
    const ObjectId id = RefOf(seed).id;
    TILEKV_ASSIGN_OR_RETURN(auto before, engine_->Stat(kDefaultDomain, id));
    TILEKV_RETURN_IF_ERROR(
        PutContent(*engine_, Content(seed), {.touched_rev = {touched_rev}}).status());
    TILEKV_ASSIGN_OR_RETURN(auto after, engine_->Stat(kDefaultDomain, id));
    uint64_t number = after->file_number;
    if (number == 0 || (before.has_value() && before->file_number == number)) {
      return absl::OkStatus();
    }
    if (number <= highest_number_) return MakeError(Reason::kInternal, "a number is used twice");
    highest_number_ = number;
    return absl::OkStatus();
  }

  std::string PayloadOf(int seed) {
    auto row = *engine_->Stat(kDefaultDomain, RefOf(seed).id);
    return PayloadPath(kDirectory, row->file_number);
  }

  std::string StateOf(int seed, size_t& files) {
    ObjectId id = RefOf(seed).id;
    auto row = *engine_->Stat(kDefaultDomain, id);
    if (!row.has_value()) return fmt::format("{}: absent\n", seed);
    if (row->file_number != 0 && Exists(PayloadPath(kDirectory, row->file_number))) ++files;
    std::string state =
        fmt::format("{}: state {}, touched {}, coded {}", seed, static_cast<int>(row->state),
                    row->touched_rev.value, static_cast<int>(row->encoding.kind));
    bool unreadable = row->state == RowState::kQuarantined || (seed == kSpoiled && spoiled_);
    if (unreadable) return state + "\n";
    auto content = GetContent(*engine_, id);
    if (!content.ok()) return state + ", " + ErrorText(content.status()) + "\n";
    return state + (*content == Content(seed) ? "\n" : ", other bytes\n");
  }

  bool Exists(const std::string& path) { return *disk.file_system()->Exists(path); }

  // Nobody can read its header, but it may be all there is: it is in its place or set aside.
  uint64_t SpoiledBytes() {
    const std::string aside = std::string(kDirectory) + "/damaged";
    std::vector<std::string> paths;
    auto row = *engine_->Stat(kDefaultDomain, RefOf(kSpoiled).id);
    if (row.has_value()) paths.push_back(PayloadPath(kDirectory, row->file_number));
    if (Exists(aside)) {
      std::vector<std::string> names = *disk.file_system()->List(aside);
      for (const std::string& name : names) paths.push_back(aside + "/" + name);
    }
    uint64_t bytes = 0;
    for (const std::string& path : paths) {
      if (Exists(path)) bytes += disk.file_system()->Stat(path)->size_bytes;
    }
    return bytes;
  }

  size_t CountFiles() {
    size_t count = 0;
    std::string root = std::string(kDirectory) + "/payload";
    std::vector<std::string> folders = *disk.file_system()->List(root);
    for (const std::string& folder : folders) {
      count += disk.file_system()->List(root + "/" + folder)->size();
    }
    return count;
  }

  std::unique_ptr<LocalEngine> engine_;
  std::string uuid_;             // of the store once it was acknowledged
  uint64_t highest_number_ = 0;  // of files that were acknowledged
  bool spoiled_ = false;         // the header of kSpoiled
  bool rebuilding_ = false;      // and it has not ended well yet
};

class CatalogScenario : public PowerLossScenario {
 public:
  explicit CatalogScenario(uint64_t seed) : PowerLossScenario(seed) {
    // The store's directory, as the engine leaves it.
    FileSystem& fs = *disk.file_system();
    TILEKV_CHECK(fs.CreateDirectory(kDirectory).ok() && fs.SyncDirectory("/").ok());
  }

  const std::vector<std::string>& steps() const override {
    static const std::vector<std::string> kSteps = {
        "make the catalog", "write a key",   "write two keys", "delete a key", "begin a lease",
        "end a lease",      "begin another", "close",          "open again",   "write at last"};
    return kSteps;
  }

  absl::Status Do(size_t step) override {
    TILEKV_RETURN_IF_ERROR(Open(step == 0));
    const std::string& name = steps()[step];
    if (name == "make the catalog") {
      TILEKV_ASSIGN_OR_RETURN(line_, Line());
      return absl::OkStatus();
    }
    if (name == "write a key") return Write({CatalogWrite::Put("a", "1")});
    if (name == "write two keys") {
      return Write({CatalogWrite::Put("a", "2"), CatalogWrite::Put("b", std::string(5'000, 'b'))});
    }
    if (name == "delete a key") return Write({CatalogWrite::Delete("a")});
    if (name == "begin a lease" || name == "begin another") {
      TILEKV_ASSIGN_OR_RETURN(lease_, catalog_->Grant(1'000));
      return Write({CatalogWrite::Put(kLeased, "x", lease_)});
    }
    if (name == "end a lease") {
      TILEKV_RETURN_IF_ERROR(catalog_->Revoke(lease_));
      return Note();
    }
    if (name == "close") {
      Close();
      return absl::OkStatus();
    }
    if (name == "open again") return Note();
    return Write({CatalogWrite::Put("c", "1")});
  }

  void Close() override { catalog_.reset(); }

  std::string State() override {
    // Leases end with the process that gave them; so that it is always seen as the next one does.
    Close();
    absl::Status opened = Open(line_.empty());
    if (!opened.ok()) return ErrorText(opened);
    if (line_.empty()) return kNoStore;
    auto line = Line();
    std::string state = line.ok() && *line == line_ ? "" : "another line\n";
    CatalogPage page = *catalog_->List("a", "t", 100);
    for (const CatalogEntry& entry : page.entries) {
      if (entry.key == kLineKey) continue;
      state += fmt::format("{} = {} bytes\n", entry.key, entry.value.size());
    }
    return state + (page.revision < revision_ ? "a revision comes again\n" : "");
  }

 private:
  static constexpr char kLeased[] = "s/leased";

  absl::Status Open(bool create) {
    if (catalog_ != nullptr) return absl::OkStatus();
    LocalCatalogOptions options;
    options.directory = kDirectory;
    options.create_if_missing = create;
    options.rocksdb_env = &env;
    options.clock = &clock;
    options.random = &random;
    TILEKV_ASSIGN_OR_RETURN(catalog_, LocalCatalog::Open(options));
    return absl::OkStatus();
  }

  absl::Status Write(std::vector<CatalogWrite> writes) {
    TILEKV_RETURN_IF_ERROR(catalog_->Txn({.compares = {}, .writes = std::move(writes)}).status());
    return Note();
  }

  // What was shown never comes again.
  absl::Status Note() {
    TILEKV_ASSIGN_OR_RETURN(Revision now, catalog_->CurrentRevision());
    revision_ = std::max(revision_, now);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Line() {
    TILEKV_ASSIGN_OR_RETURN(auto entry, catalog_->Get(kLineKey));
    if (!entry.has_value()) return MakeError(Reason::kDataLoss, "there is no line");
    return entry->value;
  }

  std::unique_ptr<LocalCatalog> catalog_;
  LeaseId lease_ = 0;
  Revision revision_;
  std::string line_;
};

}  // namespace

std::unique_ptr<PowerLossScenario> NewEngineScenario(uint64_t seed) {
  return std::make_unique<EngineScenario>(seed);
}
std::unique_ptr<PowerLossScenario> NewCatalogScenario(uint64_t seed) {
  return std::make_unique<CatalogScenario>(seed);
}

}  // namespace tilekv
