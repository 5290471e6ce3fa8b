// Sessions, commits, collection.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store_conformance.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

TEST_P(KvStoreConformance, ACommitMakesAVersionAndNothingIsVisibleBefore) {
  TestModel model = MakeModel({1, 2, 3});
  auto session = Begin();
  EXPECT_EQ(Upload(*session, model), model.objects.size());
  EXPECT_FALSE(Resolve("m", "").model_exists());
  v1::CommitRequest request = CommitOf(model, "m");
  request.set_message("first");
  request.set_author("me");
  request.set_logical_bytes(9000);
  request.set_tensor_count(3);
  auto response = session->Commit(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_TRUE(response->applied());
  EXPECT_EQ(response->version().record().number(), 1u);

  v1::ResolveVersionResponse resolved = Resolve("m", "");
  ASSERT_TRUE(resolved.found());
  EXPECT_EQ(resolved.version().record().SerializeAsString(),
            response->version().record().SerializeAsString());
  EXPECT_EQ(resolved.version().record().message(), "first");
  EXPECT_TRUE(resolved.version().latest());
  EXPECT_TRUE(resolved.root_content() == model.content.back());
  for (size_t i = 0; i < model.objects.size(); ++i) {
    auto content = store_->ReadObject(model.objects[i]);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_TRUE(*content == model.content[i]);
  }
}

TEST_P(KvStoreConformance, ASecondImportLinksAndSendsNothing) {
  TestModel model = MakeModel({1, 2, 3});
  Import(model, "m");
  auto session = Begin();
  EXPECT_EQ(Upload(*session, model), 0u);
  auto response = session->Commit(CommitOf(model, "m"));
  ASSERT_TRUE(response.ok() && response->applied());
  EXPECT_EQ(response->version().record().number(), 2u);
  EXPECT_EQ(response->version().record().root().id(), model.root.id.view());
}

TEST_P(KvStoreConformance, APutIsCheckedAgainstItsId) {
  auto session = Begin();
  std::string content = RandomText(1, 100'000);
  ObjectRef ref = RefOf(0, AsBytes(content));
  std::string damaged = content;
  damaged[70'000] ^= 1;
  EXPECT_EQ(GetReason(session->Put(ref, AsBytes(damaged)).status()), Reason::kDataLoss);
  EXPECT_FALSE(IsThere(ref));
  EXPECT_TRUE(*session->Put(ref, AsBytes(content)));
  EXPECT_FALSE(*session->Put(ref, AsBytes(content))) << "it is there";
  std::string large(kLimit + 1, 'x');
  EXPECT_EQ(GetReason(session->Put(RefOf(0, AsBytes(large)), AsBytes(large)).status()),
            Reason::kObjectTooLarge);
  std::string not_a_tree = "not a tree";
  EXPECT_FALSE(session->Put(RefOf(1, AsBytes(not_a_tree)), AsBytes(not_a_tree)).ok());
}

TEST_P(KvStoreConformance, CodedObjectsReadBackAsTheirContent) {
  auto session = Begin();
  std::string content;
  for (int i = 0; i < 60'000; ++i) content += std::to_string(i);
  ObjectRef ref = RefOf(0, AsBytes(content));
  Encoding zstd{EncodingKind::kZstd, 0};
  ASSERT_TRUE(session->Put(ref, AsBytes(content), zstd).ok());
  v1::LocateRequest request;
  ObjectRefToWire(ref, request.add_refs());
  auto located = store_->node().Locate(request);
  ASSERT_TRUE(located.ok());
  EXPECT_LT(located->objects(0).copies(0).stored_length(), content.size());
  auto whole = store_->ReadObject(ref);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(*whole == content);
  std::string middle(5000, '\0'), tail(10, '\0');
  auto bytes = [](std::string& s) {
    return MutableBytes(reinterpret_cast<uint8_t*>(s.data()), s.size());
  };
  std::vector<ObjectRead> reads{{ref, 262'000, bytes(middle)},
                                {ref, content.size() - 10, bytes(tail)}};
  ReadStats stats;
  ASSERT_TRUE(store_->ReadObjects(reads, &stats).ok());
  EXPECT_EQ(middle, content.substr(262'000, 5000));
  EXPECT_EQ(tail, content.substr(content.size() - 10));
  EXPECT_EQ(stats.asked_bytes, 5010u);
  EXPECT_GT(stats.received_bytes, 0u);
}

TEST_P(KvStoreConformance, ContentCanBeTakenInPiecesInOrder) {
  auto session = Begin();
  std::string content;
  for (int i = 0; i < 160'000; ++i) content += std::to_string(i);
  for (EncodingKind kind : {EncodingKind::kNone, EncodingKind::kZstd}) {
    content[0] = kind == EncodingKind::kNone ? 'a' : 'b';
    ObjectRef ref = RefOf(0, AsBytes(content));
    ASSERT_TRUE(session->Put(ref, AsBytes(content), {kind, 0}).ok());
    for (uint64_t offset : {uint64_t{0}, uint64_t{100}, kLeafBytes, 2 * kBlockBytes + 1}) {
      for (bool verify : {true, false}) {
        std::string taken;
        ObjectRead read{.ref = ref, .offset = offset, .verify = verify};
        read.placed_bytes = content.size() - offset - 5;
        read.place = [&](uint64_t at, Bytes piece) {
          EXPECT_EQ(at, taken.size());
          taken += AsText(piece);
        };
        ReadStats stats;
        ASSERT_TRUE(store_->ReadObjects({&read, 1}, &stats).ok());
        EXPECT_TRUE(taken == content.substr(offset, content.size() - offset - 5));
        EXPECT_EQ(stats.asked_bytes, taken.size());

        // The same where its places can be told: backwards, in pieces of 3,000 bytes.
        std::string placed(taken.size(), '\0');
        auto places = [&placed](uint64_t at, uint64_t length, std::vector<MutableBytes>& pieces) {
          while (length > 0) {
            uint64_t piece_end = std::min<uint64_t>((at / 3000 + 1) * 3000, placed.size());
            uint64_t bytes = std::min(length, piece_end - at);
            pieces.push_back(
                {reinterpret_cast<uint8_t*>(&placed[placed.size() - piece_end]) + at % 3000,
                 bytes});
            at += bytes;
            length -= bytes;
          }
        };
        read.place = [&](uint64_t at, Bytes piece) {
          std::vector<MutableBytes> pieces;
          places(at, piece.size(), pieces);
          for (MutableBytes to : pieces) {
            std::copy_n(piece.data(), to.size(), to.data());
            piece = piece.subspan(to.size());
          }
        };
        read.pieces = places;
        ASSERT_TRUE(store_->ReadObjects({&read, 1}, nullptr).ok());
        std::string forwards;
        for (uint64_t end = placed.size(); end > 0; end -= std::min<uint64_t>(end, 3000)) {
          uint64_t begin = end - std::min<uint64_t>(end, 3000);
          forwards += placed.substr(begin, end - begin);
        }
        EXPECT_TRUE(forwards == taken) << offset << ", verified: " << verify;
      }
    }
  }
}

TEST_P(KvStoreConformance, ATimedReadTellsWhereItsTimeWentAndAnotherDoesNot) {
  auto session = Begin();
  std::string content(3 * kBlockBytes + 7, 'x');
  for (EncodingKind kind : {EncodingKind::kNone, EncodingKind::kZstd}) {
    content[0] = kind == EncodingKind::kNone ? 'a' : 'b';
    ObjectRef ref = RefOf(0, AsBytes(content));
    PutStats put;
    ASSERT_TRUE(session->Put(ref, AsBytes(content), {kind, 0}, {}, &put).ok());
    bool coded = kind != EncodingKind::kNone;
    EXPECT_EQ(put.sent_bytes < content.size(), coded);
    EXPECT_EQ(put.encode_nanos > 0, coded);
    EXPECT_EQ(put.retries, 0u);
    for (bool verify : {true, false}) {
      std::vector<uint8_t> out(content.size());
      ObjectRead read{.ref = ref, .offset = 0, .out = out, .verify = verify};
      ReadStats timed{.timed = true};
      ASSERT_TRUE(store_->ReadObjects({&read, 1}, &timed).ok());
      EXPECT_EQ(timed.exchanges, 1u);
      EXPECT_GT(timed.times.fetch_nanos, 0);
      EXPECT_EQ(timed.times.verify_nanos > 0, verify);
      EXPECT_EQ(timed.times.decode_nanos > 0, coded);
      EXPECT_GE(timed.times.place_nanos, 0);
      EXPECT_EQ(timed.slowest.bytes, content.size());
      EXPECT_GE(timed.slowest.nanos, timed.times.fetch_nanos);
      ReadStats plain;
      ASSERT_TRUE(store_->ReadObjects({&read, 1}, &plain).ok());
      EXPECT_EQ(plain.exchanges, 0u);
      EXPECT_EQ(plain.times.fetch_nanos + plain.times.verify_nanos + plain.slowest.nanos, 0);
    }
  }
}

TEST_P(KvStoreConformance, ReadingAMissingObjectNamesIt) {
  ObjectRef ref = RefOf(0, AsBytes("never stored"));
  auto content = store_->ReadObject(ref);
  EXPECT_EQ(GetReason(content.status()), Reason::kNotFound);
  EXPECT_THAT(std::string(content.status().message()), testing::HasSubstr(ref.id.Short()));
}

TEST_P(KvStoreConformance, ACommitOfWhatIsNotAllThereNamesTheMissing) {
  TestModel model = MakeModel({1, 2, 3});
  auto session = Begin();
  for (size_t i = 1; i < model.objects.size(); ++i) {
    ASSERT_TRUE(session->Put(model.objects[i], AsBytes(model.content[i])).ok());
  }
  auto response = session->Commit(CommitOf(model, "m"));
  EXPECT_EQ(GetReason(response.status()), Reason::kTooFewCopies);
  EXPECT_THAT(std::string(response.status().message()),
              testing::HasSubstr(model.objects[0].id.Hex()));
  EXPECT_FALSE(Resolve("m", "").model_exists());
  ASSERT_TRUE(session->Put(model.objects[0], AsBytes(model.content[0])).ok());
  response = session->Commit(CommitOf(model, "m"));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->applied());
}

TEST_P(KvStoreConformance, ACommitChecksLevelAndLengthOfChildren) {
  std::string content = "twelve bytes";
  ObjectRef ref = RefOf(0, AsBytes(content));
  auto session = Begin();
  ASSERT_TRUE(session->Put(ref, AsBytes(content)).ok());
  Tree tree;
  tree.level = 3;
  tree.type = TreeType::kManifestRoot;
  tree.children.push_back(ref);
  tree.children[0].length = 13;
  std::string root = EncodeTree(tree);
  ObjectRef root_ref = RefOf(3, AsBytes(root));
  ASSERT_TRUE(session->Put(root_ref, AsBytes(root)).ok());
  TestModel model;
  model.root = root_ref;
  EXPECT_EQ(GetReason(session->Commit(CommitOf(model, "m")).status()), Reason::kTooFewCopies);
}

TEST_P(KvStoreConformance, ACommitRetriedWithTheSameIdIsOneVersion) {
  TestModel model = MakeModel({1});
  auto session = Begin();
  Upload(*session, model);
  v1::CommitRequest request = CommitOf(model, "m");
  request.mutable_if_latest()->set_absent(true);
  request.set_token(session->token());
  request.set_session_rev(session->session_rev().value);
  request.set_commit_id(std::string(16, 'c'));
  auto first = store_->node().Commit(request);
  auto second = store_->node().Commit(request);
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_TRUE(second->applied());
  EXPECT_EQ(second->version().record().number(), 1u);
  // Whatever has happened to the version since, and to the session.
  DeleteVersions("m", {1}, true);
  auto third = store_->node().Commit(request);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_TRUE(third->applied());
  EXPECT_EQ(third->version().record().number(), 1u);
}

TEST_P(KvStoreConformance, ASessionMakesAnyNumberOfVersions) {
  auto session = Begin();
  for (uint64_t number : {1, 2, 3}) {
    TestModel model = MakeModel({number});
    Upload(*session, model);
    auto response = session->Commit(CommitOf(model, "m"));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_TRUE(response->applied());
    EXPECT_EQ(response->version().record().number(), number);
    EXPECT_EQ(*ObjectRefFromWire(response->version().record().root()), model.root);
  }
}

TEST_P(KvStoreConformance, AnEndedSessionIsLost) {
  TestModel model = MakeModel({1});
  auto session = Begin();
  Upload(*session, model);
  v1::EndSessionRequest end;
  end.set_token(session->token());
  ASSERT_TRUE(store_->node().EndSession(end).ok());
  EXPECT_EQ(GetReason(session->Commit(CommitOf(model, "m")).status()), Reason::kSessionLost);
  EXPECT_EQ(GetReason(session->Link(model.objects).status()), Reason::kSessionLost);
  EXPECT_EQ(GetReason(session->Put(model.objects[0], AsBytes(model.content[0])).status()),
            Reason::kSessionLost);
  Collect();
  EXPECT_EQ(GetReason(session->Link(model.objects).status()), Reason::kSessionLost)
      << "below the fence";
  // A new session links what was sent, and sends the rest.
  Import(model, "m");
}

TEST_P(KvStoreConformance, ARevisionThatTheCatalogNeverGaveIsRefused) {
  v1::LinkRequest request;
  request.set_session_rev(Revision::Of(60'000, 1).value);
  ObjectRefToWire(MakeModel({1}).root, request.add_refs());
  EXPECT_EQ(GetReason(store_->node().Link(request).status()), Reason::kInvalidArgument);
}

TEST_P(KvStoreConformance, OfTwoWritersFromOneBaseExactlyOneWins) {
  v1::VersionInfo base = Import(MakeModel({1}), "m");
  std::vector<absl::StatusOr<v1::CommitResponse>> results(2, v1::CommitResponse());
  std::vector<std::unique_ptr<UploadSession>> sessions;
  for (int i = 0; i < 2; ++i) sessions.push_back(Begin());
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      TestModel model = MakeModel({1, uint64_t(10 + i)});
      Upload(*sessions[i], model);
      v1::CommitRequest request = CommitOf(model, "m");
      request.mutable_if_latest()->set_version(base.record().number());
      request.mutable_base()->set_ns("default");
      request.mutable_base()->set_name("m");
      request.mutable_base()->set_number(base.record().number());
      results[i] = sessions[i]->Commit(request);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  ASSERT_TRUE(results[1].ok()) << results[1].status();
  EXPECT_NE(results[0]->applied(), results[1]->applied());
  const v1::CommitResponse& loser = results[0]->applied() ? *results[1] : *results[0];
  EXPECT_EQ(loser.latest_found(), 2u);
  EXPECT_FALSE(Resolve("m", "3").found());
}

TEST_P(KvStoreConformance, ConcurrentAppendsGetNumbersOfTheirOwn) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] { Import(MakeModel({uint64_t(t)}), "m"); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n = 1; n <= kThreads; ++n) EXPECT_TRUE(Resolve("m", std::to_string(n)).found());
  EXPECT_FALSE(Resolve("m", std::to_string(kThreads + 1)).found());
}

TEST_P(KvStoreConformance, ABaseThatIsGoneFailsTheCommit) {
  TestModel model = MakeModel({1});
  Import(model, "m");
  auto session = Begin();
  Upload(*session, model);
  v1::CommitRequest request = CommitOf(model, "m");
  request.mutable_base()->set_ns("default");
  request.mutable_base()->set_name("m");
  request.mutable_base()->set_number(7);
  EXPECT_EQ(GetReason(session->Commit(request).status()), Reason::kNotFound);
}

TEST_P(KvStoreConformance, TheCollectorTakesWhatNothingReachesAndNothingElse) {
  TestModel kept = MakeModel({1, 2});
  TestModel dropped = MakeModel({2, 3});
  Import(kept, "kept");
  Import(dropped, "dropped");
  ASSERT_TRUE(store_->Put("value", RandomText(50, 70'000)).ok());
  TestModel abandoned = MakeModel({4});
  { Upload(*Begin(), abandoned); }
  DeleteVersions("dropped", {1}, true);
  Collect();
  Collect();
  for (const ObjectRef& ref : kept.objects) EXPECT_TRUE(IsThere(ref));
  EXPECT_FALSE(IsThere(dropped.root));
  EXPECT_FALSE(IsThere(dropped.objects[1])) << "seed 3";
  for (const ObjectRef& ref : abandoned.objects) EXPECT_FALSE(IsThere(ref));
  EXPECT_TRUE(ContentOf("value") == RandomText(50, 70'000));
  ASSERT_TRUE(store_->Delete("value").ok());
  EXPECT_EQ(Collect().deleted_objects(), 1u);
  EXPECT_EQ(store_->node().Fsck({})->problem_count(), 0u);
}

TEST_P(KvStoreConformance, WhatALiveSessionHoldsIsNotCollected) {
  TestModel old = MakeModel({1, 2});
  Import(old, "old");
  auto session = Begin();
  TestModel sent = MakeModel({3});
  Upload(*session, sent);
  EXPECT_EQ(Upload(*session, old), 0u);  // linked only
  DeleteVersions("old", {1}, true);
  v1::CollectResponse round = Collect();
  EXPECT_EQ(round.sessions_size(), 1);
  Collect();
  for (const ObjectRef& ref : sent.objects) EXPECT_TRUE(IsThere(ref));
  for (const ObjectRef& ref : old.objects) EXPECT_TRUE(IsThere(ref));
  auto response = session->Commit(CommitOf(old, "again"));
  ASSERT_TRUE(response.ok()) << response.status();
  session.reset();
  Collect();
  for (const ObjectRef& ref : old.objects) EXPECT_TRUE(IsThere(ref));
  for (const ObjectRef& ref : sent.objects) EXPECT_FALSE(IsThere(ref));
}

TEST_P(KvStoreConformance, ADryRunSaysWhatARoundWouldDelete) {
  TestModel model = MakeModel({1, 2});
  Import(model, "m");
  Import(MakeModel({1}), "other");
  DeleteVersions("m", {1}, true);
  v1::CollectRequest request;
  request.set_dry_run(true);
  auto dry = store_->node().Collect(request);
  ASSERT_TRUE(dry.ok()) << dry.status();
  EXPECT_GT(dry->deleted_objects(), 0u);
  EXPECT_TRUE(IsThere(model.root));
  v1::CollectResponse round = Collect();
  EXPECT_EQ(round.deleted_objects(), dry->deleted_objects());
  EXPECT_EQ(round.deleted_bytes(), dry->deleted_bytes());
  EXPECT_FALSE(IsThere(model.root));
}

TEST_P(KvStoreConformance, RoundsBesideImportsLoseNothing) {
  constexpr int kImports = 12;
  std::thread rounds([this] {
    for (int i = 0; i < 10; ++i) Collect();
  });
  for (int i = 0; i < kImports; ++i) {
    Import(MakeModel({uint64_t(i % 3), uint64_t(100 + i)}), "m");
    ASSERT_TRUE(store_->Put("v", RandomText(i % 2, 1000)).ok());
    if (i % 3 == 2) DeleteVersions("m", {uint64_t(i)}, true);
  }
  rounds.join();
  Collect();
  v1::FsckRequest request;
  request.set_verify_content(true);
  auto fsck = store_->node().Fsck(request);
  ASSERT_TRUE(fsck.ok()) << fsck.status();
  EXPECT_EQ(fsck->problem_count(), 0u) << fsck->DebugString();
  EXPECT_EQ(fsck->versions(), uint64_t(kImports - kImports / 3));
}

}  // namespace tilekv
