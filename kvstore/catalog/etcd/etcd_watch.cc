#include "kvstore/catalog/etcd/etcd_watch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "kvstore/base/clock.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kFirstPause_ms = 50;
constexpr int64_t kGreatestPause_ms = 1'000;

}  // namespace

EtcdWatch::EtcdWatch(EtcdRpc& rpc, const EtcdCodec& codec, const EtcdOptions& options,
                     std::string start, std::string end, ListEverything list,
                     CatalogUpdateCallback callback)
    : rpc_(rpc),
      codec_(codec),
      options_(options),
      start_(std::move(start)),
      end_(std::move(end)),
      list_(std::move(list)),
      callback_(std::move(callback)) {
  thread_ = std::thread([this] { Run(); });
}

EtcdWatch::~EtcdWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
    changed_.SignalAll();
  }
  thread_.join();
}

bool EtcdWatch::Stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

void EtcdWatch::Run() {
  int64_t pause_ms = kFirstPause_ms;
  while (!Stopping()) {
    pause_ms = Follow() ? kFirstPause_ms : std::min(pause_ms * 2, kGreatestPause_ms);
    int64_t varied_ms =
        pause_ms / 2 + static_cast<int64_t>(options_.random->Below(pause_ms / 2 + 1));
    MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitFor(mutex_, std::chrono::milliseconds(varied_ms));
  }
}

bool EtcdWatch::Follow() {
  absl::StatusOr<CatalogPage> page = list_();
  if (!page.ok() || Stopping()) return false;
  std::optional<int64_t> revision = codec_.ToEtcd(page->revision);
  CatalogUpdate all;
  all.everything = true;
  all.entries = std::move(page->entries);
  all.revision = page->revision;
  callback_(all);

  pb::WatchRequest request;
  request.mutable_create_request()->set_key(codec_.Key(start_));
  request.mutable_create_request()->set_range_end(codec_.Key(end_));
  request.mutable_create_request()->set_start_revision(revision.value_or(0) + 1);
  Reply reply;
  int64_t deadline_ns = Clock::System()->MonotonicNanos() + options_.timeout_ms * kNanosPerMilli;
  std::unique_ptr<EtcdWatchStream> opened = rpc_.Watch(request, deadline_ns, reply);
  if (opened == nullptr) return false;
  EtcdWatchStream* stream = opened.get();
  {
    MutexLock lock(mutex_);
    stream_ = std::move(opened);
    if (stopping_) stream_->Cancel();
  }
  pb::WatchResponse response;
  while (stream->Read(response) && Tell(response)) {
  }
  stream->Cancel();
  MutexLock lock(mutex_);
  stream_.reset();
  return true;
}

bool EtcdWatch::Tell(const pb::WatchResponse& response) {
  if (response.canceled() || response.compact_revision() > 0 || Stopping()) return false;
  if (response.events().empty()) return true;
  // Several events of one key in a response: the last one counts.
  std::map<std::string, const pb::Event*> newest;
  for (const pb::Event& event : response.events()) newest[event.kv().key()] = &event;
  CatalogUpdate update;
  update.revision = codec_.ToRevision(response.header().revision());
  for (const auto& [etcd_key, event] : newest) {
    if (event->type() == pb::Event::DELETE) {
      absl::StatusOr<std::string> key = codec_.ToKey(event->kv());
      if (!key.ok()) return false;
      update.deleted.push_back(*std::move(key));
      continue;
    }
    absl::StatusOr<CatalogEntry> entry = codec_.ToEntry(event->kv());
    if (!entry.ok()) return false;
    update.entries.push_back(*std::move(entry));
  }
  callback_(update);
  return true;
}

}  // namespace tilekv
