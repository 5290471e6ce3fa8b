#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"
#include "server/testing_peers.h"
#include "tilekv/v1/peer.grpc.pb.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

SharedBytes Shared(std::string_view text) {
  auto owner = std::make_shared<std::string>(text);
  return {AsBytes(*owner), owner};
}

PutSpec SpecOf(std::string_view content) {
  return {.expected = RefOf(0, AsBytes(content)), .touched_rev = Revision{1}};
}

// Opens, once.
class Gate {
 public:
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    opened_.SignalAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (!open_) opened_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// A node that takes calls, and then stands still.
class StillNode : public v1::Peer::Service {
 public:
  StillNode() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~StillNode() override {
    gate_.Open();
    server_->Shutdown();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  grpc::Status Link(grpc::ServerContext*, const v1::PeerLinkRequest*,
                    v1::PeerLinkResponse*) override {
    return Still();
  }
  grpc::Status PutCopy(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::PutCopyResponse, v1::PutCopyRequest>*) override {
    return Still();
  }
  grpc::Status ReadCopy(grpc::ServerContext*, const v1::ReadCopyRequest*,
                        grpc::ServerWriter<v1::ReadCopyResponse>*) override {
    return Still();
  }
  grpc::Status Still() {
    gate_.Wait();
    return grpc::Status::OK;
  }

  Gate gate_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A store whose disk is slow to make anything durable.
class SlowStore : public MemoryObjectStore {
 public:
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) override {
    TILEKV_ASSIGN_OR_RETURN(auto writer, MemoryObjectStore::NewWriter(spec));
    return std::make_unique<Writer>(std::move(writer));
  }

 private:
  class Writer : public ObjectWriter {
   public:
    explicit Writer(std::unique_ptr<ObjectWriter> writer) : writer_(std::move(writer)) {}
    absl::Status Append(Bytes stored, std::span<const uint32_t> table) override {
      return writer_->Append(stored, table);
    }
    absl::StatusOr<PutOutcome> Finish() override {
      std::this_thread::sleep_for(std::chrono::milliseconds(kCopyStall_ms + 1'000));
      return writer_->Finish();
    }

   private:
    const std::unique_ptr<ObjectWriter> writer_;
  };
};

class PeerFaultsTest : public testing::Test {
 protected:
  PeerFaultsTest() { peers_.Update({{"a", a_.address()}}); }
  std::shared_ptr<Peer> peer() { return peers_.Find("a"); }

  MemoryObjectStore store_;
  TestingPeer a_{"a", store_};
  GrpcPeers peers_{TestingPeersOptions()};
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(kMiB);
};

TEST_F(PeerFaultsTest, ANodeThatStopsInTheMiddleOfACopyIsUnavailableFromThenOn) {
  const std::string content = TestContent(8 * kMiB, 1);
  auto writer = peer()->NewCopy(SpecOf(content), {});
  ASSERT_TRUE((*writer)->Append(Shared(content.substr(0, kMiB)), {}).ok());
  a_.StopServer();
  absl::Status status;
  for (int i = 1; i < 8 && status.ok(); ++i) {
    status = (*writer)->Append(Shared(content.substr(i * kMiB, kMiB)), {});
  }
  absl::Status finished = (*writer)->Finish().status();
  EXPECT_EQ(GetReason(finished), Reason::kNodeUnavailable) << finished;
  EXPECT_EQ(GetReason((*writer)->Append(Shared("more"), {})), Reason::kNodeUnavailable);
  EXPECT_FALSE(peers_.IsLikelyUp("a"));
  EXPECT_FALSE(store_.Stat(kDefaultDomain, RefOf(0, AsBytes(content)).id)->has_value());
}

TEST_F(PeerFaultsTest, ANodeThatComesBackIsFoundByTheSamePeer) {
  std::shared_ptr<Peer> before = peer();
  a_.StopServer();
  EXPECT_EQ(GetReason(before->Link(kDefaultDomain, {}, Revision{1}, {}).status()),
            Reason::kNodeUnavailable);
  EXPECT_FALSE(peers_.IsLikelyUp("a"));
  a_.StartServer();
  absl::Status status;
  for (int i = 0; i < 500; ++i) {
    status = before->Link(kDefaultDomain, {}, Revision{1}, {}).status();
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(peers_.IsLikelyUp("a"));
}

TEST_F(PeerFaultsTest, ANodeThatStopsInTheMiddleOfAReadIsUnavailable) {
  const std::string content = TestContent(32 * kMiB, 2);
  const ObjectId id = PutContent(store_, content)->ref.id;
  auto reader = peer()->OpenCopy(kDefaultDomain, id, {});
  ASSERT_TRUE(reader.ok());
  std::vector<uint8_t> out(kMiB);
  ASSERT_TRUE((*reader)->ReadStored(0, out).ok());
  ASSERT_TRUE((*reader)->ReadStored(kMiB, out).ok());
  a_.StopServer();
  absl::Status status;
  for (int i = 2; i < 32 && status.ok(); ++i) status = (*reader)->ReadStored(i * kMiB, out);
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable) << status;
  EXPECT_EQ(GetReason(peer()->OpenCopy(kDefaultDomain, id, {}).status()), Reason::kNodeUnavailable);
}

TEST_F(PeerFaultsTest, ANodeThatStandsStillIsGivenUp) {
  StillNode still;
  peers_.Update({{"still", still.address()}});
  std::shared_ptr<Peer> node = peers_.Find("still");
  const std::string content = TestContent(32 * kMiB, 3);
  auto writer = node->NewCopy(SpecOf(content), {});
  absl::Status status = (*writer)->Append(Shared(content), {});
  if (status.ok()) status = (*writer)->Finish().status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable) << status;
  EXPECT_THAT(ErrorText(status), HasSubstr("took nothing of a copy"));
  EXPECT_EQ(GetReason(node->OpenCopy(kDefaultDomain, ObjectId{}, {}).status()),
            Reason::kNodeUnavailable);
  EXPECT_FALSE(peers_.IsLikelyUp("still"));
  // A small one too, all of which was sent.
  auto small = node->NewCopy(SpecOf("small"), {});
  EXPECT_TRUE((*small)->Append(Shared("small"), {}).ok());
  EXPECT_EQ(GetReason((*small)->Finish().status()), Reason::kNodeUnavailable);
}

TEST_F(PeerFaultsTest, ANodeWhoseDiskIsSlowIsNotGivenUp) {
  SlowStore store;
  TestingPeer slow("slow", store);
  peers_.Update({{"slow", slow.address()}});
  for (uint64_t length : {uint64_t{100}, 2 * kMiB}) {
    const std::string content = TestContent(length, 4);
    auto writer = peers_.Find("slow")->NewCopy(SpecOf(content), {});
    ASSERT_TRUE((*writer)->Append(Shared(content), {}).ok());
    absl::StatusOr<CopyAnswer> answer = (*writer)->Finish();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->stored);
  }
}

TEST_F(PeerFaultsTest, ACancelledCallEndsAtOnceAndTheNodeServesOn) {
  StillNode still;
  peers_.Update({{"a", a_.address()}, {"still", still.address()}});
  std::shared_ptr<Peer> node = peers_.Find("still");
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  const std::string content = TestContent(32 * kMiB, 5);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    context.cancel->Cancel();
  });
  auto writer = node->NewCopy(SpecOf(content), context);
  absl::Status status = (*writer)->Append(Shared(content), {});
  if (status.ok()) status = (*writer)->Finish().status();
  canceller.join();
  EXPECT_EQ(GetReason(status), Reason::kCancelled) << status;
  EXPECT_EQ(GetReason(node->NewCopy(SpecOf(content), context).status()), Reason::kCancelled);
  EXPECT_EQ(GetReason(node->OpenCopy(kDefaultDomain, ObjectId{}, context).status()),
            Reason::kCancelled);
  EXPECT_TRUE(peers_.IsLikelyUp("still")) << "it is not its fault";
  // Of a node that works, in any phase of a copy.
  for (int i = 0; i < 30; ++i) {
    CallContext soon{.cancel = std::make_shared<CancelToken>()};
    auto copy = peer()->NewCopy(SpecOf(content), soon);
    for (int piece = 0; piece < i; ++piece) {
      (void)(*copy)->Append(Shared(content.substr(piece * kMiB, kMiB)), {});
    }
    soon.cancel->Cancel();
    if (i % 2 == 0) (void)(*copy)->Finish();
  }
  auto copy = peer()->NewCopy(SpecOf(content), {});
  ASSERT_TRUE((*copy)->Append(Shared(content), {}).ok());
  EXPECT_TRUE((*copy)->Finish().ok());
}

