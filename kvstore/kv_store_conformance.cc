#include "kvstore/kv_store_conformance.h"

#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KvStoreConformance);

std::string KvStoreConformance::RandomText(uint64_t seed, size_t bytes) {
  return SeededRandom(seed).Bytes(bytes);
}

TestModel KvStoreConformance::MakeModel(const std::vector<uint64_t>& seeds, size_t tile_bytes) {
  TestModel model;
  auto add = [&model](uint8_t level, std::string content) {
    model.objects.push_back(RefOf(level, AsBytes(content)));
    model.content.push_back(std::move(content));
    return model.objects.back();
  };
  Tree page;
  page.level = 2;
  page.type = TreeType::kManifestPage;
  page.opaque = "page";
  for (uint64_t seed : seeds) page.children.push_back(add(0, RandomText(seed, tile_bytes)));
  Tree root;
  root.level = 3;
  root.type = TreeType::kManifestRoot;
  root.opaque = "root";
  root.children.push_back(add(2, EncodeTree(page)));
  model.root = add(3, EncodeTree(root));
  return model;
}

std::unique_ptr<UploadSession> KvStoreConformance::Begin() {
  auto session = store_->BeginSession("test");
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? *std::move(session) : nullptr;
}

size_t KvStoreConformance::Upload(UploadSession& session, const TestModel& model) {
  auto present = session.Link(model.objects);
  EXPECT_TRUE(present.ok()) << present.status();
  size_t sent = 0;
  for (size_t i = 0; present.ok() && i < model.objects.size(); ++i) {
    if ((*present)[i]) continue;
    auto put = session.Put(model.objects[i], AsBytes(model.content[i]));
    EXPECT_TRUE(put.ok()) << put.status();
    ++sent;
  }
  return sent;
}

v1::CommitRequest KvStoreConformance::CommitOf(const TestModel& model, const std::string& name) {
  v1::CommitRequest request;
  request.set_ns("default");
  request.set_name(name);
  ObjectRefToWire(model.root, request.mutable_root());
  return request;
}

v1::VersionInfo KvStoreConformance::Import(const TestModel& model, const std::string& name,
                                           const std::vector<std::string>& tags) {
  std::unique_ptr<UploadSession> session = Begin();
  Upload(*session, model);
  v1::CommitRequest request = CommitOf(model, name);
  for (const std::string& tag : tags) request.add_tags(tag);
  auto response = session->Commit(request);
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response.ok() && response->applied());
  return response.ok() ? response->version() : v1::VersionInfo();
}

v1::ResolveVersionResponse KvStoreConformance::Resolve(const std::string& name,
                                                       const std::string& version,
                                                       bool with_deleted) {
  v1::ResolveVersionRequest request;
  request.set_ns("default");
  request.set_name(name);
  request.set_version(version);
  request.set_with_root(true);
  request.set_with_deleted(with_deleted);
  auto response = store_->node().ResolveVersion(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? *response : v1::ResolveVersionResponse();
}

v1::CollectResponse KvStoreConformance::Collect() {
  auto response = store_->node().Collect({});
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? *response : v1::CollectResponse();
}

v1::DeleteVersionsResponse KvStoreConformance::DeleteVersions(const std::string& name,
                                                              std::vector<uint64_t> numbers,
                                                              bool now) {
  v1::DeleteVersionsRequest request;
  request.set_ns("default");
  request.set_name(name);
  for (uint64_t number : numbers) request.add_numbers(number);
  request.set_now(now);
  auto response = store_->node().DeleteVersions(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? *response : v1::DeleteVersionsResponse();
}

bool KvStoreConformance::IsThere(const ObjectRef& ref) {
  v1::LocateRequest request;
  ObjectRefToWire(ref, request.add_refs());
  auto response = store_->node().Locate(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() && response->objects(0).copies_size() > 0;
}

std::string KvStoreConformance::ContentOf(const std::string& key) {
  auto value = store_->Get(key);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() && value->has_value() ? (*value)->content : "-";
}

}  // namespace tilekv
