#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/object_store_conformance.h"
#include "server/testing_peers.h"

namespace tilekv {
namespace {

class PeerReadsTest : public testing::Test {
 protected:
  PeerReadsTest() { peers_.Update({{"a", a_.address()}}); }

  std::shared_ptr<Peer> peer() { return peers_.Find("a"); }
  std::shared_ptr<ObjectReader> Open(const ObjectId& id) {
    auto reader = peer()->OpenCopy(kDefaultDomain, id, {});
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *reader : nullptr;
  }
  ObjectId Put(std::string_view content, const Encoding& encoding = {}) {
    absl::StatusOr<PutOutcome> put = PutContent(store_, content, {.encoding = encoding});
    EXPECT_TRUE(put.ok()) << put.status();
    return put->ref.id;
  }

  MemoryObjectStore store_;
  TestingPeer a_{"a", store_};
  GrpcPeers peers_{TestingPeersOptions()};
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(kMiB);
};

TEST_F(PeerReadsTest, ACopyIsReadAsItIsStoredWithItsTables) {
  for (const Encoding& encoding : {Encoding{}, Encoding{EncodingKind::kZstd}}) {
    for (uint64_t length :
         {uint64_t{0}, uint64_t{1}, uint64_t{60'000}, uint64_t{300'000}, uint64_t{9'000'001}}) {
      const std::string content = TestContent(length, length);
      const ObjectId id = Put(content, encoding);
      std::shared_ptr<ObjectReader> reader = Open(id);
      ASSERT_NE(reader, nullptr);
      auto local = *store_.Open(kDefaultDomain, id);
      EXPECT_EQ(reader->row().ref, local->row().ref);
      EXPECT_EQ(reader->row().encoding, local->row().encoding);
      EXPECT_EQ(reader->row().stored_length, local->row().stored_length);
      EXPECT_EQ(reader->row().touched_rev, local->row().touched_rev);
      EXPECT_EQ(reader->row().state, RowState::kGood);
      EXPECT_TRUE(std::equal(reader->leaves().begin(), reader->leaves().end(),
                             local->leaves().begin(), local->leaves().end()));
      absl::StatusOr<std::string> read = ReadWholeContent(*reader, *pool_);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, content);
    }
  }
}

TEST_F(PeerReadsTest, PiecesInOrderOfAnySizeGiveTheWhole) {
  const std::string content = TestContent(21 * kMiB + 12'345, 2);
  const ObjectId id = Put(content);
  for (uint64_t piece : {uint64_t{100'003}, kTransferChunkBytes, 3 * kMiB + 1}) {
    std::shared_ptr<ObjectReader> reader = Open(id);
    std::string read(content.size(), '\0');
    for (uint64_t at = 0; at < read.size(); at += piece) {
      MutableBytes out(reinterpret_cast<uint8_t*>(read.data()) + at,
                       std::min(piece, read.size() - at));
      absl::Status status = reader->ReadStored(at, out);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(read == content) << piece;
  }
}

TEST_F(PeerReadsTest, WithoutMemoryToReadAheadItIsReadAllTheSame) {
  GrpcPeersOptions options = TestingPeersOptions();
  options.read_ahead_bytes = 1;
  GrpcPeers peers(options);
  peers.Update({{"a", a_.address()}});
  const std::string content = TestContent(5 * kMiB, 3);
  const ObjectId id = Put(content);
  auto reader = peers.Find("a")->OpenCopy(kDefaultDomain, id, {});
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(*ReadWholeContent(**reader, *pool_) == content);
}

TEST_F(PeerReadsTest, PiecesInAnyOrderBySeveralThreadsAreThoseAskedFor) {
  const std::string content = TestContent(12 * kMiB, 4);
  std::shared_ptr<ObjectReader> reader = Open(Put(content));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SeededRandom random(t);
      uint64_t at = 0;
      for (int i = 0; i < 40; ++i) {
        if (random.Below(3) == 0) at = random.Below(content.size());
        std::string out(std::min<uint64_t>(1 + random.Below(400'000), content.size() - at), '\0');
        absl::Status status =
            reader->ReadStored(at, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
        if (!status.ok() || out != content.substr(at, out.size())) ++wrong;
        at += out.size();
        if (at == content.size()) at = 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(PeerReadsTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(GetReason(peer()->OpenCopy(kDefaultDomain, ObjectId{}, {}).status()),
            Reason::kNotFound);
  const std::string content = TestContent(100, 5);
  EXPECT_EQ(GetReason(peer()->OpenCopy(7, Put(content), {}).status()), Reason::kNotFound)
      << "another domain";
  EXPECT_TRUE(peers_.IsLikelyUp("a")) << "it has answered";
}

TEST_F(PeerReadsTest, BeyondTheEndNothingIsAsked) {
  std::shared_ptr<ObjectReader> reader = Open(Put(TestContent(200'000, 6)));
  std::vector<uint8_t> out(10);
  EXPECT_EQ(GetReason(reader->ReadStored(199'991, out)), Reason::kInvalidArgument);
  EXPECT_TRUE(reader->ReadStored(199'990, out).ok());
  EXPECT_TRUE(reader->ReadStored(200'000, {}).ok());
}

TEST_F(PeerReadsTest, AnotherCopyInThePlaceOfTheOneThatWasOpenedIsNotReadAsThatOne) {
  const std::string content = TestContent(900'000, 7);
  const ObjectId id = Put(content);
  std::shared_ptr<ObjectReader> reader = Open(id);
  CodedContent coded = *EncodeContent({EncodingKind::kZstd}, AsBytes(content));
  PutSpec spec{.expected = RefOf(0, AsBytes(content)), .encoding = coded.encoding};
  auto writer = store_.NewReplacement(spec, **store_.Stat(kDefaultDomain, id));
  ASSERT_TRUE((*writer)->Append(AsBytes(coded.stored), coded.table).ok());
  ASSERT_TRUE((*writer)->Finish()->stored);
  std::vector<uint8_t> out(500'000);
  EXPECT_EQ(GetReason(reader->ReadStored(0, out)), Reason::kNotFound);
  EXPECT_EQ(*ReadWholeContent(*Open(id), *pool_), content) << "opened again";
}

TEST_F(PeerReadsTest, DamageThatTheReaderFindsIsReportedToTheNode) {
  const std::string content = TestContent(3 * kMiB, 8);
  const ObjectId id = Put(content);
  store_.FlipBit(kDefaultDomain, id, 2 * kMiB);
  std::shared_ptr<ObjectReader> reader = Open(id);
  std::vector<uint8_t> out(content.size());
  EXPECT_TRUE(reader->ReadStored(0, out).ok()) << "what is read is not verified";
  EXPECT_EQ(GetReason(ReadContent(*reader, 0, out, *pool_)), Reason::kDataLoss);
  EXPECT_EQ((*store_.Stat(kDefaultDomain, id))->state, RowState::kQuarantined);
  EXPECT_EQ(GetReason(peer()->OpenCopy(kDefaultDomain, id, {}).status()), Reason::kNotFound);
}

TEST_F(PeerReadsTest, AReaderThatIsGivenUpInTheMiddleDisturbsNobody) {
  const std::string content = TestContent(16 * kMiB, 9);
  const ObjectId id = Put(content);
  for (int i = 0; i < 20; ++i) {
    std::shared_ptr<ObjectReader> reader = Open(id);
    std::vector<uint8_t> out(kMiB);
    ASSERT_TRUE(reader->ReadStored(0, out).ok());
    ASSERT_TRUE(reader->ReadStored(kMiB, out).ok());
  }
  EXPECT_TRUE(*ReadWholeContent(*Open(id), *pool_) == content);
}

}  // namespace
}  // namespace tilekv
