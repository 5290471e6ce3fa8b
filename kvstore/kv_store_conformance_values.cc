// Plain values.
#include <algorithm>
#include <map>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store_conformance.h"

namespace tilekv {
namespace {

// Content in pieces of odd sizes, of a length that it does not tell.
class SecretiveSource : public ByteSource {
 public:
  explicit SecretiveSource(Bytes content) : content_(content) {}
  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    return content_.Read(out.first(std::min<size_t>(out.size(), 7919)));
  }

 private:
  SpanSource content_;
};

// Says more or less than there is.
class LyingSource : public SpanSource {
 public:
  LyingSource(Bytes content, uint64_t said) : SpanSource(content), said_(said) {}
  std::optional<uint64_t> length() const override { return said_; }

 private:
  const uint64_t said_;
};

}  // namespace

TEST_P(KvStoreConformance, GivesBackValuesOfEverySize) {
  for (size_t bytes :
       std::vector<size_t>{0, 1, 512, 513, 65'535, 65'536, 65'537, 300'000, kLimit - 1, kLimit}) {
    std::string key = fmt::format("size/{}", bytes);
    std::string content = RandomText(bytes, bytes);
    auto put = store_->Put(key, content);
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_TRUE(put->applied);
    EXPECT_EQ(put->length, bytes);
    auto value = store_->Get(key);
    ASSERT_TRUE(value.ok() && value->has_value()) << value.status();
    EXPECT_EQ((*value)->info.version, put->version);
    EXPECT_EQ((*value)->info.length, bytes);
    EXPECT_TRUE((*value)->content == content) << bytes;
    auto stat = store_->Stat(key);
    ASSERT_TRUE(stat.ok() && stat->has_value());
    EXPECT_EQ((*stat)->version, put->version);
    EXPECT_GT((*stat)->modified_micros, 0);
  }
}

TEST_P(KvStoreConformance, AMissingKeyIsAResult) {
  auto value = store_->Get("no");
  ASSERT_TRUE(value.ok());
  EXPECT_FALSE(value->has_value());
  EXPECT_FALSE(store_->Stat("no")->has_value());
  auto deleted = store_->Delete("no");
  ASSERT_TRUE(deleted.ok());
  EXPECT_TRUE(deleted->applied);
  EXPECT_FALSE(deleted->existed);
}

TEST_P(KvStoreConformance, KeysAreAnyBytesButNul) {
  std::vector<std::string> keys{"a/b",
                                "\x01\xff\xfe",
                                "\n\t'\\",
                                "k/",
                                "näme 🙂",
                                "..",
                                std::string(kMaxKeyBytes, '\xff')};
  for (const std::string& key : keys) {
    ASSERT_TRUE(store_->Put(key, "v" + key).ok()) << Printable(key);
  }
  for (const std::string& key : keys) EXPECT_EQ(ContentOf(key), "v" + key);
  for (const std::string& bad :
       {std::string(), std::string("a\0b", 3), std::string(kMaxKeyBytes + 1, 'a')}) {
    EXPECT_EQ(GetReason(store_->Put(bad, "x").status()), Reason::kInvalidArgument);
    EXPECT_EQ(GetReason(store_->Get(bad).status()), Reason::kInvalidArgument);
    EXPECT_EQ(GetReason(store_->Delete(bad).status()), Reason::kInvalidArgument);
  }
}

