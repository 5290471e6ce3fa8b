#include "kvstore/wire/bulk_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "google/protobuf/util/message_differencer.h"
#include "kvstore/base/status.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

std::string Join(std::span<const Bytes> pieces) {
  std::string out;
  for (Bytes piece : pieces) out += AsText(piece);
  return out;
}

v1::PutObjectRequest PutObjectSample() {
  v1::PutObjectRequest m;
  m.mutable_header()->set_session_rev(0x1234567890);
  m.mutable_header()->mutable_ref()->set_id(std::string(32, '\xee'));
  m.mutable_header()->mutable_ref()->set_length(300);
  m.mutable_header()->mutable_encoding()->set_kind(1);
  m.add_block_table(77);
  m.add_block_table(0x80000011);
  m.set_data(std::string(300, 'd'));
  return m;
}
v1::ReadObjectsResponse ReadObjectsSample() {
  v1::ReadObjectsResponse m;
  m.set_index(1023);
  m.mutable_header()->set_leaf_hashes(std::string(64, 'h'));
  m.mutable_header()->set_content_length(65536);
  m.mutable_header()->add_block_table(5);
  m.set_data("some bytes");
  return m;
}
v1::PutValueRequest PutValueSample() {
  v1::PutValueRequest m;
  m.mutable_header()->set_key(std::string("k\0y", 3));
  m.mutable_header()->set_length(0);
  m.mutable_header()->mutable_condition()->set_absent(true);
  m.set_finish(true);
  m.set_data("v");
  return m;
}

template <typename M>
std::string EncodeByHand(M message) {
  std::string data = message.data();
  message.clear_data();
  return EncodeBulkHead(message, data.size()) + data;
}

template <typename M>
void ExpectBothWays(const M& message) {
  std::string by_protobuf = message.SerializeAsString();
  EXPECT_EQ(EncodeByHand(message), by_protobuf);
  for (size_t cut = 0; cut <= by_protobuf.size(); ++cut) {
    Bytes all = AsBytes(by_protobuf);
    std::vector<Bytes> pieces = {all.first(cut), all.subspan(cut)};
    M fields;
    std::vector<Bytes> data;
    ASSERT_TRUE(DecodeBulk(pieces, fields, data).ok()) << "cut at " << cut;
    EXPECT_EQ(Join(data), message.data());
    fields.set_data(Join(data));
    EXPECT_TRUE(MessageDifferencer::Equals(fields, message)) << "cut at " << cut;
  }
}

// What protobuf says of the same bytes.
void ExpectSameAsProtobuf(const std::string& bytes, std::span<const Bytes> pieces) {
  v1::PutObjectRequest expected;
  bool accepted = expected.ParseFromString(bytes);
  v1::PutObjectRequest fields;
  std::vector<Bytes> data;
  absl::Status status = DecodeBulk(pieces, fields, data);
  ASSERT_EQ(status.ok(), accepted) << status;
  if (!accepted) {
    EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
    return;
  }
  fields.set_data(Join(data));
  EXPECT_EQ(fields.SerializeAsString(), expected.SerializeAsString());
}

std::vector<Bytes> CutAtRandom(Bytes all, std::mt19937& random) {
  std::vector<Bytes> pieces;
  while (!all.empty()) {
    size_t n = random() % 9;  // 0 too: an empty piece
    n = std::min(n, all.size());
    pieces.push_back(all.first(n));
    all = all.subspan(n);
  }
  return pieces;
}

TEST(BulkFrame, DataIsTheGreatestFieldOfEveryBulkMessage) {
  auto check = [](const Message& m) {
    const auto* descriptor = m.GetDescriptor();
    const auto* last = descriptor->field(0);
    for (int i = 1; i < descriptor->field_count(); ++i) {
      if (descriptor->field(i)->number() > last->number()) last = descriptor->field(i);
    }
    EXPECT_EQ(last->name(), "data");
    EXPECT_EQ(last->number(), kBulkDataField);
  };
  check(v1::PutObjectRequest());
  check(v1::ReadObjectsResponse());
  check(v1::PutValueRequest());
}

