#include "kvstore/node/value_writer.h"

#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

using ValueWriterTest = NodeTest;

TEST_F(ValueWriterTest, TheErrorThatStartedItAllIsWordForWord) {
  v1::PutValueHeader header = HeaderOf("weights");
  header.set_length(324'000'000);
  absl::Status status = node_->BeginPutValue(header).status();
  EXPECT_EQ(
      ErrorText(status),
      "OBJECT_TOO_LARGE: key 'weights' is 324,000,000 bytes (309.0 MiB); this store takes "
      "objects up to 268,435,456 bytes (256 MiB). Store a matrix with 'tilekv model import NAME "
      "FILE', any other file with 'tilekv kv put --chunked'.");
}

TEST_F(ValueWriterTest, SmallContentGoesIntoTheRecordAndMoreBecomesAnObject) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(kInlineValueBytes, 'x')).ok());
  EXPECT_EQ(objects_.Usage()->objects, 0u);
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(kInlineValueBytes + 1, 'x')).ok());
  EXPECT_EQ(objects_.Usage()->objects, 1u);
}

TEST_F(ValueWriterTest, ARetryOfAWriteThatHappenedFindsItsOwnRecord) {
  v1::PutValueHeader header = HeaderOf("k");
  header.mutable_condition()->set_absent(true);
  Revision fixed{99};
  std::string content = "content";
  SpanSource source(AsBytes(content));
  auto first = node_->PutValue(header, &source, [&fixed](Revision compare) { fixed = compare; });
  ASSERT_TRUE(first.ok() && first->applied());
  EXPECT_EQ(fixed.value, 0u);
  header.set_compare(fixed.value);
  auto retry = PutValue(header, content);
  ASSERT_TRUE(retry.ok()) << retry.status();
  EXPECT_TRUE(retry->applied());
  EXPECT_EQ(retry->version(), first->version()) << "written once";
  EXPECT_EQ(retry->length(), content.size());
}

TEST_F(ValueWriterTest, ARetryOfAWriteThatDidNotHappenWritesIt) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), "old").ok());
  v1::PutValueHeader header = HeaderOf("k");
  auto begun = node_->BeginPutValue(header);
  ASSERT_TRUE(begun.ok());
  header.set_compare((*begun)->compare().value);
  begun->reset();
  auto retry = PutValue(header, "new");
  ASSERT_TRUE(retry.ok()) << retry.status();
  EXPECT_TRUE(retry->applied());
  EXPECT_EQ(ValueOf("k"), "new");
}

