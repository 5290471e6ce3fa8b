#include "client/cli/context.h"

#include "client/cli/prompt.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kTellWaitingEvery_nanos = 10'000'000'000;

}  // namespace

Context::Context(const GlobalOptions& options, Access access, const Surroundings& surroundings)
    : options_(options),
      access_(access),
      surroundings_(surroundings),
      output_(surroundings.out, options.format, surroundings.terminal) {}

absl::StatusOr<KvStore*> Context::Store(std::optional<uint64_t> max_object_bytes) {
  if (store_ != nullptr) return store_.get();
  StoreRequest request{.uri = model_store_.empty() ? options_.store : model_store_,
                       .access = access_,
                       .memory_bytes = options_.memory_bytes,
                       .max_object_bytes = max_object_bytes,
                       .context = call(),
                       .waiting = [this](const absl::Status& failed) { TellWaiting(failed); }};
  if (request.uri.empty()) {
    return MakeError(Reason::kInvalidArgument,
                     "no store is named; pass --store tilekv://HOST[:PORT] or --store DIR, or set "
                     "TILEKV_STORE");
  }
  TILEKV_ASSIGN_OR_RETURN(store_, surroundings_.open_store(request));
  return store_.get();
}

void Context::TellWaiting(const absl::Status& failed) {
  int64_t now_nanos = surroundings_.clock->MonotonicNanos();
  {
    MutexLock lock(waiting_mutex_);
    if (told_waiting_nanos_ && now_nanos - *told_waiting_nanos_ < kTellWaitingEvery_nanos) return;
    told_waiting_nanos_ = now_nanos;
  }
  Remark(fmt::format("waiting, for {} s at most: {}", kRetryFor_s, ErrorText(failed)));
}

absl::StatusOr<ModelName> Context::Model(std::string_view text) {
  TILEKV_ASSIGN_OR_RETURN(QualifiedModel qualified, QualifiedModel::Parse(text));
  if (qualified.store.has_value()) {
    std::string uri = qualified.store->ToString();
    if (!model_store_.empty() && model_store_ != uri) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("two stores are named, {} and {}; a command works on one",
                                   Printable(model_store_), Printable(uri)));
    }
    model_store_ = uri;
  }
  return qualified.model;
}

absl::Status Context::Done(std::string_view text, const Json& json) {
  if (output_.is_json()) return output_.Document(json);
  return options_.quiet ? absl::OkStatus() : output_.Line(text);
}

void Context::Remark(std::string_view text) const {
  if (options_.quiet) return;
  std::string line = std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), surroundings_.err);
}

absl::Status Context::Ask(std::string_view plan) const {
  const Terminal& terminal = surroundings_.terminal;
  return AskToProceed(
      plan, {.yes = options_.yes, .interactive = terminal.stdin_tty && terminal.stderr_tty},
      surroundings_.in, surroundings_.err);
}

std::unique_ptr<Progress> Context::StartProgress(const std::string& what) const {
  bool enabled = surroundings_.terminal.stderr_tty && !options_.quiet;
  return std::make_unique<Progress>(what, enabled, surroundings_.terminal, surroundings_.err,
                                    surroundings_.clock);
}

}  // namespace tilekv
