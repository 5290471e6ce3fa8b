#include "tests/simulation/names_schedule.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv::simulation {

std::string_view NameOf(NamesBug bug) {
  switch (bug) {
    case NamesBug::kCommitComparesSessionAndBase:
      return "commit_compares_session_and_base";
    case NamesBug::kFenceMissesSession:
      return "fence_misses_session";
    default:
      return "none";
  }
}

namespace {

bool IsUnder(std::string_view key, std::string_view prefix) { return key.rfind(prefix, 0) == 0; }

// A snapshot in which no session lives.
class WithoutSessions : public CatalogSnapshot {
 public:
  explicit WithoutSessions(std::unique_ptr<CatalogSnapshot> snapshot)
      : snapshot_(std::move(snapshot)) {}
  Revision revision() const override { return snapshot_->revision(); }
  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    return snapshot_->Get(key);
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    absl::StatusOr<CatalogPage> page = snapshot_->List(start, end, limit);
    if (page.ok() && !page->more) {
      std::erase_if(page->entries,
                    [](const CatalogEntry& entry) { return IsUnder(entry.key, SessionKey("")); });
    }
    return page;
  }

 private:
  const std::unique_ptr<CatalogSnapshot> snapshot_;
};

}  // namespace

// The catalog as one node calls it.
class SeamCatalog : public Catalog {
 public:
  SeamCatalog(NamesSchedule& schedule, const NamesSchedule::Node& node)
      : schedule_(schedule), node_(node) {}

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    schedule_.Meanwhile(node_, "reads");
    return schedule_.catalog_.Get(key);
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    schedule_.Meanwhile(node_, "lists");
    return schedule_.catalog_.List(start, end, limit);
  }
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& asked) override {
    CatalogTxn txn = asked;
    const bool commits = std::any_of(txn.writes.begin(), txn.writes.end(), [](const auto& write) {
      return IsUnder(write.key, CommitKey(""));
    });
    if (commits && schedule_.bug_ == NamesBug::kCommitComparesSessionAndBase) {
      std::erase_if(txn.compares, [](const Compare& compare) {
        return IsUnder(compare.key, CommitKey("")) || compare.key == HeadKey("default", "m");
      });
    }
    schedule_.Meanwhile(node_, commits ? "sends a commit" : "sends a transaction");
    absl::StatusOr<TxnResult> result = schedule_.catalog_.Txn(txn);
    if (commits && schedule_.LosesAnswer(node_)) {
      return MakeError(Reason::kOutcomeUnknown, "the answer is lost");
    }
    schedule_.Meanwhile(node_, "has the answer");
    return result;
  }
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override {
    schedule_.Meanwhile(node_, "takes a snapshot");
    auto snapshot = schedule_.catalog_.Snapshot();
    if (!snapshot.ok() || schedule_.bug_ != NamesBug::kFenceMissesSession) return snapshot;
    return std::make_unique<WithoutSessions>(*std::move(snapshot));
  }
  absl::StatusOr<Revision> CurrentRevision() override {
    return schedule_.catalog_.CurrentRevision();
  }
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override { return schedule_.catalog_.Grant(ttl_s); }
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override {
    return schedule_.catalog_.KeepAlive(lease, ttl_s);
  }
  absl::Status Revoke(LeaseId lease) override { return schedule_.catalog_.Revoke(lease); }

 private:
  NamesSchedule& schedule_;
  const NamesSchedule::Node& node_;
};

NamesSchedule::NamesSchedule(uint64_t seed, NamesBug bug)
    : bug_(bug),
      random_(seed),
      store_(kDefaultMaxObjectBytes, &clock_, &random_),
      catalog_(&clock_, &random_) {
  for (const char* id : {"a", "b", "c"}) {
    auto node = std::make_unique<Node>();
    node->id = id;
    node->catalog = std::make_unique<SeamCatalog>(*this, *node);
    NodeOptions options;
    options.clock = &clock_;
    options.random = &random_;
    auto created = LocalNode::Create(store_, *node->catalog, options);
    TILEKV_CHECK(created.ok());
    node->node = *std::move(created);
    nodes_.push_back(std::move(node));
  }
  calm_ = false;
}

NamesSchedule::~NamesSchedule() { calm_ = true; }

std::string NamesSchedule::Run() {
  const uint64_t steps = 20 + random_.Below(40);
  for (uint64_t i = 0; i < steps && violation_.empty(); ++i) {
    Happen();
    clock_.Advance(static_cast<int64_t>(1 + random_.Below(200'000)));
  }
  calm_ = true;
  if (!violation_.empty()) return violation_;
  Note("nothing fails any more: sessions end, and a full round follows");
  for (const auto& node : nodes_) {
    for (const Upload& upload : std::exchange(node->uploads, {})) End(*node, upload);
  }
  Collect(*nodes_.front());
  Check();
  // Root, tile and the commit's tree of each version, and nothing else.
  const uint64_t objects = store_.Usage()->objects;
  const uint64_t least = 3 * acknowledged_.size();
  if (objects < least || objects > least + 3 * unknown_) {
    Violated(fmt::format("{} objects are left, of {} versions", objects, acknowledged_.size()));
  }
  return violation_;
}

size_t NamesSchedule::Standing() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->busy; }));
}

void NamesSchedule::Note(const std::string& line) {
  trace_.push_back(std::string(2 * Standing(), ' ') + line);
}

void NamesSchedule::Violated(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  Note("VIOLATED: " + what);
}

