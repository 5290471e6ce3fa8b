#include "kvstore/store_life.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

using Loss = SimulatedDisk::Loss;

StoreLife::StoreLife(uint64_t seed) : random_(seed), store_(seed + 1) {
  store_.max_object_bytes = kMaxObjectBytes;
  SetCrashHandler([this](std::string_view point) {
    trace_ += fmt::format(" {}", point);
    points_.insert(std::string(point));
    if (points_left_ > 0 && --points_left_ == 0) store_.disk.PowerOff();
  });
}

StoreLife::~StoreLife() { SetCrashHandler(nullptr); }

bool StoreLife::Run(int operations) {
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

void StoreLife::Apply(const Change& change, State& state) {
  for (const auto& [name, what] : change) {
    if (what.has_value()) {
      state[name] = *what;
    } else {
      state.erase(name);
    }
  }
}

std::string StoreLife::VersionName(const std::string& model, uint64_t number) {
  return fmt::format("version {}/{}", model, number);
}

void StoreLife::Fail(const std::string& what) {
  if (problem_.empty()) problem_ = what;
}

void StoreLife::ArmEnd(uint64_t most_changes) {
  if (random_.Below(3) == 0) {
    points_left_ = 1 + random_.Below(10);
  } else {
    store_.disk.PowerOffAtChange(1 + random_.Below(most_changes));
  }
}

bool StoreLife::Restart() {
  std::optional<State> as_reader;
  do {
    if (store_.disk.is_off() || store_.is_open()) {
      auto loss = static_cast<Loss>(random_.Below(4));
      trace_ += fmt::format(" [end {}]", static_cast<int>(loss));
      store_.LosePower(loss);
      ++ends_;
    }
    points_left_ = 0;
    bool looks = random_.Below(3) == 0 && spoiled_.empty();
    as_reader = looks ? LookAsReader() : std::nullopt;
    if (random_.Below(4) == 0) ArmEnd(60);
    absl::Status opened = store_.Open();
    if (!opened.ok() && !store_.disk.is_off()) Fail("does not open: " + ErrorText(opened));
    if (!problem_.empty()) return false;
    if (opened.ok() && !store_.disk.is_off()) {
      made_ = true;
      store_.disk.PowerOffAtChange(0);
      points_left_ = 0;
    }
  } while (store_.disk.is_off());
  Heal();
  if (!Compare()) return false;
  if (as_reader.has_value() && *as_reader != state_) {
    Fail("a reader saw something else:" + DifferenceTo(*as_reader));
  }
  return problem_.empty();
}

std::optional<StoreLife::State> StoreLife::LookAsReader() {
  trace_ += " [look]";
  uint64_t changes = store_.disk.changes();
  absl::Status opened = store_.OpenToRead();
  if (!opened.ok()) {
    if (made_) Fail("does not open for reading: " + ErrorText(opened));
    return std::nullopt;
  }
  absl::StatusOr<State> seen = See();
  store_.Close();
  if (!seen.ok()) Fail("cannot be read by a reader: " + ErrorText(seen.status()));
  if (store_.disk.changes() != changes) Fail("a reader has changed the disk");
  if (!problem_.empty()) return std::nullopt;
  ++looks_;
  return *std::move(seen);
}

bool StoreLife::Acknowledged(const absl::Status& status, const std::vector<Change>& changes) {
  if (status.ok() && !store_.disk.is_off()) {
    for (const Change& change : changes) Apply(change, state_);
    return true;
  }
  trace_ += " ?";
  if (!store_.disk.is_off()) Fail("an error without a cause: " + ErrorText(status));
  open_changes_.insert(open_changes_.end(), changes.begin(), changes.end());
  return false;
}

bool StoreLife::Compare() {
  absl::StatusOr<State> seen = See();
  if (!seen.ok()) {
    Fail("cannot be read: " + ErrorText(seen.status()));
    return false;
  }
  Settle(*seen);
  if (*seen == state_) return true;
  Fail("differs:" + DifferenceTo(*seen));
  return false;
}

void StoreLife::Settle(const State& seen) {
  for (const Change& change : open_changes_) {
    State with = state_;
    Apply(change, with);
    bool happened = std::all_of(change.begin(), change.end(), [&](const auto& part) {
      auto expected = with.find(part.first);
      auto found = seen.find(part.first);
      return expected == with.end() ? found == seen.end()
                                    : found != seen.end() && found->second == expected->second;
    });
    if (happened) state_ = std::move(with);
  }
  open_changes_.clear();
  SettleMove();
  // A commit that was not acknowledged may have taken its number.
  for (const auto& [name, what] : seen) {
    if (name.rfind("version ", 0) != 0) continue;
    uint64_t& next = next_[name.substr(8, 1)];
    next = std::max<uint64_t>(next, std::stoull(name.substr(10)) + 1);
  }
}

std::string StoreLife::DifferenceTo(const State& seen) const {
  std::string difference;
  for (const auto& [name, what] : state_) {
    auto found = seen.find(name);
    if (found == seen.end()) difference += fmt::format("\n  lost: {} = {}", name, what);
    if (found != seen.end() && found->second != what) {
      difference += fmt::format("\n  {} is {}, not {}", name, found->second, what);
    }
  }
  for (const auto& [name, what] : seen) {
    if (state_.count(name) == 0) difference += fmt::format("\n  is there: {} = {}", name, what);
  }
  return difference;
}

absl::StatusOr<StoreLife::State> StoreLife::See() {
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
  for (const std::string& model : models_) TILEKV_RETURN_IF_ERROR(SeeModel(model, seen));
  return seen;
}

absl::Status StoreLife::SeeModel(const std::string& model, State& seen) {
  v1::ListVersionsRequest request;
  request.set_ns("default");
  request.set_name(model);
  request.set_with_deleted(true);
  TILEKV_ASSIGN_OR_RETURN(v1::ListVersionsResponse response, store_->node().ListVersions(request));
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

}  // namespace tilekv
