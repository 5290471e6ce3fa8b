#include "server/node_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "client/remote_channels.h"
#include "client/remote_node.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"
#include "server/node_server_test_util.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

TEST_F(NodeServerTest, AGeneratedStubPutsAndReadsObjects) {
  std::string content = Pattern(300'000, 1);
  v1::PutObjectRequest message = PutHeader(content);
  message.set_data(content.substr(0, 1'000));  // data beside the header, in odd pieces
  grpc::ClientContext put;
  v1::PutObjectResponse answer;
  auto writer = stub_->PutObject(&put, &answer);
  ASSERT_TRUE(writer->Write(message));
  for (size_t at = 1'000; at < content.size(); at += 77'777) {
    v1::PutObjectRequest next;
    next.set_data(content.substr(at, 77'777));
    ASSERT_TRUE(writer->Write(next));
  }
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(answer.stored());

  grpc::ClientContext get;
  v1::ReadObjectsRequest request;
  *request.add_ranges()->mutable_ref() = message.header().ref();
  request.mutable_ranges(0)->set_offset(70'000);
  request.mutable_ranges(0)->set_length(100'000);
  auto reader = stub_->ReadObjects(&get, request);
  v1::ReadObjectsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_TRUE(response.has_header());
  uint64_t offset = response.header().content_offset();
  EXPECT_EQ(response.header().leaf_hashes().size(), 5 * 32u);
  std::string got = response.data();
  while (reader->Read(&response)) got += response.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(got.substr(70'000 - offset, 100'000), content.substr(70'000, 100'000));
}

TEST_F(NodeServerTest, AGeneratedStubPutsAValueAndHearsTheCompareFirst) {
  grpc::ClientContext call;
  auto stream = stub_->PutValue(&call);
  v1::PutValueRequest request;
  request.mutable_header()->set_key("k");
  request.mutable_header()->set_request_id(std::string(16, 'r'));
  request.set_data("hello ");
  ASSERT_TRUE(stream->Write(request));
  v1::PutValueResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_compare());
  EXPECT_EQ(response.compare(), 0u);
  request.Clear();
  request.set_data("world");
  request.set_finish(true);
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.outcome().applied());
  EXPECT_EQ(response.outcome().length(), 11u);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(NodeServerTest, AValueWithoutItsLastMessageIsNotWritten) {
  grpc::ClientContext call;
  auto stream = stub_->PutValue(&call);
  v1::PutValueRequest request;
  request.mutable_header()->set_key("half");
  request.mutable_header()->set_request_id(std::string(16, 'r'));
  request.set_data("hello");
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  v1::PutValueResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(GetReason(Decoded(stream->Finish())), Reason::kInvalidArgument);
  v1::GetValueRequest get;
  get.set_key("half");
  EXPECT_FALSE(node_->node().GetValue(get)->found());
}

TEST_F(NodeServerTest, AnObjectAboveTheLimitIsRefusedBeforeItsBytes) {
  StartNode(kMiB);
  std::string content = Pattern(kMiB + 1, 1);
  v1::PutObjectRequest message = PutHeader(content);
  grpc::ClientContext call;
  v1::PutObjectResponse answer;
  auto writer = stub_->PutObject(&call, &answer);
  ASSERT_TRUE(writer->Write(message));
  // Not a byte of data was sent, and the answer is there.
  absl::Status status = Decoded(writer->Finish());
  EXPECT_EQ(GetReason(status), Reason::kObjectTooLarge);
  EXPECT_THAT(ErrorText(status), HasSubstr("1,048,577"));
  EXPECT_THAT(ErrorText(status), HasSubstr("1,048,576"));
}

TEST_F(NodeServerTest, AnObjectThatIsThereIsAnsweredWithoutItsBytes) {
  std::string content = Pattern(200'000, 1);
  Store(content);
  v1::PutObjectRequest message = PutHeader(content);
  grpc::ClientContext call;
  v1::PutObjectResponse answer;
  answer.set_stored(true);
  auto writer = stub_->PutObject(&call, &answer);
  ASSERT_TRUE(writer->Write(message));
  grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(answer.stored());
}

TEST_F(NodeServerTest, ErrorsArriveWithReasonAndText) {
  v1::EndSessionRequest request;
  request.set_token(std::string(16, 'x'));
  absl::Status local = node_->node().KeepSession(request.token()).status();
  ASSERT_EQ(GetReason(local), Reason::kSessionLost);
  auto remote = ConnectNode(node_->address());
  ASSERT_TRUE(remote.ok()) << remote.status();
  absl::Status status = (*remote)->KeepSession(request.token()).status();
  EXPECT_EQ(ErrorText(status), ErrorText(local));
}

// Of which the first message is too small for gRPC to write by itself.
TEST_F(NodeServerTest, SmallObjectsReadTogetherComeAtOnce) {
  RemoteOptions options;
  options.progress_timeout_ms = 5'000;  // below the pings that keep a connection alive
  auto remote = *ConnectNode(node_->address(), options);
  std::vector<std::string> contents, got;
  std::vector<ObjectRead> reads;
  for (uint64_t i = 0; i < 20; ++i) {
    contents.push_back(Pattern(1'000, i));
    got.emplace_back(1'000, '\0');
  }
  for (uint64_t i = 0; i < 20; ++i) {
    reads.push_back({Store(contents[i]), 0, {reinterpret_cast<uint8_t*>(got[i].data()), 1'000}});
  }
  absl::Status status = remote->ReadObjects(reads);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(got, contents);
}

TEST_F(NodeServerTest, ADeadlineThatHasPassedEndsTheCall) {
  auto remote = *ConnectNode(node_->address());
  CallContext late;
  late.deadline_ns = 1;
  EXPECT_EQ(GetReason(remote->Info({}, late).status()), Reason::kDeadlineExceeded);
  ObjectRef ref = Store("abc");
  uint8_t out[3];
  ObjectRead read{ref, 0, out};
  EXPECT_EQ(GetReason(remote->ReadObjects({&read, 1}, nullptr, late)), Reason::kDeadlineExceeded);
}

TEST_F(NodeServerTest, TheFirstMessageOfAPutIsSmall) {
  grpc::ClientContext call;
  auto stream = stub_->PutValue(&call);
  v1::PutValueRequest request;
  request.mutable_header()->set_key("k");
  request.mutable_header()->set_request_id(std::string(16, 'r'));
  request.set_data(std::string(kSmallValueBytes + 1, 'x'));
  stream->Write(request);
  EXPECT_EQ(GetReason(Decoded(stream->Finish())), Reason::kInvalidArgument);
}

TEST_F(NodeServerTest, ANodeThatIsStoppedInMidCallIsUnavailableNotCancelled) {
  auto remote = *ConnectNode(node_->address());
  v1::PutValueHeader header;
  header.set_key("k");
  header.set_request_id(std::string(16, 'r'));
  // Stops the node after its first piece.
  class StoppingSource : public ByteSource {
   public:
    explicit StoppingSource(TestingNode& node) : node_(node) {}
    absl::StatusOr<uint64_t> Read(MutableBytes out) override {
      if (++pieces_ == 2) node_.server().Shutdown(0);
      std::memset(out.data(), pieces_, out.size());
      return out.size();
    }

   private:
    TestingNode& node_;
    int pieces_ = 0;
  } source(*node_);
  absl::Status status = remote->PutValue(header, &source, nullptr).status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable) << status;
}

TEST_F(NodeServerTest, AClientOutlivesTheServerAndFindsItAgain) {
  auto remote = *ConnectNode(node_->address());
  node_->StopServer();
  absl::Status gone = remote->Info({}).status();
  EXPECT_EQ(GetReason(gone), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(gone), HasSubstr(node_->address()));
  EXPECT_THAT(ErrorText(gone), HasSubstr("tilekv-server"));
  node_->StartServer();
  EXPECT_TRUE(Eventually([&] { return remote->Info({}).ok(); }));
}

TEST_F(NodeServerTest, ConnectingToNobodyFailsAtOnceAndNamesTheAddress) {
  std::string address = node_->address();
  node_->StopServer();
  absl::Status status = ConnectNode(address).status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(status), HasSubstr(address));
}

TEST_F(NodeServerTest, StoppingTheServerEndsOpenSessionsAtOnce) {
  auto remote = *ConnectNode(node_->address());
  v1::BeginSessionRequest request;
  request.set_holder("test");
  auto session = remote->BeginSession(request);
  ASSERT_TRUE(session.ok());
  auto keeper = remote->KeepSession(session->token());
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  // Far less than the drain: the call that keeps the session does not hold it up.
  auto began = std::chrono::steady_clock::now();
  node_->server().Shutdown(60'000);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

TEST_F(NodeServerTest, AMessageOfMoreThanAChunkIsRefusedByName) {
  std::string content = Pattern(2 * kMiB, 1);
  v1::PutObjectRequest message = PutHeader(content);
  message.set_data(content);
  grpc::ClientContext call;
  v1::PutObjectResponse answer;
  auto writer = stub_->PutObject(&call, &answer);
  writer->Write(message);
  absl::Status status = Decoded(writer->Finish());
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_THAT(ErrorText(status), HasSubstr("at most 1048576"));
}

// One message there, one back, of a service whose stub we do not have.
std::string Ask(const std::string& address, const char* method, const std::string& request) {
  RemoteChannels channels(address, address, {});
  BlockingStream stream = channels.NewStream(method, {});
  grpc::Slice slice(request);
  std::string reply;
  EXPECT_TRUE(stream.Write(grpc::ByteBuffer(&slice, 1), true));
  EXPECT_TRUE(stream.Read(reply)) << stream.Finish(method);
  return reply;
}

TEST_F(NodeServerTest, HealthAndReflectionAnswer) {
  EXPECT_EQ(Ask(node_->address(), "/grpc.health.v1.Health/Check", ""), "\x08\x01") << "SERVING";
  const char* info = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  EXPECT_THAT(Ask(node_->address(), info, "\x3a\x01*"), HasSubstr("tilekv.v1.Node"));
  std::string service = "tilekv.v1.Node";
  std::string described = Ask(node_->address(), info,
                              "\x22" + std::string(1, static_cast<char>(service.size())) + service);
  EXPECT_THAT(described, HasSubstr("ReadObjects"));  // framed by hand, and described all the same
  EXPECT_THAT(described, HasSubstr("BatchPut"));
}

TEST_F(NodeServerTest, ABatchIsNotWrittenBeforeItsClientHasHeardTheCompares) {
  v1::BatchPutRequest request;
  request.set_request_id(std::string(16, 'r'));
  request.add_items()->set_key("k");
  for (bool heard : {false, true}) {
    grpc::ClientContext call;
    auto stream = stub_->BatchPut(&call);
    v1::BatchPutResponse response;
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    if (heard) {
      ASSERT_TRUE(stream->Write({}));
    }
    stream->WritesDone();
    EXPECT_EQ(stream->Read(&response), heard);
    EXPECT_EQ(Decoded(stream->Finish()).ok(), heard);
    v1::GetValueRequest get;
    get.set_key("k");
    EXPECT_EQ(node_->node().GetValue(get)->found(), heard);
  }
}

TEST_F(NodeServerTest, AReaderThatFindsDamageTellsTheNodeAndStoringAgainHeals) {
  std::string content = Pattern(300'000, 3);
  ObjectRef ref = Store(content);
  int damaged = 0;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(node_->directory() / "payload")) {
    if (!file.is_regular_file()) continue;
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(kPayloadHeaderBytes + 100'000);
    bytes.put(static_cast<char>(content[100'000] ^ 1));
    damaged += bytes.good();
  }
  ASSERT_EQ(damaged, 1);
  auto remote = ConnectNode(node_->address());
  ASSERT_TRUE(remote.ok()) << remote.status();
  std::string got(content.size(), '\0');
  ObjectRead read{ref, 0, MutableBytes(reinterpret_cast<uint8_t*>(got.data()), got.size())};
  EXPECT_EQ(GetReason((*remote)->ReadObjects({&read, 1})), Reason::kDataLoss);

  uint64_t session_rev = BeginSession();
  v1::LinkRequest link;
  link.set_session_rev(session_rev);
  ObjectRefToWire(ref, link.add_refs());
  EXPECT_FALSE((*remote)->Link(link)->present(0));
  ObjectPut put;
  put.session_rev = Revision{session_rev};
  put.ref = ref;
  put.content = AsBytes(content);
  auto stored = (*remote)->PutObject(put);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(*stored);
  EXPECT_TRUE((*remote)->ReadObjects({&read, 1}).ok());
  EXPECT_EQ(got, content);
}

TEST_F(NodeServerTest, ASessionThatEndedWhileItsCallWasBrokenIsKnownToBeLost) {
  auto remote = ConnectNode(node_->address());
  ASSERT_TRUE(remote.ok()) << remote.status();
  auto session = (*remote)->BeginSession({});
  ASSERT_TRUE(session.ok()) << session.status();
  auto keeper = (*remote)->KeepSession(session->token());
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  EXPECT_TRUE((*keeper)->status().ok());
  v1::EndSessionRequest end;
  end.set_token(session->token());
  node_->StopServer();
  ASSERT_TRUE(node_->node().EndSession(end).ok());
  node_->StartServer();
  EXPECT_TRUE(Eventually([&] { return GetReason((*keeper)->status()) == Reason::kSessionLost; }));
}

TEST(NodeServer, APortThatIsTakenIsAnErrorThatNamesIt) {
  TestingNode first;
  ServerMetrics metrics;
  auto second = NodeServer::Start(first.node(), metrics, {.listen = first.address()});
  EXPECT_EQ(GetReason(second.status()), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(second.status()), HasSubstr(first.address()));
}

}  // namespace
}  // namespace tilekv