TEST_F(ValueWriterTest, ARetryAfterAnotherWriteCannotKnow) {
  v1::PutValueHeader header = HeaderOf("k");
  auto first = PutValue(header, "mine");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(PutValue(HeaderOf("k"), "theirs").ok());
  header.set_compare(0);
  EXPECT_EQ(GetReason(PutValue(header, "mine").status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(ValueOf("k"), "theirs");
  // Also where the key was deleted since.
  v1::DeleteValueRequest remove;
  remove.set_key("k");
  ASSERT_TRUE(node_->DeleteValue(remove).ok());
  header.set_compare(first->version() + 1);
  EXPECT_EQ(GetReason(PutValue(header, "mine").status()), Reason::kOutcomeUnknown);
}

TEST_F(ValueWriterTest, ARetryThatFindsTheKeyAbsentCannotKnow) {
  v1::PutValueHeader header = HeaderOf("k");
  ASSERT_TRUE(PutValue(header, "mine").ok());  // and the reply is lost
  v1::DeleteValueRequest remove;
  remove.set_key("k");
  ASSERT_TRUE(node_->DeleteValue(remove)->applied());
  header.set_compare(0);
  EXPECT_EQ(GetReason(PutValue(header, "mine").status()), Reason::kOutcomeUnknown);
  EXPECT_EQ(ValueOf("k"), "-") << "a deletion is not undone";
}

TEST_F(ValueWriterTest, APutLivesAsLongAsItsBytesCome) {
  auto writer = node_->BeginPutValue(HeaderOf("k"));
  ASSERT_TRUE(writer.ok());
  std::string piece(10'000, 'x');
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE((*writer)->Append(AsBytes(piece)).ok()) << i;
    clock_.Advance(kSessionLease_s / 2 * kSecondMicros);
    ASSERT_TRUE(node_->Collect({}).ok());
  }
  auto put = (*writer)->Finish();
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->length(), 6 * piece.size());
}

TEST_F(ValueWriterTest, ABatchBringsARequestIdByWhichARetryKnowsItsOwn) {
  v1::BatchPutRequest request;
  request.add_items()->set_key("k");
  EXPECT_EQ(GetReason(node_->BatchPut(request, nullptr).status()), Reason::kInvalidArgument);
  request.set_request_id(random_.Bytes(16));
  EXPECT_TRUE(node_->BatchPut(request, nullptr).ok());
}

TEST_F(ValueWriterTest, ABatchThatFailsHalfwayIsUnknown) {
  v1::BatchPutRequest request;
  request.set_request_id(random_.Bytes(16));
  for (const char* key : {"a", "b", "c"}) request.add_items()->set_key(key);
  catalog_.set_max_txn_operations(2);  // one by one, then; after the first the catalog is another's
  Once("value.after_transaction", [this] {
    EXPECT_TRUE(
        catalog_.Txn({.compares = {}, .writes = {CatalogWrite::Put(kLineKey, "other")}}).ok());
  });
  absl::Status status = node_->BatchPut(request, nullptr).status();
  EXPECT_EQ(GetReason(status), Reason::kOutcomeUnknown) << status;
}

TEST_F(ValueWriterTest, AKeyOfABatchThatWasOvertakenLeavesTheOthersTogether) {
  v1::BatchPutRequest request;
  request.set_request_id(random_.Bytes(16));
  for (const char* key : {"a", "b", "c", "d"}) request.add_items()->set_key(key);
  request.mutable_items(3)->mutable_condition()->set_absent(true);
  auto batch = node_->BatchPut(request, [this](const std::vector<uint64_t>&) {
    return PutValue(HeaderOf("d"), "theirs").ok() ? PutValue(HeaderOf("b"), "theirs").status()
                                                  : MakeError(Reason::kInternal, "not put");
  });
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_TRUE(batch->outcomes(0).applied());
  EXPECT_FALSE(batch->outcomes(1).applied());
  EXPECT_TRUE(batch->outcomes(2).applied());
  EXPECT_FALSE(batch->outcomes(3).applied());
  EXPECT_EQ(batch->outcomes(0).version(), batch->outcomes(2).version()) << "one transaction";
  EXPECT_LT(batch->outcomes(1).version(), batch->outcomes(0).version()) << "what was found";
  EXPECT_EQ(ValueOf("b"), "theirs");
  EXPECT_EQ(ValueOf("d"), "theirs");
  EXPECT_EQ(ValueOf("a"), "");
}

TEST_F(ValueWriterTest, ABatchWhoseClientWentWritesNothing) {
  v1::BatchPutRequest request;
  request.set_request_id(random_.Bytes(16));
  request.add_items()->set_key("k");
  auto gone = [](const std::vector<uint64_t>&) { return MakeError(Reason::kCancelled, "gone"); };
  EXPECT_EQ(GetReason(node_->BatchPut(request, gone).status()), Reason::kCancelled);
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  auto cancelled = [&context](const std::vector<uint64_t>&) {
    context.cancel->Cancel();
    return absl::OkStatus();
  };
  EXPECT_EQ(GetReason(node_->BatchPut(request, cancelled, context).status()), Reason::kCancelled);
  EXPECT_EQ(ValueOf("k"), "-");
}

TEST_F(ValueWriterTest, ABatchReadOfAValueWhoseObjectIsGoneNamesItsKey) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), std::string(kSmallValueBytes + 1, 'v')).ok());
  v1::BatchGetRequest request;
  request.add_keys("k");
  EXPECT_EQ(node_->BatchGet(request)->results(0).content().size(), kSmallValueBytes + 1);
  v1::GetValueRequest get;
  get.set_key("k");
  ObjectRef ref = *ObjectRefFromWire(node_->GetValue(get)->info().object());
  ASSERT_TRUE(*objects_.DeleteBelow(kDefaultDomain, ref.id, Revision{uint64_t{1} << 60}));
  absl::Status status = node_->BatchGet(request).status();
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("key 'k'"));
}

TEST_F(ValueWriterTest, AFullStoreTakesNoSmallValueEitherAndMakesRoomForRemovals) {
  ASSERT_TRUE(PutValue(HeaderOf("k"), "small").ok());
  Import("m", "tile");
  for (Reason reason : {Reason::kStoreFull, Reason::kStoreFailed}) {
    objects_.writable = MakeError(reason, "as the test says");
    EXPECT_EQ(GetReason(PutValue(HeaderOf("k"), "other").status()), reason);
    v1::BatchPutRequest batch;
    batch.set_request_id(random_.Bytes(16));
    batch.add_items()->set_key("b");
    EXPECT_EQ(GetReason(node_->BatchPut(batch, nullptr).status()), reason);
    EXPECT_EQ(GetReason(node_->BeginSession({}).status()), reason);
    v1::SetTagRequest tag;
    tag.set_ns("default");
    tag.set_name("m");
    tag.set_tag("t");
    tag.set_number(1);
    EXPECT_EQ(GetReason(node_->SetTag(tag).status()), reason);
  }
  EXPECT_EQ(objects_.rooms_made, 0);
  EXPECT_EQ(GetReason(node_->CheckHealth()), Reason::kStoreFailed);

  v1::DeleteVersionsRequest versions;
  versions.set_ns("default");
  versions.set_name("m");
  versions.set_all(true);
  EXPECT_EQ(node_->DeleteVersions(versions)->deleted_size(), 1);
  v1::DeleteValueRequest value;
  value.set_key("k");
  EXPECT_TRUE(node_->DeleteValue(value)->applied());
  EXPECT_EQ(objects_.rooms_made, 2);
  EXPECT_TRUE(node_->Collect({}).ok());
}

