#include "kvstore/node/sessions.h"

#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/node_test_util.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

class SessionsTest : public NodeTest {
 protected:
  SessionsTest() : context_(objects_, catalog_, Options()), sessions_(context_) {
    EXPECT_TRUE(context_.Start().ok());
  }
  NodeOptions Options() {
    NodeOptions options;
    options.clock = &clock_;
    options.random = &random_;
    return options;
  }
  bool HasRecord(const SessionHandle& handle) {
    return (*catalog_.Get(SessionKey(handle.token))).has_value();
  }

  NodeContext context_;
  Sessions sessions_;
};

TEST_F(SessionsTest, EveryUseRenewsTheLease) {
  SessionHandle handle = *sessions_.Begin("test");
  for (int i = 0; i < 5; ++i) {
    clock_.Advance((kSessionLease_s - 1) * kSecondMicros);
    EXPECT_TRUE(sessions_.Use(handle.revision).ok());
  }
  clock_.Advance(kSessionLease_s * kSecondMicros);
  EXPECT_EQ(GetReason(sessions_.Use(handle.revision)), Reason::kSessionLost);
  EXPECT_FALSE(HasRecord(handle));
}

// Of a cluster that nobody administers.
class TestCluster : public ClusterAdmin {
 public:
  const std::string& cluster_name() const override { return name_; }
  const std::string& node_id() const override { return name_; }
  absl::Status CheckRoomForNames() override { return room; }
  absl::StatusOr<v1::ClusterStatusResponse> Status(const CallContext&) override {
    return v1::ClusterStatusResponse();
  }
  absl::StatusOr<v1::ChangeClusterResponse> Change(const v1::ChangeClusterRequest&,
                                                   const CallContext&) override {
    return v1::ChangeClusterResponse();
  }
  absl::Status room;

 private:
  const std::string name_ = "n1";
};

// Two nodes of a cluster on one catalog.
class ClusterSessionsTest : public SessionsTest {
 protected:
  ClusterSessionsTest()
      : first_context_(objects_, catalog_, OfCluster()),
        first_(first_context_),
        second_context_(objects_, catalog_, OfCluster()),
        second_(second_context_) {
    EXPECT_TRUE(first_context_.Start().ok());
    EXPECT_TRUE(second_context_.Start().ok());
  }
  NodeOptions OfCluster() {
    NodeOptions options = Options();
    options.cluster = &cluster_;
    return options;
  }

  TestCluster cluster_;
  NodeContext first_context_;
  Sessions first_;
  NodeContext second_context_;
  Sessions second_;
};

TEST_F(ClusterSessionsTest, WhoeverHasTheTokenKeepsASessionAtAnyNode) {
  SessionHandle handle = *first_.Begin("test");
  auto keeper = second_.Keep(handle.token);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  clock_.Advance(10 * kSessionLease_s * kSecondMicros);
  EXPECT_TRUE(HasRecord(handle));
  EXPECT_TRUE(second_.CompareFor(handle.token, handle.revision).ok());
  keeper->reset();
  clock_.Advance((kSessionDetachedLease_s + 1) * kSecondMicros);
  EXPECT_FALSE(HasRecord(handle));
  EXPECT_EQ(GetReason(second_.Keep(handle.token).status()), Reason::kSessionLost);
}

TEST_F(ClusterSessionsTest, ASessionIsEndedAtAnyNode) {
  SessionHandle handle = *first_.Begin("test");
  EXPECT_TRUE(second_.End(handle.token).ok());
  EXPECT_FALSE(HasRecord(handle));
}

TEST_F(ClusterSessionsTest, ASessionThatBeganBeforeANodeStartedIsOfUseThere) {
  SessionHandle handle = *first_.Begin("test");
  NodeContext later_context(objects_, catalog_, OfCluster());
  Sessions later(later_context);
  ASSERT_TRUE(later_context.Start().ok());
  EXPECT_TRUE(later.Use(handle.revision).ok());
}

TEST_F(ClusterSessionsTest, ItsDayIsCountedFromItsBeginningAndNotFromTheNodesThatKeepIt) {
  SessionHandle handle = *first_.Begin("test");
  auto keeper = first_.Keep(handle.token);
  clock_.Advance((kSessionMax_s - 10) * kSecondMicros);
  auto other = second_.Keep(handle.token);
  ASSERT_TRUE(other.ok()) << other.status();
  clock_.Advance(11 * kSecondMicros);
  EXPECT_FALSE(HasRecord(handle));
}

TEST_F(ClusterSessionsTest, AFullCatalogTakesNoNamesAndLosesSome) {
  cluster_.room = MakeError(Reason::kStoreFull, "etcd is full");
  CatalogTxn txn{.compares = {}, .writes = {CatalogWrite::Put("k/a", "1")}};
  EXPECT_EQ(GetReason(first_context_.Txn(txn).status()), Reason::kStoreFull);
  EXPECT_TRUE(first_context_.Txn(txn, TxnPurpose::kRemove).ok());
}