TEST_P(KvStoreConformance, RangesAreCutAtTheEnd) {
  std::string content = RandomText(3, 200'000);
  ASSERT_TRUE(store_->Put("big", content).ok());
  ASSERT_TRUE(store_->Put("small", "0123456789").ok());
  auto range = [&](const char* key, uint64_t offset, std::optional<uint64_t> length) {
    auto value = store_->Get(key, ByteRange{offset, length});
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? (*value)->content : "?";
  };
  EXPECT_EQ(range("small", 2, 3), "234");
  EXPECT_EQ(range("small", 8, 100), "89");
  EXPECT_EQ(range("small", 10, 1), "");
  EXPECT_EQ(range("small", 99, std::nullopt), "");
  EXPECT_EQ(range("small", 0, 0), "");
  EXPECT_TRUE(range("big", 65'530, 20) == content.substr(65'530, 20));
  EXPECT_TRUE(range("big", 100'000, std::nullopt) == content.substr(100'000));
  EXPECT_TRUE(range("big", 199'999, ~uint64_t{0}) == content.substr(199'999));
}

TEST_P(KvStoreConformance, ConditionsDecideAndTellTheVersionFound) {
  auto absent = store_->Put("k", "1", {.condition = WriteCondition::Absent()});
  ASSERT_TRUE(absent.ok());
  ASSERT_TRUE(absent->applied);
  auto again = store_->Put("k", "2", {.condition = WriteCondition::Absent()});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->applied);
  EXPECT_EQ(again->version, absent->version);
  auto wrong = store_->Put("k", "2", {.condition = WriteCondition::Version(absent->version + 999)});
  EXPECT_FALSE(wrong->applied);
  EXPECT_EQ(ContentOf("k"), "1");
  std::string big = RandomText(1, 5000);
  auto right = store_->Put("k", big, {.condition = WriteCondition::Version(absent->version)});
  EXPECT_TRUE(right->applied);
  EXPECT_GT(right->version, absent->version);
  EXPECT_EQ(ContentOf("k"), big);

  auto refused = store_->Delete("k", WriteCondition::Version(absent->version));
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->applied);
  EXPECT_EQ(refused->version_found, right->version);
  EXPECT_FALSE(store_->Delete("k", WriteCondition::Absent())->applied);
  auto deleted = store_->Delete("k", WriteCondition::Version(right->version));
  EXPECT_TRUE(deleted->applied);
  EXPECT_TRUE(deleted->existed);
  EXPECT_EQ(ContentOf("k"), "-");
  // Version 0 is the same as absent.
  auto zero = store_->Put("k", "3", {.condition = WriteCondition::Version(0)});
  EXPECT_TRUE(zero->applied);
  EXPECT_GT(zero->version, right->version) << "versions of a key never come back";
}

TEST_P(KvStoreConformance, ARefusedValueSaysKeySizeLimitAndRemedy) {
  std::string content(kLimit + 1, 'x');
  auto put = store_->Put("weights", content);
  ASSERT_EQ(GetReason(put.status()), Reason::kObjectTooLarge);
  EXPECT_EQ(
      std::string(put.status().message()),
      "key 'weights' is 1,048,577 bytes (1.0 MiB); this store takes objects up to 1,048,576 "
      "bytes (1 MiB). Store a matrix with 'tilekv model import NAME FILE', any other file with "
      "'tilekv kv put --chunked'.");
  SecretiveSource secretive(AsBytes(content));
  put = store_->Put("weights", secretive);
  ASSERT_EQ(GetReason(put.status()), Reason::kObjectTooLarge);
  EXPECT_THAT(
      std::string(put.status().message()),
      testing::StartsWith("key 'weights' is more than 1,048,576 bytes (1 MiB); this store "));
  EXPECT_EQ(ContentOf("weights"), "-");
  EXPECT_EQ(*store_->MaxObjectBytes(), kLimit);
}

