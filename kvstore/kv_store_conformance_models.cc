// Models: versions, tags, deletion, listing, usage.
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "kvstore/base/status.h"
#include "kvstore/kv_store_conformance.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

TEST_P(KvStoreConformance, AVersionIsFoundByNumberTagLatestAndDigest) {
  TestModel one = MakeModel({1}), two = MakeModel({2});
  Import(one, "m", {"first"});
  Import(two, "m");
  EXPECT_EQ(Resolve("m", "1").version().record().number(), 1u);
  EXPECT_EQ(Resolve("m", "first").version().record().number(), 1u);
  EXPECT_THAT(Resolve("m", "first").version().tags(), testing::ElementsAre("first"));
  EXPECT_EQ(Resolve("m", "latest").version().record().number(), 2u);
  EXPECT_EQ(Resolve("m", "").version().record().number(), 2u);
  EXPECT_EQ(Resolve("m", "b3:" + one.root.id.Short(8)).version().record().number(), 1u);
  EXPECT_EQ(Resolve("m", "b3:" + one.root.id.Hex()).version().record().number(), 1u);
  EXPECT_FALSE(Resolve("m", "9").found());
  EXPECT_TRUE(Resolve("m", "9").model_exists());
  EXPECT_FALSE(Resolve("m", "notag").found());
  EXPECT_FALSE(Resolve("none", "").model_exists());
  v1::ResolveVersionRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_version("b3:123");
  EXPECT_EQ(GetReason(store_->node().ResolveVersion(request).status()), Reason::kInvalidArgument);
}

TEST_P(KvStoreConformance, ADigestOfTwoVersionsWithOneRootIsTheNewest) {
  TestModel model = MakeModel({1});
  Import(model, "m");
  Import(model, "m");
  EXPECT_EQ(Resolve("m", "b3:" + model.root.id.Short(16)).version().record().number(), 2u);
}

TEST_P(KvStoreConformance, TagsMoveOnlyAsAsked) {
  Import(MakeModel({1}), "m", {"prod"});
  Import(MakeModel({2}), "m");
  v1::SetTagRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_tag("prod");
  request.set_number(2);
  request.mutable_if_tag_at()->set_version(9);
  auto refused = store_->node().SetTag(request);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_FALSE(refused->applied());
  EXPECT_EQ(refused->number_found(), 1u);
  EXPECT_EQ(Resolve("m", "prod").version().record().number(), 1u);
  request.mutable_if_tag_at()->set_version(1);
  EXPECT_TRUE(store_->node().SetTag(request)->applied());
  EXPECT_EQ(Resolve("m", "prod").version().record().number(), 2u);
  request.clear_if_tag_at();
  request.set_number(7);
  EXPECT_EQ(GetReason(store_->node().SetTag(request).status()), Reason::kNotFound);
  for (const char* bad : {"7", "latest", "-x", "1a", ""}) {
    request.set_tag(bad);
    request.set_number(1);
    EXPECT_EQ(GetReason(store_->node().SetTag(request).status()), Reason::kInvalidArgument) << bad;
  }
  v1::RemoveTagRequest remove;
  remove.set_ns("default");
  remove.set_name("m");
  remove.set_tag("prod");
  EXPECT_TRUE(store_->node().RemoveTag(remove)->existed());
  EXPECT_FALSE(store_->node().RemoveTag(remove)->existed());
  EXPECT_FALSE(Resolve("m", "prod").found());
}

TEST_P(KvStoreConformance, DeletingHidesAndUndeletingBringsBackTheNumber) {
  Import(MakeModel({1}), "m");
  Import(MakeModel({2}), "m");
  v1::DeleteVersionsResponse deleted = DeleteVersions("m", {2, 5}, false);
  EXPECT_THAT(deleted.deleted(), testing::ElementsAre(2));
  EXPECT_THAT(deleted.missing(), testing::ElementsAre(5));
  EXPECT_EQ(Resolve("m", "").version().record().number(), 1u) << "latest is the highest live one";
  EXPECT_FALSE(Resolve("m", "2").found());
  EXPECT_TRUE(Resolve("m", "2", true).found());
  EXPECT_EQ(Collect().purged_versions(), 0u) << "grace";

  v1::UndeleteVersionRequest undelete;
  undelete.set_ns("default");
  undelete.set_name("m");
  undelete.set_number(2);
  EXPECT_TRUE(store_->node().UndeleteVersion(undelete)->restored());
  EXPECT_FALSE(store_->node().UndeleteVersion(undelete)->restored());
  EXPECT_EQ(Resolve("m", "").version().record().number(), 2u);

  DeleteVersions("m", {1, 2}, true);
  EXPECT_FALSE(Resolve("m", "2", true).found());
  EXPECT_FALSE(store_->node().UndeleteVersion(undelete)->restored());
  EXPECT_EQ(Import(MakeModel({3}), "m").record().number(), 3u) << "a number is never used twice";
}

