// How copies are stored and sent: the same content, whatever the encoding, and another one later.
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store_conformance.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};
constexpr Encoding kPlanes2{.kind = EncodingKind::kPlanes, .width = 2};

// bf16 in name: a byte of noise, and one of few values.
std::string Weights(uint64_t seed, uint64_t length) {
  SeededRandom random(seed);
  std::string content = random.Bytes(length);
  for (uint64_t i = 1; i < length; i += 2) {
    content[i] = static_cast<char>(0x3c + (content[i] & 3));
  }
  return content;
}

Encoding EncodingOf(KvStore& store, const ObjectRef& ref) {
  v1::LocateRequest request;
  ObjectRefToWire(ref, request.add_refs());
  auto response = store.node().Locate(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return *EncodingFromWire(response->objects(0).copies(0).encoding());
}

// The whole, and a range that begins and ends within blocks.
void ExpectReads(KvStore& store, const ObjectRef& ref, const std::string& content) {
  std::string whole(content.size(), '\0');
  std::string part(content.size() - 200'002, '\0');
  auto span = [](std::string& text) {
    return MutableBytes{reinterpret_cast<uint8_t*>(text.data()), text.size()};
  };
  std::vector<ObjectRead> reads = {{.ref = ref, .offset = 0, .out = span(whole)},
                                   {.ref = ref, .offset = 100'001, .out = span(part)}};
  absl::Status status = store.node().ReadObjects(reads, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(whole == content);
  EXPECT_TRUE(part == content.substr(100'001, part.size()));
}

TEST_P(KvStoreConformance, PlanesTravelAsTheyAreStoredAndComeBackToTheByte) {
  std::string content = Weights(1, 900'003);
  ObjectRef ref = RefOf(0, AsBytes(content));
  auto session = Begin();
  ASSERT_TRUE(*session->Put(ref, AsBytes(content), kPlanes2));
  EXPECT_EQ(EncodingOf(*store_, ref), kPlanes2);
  ExpectReads(*store_, ref, content);
  std::string whole(content.size(), '\0');
  ObjectRead read{
      .ref = ref, .offset = 0, .out = {reinterpret_cast<uint8_t*>(whole.data()), whole.size()}};
  ReadStats stats;
  ASSERT_TRUE(store_->node().ReadObjects({&read, 1}, &stats).ok());
  EXPECT_LT(stats.received_bytes, content.size() * 3 / 4);
}

TEST_P(KvStoreConformance, RecodingChangesCopiesAndNoNameNoticesIt) {
  TestModel model = MakeModel({1, 2, 3}, 300'000);
  std::vector<std::string> weights;
  for (uint64_t seed : {4, 5}) {
    weights.push_back(Weights(seed, 400'000));
    std::string key = "weights" + std::to_string(seed);
    ASSERT_TRUE(store_->Put(key, weights.back()).ok());
  }
  Import(model, "noise");
  v1::RecodeRequest request;
  request.set_codec("auto");
  request.set_dry_run(true);
  auto all = [&] {
    v1::RecodeResponse sum;
    request.clear_after();
    do {
      auto step = store_->node().Recode(request);
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) break;
      sum.set_objects(sum.objects() + step->objects());
      sum.set_changed(sum.changed() + step->changed());
      sum.set_stored_before(sum.stored_before() + step->stored_before());
      sum.set_stored_after(sum.stored_after() + step->stored_after());
      request.set_after(step->next());
    } while (!request.after().empty());
    return sum;
  };
  v1::RecodeResponse dry = all();
  EXPECT_EQ(dry.objects(), 5u);
  EXPECT_EQ(dry.stored_before(), 3 * 300'000u + 2 * 400'000u);
  EXPECT_LT(dry.stored_after(), dry.stored_before());
  ObjectRef first = RefOf(0, AsBytes(weights[0]));
  EXPECT_EQ(EncodingOf(*store_, first), Encoding{});

  request.set_dry_run(false);
  v1::RecodeResponse done = all();
  EXPECT_EQ(done.changed(), dry.changed());
  EXPECT_EQ(done.stored_after(), dry.stored_after());
  EXPECT_EQ(EncodingOf(*store_, first), kPlanes2);
  EXPECT_TRUE(ContentOf("weights4") == weights[0]);
  EXPECT_TRUE(ContentOf("weights5") == weights[1]);
  ExpectReads(*store_, model.objects[0], model.content[0]);
  EXPECT_EQ(all().changed(), 0u) << "a second time";
  EXPECT_EQ(store_->node().Fsck({})->problem_count(), 0u);

  // Some only, and back.
  request.set_codec("zstd");
  ObjectRefToWire(first, request.add_refs());
  ObjectRefToWire(RefOf(0, AsBytes("not here")), request.add_refs());
  ObjectRefToWire(model.root, request.add_refs());
  EXPECT_EQ(all().changed(), 1u);
  EXPECT_EQ(EncodingOf(*store_, first), kZstd);
  EXPECT_EQ(EncodingOf(*store_, RefOf(0, AsBytes(weights[1]))), kPlanes2);
  EXPECT_TRUE(ContentOf("weights4") == weights[0]);
  request.set_codec("lz4");
  EXPECT_EQ(GetReason(store_->node().Recode(request).status()), Reason::kInvalidArgument);
}

}  // namespace
}  // namespace tilekv