TEST_F(SessionsTest, NoSessionOutlivesItsDay) {
  SessionHandle handle = *sessions_.Begin("test");
  int64_t lived_s = 0;
  while (sessions_.Use(handle.revision).ok() && lived_s < 2 * kSessionMax_s) {
    clock_.Advance(500 * kSecondMicros);
    lived_s += 500;
  }
  EXPECT_GE(lived_s, kSessionMax_s - 500);
  EXPECT_LE(lived_s, kSessionMax_s + 500);
  EXPECT_FALSE(HasRecord(handle));
}

TEST_F(SessionsTest, AKeptSessionLivesAndADetachedOneHasAMoment) {
  SessionHandle handle = *sessions_.Begin("test");
  auto keeper = sessions_.Keep(handle.token);
  ASSERT_TRUE(keeper.ok());
  clock_.Advance(10 * kSessionLease_s * kSecondMicros);
  EXPECT_TRUE(HasRecord(handle));
  EXPECT_TRUE(sessions_.Use(handle.revision).ok()) << "a use does not shorten it";
  clock_.Advance(2 * kSessionLease_s * kSecondMicros);
  EXPECT_TRUE(HasRecord(handle));
  keeper->reset();
  clock_.Advance((kSessionDetachedLease_s - 1) * kSecondMicros);
  EXPECT_TRUE(HasRecord(handle));
  clock_.Advance(kSecondMicros);
  EXPECT_FALSE(HasRecord(handle));
  EXPECT_EQ(GetReason(sessions_.Keep(handle.token).status()), Reason::kSessionLost);
}

TEST_F(SessionsTest, ItsHolderIsTextThatCanBeReadAgain) {
  for (const std::string& holder : {std::string(1'023, 'x') + "\xc3\xa9", std::string("caf\xe9")}) {
    SessionHandle handle = *sessions_.Begin(holder);
    v1::SessionRecord record;
    EXPECT_TRUE(record.ParseFromString((*catalog_.Get(SessionKey(handle.token)))->value));
  }
}

TEST_F(SessionsTest, TheFenceRefusesWhatIsBelowIt) {
  SessionHandle old = *sessions_.Begin("old");
  SessionHandle young = *sessions_.Begin("young");
  ASSERT_TRUE(sessions_.End(old.token).ok());
  sessions_.RaiseFence(young.revision);
  EXPECT_EQ(GetReason(sessions_.Use(old.revision)), Reason::kSessionLost);
  EXPECT_TRUE(sessions_.Use(young.revision).ok());
  sessions_.RaiseFence(old.revision);
  EXPECT_EQ(GetReason(sessions_.Use(old.revision)), Reason::kSessionLost) << "it only grows";
}

TEST_F(SessionsTest, ASessionFromBeforeTheStartIsOver) {
  SessionHandle handle = *sessions_.Begin("test");
  NodeContext restarted(objects_, catalog_, Options());
  ASSERT_TRUE(restarted.Start().ok());
  Sessions sessions(restarted);
  EXPECT_EQ(GetReason(sessions.Use(handle.revision)), Reason::kSessionLost);
}

TEST_F(SessionsTest, ACommitComparesTheRecordOfExactlyThisSession) {
  SessionHandle handle = *sessions_.Begin("test");
  auto compare = sessions_.CompareFor(handle.token, handle.revision);
  ASSERT_TRUE(compare.ok());
  EXPECT_TRUE(catalog_.Txn({.compares = {*compare}, .writes = {}})->applied);
  EXPECT_EQ(GetReason(sessions_.CompareFor(handle.token, handle.revision.Next()).status()),
            Reason::kSessionLost);
  ASSERT_TRUE(sessions_.End(handle.token).ok());
  EXPECT_FALSE(catalog_.Txn({.compares = {*compare}, .writes = {}})->applied);
}

TEST_F(SessionsTest, TheRollingSessionEndsWithItsLastPut) {
  RollingSession rolling(context_, sessions_);
  auto first = *rolling.Acquire();
  SessionHandle old = first->handle();
  EXPECT_EQ((*rolling.Acquire())->handle().token, old.token);
  clock_.Advance(kRollingSession_s * kSecondMicros);
  auto second = *rolling.Acquire();
  EXPECT_NE(second->handle().token, old.token);
  EXPECT_TRUE(HasRecord(old)) << "a put still relies on it";
  first.reset();
  EXPECT_FALSE(HasRecord(old));

  SessionHandle now = second->handle();
  second.reset();
  EXPECT_TRUE(HasRecord(now));
  rolling.Replace();
  EXPECT_FALSE(HasRecord(now));
}

}  // namespace
}  // namespace tilekv
