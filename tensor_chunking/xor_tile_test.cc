// Tiles that are stored as base and delta: read, sliced and verified like any other. No writer
// makes them, so the manifest is written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/model_reader.h"

namespace tilekv {
namespace {

constexpr uint64_t kRows = 64;
constexpr uint64_t kColumns = 1'024;
constexpr uint64_t kTileRows = 32;
constexpr uint64_t kTileBytes = kTileRows * kColumns * 4;

std::string RandomText(uint64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(length, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string Xor(std::string a, const std::string& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<char>(a[i] ^ b[i]);
  return a;
}

ObjectRef RefOfText(const std::string& text) { return RefOf(0, AsBytes(text)); }

class XorTile : public testing::Test {
 protected:
  XorTile() : store_(*OpenMemoryStore()) {}

  // A tensor of two tiles: the first a blob, the second `result` made of base and delta.
  std::unique_ptr<ModelReader> Open(const ObjectRef& result) {
    TensorEntry entry;
    entry.name = "w";
    entry.dtype = DType::kF32;
    entry.shape = {kRows, kColumns};
    entry.tile_shape = {kTileRows, kColumns};
    entry.tiles = {WholeTile(RefOfText(plain_)), WholeTile(result)};
    entry.tiles[1].parts =
        std::make_shared<const XorParts>(XorParts{RefOfText(base_), RefOfText(delta_)});
    Manifest manifest;
    manifest.tensors = {entry};
    auto objects = EncodeManifest(manifest, kDefaultMaxObjectBytes);
    EXPECT_TRUE(objects.ok()) << objects.status();

    auto session = *store_->BeginSession("test");
    for (const std::string* content : {&plain_, &base_, &delta_}) {
      EXPECT_TRUE(session->Put(RefOfText(*content), AsBytes(*content)).ok());
    }
    for (const EncodedObject& object : *objects) {
      EXPECT_TRUE(session->Put(object.ref, AsBytes(object.content)).ok());
    }
    v1::CommitRequest request;
    request.set_ns("default");
    request.set_name("m");
    ObjectRefToWire(objects->back().ref, request.mutable_root());
    auto committed = session->Commit(request);
    EXPECT_TRUE(committed.ok() && committed->applied()) << committed.status();
    return *ModelReader::Open(*store_, ModelName{.ns = "default", .name = "m"});
  }

  const std::string plain_ = RandomText(kTileBytes, 1);
  const std::string base_ = RandomText(kTileBytes, 2);
  const std::string made_ = RandomText(kTileBytes, 3);
  const std::string delta_ = Xor(base_, made_);
  std::unique_ptr<KvStore> store_;
};

TEST_F(XorTile, IsReadWholeInSlicesAndInStreams) {
  std::unique_ptr<ModelReader> reader = Open(RefOfText(made_));
  const std::string whole = plain_ + made_;
  std::string out(whole.size(), '\0');
  ReadStats stats;
  MutableBytes all(reinterpret_cast<uint8_t*>(out.data()), out.size());
  ASSERT_TRUE(reader->ReadTensor("w", all, &stats).ok());
  EXPECT_TRUE(out == whole);
  EXPECT_EQ(stats.received_bytes, 3 * kTileBytes) << "base and delta are read whole";

  // Rows 30 to 33, of both tiles; then a column.
  ResolvedSlice rows = *ResolveSlice("30:34", ShapeSpan(Shape{kRows, kColumns}));
  ASSERT_TRUE(reader->ReadSlice("w", rows, all.first(4 * kColumns * 4)).ok());
  EXPECT_TRUE(out.substr(0, 4 * kColumns * 4) == whole.substr(30 * kColumns * 4, 4 * kColumns * 4));
  ResolvedSlice column = *ResolveSlice("::-1, 7", ShapeSpan(Shape{kRows, kColumns}));
  ASSERT_TRUE(reader->ReadSlice("w", column, all.first(kRows * 4)).ok());
  for (uint64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::memcmp(&out[row * 4], &whole[((kRows - 1 - row) * kColumns + 7) * 4], 4), 0);
  }

  auto stream = *reader->StreamTiles();
  EXPECT_TRUE(AsText((**stream->Next()).content.span()) == plain_);
  EXPECT_TRUE(AsText((**stream->Next()).content.span()) == made_);
}

TEST_F(XorTile, ThatIsSoundIsFoundSound) {
  auto report = VerifyModel(*Open(RefOfText(made_)));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->damages.empty());
}

TEST_F(XorTile, WhoseObjectsMakeSomethingElseIsDataLossAndFoundByVerification) {
  std::unique_ptr<ModelReader> reader = Open(RefOfText(RandomText(kTileBytes, 4)));
  std::string out(2 * kTileBytes, '\0');
  absl::Status read = reader->ReadTensor("w", {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  EXPECT_EQ(GetReason(read), Reason::kDataLoss);
  EXPECT_THAT(ErrorText(read), testing::HasSubstr("tensor 'w', tile 1 of 2"));
  auto report = VerifyModel(*reader);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->damages.size(), 1u);
  EXPECT_EQ(report->damages[0].where, "tensor 'w', tile 1 of 2");
  EXPECT_THAT(report->damages[0].text, testing::HasSubstr("do not combine"));
}

}  // namespace
}  // namespace tilekv