TEST_F(PeerFaultsTest, ADeadlineThatPassesIsNoFaultOfTheNode) {
  StillNode still;
  peers_.Update({{"still", still.address()}});
  absl::Status status = peers_.Find("still")
                            ->Link(kDefaultDomain, {}, Revision{1}, CallContext{}.WithTimeout(50))
                            .status();
  EXPECT_EQ(GetReason(status), Reason::kDeadlineExceeded) << status;
  EXPECT_TRUE(peers_.IsLikelyUp("still"));
}

TEST_F(PeerFaultsTest, OnlyTheNodesOfTheLastUpdateAreKnown) {
  std::shared_ptr<Peer> first = peer();
  EXPECT_TRUE(peers_.IsLikelyUp("a"));
  peers_.Update({{"a", a_.address(), false}, {"without", "", true}});
  EXPECT_EQ(peer(), first) << "its connections stay";
  EXPECT_FALSE(peers_.IsLikelyUp("a")) << "it is not registered";
  EXPECT_EQ(peers_.Find("without"), nullptr);
  peers_.Update({{"a", "127.0.0.1:1"}});
  EXPECT_NE(peer(), first);
  EXPECT_TRUE(first->Link(kDefaultDomain, {}, Revision{1}, {}).ok()) << "who has it keeps it";
  peers_.Update({});
  EXPECT_EQ(peer(), nullptr);
  EXPECT_FALSE(peers_.IsLikelyUp("a"));
}

TEST_F(PeerFaultsTest, ANodeThatRegistersAgainIsAskedAgain) {
  a_.StopServer();
  EXPECT_FALSE(peer()->Link(kDefaultDomain, {}, Revision{1}, {}).ok());
  EXPECT_FALSE(peers_.IsLikelyUp("a"));
  peers_.Update({{"a", a_.address(), false}});
  peers_.Update({{"a", a_.address(), true}});
  EXPECT_TRUE(peers_.IsLikelyUp("a"));
}

}  // namespace
}  // namespace tilekv
