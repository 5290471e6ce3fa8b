#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "kvstore/base/status.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"
#include "server/peer_streams.h"
#include "server/testing_peers.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

// Bytes that are counted by whoever holds them.
SharedBytes Shared(std::string_view text) {
  auto owner = std::make_shared<std::string>(text);
  return {AsBytes(*owner), owner};
}

PutSpec SpecOf(std::string_view content, Revision touched_rev, const Encoding& encoding = {}) {
  return {.expected = RefOf(0, AsBytes(content)), .encoding = encoding, .touched_rev = touched_rev};
}

// Waits for what another thread is about to do.
bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 2'000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class PeerCopiesTest : public testing::Test {
 protected:
  PeerCopiesTest() {
    peers_.Update({{"a", a_.address()}, {"b", b_.address()}});
    peer_ = peers_.Find("a");
  }

  // All of it, in pieces of so many bytes.
  absl::StatusOr<CopyAnswer> Copy(Peer& peer, std::string_view content, Revision touched_rev,
                                  uint64_t piece_bytes = 700'000) {
    TILEKV_ASSIGN_OR_RETURN(auto writer, peer.NewCopy(SpecOf(content, touched_rev), {}));
    for (uint64_t at = 0; at < content.size(); at += piece_bytes) {
      TILEKV_RETURN_IF_ERROR(writer->Append(Shared(content.substr(at, piece_bytes)), {}));
    }
    return writer->Finish();
  }

  MemoryObjectStore store_a_;
  MemoryObjectStore store_b_;
  TestingPeer a_{"a", store_a_};
  TestingPeer b_{"b", store_b_};
  GrpcPeers peers_{TestingPeersOptions()};
  std::shared_ptr<Peer> peer_;
};

