// What of the catalog in etcd needs no etcd: blocks of a listing, addresses, errors.
#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"
#include "kvstore/catalog/etcd/etcd_errors.h"
#include "kvstore/catalog/etcd/etcd_listing.h"
#include "kvstore/catalog/etcd/line_guard.h"

namespace tilekv {
namespace {

TEST(Blocks, EndWhereTheirLeadingBitsChange) {
  EXPECT_EQ(BlockEnd("abc", 24), "abd");
  EXPECT_EQ(BlockEnd("abc", 16), "ac");
  EXPECT_EQ(BlockEnd("abc", 8), "b");
  EXPECT_EQ(BlockEnd("abc", 12), "ap");  // 0x62 is in the block of 0x60 to 0x6f
  EXPECT_EQ(BlockEnd("ab\xff", 24), "ac");
  EXPECT_EQ(BlockEnd("a", 24), std::string("a\0\1", 3));
  EXPECT_EQ(BlockEnd("abc", 0), "");
  EXPECT_EQ(BlockEnd("\xff\xff", 16), "");
}

TEST(Blocks, CommonBitsAreThoseInFront) {
  EXPECT_EQ(CommonBits("abc", "abd"), 16u + 5);
  EXPECT_EQ(CommonBits("abc", "abc"), 24u);
  EXPECT_EQ(CommonBits("ab", "abc"), 16u);
  EXPECT_EQ(CommonBits("a", "\xff"), 0u);
}

// As etcd 3.4: it walks all of a range, whatever the limit.
class WalkingEtcd {
 public:
  std::set<std::string> keys;
  uint64_t walked = 0;
  uint64_t calls = 0;

  RangeCall Call() {
    return [this](const std::string& start, const std::string& end,
                  size_t limit) -> absl::StatusOr<etcdserverpb::RangeResponse> {
      ++calls;
      EXPECT_LT(start, end);
      etcdserverpb::RangeResponse response;
      if (sorted_.size() != keys.size()) sorted_.assign(keys.begin(), keys.end());
      auto from = std::lower_bound(sorted_.begin(), sorted_.end(), start);
      auto to = std::lower_bound(sorted_.begin(), sorted_.end(), end);
      size_t count = static_cast<size_t>(std::distance(from, to));
      response.set_count(static_cast<int64_t>(count));
      walked += count;
      for (; from != to && static_cast<size_t>(response.kvs_size()) < limit; ++from) {
        response.add_kvs()->set_key(*from);
      }
      response.set_more(from != to);
      return response;
    };
  }

  std::vector<std::string> ListAll(const std::string& start, const std::string& end, size_t limit) {
    BlockSizes sizes;
    std::vector<std::string> all;
    std::string from = start;
    for (bool more = true; more;) {
      auto page = ReadPage(from, end, limit, sizes, Call());
      EXPECT_TRUE(page.ok());
      EXPECT_LE(page->kvs.size(), limit);
      for (const auto& kv : page->kvs) all.push_back(kv.key());
      more = page->more;
      if (more) from = all.back() + '\0';
    }
    return all;
  }