TEST(BulkFrame, IsWhatProtobufWritesAndReadsItWhereverItIsSplit) {
  ExpectBothWays(PutObjectSample());
  ExpectBothWays(ReadObjectsSample());
  ExpectBothWays(PutValueSample());
  ExpectBothWays(v1::PutObjectRequest());
}

TEST(BulkFrame, GivesTheDataWithoutCopyingIt) {
  std::string bytes = PutObjectSample().SerializeAsString();
  Bytes all = AsBytes(bytes);
  v1::PutObjectRequest fields;
  std::vector<Bytes> data;
  std::vector<Bytes> pieces = {all};
  ASSERT_TRUE(DecodeBulk(pieces, fields, data).ok());
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data[0].data() + data[0].size(), all.data() + all.size());
}

TEST(BulkFrame, TakesFieldsInAnyOrderUnknownOnesAndUnpackedNumbers) {
  std::string table = "\x15\x01\x02\x03\x04\x15\x05\x06\x07\x08";    // block_table, not packed
  std::string unknown = "\xa0\x06\x2a\xab\x06\xa0\x06\x01\xac\x06";  // 100: varint; 101: a group
  std::string bytes = std::string("\x7a\x03old") + unknown + "\x7a\x03new" + table;
  v1::PutObjectRequest fields;
  std::vector<Bytes> data;
  std::vector<Bytes> pieces = {AsBytes(bytes)};
  ASSERT_TRUE(DecodeBulk(pieces, fields, data).ok());
  EXPECT_EQ(Join(data), "new");  // the last one counts
  ASSERT_EQ(fields.block_table_size(), 2);
  EXPECT_EQ(fields.block_table(1), 0x08070605u);
  ExpectSameAsProtobuf(bytes, pieces);
}

TEST(BulkFrame, RefusesWhatIsCutShort) {
  std::string bytes = PutObjectSample().SerializeAsString();
  for (size_t length = 1; length < bytes.size(); ++length) {
    std::string head = bytes.substr(0, length);
    std::vector<Bytes> pieces = {AsBytes(head)};
    ExpectSameAsProtobuf(head, pieces);
  }
}

TEST(BulkFrame, AgreesWithProtobufOnHowDeepGroupsGo) {
  for (int depth : {1, 50, 99, 100, 101, 102, 5000}) {
    std::string bytes;
    for (int i = 0; i < depth; ++i) bytes += "\xa3\x06";
    for (int i = 0; i < depth; ++i) bytes += "\xa4\x06";
    std::vector<Bytes> pieces = {AsBytes(bytes)};
    SCOPED_TRACE(depth);
    ExpectSameAsProtobuf(bytes, pieces);
  }
}

TEST(BulkFrame, AgreesWithProtobufOnHundredThousandDamagedMessages) {
  std::mt19937 random(7);
  std::vector<std::string> seeds = {
      PutObjectSample().SerializeAsString(), ReadObjectsSample().SerializeAsString(),
      PutValueSample().SerializeAsString(), std::string("\xa3\x06\x7a\x01x\xa4\x06\x7a\x02yz", 11)};
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    if (round % 3 == 0) bytes = bytes.substr(0, 80);
    for (int i = random() % 4; i >= 0; --i) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        case 2:
          if (bytes.size() > 1) bytes.erase(at, 1);
          break;
        case 3:
          bytes += seeds[random() % seeds.size()];
          break;
      }
    }
    std::vector<Bytes> pieces = CutAtRandom(AsBytes(bytes), random);
    ExpectSameAsProtobuf(bytes, pieces);
    if (HasFailure()) FAIL() << "round " << round << ": " << HexEncode(AsBytes(bytes));
  }
}

}  // namespace
}  // namespace tilekv