TEST_F(PeerCopiesTest, LinkIsThatOfTheOtherDisk) {
  const std::string content = TestContent(3'000, 1);
  ASSERT_TRUE(PutContent(store_a_, content).ok());
  std::vector<ObjectRef> refs = {RefOf(0, AsBytes(content)), RefOf(0, AsBytes("absent"))};
  absl::StatusOr<PeerLinkAnswer> answer = peer_->Link(kDefaultDomain, refs, Revision{77}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->store_uuid, store_a_.store_uuid());
  ASSERT_EQ(answer->results.size(), 2u);
  EXPECT_TRUE(answer->results[0].present && answer->results[0].trusted);
  EXPECT_FALSE(answer->results[1].present || answer->results[1].trusted);
  EXPECT_EQ((*store_a_.Stat(kDefaultDomain, refs[0].id))->touched_rev, Revision{77});
}

TEST_F(PeerCopiesTest, LinkTakesAnyNumberOfReferences) {
  const std::string content = TestContent(10, 1);
  ASSERT_TRUE(PutContent(store_a_, content).ok());
  std::vector<ObjectRef> refs;
  for (int i = 0; i < 2'500; ++i) refs.push_back(RefOf(0, AsBytes(std::to_string(i))));
  refs.back() = RefOf(0, AsBytes(content));
  absl::StatusOr<PeerLinkAnswer> answer = peer_->Link(kDefaultDomain, refs, Revision{5}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->results.size(), refs.size());
  EXPECT_FALSE(answer->results[2'498].present);
  EXPECT_TRUE(answer->results[2'499].present);
  EXPECT_TRUE(peer_->Link(kDefaultDomain, {}, Revision{5}, {}).ok());
}

TEST_F(PeerCopiesTest, ACopyOfAnySizeIsStoredThere) {
  for (uint64_t length : {uint64_t{0}, uint64_t{1}, kSmallValueBytes, kSmallValueBytes + 1,
                          kTransferChunkBytes, 9 * kMiB + 17}) {
    const std::string content = TestContent(length, length);
    absl::StatusOr<CopyAnswer> answer = Copy(*peer_, content, Revision{9});
    ASSERT_TRUE(answer.ok()) << length << ": " << answer.status();
    EXPECT_TRUE(answer->stored);
    EXPECT_EQ(answer->store_uuid, store_a_.store_uuid());
    EXPECT_EQ(answer->touched_rev, Revision{9});
    auto there = GetContent(store_a_, RefOf(0, AsBytes(content)).id);
    ASSERT_TRUE(there.ok()) << length;
    EXPECT_EQ(*there, content) << length;
  }
}

TEST_F(PeerCopiesTest, APieceLargerThanAMessageIsCut) {
  const std::string content = TestContent(5 * kMiB, 3);
  ASSERT_TRUE(Copy(*peer_, content, Revision{1}, content.size()).ok());
  EXPECT_EQ(*GetContent(store_a_, RefOf(0, AsBytes(content)).id), content);
}

TEST_F(PeerCopiesTest, BlocksAreStoredAsTheyAre) {
  for (uint64_t length : {uint64_t{5'000}, 7 * kMiB + 5}) {
    const std::string content = TestContent(length, 4);
    CodedContent coded = *EncodeContent({EncodingKind::kZstd}, AsBytes(content));
    ASSERT_EQ(coded.encoding.kind, EncodingKind::kZstd);
    auto writer = peer_->NewCopy(SpecOf(content, Revision{2}, coded.encoding), {});
    ASSERT_TRUE(writer.ok());
    // Two appends of whole blocks.
    size_t half = coded.table.size() / 2;
    uint64_t bytes = 0;
    for (size_t i = 0; i < half; ++i) bytes += coded.table[i] & ~kRawBlockBit;
    std::string_view stored = coded.stored;
    std::span<const uint32_t> table = coded.table;
    ASSERT_TRUE((*writer)->Append(Shared(stored.substr(0, bytes)), table.first(half)).ok());
    ASSERT_TRUE((*writer)->Append(Shared(stored.substr(bytes)), table.subspan(half)).ok());
    absl::StatusOr<CopyAnswer> answer = (*writer)->Finish();
    ASSERT_TRUE(answer.ok()) << answer.status();
    auto reader = store_a_.Open(kDefaultDomain, RefOf(0, AsBytes(content)).id);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ((*reader)->row().encoding, coded.encoding);
    EXPECT_EQ((*reader)->row().stored_length, coded.stored.size());
    EXPECT_EQ(*GetContent(store_a_, RefOf(0, AsBytes(content)).id), content);
  }
}

TEST_F(PeerCopiesTest, WhatIsThereCostsNoDataAndIsRaised) {
  for (uint64_t length : {uint64_t{100}, 40 * kMiB}) {
    const std::string content = TestContent(length, 5);
    ASSERT_TRUE(PutContent(store_a_, content).ok());
    absl::StatusOr<CopyAnswer> answer = Copy(*peer_, content, Revision{50});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(answer->stored);
    EXPECT_EQ(answer->touched_rev, Revision{50});
    answer = Copy(*peer_, content, Revision{40});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->touched_rev, Revision{50}) << "it only grows";
  }
}

TEST_F(PeerCopiesTest, ContentThatIsNotTheObjectIsRefused) {
  std::string content = TestContent(3 * kMiB, 6);
  PutSpec spec = SpecOf(content, Revision{1});
  content[2 * kMiB] ^= 1;
  auto writer = peer_->NewCopy(spec, {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(Shared(content), {}).ok());
  EXPECT_EQ(GetReason((*writer)->Finish().status()), Reason::kDataLoss);
  EXPECT_FALSE(store_a_.Stat(kDefaultDomain, spec.expected->id)->has_value());
}

TEST_F(PeerCopiesTest, TooLittleAndTooMuchAreRefused) {
  const std::string content = TestContent(300'000, 7);
  auto little = peer_->NewCopy(SpecOf(content, Revision{1}), {});
  ASSERT_TRUE((*little)->Append(Shared(content.substr(1)), {}).ok());
  EXPECT_EQ(GetReason((*little)->Finish().status()), Reason::kInvalidArgument);
  auto much = peer_->NewCopy(SpecOf(content, Revision{1}), {});
  ASSERT_TRUE((*much)->Append(Shared(content), {}).ok());
  EXPECT_EQ(GetReason((*much)->Append(Shared("x"), {})), Reason::kInvalidArgument);
}

TEST_F(PeerCopiesTest, AnObjectBeyondTheLimitIsRefusedBeforeItsData) {
  MemoryObjectStore small(kMiB);
  TestingPeer node("small", small);
  peers_.Update({{"small", node.address()}});
  absl::Status status = Copy(*peers_.Find("small"), TestContent(kMiB + 1, 8), Revision{1}).status();
  EXPECT_EQ(GetReason(status), Reason::kObjectTooLarge) << status;
}

TEST_F(PeerCopiesTest, GivenUpItLeavesNothing) {
  const std::string content = TestContent(4 * kMiB, 9);
  PutSpec spec = SpecOf(content, Revision{1});
  auto writer = peer_->NewCopy(spec, {});
  ASSERT_TRUE((*writer)->Append(Shared(content.substr(0, 3 * kMiB)), {}).ok());
  writer->reset();
  // The same again is not disturbed by it.
  ASSERT_TRUE(Copy(*peer_, content, Revision{2}).ok());
  EXPECT_EQ((*store_a_.Stat(kDefaultDomain, spec.expected->id))->touched_rev, Revision{2});
}

TEST_F(PeerCopiesTest, WholeItIsStoredThoughItsSenderIsGone) {
  const std::string content = TestContent(40'000, 10);
  PutSpec spec = SpecOf(content, Revision{1});
  v1::PutCopyRequest first;
  v1::PeerHeader* header = first.mutable_header()->mutable_peer();
  header->set_line_id(kTestingLine);
  header->set_to("a");
  ObjectRefToWire(*spec.expected, first.mutable_header()->mutable_ref());
  first.mutable_header()->set_touched_rev(1);
  PeerServiceOptions options{
      .node_id = "a", .objects = &store_a_, .line_id = [] { return std::string(kTestingLine); }};
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  CopySink sink(options, context, [](const v1::PutCopyResponse&) {});
  std::string whole = EncodeBulkHead(first, content.size()) + content;
  Bytes piece = AsBytes(whole);
  absl::StatusOr<IncomingMessage> message = sink.Decode({&piece, 1});
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(message->last);
  context.cancel->Cancel();
  ASSERT_TRUE(sink.Begin().ok());
  ASSERT_TRUE(sink.Append(message->data[0], {}).ok());
  ASSERT_TRUE(sink.End(true).ok());
  EXPECT_TRUE(store_a_.Stat(kDefaultDomain, spec.expected->id)->has_value());
}

TEST_F(PeerCopiesTest, BytesAreHeldUntilTheyHaveLeftAndNoLonger) {
  const std::string content = TestContent(2 * kMiB, 11);
  auto owner = std::make_shared<std::string>(content);
  auto writer_a = peer_->NewCopy(SpecOf(content, Revision{1}), {});
  auto writer_b = peers_.Find("b")->NewCopy(SpecOf(content, Revision{1}), {});
  ASSERT_TRUE((*writer_a)->Append({AsBytes(*owner), owner}, {}).ok());
  ASSERT_TRUE((*writer_b)->Append({AsBytes(*owner), owner}, {}).ok());
  ASSERT_TRUE((*writer_a)->Finish().ok());
  ASSERT_TRUE((*writer_b)->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return owner.use_count() == 1; }));
  EXPECT_EQ(*GetContent(store_b_, RefOf(0, AsBytes(content)).id), content);
}

TEST_F(PeerCopiesTest, ManyAtOnceAreAllStored) {
  std::vector<std::thread> senders;
  std::atomic<int> stored{0};
  for (int i = 0; i < 16; ++i) {
    senders.emplace_back([&, i] {
      auto answer = Copy(*peer_, TestContent(3 * kMiB, 100 + i), Revision{1});
      if (answer.ok() && answer->stored) ++stored;
    });
  }
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(stored, 16);
}

TEST_F(PeerCopiesTest, ManySmallOnesAtOnceAreAllStored) {
  std::vector<std::thread> senders;
  std::atomic<int> stored{0};
  for (int i = 0; i < 16; ++i) {
    senders.emplace_back([&, i] {
      for (int j = 0; j < 100; ++j) {
        auto answer = Copy(*peer_, "small " + std::to_string(1'000 * i + j), Revision{1});
        if (answer.ok() && answer->stored) ++stored;
      }
    });
  }
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(stored, 1'600);
}

TEST_F(PeerCopiesTest, AnotherLineIsRefusedByEveryCall) {
  const std::string content = TestContent(200'000, 12);
  ASSERT_TRUE(PutContent(store_a_, content).ok());
  const ObjectRef ref = RefOf(0, AsBytes(content));
  a_.set_line("ANOTHERLINE12345");
  EXPECT_EQ(GetReason(peer_->Link(kDefaultDomain, {&ref, 1}, Revision{9}, {}).status()),
            Reason::kCatalogRewound);
  for (uint64_t length : {uint64_t{10}, 2 * kMiB}) {
    absl::Status copied = Copy(*peer_, TestContent(length, 13), Revision{9}).status();
    EXPECT_EQ(GetReason(copied), Reason::kCatalogRewound) << copied;
    EXPECT_THAT(ErrorText(copied), HasSubstr("'asker'"));
  }
  EXPECT_EQ(GetReason(peer_->OpenCopy(kDefaultDomain, ref.id, {}).status()),
            Reason::kCatalogRewound);
  EXPECT_EQ(GetReason(peer_->ReportDamage(kDefaultDomain, ref.id, {})), Reason::kCatalogRewound);
  auto row = store_a_.Stat(kDefaultDomain, ref.id);
  EXPECT_EQ((*row)->state, RowState::kGood);
  EXPECT_EQ((*row)->touched_rev, Revision{1});
  EXPECT_TRUE(peers_.IsLikelyUp("a")) << "it has answered";
}

TEST_F(PeerCopiesTest, ANodeAtTheAddressOfAnotherOneIsNotTakenForIt) {
  peers_.Update({{"a", b_.address()}});
  absl::Status status = peers_.Find("a")->Link(kDefaultDomain, {}, Revision{1}, {}).status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable);
  EXPECT_THAT(ErrorText(status), HasSubstr("this is node 'b'"));
}

TEST_F(PeerCopiesTest, DamageIsLookedAtBeforeTheAnswer) {
  const std::string content = TestContent(300'000, 14);
  ASSERT_TRUE(PutContent(store_a_, content).ok());
  const ObjectId id = RefOf(0, AsBytes(content)).id;
  ASSERT_TRUE(peer_->ReportDamage(kDefaultDomain, id, {}).ok());
  EXPECT_EQ((*store_a_.Stat(kDefaultDomain, id))->state, RowState::kGood) << "it was a false alarm";
  store_a_.FlipBit(kDefaultDomain, id, 1'000);
  ASSERT_TRUE(peer_->ReportDamage(kDefaultDomain, id, {}).ok());
  EXPECT_EQ((*store_a_.Stat(kDefaultDomain, id))->state, RowState::kQuarantined);
  EXPECT_TRUE(peer_->ReportDamage(kDefaultDomain, ObjectId{}, {}).ok()) << "there is none";
}

TEST(LocalEnginePeer, KeepsCopiesOnItsDisk) {
  std::string directory = (std::filesystem::temp_directory_path() / "tilekv-peer-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  {
    LocalEngineOptions options;
    options.directory = directory;
    options.create_if_missing = true;
    auto engine = LocalEngine::Open(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    TestingPeer node("disk", **engine);
    GrpcPeers peers(TestingPeersOptions());
    peers.Update({{"disk", node.address()}});
    std::shared_ptr<Peer> peer = peers.Find("disk");
    for (uint64_t length : {uint64_t{200}, 5 * kMiB + 3}) {
      const std::string content = TestContent(length, 15);
      const ObjectRef ref = RefOf(0, AsBytes(content));
      auto writer = peer->NewCopy(SpecOf(content, Revision{3}), {});
      ASSERT_TRUE((*writer)->Append(Shared(content), {}).ok());
      auto answer = (*writer)->Finish();
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->store_uuid, (*engine)->store_uuid());
      auto reader = peer->OpenCopy(kDefaultDomain, ref.id, {});
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ(*ReadWholeContent(**reader, *BufferPool::Create(kMiB)), content);
      auto linked = peer->Link(kDefaultDomain, {&ref, 1}, Revision{4}, {});
      ASSERT_TRUE(linked.ok());
      EXPECT_TRUE(linked->results[0].present);
    }
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tilekv
