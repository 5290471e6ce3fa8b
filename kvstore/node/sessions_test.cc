#include "kvstore/node/sessions.h"

#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
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
