// Bad neighbours of a node, for a test of those beside them. Not installed.
//
//   bad_neighbours HOST:PORT READERS UPLOADS CANCELLERS
//
// READERS ask for objects and UPLOADS begin to send: of both, every second one moves a message and
// stands still, the others go on, but slowly. CANCELLERS begin and cancel calls. Each has
// a connection of its own, and begins again, for ever, when its call was refused or broken off.
// "ready" on standard output when all have begun; the end with the end of standard input. There may
// be more of them than the node serves, and several runs beside or after each other.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"
#include "kvstore/wire/status_wire.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {
namespace {

constexpr uint64_t kContentBytes = 16 * kMiB;
// Half of what a transfer must move to keep its place.
constexpr uint64_t kSlowBytesPerSecond = kLeastTransferBytes / kStalledTransfer_s / 2;
constexpr int64_t kStandsStill_ms = 2 * kStalledTransfer_s * 1'000;  // before it looks again
constexpr int64_t kAgain_ms = 1'000;

std::unique_ptr<v1::Node::Stub> Connect(const std::string& address, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("neighbour", number);
  // Or the transport takes all of the content, whether it is read or not.
  arguments.SetInt("grpc.http2.lookahead_bytes", 64 << 10);
  arguments.SetInt("grpc.http2.bdp_probe", 0);
  return v1::Node::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

// The calls in flight, and the end of them all. Thread-safe.
class Calls {
 public:
  // False: all is over.
  bool Begin(grpc::ClientContext& call) {
    MutexLock lock(mutex_);
    if (!over_) calls_.insert(&call);
    return !over_;
  }
  void End(grpc::ClientContext& call) {
    MutexLock lock(mutex_);
    calls_.erase(&call);
  }
  void EndAll() {
    MutexLock lock(mutex_);
    over_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
    changed_.SignalAll();
  }
  // True: all is over.
  bool WaitForEnd(int64_t ms) {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (!over_ && std::chrono::steady_clock::now() < end) {
      changed_.WaitFor(mutex_, end - std::chrono::steady_clock::now());
    }
    return over_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

struct Counts {
  std::atomic<int> cancelled{0};
  std::atomic<int> broken_off{0};  // by the node
  std::atomic<int> refused{0};
};

class Neighbours {
 public:
  explicit Neighbours(std::string address) : address_(std::move(address)) {}
  ~Neighbours() {
    calls_.EndAll();
    for (std::thread& thread : threads_) thread.join();
  }

  // What the readers read. It may be there already.
  void Store() {
    auto stub = Connect(address_, next_++);
    grpc::ClientContext begin;
    v1::BeginSessionResponse session;
    TILEKV_CHECK(stub->BeginSession(&begin, {}, &session).ok());
    session_rev_ = session.session_rev();
    std::string content(kContentBytes, 'n');
    for (size_t i = 0; i < content.size(); i += 997) content[i] = static_cast<char>(i >> 5);
    ref_ = RefOf(0, AsBytes(content));
    grpc::Status stored;
    do {
      grpc::ClientContext put;
      v1::PutObjectResponse answer;
      auto writer = stub->PutObject(&put, &answer);
      v1::PutObjectRequest message = Header(ref_);
      for (size_t at = 0; at < content.size(); at += kTransferChunkBytes) {
        message.set_data(content.substr(at, kTransferChunkBytes));
        if (!writer->Write(message)) break;  // the answer is there
        message.Clear();
      }
      writer->WritesDone();
      stored = writer->Finish();
      TILEKV_CHECK(stored.ok() || stored.error_code() == grpc::StatusCode::UNAVAILABLE);
    } while (!stored.ok() && !calls_.WaitForEnd(kAgain_ms));
  }

  void AddReader() {
    AddThread([this, stands_still = IsOdd()](v1::Node::Stub& stub, grpc::ClientContext& call) {
      auto reader = stub.ReadObjects(&call, Request());
      v1::ReadObjectsResponse response;
      while (reader->Read(&response)) WaitAfter(response.data().size(), stands_still);
      CountEnd(reader->Finish());
      calls_.WaitForEnd(kAgain_ms);
    });
  }
  void AddUpload() {
    // Of another content each time, so that none is there already.
    ObjectRef ref = ref_;
    ref.id.bytes[0] ^= static_cast<uint8_t>(++uploads_);
    ref.id.bytes[1] ^= static_cast<uint8_t>(uploads_ >> 8) ^ 1;
    AddThread([this, ref, stands_still = IsOdd()](v1::Node::Stub& stub, grpc::ClientContext& call) {
      v1::PutObjectResponse answer;
      auto writer = stub.PutObject(&call, &answer);
      v1::PutObjectRequest message = Header(ref);
      message.set_data(std::string(kSlowBytesPerSecond, 'u'));
      while (writer->Write(message)) {
        message.clear_header();
        WaitAfter(message.data().size(), stands_still);
      }
      CountEnd(writer->Finish());
      calls_.WaitForEnd(kAgain_ms);
    });
  }
  void AddCanceller() {
    AddThread([this](v1::Node::Stub& stub, grpc::ClientContext& call) {
      auto reader = stub.ReadObjects(&call, Request());
      v1::ReadObjectsResponse response;
      reader->Read(&response);
      call.TryCancel();
      while (reader->Read(&response)) {
      }
      reader->Finish();
      ++counts_.cancelled;
    });
  }
  void WaitUntilAllHaveBegun() {
    while (begun_ < threads_.size()) std::this_thread::yield();
  }
  const Counts& counts() const { return counts_; }

 private:
  using Body = std::function<void(v1::Node::Stub& stub, grpc::ClientContext& call)>;

  void AddThread(Body body) {
    threads_.emplace_back(
        [this, body = std::move(body), stub = Connect(address_, next_++)] { Run(*stub, body); });
  }
  void Run(v1::Node::Stub& stub, const Body& body) {
    for (bool first = true;; first = false) {
      grpc::ClientContext call;
      if (!calls_.Begin(call)) return;
      if (first) ++begun_;
      body(stub, call);
      calls_.End(call);
    }
  }
  bool IsOdd() { return ++added_ % 2 == 1; }
  void WaitAfter(uint64_t bytes, bool stands_still) {
    const uint64_t slow_ms = bytes * 1'000 / kSlowBytesPerSecond;
    calls_.WaitForEnd(stands_still ? kStandsStill_ms : static_cast<int64_t>(slow_ms));
  }
  void CountEnd(const grpc::Status& status) {
    if (status.ok() || calls_.WaitForEnd(0)) return;
    absl::Status ended =
        StatusFromWire(status.error_code(), status.error_message(), status.error_details(), "node");
    bool is_refused = GetReason(ended) == Reason::kOverloaded &&
                      ErrorText(ended).find("others waited") == std::string::npos;
    if (is_refused) {
      ++counts_.refused;
    } else if (++counts_.broken_off == 1) {
      std::cout << "broken off" << std::endl;
    }
  }
  v1::PutObjectRequest Header(const ObjectRef& ref) const {
    v1::PutObjectRequest message;
    message.mutable_header()->set_session_rev(session_rev_);
    ObjectRefToWire(ref, message.mutable_header()->mutable_ref());
    return message;
  }
  v1::ReadObjectsRequest Request() const {
    v1::ReadObjectsRequest request;
    ObjectRefToWire(ref_, request.add_ranges()->mutable_ref());
    request.mutable_ranges(0)->set_length(ref_.length);
    return request;
  }

  const std::string address_;
  int next_ = 0;
  int added_ = 0;
  int uploads_ = 0;
  uint64_t session_rev_ = 0;
  ObjectRef ref_;
  Calls calls_;
  Counts counts_;
  std::atomic<size_t> begun_{0};
  std::vector<std::thread> threads_;
};

int Number(const char* text) {
  int number = 0;
  std::string_view all(text);
  TILEKV_CHECK(std::from_chars(all.data(), all.data() + all.size(), number).ec == std::errc());
  return number;
}

int Main(int argc, char** argv) {
  TILEKV_CHECK(argc == 5);
  Neighbours neighbours(argv[1]);
  neighbours.Store();
  for (int i = 0; i < Number(argv[2]); ++i) neighbours.AddReader();
  for (int i = 0; i < Number(argv[3]); ++i) neighbours.AddUpload();
  for (int i = 0; i < Number(argv[4]); ++i) neighbours.AddCanceller();
  neighbours.WaitUntilAllHaveBegun();
  std::cout << "ready" << std::endl;
  std::string rest;
  std::getline(std::cin, rest);
  fmt::print("{} calls were cancelled, {} broken off, {} refused\n",
             neighbours.counts().cancelled.load(), neighbours.counts().broken_off.load(),
             neighbours.counts().refused.load());
  return 0;
}

}  // namespace
}  // namespace tilekv

int main(int argc, char** argv) { return tilekv::Main(argc, argv); }