TEST_F(ValueWriterTest, AWriteInBetweenOvertakesAnUnconditionalPut) {
  uint64_t between = 0;
  Once("value.before_transaction",
       [&] { between = PutValue(HeaderOf("k"), "between")->version(); });
  auto put = PutValue(HeaderOf("k"), "mine");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->applied());
  EXPECT_EQ(put->version(), between);
  EXPECT_EQ(ValueOf("k"), "between");
}

TEST_F(ValueWriterTest, AFirstTryThatIsLateWritesNothingOverWhatCameAfterItsRetry) {
  v1::PutValueHeader header = HeaderOf("k");
  Once("value.before_transaction", [&] {
    v1::PutValueHeader retry = header;
    retry.set_compare(0);
    // That the key is absent again is no proof, so that a retry of a put of a new key is careful.
    EXPECT_EQ(GetReason(PutValue(retry, "mine").status()), Reason::kOutcomeUnknown);
    EXPECT_TRUE(PutValue(HeaderOf("k"), "theirs").ok());
  });
  EXPECT_FALSE(PutValue(header, "mine")->applied());
  EXPECT_EQ(ValueOf("k"), "theirs");

  header = HeaderOf("k");
  uint64_t retried = 0;
  Once("value.before_transaction", [&] {
    auto found = node_->BeginPutValue(HeaderOf("k"));
    v1::PutValueHeader retry = header;
    retry.set_compare((*found)->compare().value);
    auto put = PutValue(retry, "mine");
    EXPECT_TRUE(put.ok() && put->applied());
    retried = put->version();
    EXPECT_TRUE(PutValue(HeaderOf("k"), "newer").ok());
  });
  auto late = PutValue(header, "mine");
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_FALSE(late->applied());
  EXPECT_GT(late->version(), retried);
  EXPECT_EQ(ValueOf("k"), "newer");
}

TEST_F(ValueWriterTest, AWriteInBetweenDefeatsAConditionalPut) {
  v1::PutValueHeader header = HeaderOf("k");
  header.mutable_condition()->set_absent(true);
  Once("value.before_transaction",
       [this] { EXPECT_TRUE(PutValue(HeaderOf("k"), "between").ok()); });
  auto put = PutValue(header, "mine");
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->applied());
  EXPECT_GT(put->version(), 0u);
  EXPECT_EQ(ValueOf("k"), "between");
}

TEST_F(ValueWriterTest, ACollectorRoundBeforeTheTransactionTakesNothingOfThePut) {
  std::string content(100'000, 'v');
  Once("value.before_transaction", [this] {
    EXPECT_TRUE(node_->Collect({}).ok());
    EXPECT_TRUE(node_->Collect({}).ok());
  });
  ASSERT_TRUE(PutValue(HeaderOf("k"), content).ok());
  v1::FsckRequest fsck;
  fsck.set_verify_content(true);
  EXPECT_EQ(node_->Fsck(fsck)->problem_count(), 0u);
}

TEST_F(ValueWriterTest, APutThatOutlivesItsSessionWritesNothing) {
  Once("value.before_transaction", [this] {
    clock_.Advance(kSessionLease_s * kSecondMicros);
    EXPECT_EQ(node_->Collect({})->deleted_objects(), 1u);
  });
  EXPECT_EQ(GetReason(PutValue(HeaderOf("k"), std::string(100'000, 'v')).status()),
            Reason::kSessionLost);
  EXPECT_EQ(ValueOf("k"), "-");
  EXPECT_TRUE(PutValue(HeaderOf("k"), std::string(100'000, 'v'))->applied());
}

TEST_F(ValueWriterTest, APutThatEndsEarlyLeavesNothing) {
  v1::PutValueHeader header = HeaderOf("k");
  header.set_length(10'000);
  {
    auto writer = node_->BeginPutValue(header);
    ASSERT_TRUE(writer.ok());
    std::string half(5'000, 'x');
    ASSERT_TRUE((*writer)->Append(AsBytes(half)).ok());
    EXPECT_EQ(GetReason((*writer)->Finish().status()), Reason::kInvalidArgument);
  }
  EXPECT_EQ(ValueOf("k"), "-");
  EXPECT_EQ(objects_.Usage()->objects, 0u);
}

TEST_F(ValueWriterTest, ARootOfAnotherLengthIsRefused) {
  v1::BeginSessionResponse session = Begin();
  v1::PutValueHeader header = HeaderOf("k");
  ObjectRefToWire(PutObject(session.session_rev(), 0, "content"), header.mutable_root());
  header.set_token(session.token());
  header.set_session_rev(session.session_rev());
  header.set_root_length(8);
  EXPECT_EQ(GetReason(node_->PutValue(header, nullptr, nullptr).status()),
            Reason::kInvalidArgument);
  header.set_root_length(7);
  EXPECT_TRUE(node_->PutValue(header, nullptr, nullptr)->applied());
  EXPECT_EQ(ValueOf("k"), "content");
  header.set_token(std::string(16, '?'));
  EXPECT_EQ(GetReason(node_->PutValue(header, nullptr, nullptr).status()), Reason::kSessionLost);
}

}  // namespace
}  // namespace tilekv
