#include "kvstore/model_name.h"

#include <gtest/gtest.h>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

TEST(ModelName, ParsesAndPrintsEveryForm) {
  for (const char* text :
       {"bert", "team/bert", "team/bert@12", "bert@prod", "b.e_r-t@latest", "bert@b3:0123abcd"}) {
    auto model = ModelName::Parse(text);
    ASSERT_TRUE(model.ok()) << text << ": " << model.status();
    EXPECT_EQ(model->ToString(), text);
  }
  EXPECT_EQ(ModelName::Parse("bert")->ns, "default");
  EXPECT_EQ(ModelName::Parse("default/bert")->ToString(), "bert");
}

TEST(ModelName, RefusesWhatWouldBeAmbiguousOrAPath) {
  for (const char* bad : {"", "@1", "a/b/c", "a--b", "..", "a..b", "a b", "a@", "a@0", "a@1x",
                          "a@-x", "a@b3:123", "/a", "a/", "a@latest@1", "\xc3\xa9"}) {
    EXPECT_EQ(GetReason(ModelName::Parse(bad).status()), Reason::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(ModelName::Parse(std::string(97, 'a')).ok());
  EXPECT_TRUE(ModelName::Parse(std::string(96, 'a')).ok());
}

TEST(ModelName, ATagIsNeverLatestOrANumber) {
  EXPECT_TRUE(CheckTag("v1.2").ok());
  EXPECT_FALSE(CheckTag("latest").ok());
  EXPECT_FALSE(CheckTag("1.2").ok());
}

TEST(StoreUri, ParsesNodesAndDirectories) {
  EXPECT_EQ(StoreUri::Parse("tilekv://a")->hosts, std::vector<std::string>({"a:7070"}));
  EXPECT_EQ(StoreUri::Parse("tilekv://a:1,[::1]:2")->hosts,
            (std::vector<std::string>{"a:1", "[::1]:2"}));
  EXPECT_EQ(StoreUri::Parse("file:/data")->directory, "/data");
  EXPECT_EQ(StoreUri::Parse("file:///data")->directory, "/data");
  EXPECT_EQ(StoreUri::Parse("data")->ToString(), "file:data");
  for (const char* bad :
       {"", "tilekv://", "tilekv://a:0", "tilekv://a:x", "s3://bucket", "tilekv://a/b", "file:"}) {
    EXPECT_EQ(GetReason(StoreUri::Parse(bad).status()), Reason::kInvalidArgument) << bad;
  }
}

TEST(QualifiedModel, SplitsStoreAndModel) {
  auto remote = QualifiedModel::Parse("tilekv://h:1/ns/m@3");
  ASSERT_TRUE(remote.ok()) << remote.status();
  EXPECT_EQ(remote->store->ToString(), "tilekv://h:1");
  EXPECT_EQ(remote->model.ToString(), "ns/m@3");
  EXPECT_FALSE(QualifiedModel::Parse("tilekv:///ns/m")->store.has_value());
  EXPECT_EQ(QualifiedModel::Parse("dir#m")->store->directory, "dir");
  EXPECT_EQ(QualifiedModel::Parse("m@prod")->model.version, "prod");
  EXPECT_FALSE(QualifiedModel::Parse("tilekv://h:1").ok());
}

}  // namespace
}  // namespace tilekv
