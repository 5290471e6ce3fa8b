// Bad neighbours of a node, for a test of those beside them. Not installed.
//
//   bad_neighbours HOST:PORT READERS UPLOADS CANCELLERS
//
// READERS ask for objects and take one message, UPLOADS begin to send and stop, CANCELLERS begin
// and cancel calls for ever, each over a connection of its own. "ready" on standard output when all
// have begun; the end with the end of standard input.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <charconv>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {
namespace {

constexpr uint64_t kContentBytes = 16 * kMiB;

std::unique_ptr<v1::Node::Stub> Connect(const std::string& address, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("neighbour", number);
  return v1::Node::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

class Neighbours {
 public:
  explicit Neighbours(std::string address)
      : address_(std::move(address)), first_(Connect(address_, next_++)) {}
  ~Neighbours() {
    stopping_ = true;
    for (auto& call : calls_) call->TryCancel();
    for (std::thread& thread : cancellers_) thread.join();
    for (auto& writer : writers_) writer->Finish();
    v1::ReadObjectsResponse response;
    for (auto& reader : readers_) {
      while (reader->Read(&response)) {
      }
      reader->Finish();
    }
  }

  // What the readers read.
  void Store() {
    grpc::ClientContext begin;
    v1::BeginSessionResponse session;
    TILEKV_CHECK(first_->BeginSession(&begin, {}, &session).ok());
    session_rev_ = session.session_rev();
    std::string content(kContentBytes, 'n');
    for (size_t i = 0; i < content.size(); i += 997) content[i] = static_cast<char>(i >> 5);
    ref_ = RefOf(0, AsBytes(content));
    grpc::ClientContext put;
    v1::PutObjectResponse answer;
    auto writer = first_->PutObject(&put, &answer);
    v1::PutObjectRequest message = Header(ref_);
    for (size_t at = 0; at < content.size(); at += kTransferChunkBytes) {
      message.set_data(content.substr(at, kTransferChunkBytes));
      TILEKV_CHECK(writer->Write(message));
      message.Clear();
    }
    writer->WritesDone();
    TILEKV_CHECK(writer->Finish().ok());
  }

  void AddReader() {
    readers_.push_back(NewStub().ReadObjects(NewCall(), Request()));
    v1::ReadObjectsResponse response;
    TILEKV_CHECK(readers_.back()->Read(&response));
  }
  void AddUpload() {
    answers_.push_back(std::make_unique<v1::PutObjectResponse>());
    writers_.push_back(NewStub().PutObject(NewCall(), answers_.back().get()));
    // Of another content each time, so that none is there already.
    ObjectRef ref = ref_;
    ref.id.bytes[0] ^= static_cast<uint8_t>(writers_.size());
    v1::PutObjectRequest message = Header(ref);
    message.set_data(std::string(kTransferChunkBytes, 'u'));
    TILEKV_CHECK(writers_.back()->Write(message));
  }
  void AddCanceller() {
    cancellers_.emplace_back([this, stub = Connect(address_, next_++)] {
      while (!stopping_) {
        grpc::ClientContext call;
        auto reader = stub->ReadObjects(&call, Request());
        v1::ReadObjectsResponse response;
        reader->Read(&response);
        call.TryCancel();
        while (reader->Read(&response)) {
        }
        reader->Finish();
        ++cancelled_;
      }
    });
  }
  int cancelled() const { return cancelled_; }

 private:
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
  v1::Node::Stub& NewStub() { return *stubs_.emplace_back(Connect(address_, next_++)); }
  grpc::ClientContext* NewCall() {
    return calls_.emplace_back(std::make_unique<grpc::ClientContext>()).get();
  }

  const std::string address_;
  int next_ = 0;
  std::unique_ptr<v1::Node::Stub> first_;
  uint64_t session_rev_ = 0;
  ObjectRef ref_;
  std::vector<std::unique_ptr<v1::Node::Stub>> stubs_;
  std::vector<std::unique_ptr<grpc::ClientContext>> calls_;
  std::vector<std::unique_ptr<v1::PutObjectResponse>> answers_;
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::PutObjectRequest>>> writers_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadObjectsResponse>>> readers_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> cancelled_{0};
  std::vector<std::thread> cancellers_;
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
  std::cout << "ready" << std::endl;
  std::string rest;
  std::getline(std::cin, rest);
  fmt::print("{} calls were cancelled\n", neighbours.cancelled());
  return 0;
}

}  // namespace
}  // namespace tilekv

int main(int argc, char** argv) { return tilekv::Main(argc, argv); }