void NamesSchedule::Meanwhile(const Node& caller, std::string_view what) {
  if (calm_ || !violation_.empty() || !caller.busy || random_.Below(5) != 0) return;
  Note(fmt::format("{} {}; meanwhile", caller.id, std::string(what)));
  for (uint64_t i = 1 + random_.Below(3); i > 0 && violation_.empty(); --i) Happen();
}

bool NamesSchedule::LosesAnswer(const Node& caller) {
  if (calm_ || random_.Below(8) != 0) return false;
  Note(fmt::format("{} does not hear how its transaction ended", caller.id));
  return true;
}

void NamesSchedule::Happen() {
  Node& node = *nodes_[random_.Below(nodes_.size())];
  if (node.busy) return;
  node.busy = true;
  const uint64_t what = random_.Below(8);
  if (what < 3) {
    Put(node);
  } else if (what < 7) {
    Commit(node);
  } else {
    Collect(node);
  }
  node.busy = false;
  Check();
}

void NamesSchedule::Put(Node& node) {
  if (node.uploads.size() >= 2) return;
  auto session = node.node->BeginSession({});
  if (!session.ok()) return;
  const auto put = [&](uint8_t level, const std::string& content) {
    ObjectPut put;
    put.session_rev = {session->session_rev()};
    put.ref = RefOf(level, AsBytes(content));
    put.content = AsBytes(content);
    if (const auto stored = node.node->PutObject(put); !stored.ok()) {
      Violated(fmt::format("a put in a living session: {}", stored.status().ToString()));
    }
    return put.ref;
  };
  Upload upload{.session = *session, .tile = put(0, random_.Bytes(20)), .root = {}};
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  tree.children.push_back(upload.tile);
  upload.root = put(3, EncodeTree(tree));
  Note(fmt::format("{} has put {} in session {}", node.id, upload.root.id.Hex().substr(0, 6),
                   session->session_rev()));
  node.uploads.push_back(std::move(upload));
}

void NamesSchedule::Commit(Node& node) {
  if (node.uploads.empty()) return;
  const Upload upload = node.uploads.back();
  node.uploads.pop_back();
  v1::CommitRequest request;
  request.set_token(upload.session.token());
  request.set_session_rev(upload.session.session_rev());
  request.set_commit_id(random_.Bytes(16));
  request.set_ns("default");
  request.set_name("m");
  ObjectRefToWire(upload.root, request.mutable_root());
  std::optional<uint64_t> base;
  if (random_.Below(2) == 0) {
    base = acknowledged_.empty() ? 0 : acknowledged_.rbegin()->first;
    if (*base == 0) {
      request.mutable_if_latest()->set_absent(true);
    } else {
      request.mutable_if_latest()->set_version(*base);
    }
  }
  const std::string name = upload.root.id.Hex().substr(0, 6);
  Note(fmt::format("{} commits {}{}", node.id, name,
                   base.has_value() ? fmt::format(" if the latest is {}", *base) : ""));
  absl::StatusOr<v1::CommitResponse> response = node.node->Commit(request);
  for (int i = 0; i < 5 && GetReason(response.status()) == Reason::kOutcomeUnknown; ++i) {
    Note(fmt::format("{} tries again", node.id));
    response = node.node->Commit(request);
  }
  End(node, upload);
  if (!response.ok()) {
    if (GetReason(response.status()) == Reason::kOutcomeUnknown) {
      ++unknown_;
      return;
    }
    return Violated(fmt::format("commit of {}: {}", name, response.status().ToString()));
  }
  if (!response->applied()) return Note(fmt::format("{} is refused: the latest is another", name));
  Acknowledge(response->version().record().number(), upload, base);
}

void NamesSchedule::End(Node& node, const Upload& upload) {
  v1::EndSessionRequest request;
  request.set_token(upload.session.token());
  if (const auto ended = node.node->EndSession(request); !ended.ok()) {
    Violated(fmt::format("the end of a session: {}", ended.status().ToString()));
  }
}

void NamesSchedule::Acknowledge(uint64_t number, const Upload& upload,
                                std::optional<uint64_t> base) {
  Note(fmt::format("{} is version {}", upload.root.id.Hex().substr(0, 6), number));
  if (!acknowledged_.emplace(number, upload).second) {
    Violated(fmt::format("version {} was given twice", number));
  }
  if (base.has_value() && !replaced_.insert(*base).second) {
    Violated(fmt::format("two commits from base {} have won", *base));
  }
}

void NamesSchedule::Collect(Node& node) {
  Note(fmt::format("{} begins a round", node.id));
  const auto response = node.node->Collect({});
  if (!response.ok()) return Note(fmt::format("the round ends: {}", response.status().ToString()));
  deleted_objects_ += response->deleted_objects();
  Note(fmt::format("{} has deleted {} objects", node.id, response->deleted_objects()));
}

bool NamesSchedule::IsThere(const ObjectRef& ref) {
  const auto row = store_.Stat(kDefaultDomain, ref.id);
  return row.ok() && row->has_value();
}

void NamesSchedule::Check() {
  for (const auto& [number, upload] : acknowledged_) {
    v1::VersionRecord record;
    const auto entry = catalog_.Get(VersionKey("default", "m", number));
    const bool there = entry.ok() && entry->has_value() && record.ParseFromString((*entry)->value);
    if (!there || *ObjectRefFromWire(record.root()) != upload.root) {
      Violated(fmt::format("version {} is not what was acknowledged", number));
    } else if (!IsThere(upload.root) || !IsThere(upload.tile)) {
      Violated(fmt::format("version {} has lost objects", number));
    }
  }
}

}  // namespace tilekv::simulation