TEST_P(KvStoreConformance, StreamsContentOfUnknownLength) {
  for (size_t bytes : {0, 100, 5000, 900'000}) {
    std::string content = RandomText(bytes, bytes);
    SecretiveSource source(AsBytes(content));
    auto put = store_->Put("s", source);
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(put->length, bytes);
    EXPECT_TRUE(ContentOf("s") == content);
  }
}

TEST_P(KvStoreConformance, ASourceThatIsNotAsLongAsItSaysStoresNothing) {
  std::string content = RandomText(1, 100'000);
  for (uint64_t said : {99'999u, 100'001u, 600u}) {
    LyingSource source(AsBytes(content), said);
    EXPECT_EQ(GetReason(store_->Put("l", source).status()), Reason::kInvalidArgument) << said;
    EXPECT_EQ(ContentOf("l"), "-");
  }
}

TEST_P(KvStoreConformance, ChunksAValueAboveTheLimitWhenAsked) {
  std::string content = RandomText(5, 5 * kLimit + 77);
  auto put = store_->Put("chunky", content, {.chunked = true});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->applied);
  EXPECT_EQ(put->length, content.size());
  auto stat = store_->Stat("chunky");
  ASSERT_TRUE(stat.ok() && stat->has_value());
  EXPECT_TRUE((*stat)->chunked);
  EXPECT_EQ((*stat)->length, content.size());
  EXPECT_TRUE(ContentOf("chunky") == content);
  auto range = store_->Get("chunky", ByteRange{kLimit - 5, 2 * kLimit});
  ASSERT_TRUE(range.ok() && range->has_value());
  EXPECT_TRUE((*range)->content == content.substr(kLimit - 5, 2 * kLimit));

  SecretiveSource source(AsBytes(content));
  put = store_->Put("secret", source, {.condition = WriteCondition::Absent(), .chunked = true});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(ContentOf("secret") == content);
  put = store_->Put("secret", content, {.condition = WriteCondition::Absent(), .chunked = true});
  EXPECT_FALSE(put->applied);
  ASSERT_TRUE(store_->Put("little", "x", {.chunked = true}).ok());
  EXPECT_FALSE((*store_->Stat("little"))->chunked);
  EXPECT_EQ(Collect().deleted_objects(), 0u) << "pieces of a chunked value are reachable";
  EXPECT_TRUE(ContentOf("chunky") == content);
}

TEST_P(KvStoreConformance, ListsByPrefixInPagesThatResume) {
  std::vector<std::string> expected;
  for (int i = 0; i < 25; ++i) expected.push_back(fmt::format("p/{:02}", i));
  expected.push_back("p/\xff");
  for (const std::string& key : expected) ASSERT_TRUE(store_->Put(key, key).ok());
  ASSERT_TRUE(store_->Put("p", "out").ok());
  ASSERT_TRUE(store_->Put("q", "out").ok());
  std::vector<std::string> found;
  ListOptions options{.prefix = "p/", .after = "", .limit = 7};
  while (true) {
    auto page = store_->List(options);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_LE(page->values.size(), 7u);
    for (const ValueInfo& info : page->values) {
      found.push_back(info.key);
      EXPECT_EQ(info.length, info.key.size());
    }
    if (!page->more) break;
    options.after = found.back();
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(store_->List({})->values.size(), 28u);
  EXPECT_TRUE(store_->List({.prefix = "zz"})->values.empty());
  EXPECT_EQ(store_->List({.prefix = "p", .after = "p/23"})->values.size(), 2u);
}

TEST_P(KvStoreConformance, BatchesSucceedItemByItem) {
  std::string big = RandomText(9, 9'000);
  ASSERT_TRUE(store_->Put("b", "old").ok());
  auto put = store_->BatchPut({{"a", "1", WriteCondition::Absent()},
                               {"b", "2", WriteCondition::Absent()},
                               {"c", big, WriteCondition::None()},
                               {"d", "", WriteCondition::Version(0)}});
  ASSERT_TRUE(put.ok()) << put.status();
  ASSERT_EQ(put->size(), 4u);
  EXPECT_TRUE((*put)[0].applied);
  EXPECT_FALSE((*put)[1].applied);
  EXPECT_EQ((*put)[1].version, (*store_->Stat("b"))->version);
  EXPECT_TRUE((*put)[2].applied);
  EXPECT_TRUE((*put)[3].applied);
  auto got = store_->BatchGet({"d", "none", "c", "b", "a"});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0]->content, "");
  EXPECT_FALSE((*got)[1].has_value());
  EXPECT_TRUE((*got)[2]->content == big);
  EXPECT_EQ((*got)[3]->content, "old");
  EXPECT_EQ((*got)[4]->content, "1");
  EXPECT_EQ((*got)[2]->info.version, (*put)[2].version);
}

TEST_P(KvStoreConformance, BatchesHaveLimits) {
  std::vector<BatchPutEntry> many;
  std::vector<std::string> keys;
  for (size_t i = 0; i <= kMaxBatchOperations; ++i) {
    keys.push_back(std::to_string(i));
    many.push_back({keys.back(), "x", {}});
  }
  EXPECT_EQ(GetReason(store_->BatchPut(many).status()), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(store_->BatchGet(keys).status()), Reason::kInvalidArgument);
  std::string half(kMaxBatchBytes / 2 + 1, 'x');
  EXPECT_EQ(GetReason(store_->BatchPut({{"a", half, {}}, {"b", half, {}}}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(store_->BatchPut({{"a", "1", {}}, {"a", "2", {}}}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(ContentOf("a"), "-");
  many.pop_back();
  EXPECT_TRUE(store_->BatchPut(many).ok());
}

TEST_P(KvStoreConformance, ConcurrentPutsOfOneKeyAllSucceedAndOneStays) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        auto put = store_->Put("hot", RandomText(t * 100 + i, i % 2 == 0 ? 100 : 2000));
        ASSERT_TRUE(put.ok()) << put.status();
        ASSERT_TRUE(put->applied);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*store_->Stat("hot"))->length, 2000u);
}

// Random operations against a map: same results, same contents.
TEST_P(KvStoreConformance, BehavesAsAMap) {
  const uint64_t seed = Random::System()->Next();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  SeededRandom random(seed);
  std::map<std::string, std::pair<std::string, uint64_t>> model;  // content, version
  auto key = [&] { return fmt::format("m/{}", random.Below(8)); };
  for (int step = 0; step < 150; ++step) {
    std::string k = key();
    auto row = model.find(k);
    uint64_t version = row == model.end() ? 0 : row->second.second;
    WriteCondition condition;
    bool met = true;
    if (uint64_t kind = random.Below(4); kind == 0) {
      condition = WriteCondition::Absent();
      met = version == 0;
    } else if (kind == 1) {
      bool wrong = random.Below(3) == 0;
      condition = WriteCondition::Version(wrong ? version + 1 : version);
      met = !wrong;
    }
    if (random.Below(4) == 0) {
      auto deleted = store_->Delete(k, condition);
      ASSERT_TRUE(deleted.ok()) << deleted.status();
      ASSERT_EQ(deleted->applied, met);
      if (met) model.erase(k);
    } else {
      const size_t sizes[] = {0, 10, 512, 513, 70'000};
      std::string content = RandomText(random.Next(), sizes[random.Below(5)]);
      auto put = store_->Put(k, content, {.condition = condition});
      ASSERT_TRUE(put.ok()) << put.status();
      ASSERT_EQ(put->applied, met);
      if (!met) {
        ASSERT_EQ(put->version, version);
      } else {
        model[k] = {content, put->version};
      }
    }
    if (random.Below(20) == 0) Collect();
    std::string look = key();
    auto found = model.find(look);
    ASSERT_TRUE(ContentOf(look) == (found == model.end() ? "-" : found->second.first));
  }
  auto page = store_->List({.prefix = "m/"});
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->values.size(), model.size());
  auto at = model.begin();
  for (const ValueInfo& info : page->values) {
    EXPECT_EQ(info.key, at->first);
    EXPECT_EQ(info.version, at->second.second);
    EXPECT_EQ(info.length, at->second.first.size());
    ++at;
  }
}

}  // namespace tilekv
