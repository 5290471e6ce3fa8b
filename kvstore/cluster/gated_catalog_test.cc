#include "kvstore/cluster/gated_catalog.h"

#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_test_util.h"

namespace tilekv {
namespace {

TEST(GatedCatalog, AfterOneCallThatGotNoAnswerAllFailAtOnceUntilItIsBack) {
  TestCluster cluster;
  GatedCatalog gated(cluster.catalog);
  ASSERT_TRUE(gated.Get("a").ok());
  cluster.catalog.away = true;
  EXPECT_EQ(GetReason(gated.Get("a").status()), Reason::kNodeUnavailable);
  // The catalog is back, and nobody has asked it yet.
  cluster.catalog.away = false;
  const CatalogTxn txn{.compares = {}, .writes = {CatalogWrite::Put("a", "1")}};
  EXPECT_EQ(GetReason(gated.Txn(txn).status()), Reason::kNodeUnavailable);
  EXPECT_FALSE((*cluster.catalog.Get("a")).has_value());
  EXPECT_TRUE(gated.is_shut());
  gated.Answered(cluster.catalog.Get("a").status());
  EXPECT_FALSE(gated.is_shut());
  EXPECT_TRUE(gated.Txn(txn).ok());
}

TEST(GatedCatalog, OtherErrorsAreAnswers) {
  TestCluster cluster;
  GatedCatalog gated(cluster.catalog);
  EXPECT_FALSE(gated.List("a", "", 1).ok());
  EXPECT_TRUE(gated.Get("a").ok());
}

}  // namespace
}  // namespace tilekv