TEST_P(KvStoreConformance, ATaggedVersionIsNotDeletedNorAnythingWithIt) {
  Import(MakeModel({1}), "m");
  Import(MakeModel({2}), "m", {"prod"});
  v1::DeleteVersionsRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_all(true);
  auto response = store_->node().DeleteVersions(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->deleted_size(), 0);
  ASSERT_EQ(response->tagged_size(), 1);
  EXPECT_EQ(response->tagged(0).record().number(), 2u);
  EXPECT_THAT(response->tagged(0).tags(), testing::ElementsAre("prod"));
  EXPECT_TRUE(Resolve("m", "1").found());
  EXPECT_TRUE(Resolve("m", "2").found());
  request.set_name("none");
  EXPECT_FALSE(store_->node().DeleteVersions(request)->model_exists());
}

TEST_P(KvStoreConformance, ACopyIsAVersionOnTheSameRoot) {
  TestModel model = MakeModel({1, 2});
  Import(model, "m");
  v1::CopyVersionRequest request;
  request.mutable_source()->set_ns("default");
  request.mutable_source()->set_name("m");
  request.mutable_source()->set_number(1);
  request.set_ns("team");
  request.set_name("copy");
  request.set_commit_id(std::string(16, 'c'));
  request.add_tags("stable");
  auto response = store_->node().CopyVersion(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_TRUE(response->applied());
  EXPECT_EQ(response->version().record().root().id(), model.root.id.view());
  EXPECT_EQ(store_->node().CopyVersion(request)->version().record().number(), 1u) << "a retry";
  DeleteVersions("m", {1}, true);
  Collect();
  for (const ObjectRef& ref : model.objects) EXPECT_TRUE(IsThere(ref));
  request.set_commit_id(std::string(16, 'd'));
  EXPECT_EQ(GetReason(store_->node().CopyVersion(request).status()), Reason::kNotFound);
}

TEST_P(KvStoreConformance, AMovedModelHasItsVersionsAndTagsUnderTheNewNameOnly) {
  Import(MakeModel({1}), "m", {"first"});
  Import(MakeModel({2}), "m");
  Import(MakeModel({3}), "m");
  DeleteVersions("m", {3}, false);
  Import(MakeModel({4}), "other");
  v1::MoveModelRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_new_ns("default");
  request.set_new_name("other");
  auto response = store_->node().MoveModel(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->source_exists());
  EXPECT_TRUE(response->target_exists());
  EXPECT_TRUE(Resolve("m", "2").found()) << "a refused move changed something";

  request.set_new_ns("team");
  request.set_new_name("n");
  response = store_->node().MoveModel(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->target_exists());
  EXPECT_EQ(response->versions(), 3u);
  EXPECT_EQ(response->tags(), 1u);
  EXPECT_FALSE(Resolve("m", "latest").found());
  EXPECT_FALSE(Resolve("m", "first").found());
  EXPECT_FALSE(store_->node().MoveModel(request)->source_exists());

  v1::ResolveVersionRequest resolve;
  resolve.set_ns("team");
  resolve.set_name("n");
  resolve.set_version("first");
  EXPECT_EQ(store_->node().ResolveVersion(resolve)->version().record().number(), 1u);
  resolve.set_version("latest");
  EXPECT_EQ(store_->node().ResolveVersion(resolve)->version().record().number(), 2u);
  v1::UndeleteVersionRequest undelete;
  undelete.set_ns("team");
  undelete.set_name("n");
  undelete.set_number(3);
  EXPECT_TRUE(store_->node().UndeleteVersion(undelete)->restored());
}

TEST_P(KvStoreConformance, AMoveThereAndBackNeverUsesANumberTwice) {
  Import(MakeModel({1}), "m");
  v1::MoveModelRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_new_ns("default");
  request.set_new_name("n");
  ASSERT_EQ(store_->node().MoveModel(request)->versions(), 1u);
  Import(MakeModel({2}), "m");
  EXPECT_TRUE(Resolve("m", "2").found());
  EXPECT_FALSE(Resolve("m", "1").found());
  DeleteVersions("m", {2}, true);
  request.set_name("n");
  request.set_new_name("m");
  ASSERT_EQ(store_->node().MoveModel(request)->versions(), 1u) << "nothing is left under the name";
  Import(MakeModel({3}), "m");
  EXPECT_TRUE(Resolve("m", "1").found());
  EXPECT_TRUE(Resolve("m", "3").found());
  EXPECT_FALSE(Resolve("m", "2").found());
}

TEST_P(KvStoreConformance, AMoveOntoItselfIsRefused) {
  Import(MakeModel({1}), "m");
  v1::MoveModelRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_new_ns("default");
  request.set_new_name("m");
  EXPECT_EQ(GetReason(store_->node().MoveModel(request).status()), Reason::kInvalidArgument);
  request.set_new_name("");
  EXPECT_EQ(GetReason(store_->node().MoveModel(request).status()), Reason::kInvalidArgument);
  EXPECT_TRUE(Resolve("m", "1").found());
}

TEST_P(KvStoreConformance, ListsModelsAndVersionsInPages) {
  for (int i = 0; i < 5; ++i) Import(MakeModel({1}), fmt::format("model-{}", i));
  for (int i = 0; i < 4; ++i) Import(MakeModel({uint64_t(i)}), "model-0", {fmt::format("t{}", i)});
  DeleteVersions("model-4", {1}, false);
  v1::ListModelsRequest request;
  request.set_limit(3);
  auto page = store_->node().ListModels(request);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->models_size(), 3);
  EXPECT_TRUE(page->more());
  EXPECT_EQ(page->models(0).name(), "model-0");
  EXPECT_EQ(page->models(0).live_versions(), 5u);
  EXPECT_EQ(page->models(0).latest().record().number(), 5u);
  EXPECT_THAT(page->models(0).latest().tags(), testing::ElementsAre("t3"));
  request.set_after("default/model-2");
  page = store_->node().ListModels(request);
  ASSERT_EQ(page->models_size(), 1);
  EXPECT_FALSE(page->more());
  request.set_with_deleted(true);
  page = store_->node().ListModels(request);
  ASSERT_EQ(page->models_size(), 2);
  EXPECT_EQ(page->models(1).deleted_versions(), 1u);
  EXPECT_FALSE(page->models(1).has_latest());
  request.Clear();
  request.set_prefix("default/model-3");
  EXPECT_EQ(store_->node().ListModels(request)->models_size(), 1);

  v1::ListVersionsRequest versions;
  versions.set_ns("default");
  versions.set_name("model-0");
  versions.set_limit(2);
  auto some = store_->node().ListVersions(versions);
  ASSERT_TRUE(some.ok());
  ASSERT_EQ(some->versions_size(), 2);
  EXPECT_TRUE(some->more());
  EXPECT_EQ(some->versions(0).record().number(), 5u);
  versions.set_before(2);
  some = store_->node().ListVersions(versions);
  ASSERT_EQ(some->versions_size(), 1);
  EXPECT_FALSE(some->more());
  EXPECT_EQ(some->versions(0).record().number(), 1u);
}