 private:
  std::vector<std::string> sorted_;
};

void ExpectListedInLinearTime(WalkingEtcd& etcd, uint64_t calls_a_page) {
  std::vector<std::string> expected(etcd.keys.begin(), etcd.keys.end());
  EXPECT_EQ(etcd.ListAll("/c/k/", "/c/k0", 1'000), expected);
  EXPECT_LT(etcd.walked, 25 * expected.size()) << "of " << expected.size();
  EXPECT_LT(etcd.calls, calls_a_page * (expected.size() / 1'000 + 20));
}

TEST(Listing, OfNumberedKeysTakesTimeLinearInThem) {
  WalkingEtcd etcd;
  for (int i = 0; i < 100'000; ++i) etcd.keys.insert(fmt::format("/c/k/bench/{:08}", i));
  ExpectListedInLinearTime(etcd, 8);
}

TEST(Listing, OfRandomKeysTakesTimeLinearInThem) {
  WalkingEtcd etcd;
  SeededRandom random(1);
  while (etcd.keys.size() < 100'000) etcd.keys.insert("/c/k/" + random.Bytes(12));
  ExpectListedInLinearTime(etcd, 8);
}

TEST(Listing, OfManyFoldersTakesTimeLinearInThem) {
  WalkingEtcd etcd;
  SeededRandom random(2);
  for (int folder = 0; folder < 300; ++folder) {
    std::string name = fmt::format("/c/k/{:016x}/layer", random.Next());
    for (uint64_t i = random.Below(700); i > 0; --i)
      etcd.keys.insert(fmt::format("{}.{}", name, i));
  }
  ExpectListedInLinearTime(etcd, 16);
}

TEST(Listing, FindsTheSameInPagesOfAnySize) {
  SeededRandom random(3);
  for (int round = 0; round < 50; ++round) {
    WalkingEtcd etcd;
    for (uint64_t i = random.Below(300); i > 0; --i) {
      std::string key = random.Bytes(1 + random.Below(4));
      for (char& c : key) c &= static_cast<char>(0x83);  // many common bits
      etcd.keys.insert("/c/k/" + key);
    }
    std::vector<std::string> expected(etcd.keys.begin(), etcd.keys.end());
    EXPECT_EQ(etcd.ListAll("/c/k/", "/c/k0", 1 + random.Below(40)), expected);
  }
}

TEST(Endpoints, AreAddressesWithOrWithoutSchemeAndPort) {
  auto parsed = ParseEtcdEndpoints({"http://a:1", "b", "[::1]:3", "[::1]"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->targets, testing::ElementsAre("a:1", "b:2379", "[::1]:3", "[::1]:2379"));
  EXPECT_FALSE(parsed->tls);
  EXPECT_TRUE(ParseEtcdEndpoints({"https://a/"})->tls);
  EXPECT_THAT(SplitEndpoints("a,,b,"), testing::ElementsAre("a", "b"));
}

TEST(Endpoints, ThatAreNoneAreRefused) {
  for (const char* bad : {"", "http://", "a:0", "a:70000", "a:x", ":1", "ftp://a", "a/b", "u@a"}) {
    EXPECT_EQ(GetReason(ParseEtcdEndpoints({bad}).status()), Reason::kInvalidArgument) << bad;
  }
  EXPECT_EQ(GetReason(ParseEtcdEndpoints({}).status()), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(ParseEtcdEndpoints({"https://a", "http://b"}).status()),
            Reason::kInvalidArgument);
}

TEST(ClusterName, IsOneWordOfAFewCharacters) {
  for (const char* good : {"a", "prod-1", "A.b_c"}) EXPECT_TRUE(CheckClusterName(good).ok());
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string("a b"), std::string(65, 'a')}) {
    EXPECT_EQ(GetReason(CheckClusterName(bad)), Reason::kInvalidArgument) << bad;
  }
}

// What each error means for a write: whether nothing was done, and whether to try again.
TEST(EtcdErrors, TellWhatWasDone) {
  struct Case {
    absl::StatusCode code;
    const char* message;
    Fate fate;
    bool again;
    Reason reason;
  };
  using Code = absl::StatusCode;
  for (const Case& c : std::vector<Case>{
           {Code::kUnavailable, "etcdserver: request timed out", Fate::kUnknown, true,
            Reason::kNodeUnavailable},
           {Code::kUnavailable, "Socket closed", Fate::kUnknown, true, Reason::kNodeUnavailable},
           {Code::kUnavailable, "failed to connect to all addresses; x", Fate::kNotSent, true,
            Reason::kNodeUnavailable},
           {Code::kUnavailable, "etcdserver: no leader", Fate::kRefused, true,
            Reason::kNodeUnavailable},
           {Code::kDeadlineExceeded, "Deadline Exceeded", Fate::kUnknown, true,
            Reason::kNodeUnavailable},
           {Code::kUnknown, "raft proposal dropped", Fate::kUnknown, true,
            Reason::kNodeUnavailable},
           {Code::kResourceExhausted, "etcdserver: mvcc: database space exceeded", Fate::kRefused,
            false, Reason::kStoreFull},
           {Code::kResourceExhausted, "etcdserver: too many requests", Fate::kRefused, true,
            Reason::kOverloaded},
           {Code::kInvalidArgument, "etcdserver: request is too large", Fate::kRefused, false,
            Reason::kInvalidArgument},
           {Code::kInvalidArgument,
            "etcdserver: authentication failed, invalid user ID or password", Fate::kRefused, false,
            Reason::kUnauthenticated},
           {Code::kUnauthenticated, "etcdserver: invalid auth token", Fate::kRefused, true,
            Reason::kUnauthenticated},
           {Code::kPermissionDenied, "etcdserver: permission denied", Fate::kRefused, false,
            Reason::kPermissionDenied},
           {Code::kNotFound, "etcdserver: requested lease not found", Fate::kRefused, false,
            Reason::kSessionLost},
       }) {
    Reply reply = ExplainEtcdError(static_cast<int>(c.code), c.message, "http://a:1").reply;
    EXPECT_EQ(reply.fate, c.fate) << c.message;
    EXPECT_EQ(reply.again, c.again) << c.message;
    EXPECT_EQ(GetReason(reply.error), c.reason) << c.message;
    if (c.reason == Reason::kNodeUnavailable) {
      EXPECT_THAT(std::string(reply.error.message()), testing::HasSubstr("http://a:1"));
    }
  }
}

TEST(LineGuard, AnAnswerThatWasOvertakenIsNoStepBack) {
  LineGuard guard;
  int64_t early = guard.Seen();
  guard.Answered(guard.Seen(), 10);
  guard.Answered(early, 9);  // sent before the other was answered
  EXPECT_TRUE(guard.Check().ok());
  guard.Answered(guard.Seen(), 10);
  EXPECT_TRUE(guard.Check().ok());
  guard.Answered(guard.Seen(), 9);
  EXPECT_EQ(GetReason(guard.Check()), Reason::kCatalogRewound);
}

}  // namespace
}  // namespace tilekv
