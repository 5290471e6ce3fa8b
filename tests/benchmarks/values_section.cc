// Plain values of 1 KiB from 64 concurrent callers, against an etcd on the same disk driven by a
// client that is the same but for the calls.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "client/connect.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd.grpc.pb.h"
#include "tests/benchmarks/measure.h"
#include "tests/benchmarks/sections.h"

namespace tilekv::bench {
namespace {

constexpr int kCallers = 64;
constexpr int kCallsEach = 64;
constexpr size_t kValueBytes = 1024;
constexpr int kConnections = 2;  // of either client

void FromAllCallers(const std::function<void(const std::string& key)>& call) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&call, caller] {
      for (int i = 0; i < kCallsEach; ++i) call(fmt::format("bench/{:02}/{:04}", caller, i));
    });
  }
  for (std::thread& caller : callers) caller.join();
}

class EtcdRival {
 public:
  explicit EtcdRival(uint16_t port) {
    for (int i = 0; i < kConnections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("grpc.use_local_subchannel_pool", 1);
      stubs_.push_back(etcdserverpb::KV::NewStub(grpc::CreateCustomChannel(
          fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials(), arguments)));
    }
  }
  void Put(const std::string& key, const std::string& value) {
    etcdserverpb::PutRequest request;
    request.set_key(key);
    request.set_value(value);
    etcdserverpb::PutResponse response;
    grpc::ClientContext context;
    Check(NextStub().Put(&context, request, &response));
  }
  void Get(const std::string& key) {
    etcdserverpb::RangeRequest request;
    request.set_key(key);
    etcdserverpb::RangeResponse response;
    grpc::ClientContext context;
    Check(NextStub().Range(&context, request, &response));
    if (response.kvs_size() != 1 || response.kvs(0).value().size() != kValueBytes) {
      Must(MakeError(Reason::kInternal, "etcd: a value is missing"));
    }
  }

 private:
  static void Check(const grpc::Status& status) {
    if (!status.ok()) Must(MakeError(Reason::kInternal, "etcd: " + status.error_message()));
  }
  etcdserverpb::KV::Stub& NextStub() { return *stubs_[next_++ % stubs_.size()]; }

  std::vector<std::unique_ptr<etcdserverpb::KV::Stub>> stubs_;
  std::atomic<size_t> next_{0};
};

}  // namespace

nlohmann::json SmallValues(const Arguments& arguments) {
  auto store = Must(Connect(arguments.store));
  std::atomic<uint64_t> generation{0};
  auto value = [&generation] {
    std::string text(kValueBytes, 'v');
    fmt::format_to_n(text.data(), 24, "{:020}", generation++);
    return text;
  };
  constexpr double kCalls = kCallers * kCallsEach;
  Contest contest;
  contest.Add("TileKV put", kCalls, "op", [&] {
    FromAllCallers([&](const std::string& key) { Must(store->Put(key, value())); });
  });
  contest.Add("TileKV get", kCalls, "op", [&] {
    FromAllCallers([&](const std::string& key) {
      auto found = Must(store->Get(key));
      if (!found.has_value()) Must(MakeError(Reason::kInternal, "a value is missing"));
    });
  });
  std::unique_ptr<EtcdRival> etcd;
  if (arguments.etcd_port != 0) {
    etcd = std::make_unique<EtcdRival>(arguments.etcd_port);
    contest.Add("etcd put", kCalls, "op",
                [&] { FromAllCallers([&](const std::string& key) { etcd->Put(key, value()); }); });
    contest.Add("etcd get", kCalls, "op",
                [&] { FromAllCallers([&](const std::string& key) { etcd->Get(key); }); });
  }
  contest.Run(arguments.rounds);
  return {{"rows", contest.Rows()}};
}

}  // namespace tilekv::bench
