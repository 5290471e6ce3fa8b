// What an operator does in a store's life, and what a disk does to it.
#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/payload_file.h"
#include "kvstore/store_life.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

void StoreLife::Copy() {
  auto source = SomeVersion(&Version::IsLive);
  if (!source.has_value()) return;
  const std::string& name = models_[random_.Below(models_.size())];
  uint64_t number = next_[name];
  trace_ += fmt::format(" cp {}/{} {}/{}", source->model, source->number, name, number);
  v1::CopyVersionRequest request;
  request.mutable_source()->set_ns("default");
  request.mutable_source()->set_name(source->model);
  request.mutable_source()->set_number(source->number);
  request.set_ns("default");
  request.set_name(name);
  request.set_commit_id(random_.Bytes(16));
  auto copied = store_->node().CopyVersion(request);
  if (Acknowledged(copied.status(), {{{VersionName(name, number), source->what}}})) {
    uint64_t made = copied->version().record().number();
    if (made != number) Fail(fmt::format("version {} instead of {}", made, number));
    next_[name] = number + 1;
  }
}

void StoreLife::Move() {
  size_t from = random_.Below(models_.size());
  const std::string &source = models_[from], &target = models_[1 - from];
  trace_ += fmt::format(" mv {} {}", source, target);
  bool source_exists = HasVersions(source), target_exists = HasVersions(target);
  bool moves = source_exists && !target_exists;
  Change change;
  for (const auto& [name, what] : state_) {
    if (!moves) break;
    for (const char* kind : {"version", "tag"}) {
      std::string before = fmt::format("{} {}/", kind, source);
      if (name.rfind(before, 0) != 0) continue;
      std::string moved = fmt::format("{} {}/{}", kind, target, name.substr(before.size()));
      change[name] = std::nullopt;
      change[moved] = what;
      if (auto at = deleted_at_.find(name); at != deleted_at_.end())
        deleted_at_[moved] = at->second;
    }
  }
  v1::MoveModelRequest request;
  request.set_ns("default");
  request.set_name(source);
  request.set_new_ns("default");
  request.set_new_name(target);
  auto moved = store_->node().MoveModel(request);
  if (moves) moved_to_ = target;
  if (!Acknowledged(moved.status(), moves ? std::vector{change} : std::vector<Change>())) return;
  SettleMove();
  if (moved->source_exists() != source_exists || moved->target_exists() != target_exists) {
    Fail("a move that found something else");
  }
}

bool StoreLife::HasVersions(const std::string& model) const {
  auto first = state_.lower_bound(fmt::format("version {}/", model));
  return first != state_.end() && first->first.rfind(fmt::format("version {}/", model), 0) == 0;
}

// Both names go on from the greater number, if the move has happened.
void StoreLife::SettleMove() {
  if (!moved_to_.empty() && HasVersions(moved_to_)) {
    uint64_t next = std::max(next_[models_[0]], next_[models_[1]]);
    for (const std::string& model : models_) next_[model] = next;
  }
  moved_to_.clear();
}

void StoreLife::Recode() {
  constexpr const char* kCodecs[] = {"none", "zstd", "auto"};
  const char* codec = kCodecs[random_.Below(std::size(kCodecs))];
  trace_ += fmt::format(" recode {}", codec);
  v1::RecodeRequest request;
  request.set_codec(codec);
  do {
    auto step = store_->node().Recode(request);
    if (!Acknowledged(step.status(), {})) return;
    if (step->damaged() != 0) Fail("recoding found damage");
    request.set_after(step->next());
  } while (!request.after().empty());
}

void StoreLife::Repair() {
  trace_ += " repair";
  v1::FsckRequest request;
  request.set_repair(true);
  request.set_verify_content(random_.Below(2) == 0);
  auto repaired = store_->node().Fsck(request);
  if (!Acknowledged(repaired.status(), {})) return;
  if (repaired->lost_count() != 0) Fail("fsck: " + repaired->ShortDebugString());
  auto again = store_->node().Fsck({});
  if (!Acknowledged(again.status(), {})) return;
  // A repair leaves nothing but damaged copies that no name needs.
  for (const v1::FsckProblem& problem : again->problems()) {
    if (problem.kind() != "damaged") Fail("fsck again: " + problem.ShortDebugString());
  }
}

// The disk spoils the copy of a value. It is never given out, and storing it again heals it.
void StoreLife::SpoilAndHeal() {
  auto [key, content] = SomeValueInAFile();
  if (key.empty()) return;
  ObjectRef ref = RefOf(0, AsBytes(content));
  auto row = store_.objects()->Stat(kDefaultDomain, ref.id);
  if (!row.ok() || !row->has_value() || (*row)->file_number == 0) return;
  trace_ += fmt::format(" spoil {}", key);
  spoiled_[key] = content;
  store_.disk.FlipBit(PayloadPath(SimulatedStore::kDirectory, (*row)->file_number),
                      kPayloadHeaderBytes + random_.Below((*row)->stored_length));
  // Not every bit of a coded copy means something.
  auto read = store_->Get(key);
  bool other = read.ok() && (!read->has_value() || (*read)->content != content);
  if (other) Fail("spoiled bytes were given out");
  Heal();
}

void StoreLife::Heal() {
  while (!spoiled_.empty() && problem_.empty()) {
    auto [key, content] = *spoiled_.begin();
    trace_ += fmt::format(" heal {}", key);
    v1::ReportDamageRequest report;
    ObjectRefToWire(RefOf(0, AsBytes(content)), report.add_refs());
    if (!Acknowledged(store_->node().ReportDamage(report).status(), {})) return;
    if (!Acknowledged(store_->Put(key, content).status(), {})) return;
    auto read = store_->Get(key);
    if (!Acknowledged(read.status(), {})) return;
    if (!read->has_value() || (*read)->content != content) Fail("storing again has not healed");
    spoiled_.erase(key);
  }
}

std::pair<std::string, std::string> StoreLife::SomeValueInAFile() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, what] : state_) {
    if (name.rfind("value ", 0) != 0) continue;
    for (const auto& [content, content_name] : names_) {
      bool in_file = content.size() >= kInlineContentBytes && content.size() <= kMaxObjectBytes;
      if (content_name == what && in_file) found.emplace_back(name.substr(6), content);
    }
  }
  if (found.empty()) return {};
  return found[random_.Below(found.size())];
}

}  // namespace tilekv