TEST_P(KvStoreConformance, NamesAreChecked) {
  TestModel model = MakeModel({1});
  auto session = Begin();
  Upload(*session, model);
  for (const char* bad : {"", "a/b", "..", "a b", "a--b"}) {
    EXPECT_EQ(GetReason(session->Commit(CommitOf(model, bad)).status()), Reason::kInvalidArgument)
        << bad;
  }
  v1::CommitRequest request = CommitOf(model, "m");
  request.add_tags("12");
  EXPECT_EQ(GetReason(session->Commit(request).status()), Reason::kInvalidArgument);
}

TEST_P(KvStoreConformance, UsageTellsUniqueFromShared) {
  constexpr size_t kTile = 5000;  // as a value, an object of its own whatever the catalog
  TestModel one = MakeModel({1, 2}, kTile), two = MakeModel({2, 3}, kTile);
  Import(one, "one");
  Import(two, "two");
  ASSERT_TRUE(store_->Put("v", RandomText(1, kTile)).ok());  // the very tile of seed 1
  auto usage = store_->node().Usage({});
  ASSERT_TRUE(usage.ok()) << usage.status();
  ASSERT_EQ(usage->rows_size(), 3);
  const v1::UsageRow& row = usage->rows(0);
  EXPECT_EQ(row.model(), "default/one");
  EXPECT_EQ(row.shared_bytes(), 2 * kTile) << "one tile with two, one with the value";
  EXPECT_EQ(row.referenced_bytes(), row.unique_bytes() + row.shared_bytes());
  EXPECT_EQ(usage->rows(2).model(), "");
  EXPECT_EQ(usage->rows(2).logical_bytes(), kTile);
  EXPECT_EQ(usage->unreferenced_bytes(), 0u);

  v1::FindReferrersRequest request;
  ObjectRefToWire(one.objects[1], request.add_refs());
  ObjectRefToWire(one.objects[0], request.add_refs());
  auto referrers = store_->node().FindReferrers(request);
  ASSERT_TRUE(referrers.ok());
  EXPECT_EQ(referrers->objects(0).versions_size(), 2);
  EXPECT_EQ(referrers->objects(1).versions_size(), 1);
}

TEST_P(KvStoreConformance, InfoNamesTheStore) {
  auto before = store_->node().Info({});
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->max_object_bytes(), kLimit);
  EXPECT_EQ(before->store_uuid().size(), 32u);
  EXPECT_EQ(before->line_id().size(), 16u);
  EXPECT_FALSE(before->version().empty());
  Import(MakeModel({1}), "m");
  auto after = store_->node().Info({});
  EXPECT_GT(after->revision(), before->revision());
  EXPECT_EQ(after->objects(), 4u) << "tile, page, root, commit";
}

}  // namespace tilekv
