// What tests of a node's parts stand on: a node in memory whose time and randomness the test
// decides.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

constexpr int64_t kSecondMicros = 1'000'000;

// Objects in memory that are as full as the test says.
class TestObjects : public MemoryObjectStore {
 public:
  using MemoryObjectStore::MemoryObjectStore;
  absl::Status CheckWritable(uint64_t /*bytes*/) override { return writable; }
  void MakeRoomForDelete() override { ++rooms_made; }
  absl::Status Scan(Domain domain, const std::optional<ObjectId>& after,
                    const std::function<bool(const ObjectRow&)>& visit) override {
    return MemoryObjectStore::Scan(domain, after, [&](const ObjectRow& row) {
      ++rows_scanned;
      if (scanned != nullptr) scanned(rows_scanned);
      return visit(row);
    });
  }

  absl::Status writable;
  int rooms_made = 0;
  std::function<void(int rows)> scanned;  // sees every row
  int rows_scanned = 0;
};

class NodeTest : public testing::Test {
 protected:
  explicit NodeTest(uint64_t max_object_bytes = kDefaultMaxObjectBytes)
      : objects_(max_object_bytes, &clock_, &random_), catalog_(&clock_, &random_) {
    NodeOptions options;
    options.clock = &clock_;
    options.random = &random_;
    auto node = LocalNode::Create(objects_, catalog_, options);
    EXPECT_TRUE(node.ok()) << node.status();
    node_ = *std::move(node);
  }
  ~NodeTest() override { SetCrashHandler(nullptr); }

  // Runs `hook` once, when this step is reached.
  static void Once(const std::string& step, std::function<void()> hook) {
    auto done = std::make_shared<bool>(false);
    SetCrashHandler([step, hook = std::move(hook), done](std::string_view reached) {
      if (reached != step || *done) return;
      *done = true;
      hook();
    });
  }

  v1::BeginSessionResponse Begin() {
    auto session = node_->BeginSession({});
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }
  ObjectRef PutObject(uint64_t session_rev, uint8_t level, const std::string& content) {
    ObjectPut put;
    put.session_rev = {session_rev};
    put.ref = RefOf(level, AsBytes(content));
    put.content = AsBytes(content);
    auto stored = node_->PutObject(put);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return put.ref;
  }
  // A root over one tile, in this session.
  ObjectRef PutRoot(uint64_t session_rev, const std::string& tile) {
    Tree tree;
    tree.level = 3;
    tree.type = TreeType::kManifestRoot;
    tree.children.push_back(PutObject(session_rev, 0, tile));
    return PutObject(session_rev, 3, EncodeTree(tree));
  }
  v1::CommitRequest CommitOf(const v1::BeginSessionResponse& session, const ObjectRef& root,
                             const std::string& name) {
    v1::CommitRequest request;
    request.set_token(session.token());
    request.set_session_rev(session.session_rev());
    request.set_commit_id(random_.Bytes(16));
    request.set_ns("default");
    request.set_name(name);
    ObjectRefToWire(root, request.mutable_root());
    return request;
  }
  ObjectRef Import(const std::string& name, const std::string& tile) {
    v1::BeginSessionResponse session = Begin();
    ObjectRef root = PutRoot(session.session_rev(), tile);
    auto response = node_->Commit(CommitOf(session, root, name));
    EXPECT_TRUE(response.ok() && response->applied()) << response.status();
    v1::EndSessionRequest end;
    end.set_token(session.token());
    EXPECT_TRUE(node_->EndSession(end).ok());
    return root;
  }
  bool IsThere(const ObjectRef& ref) {
    auto row = objects_.Stat(kDefaultDomain, ref.id);
    EXPECT_TRUE(row.ok());
    return row.ok() && row->has_value();
  }
  v1::PutValueHeader HeaderOf(const std::string& key) {
    v1::PutValueHeader header;
    header.set_key(key);
    header.set_request_id(random_.Bytes(16));
    return header;
  }
  absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header,
                                               const std::string& content) {
    SpanSource source(AsBytes(content));
    return node_->PutValue(header, &source, nullptr);
  }
  std::string ValueOf(const std::string& key) {
    v1::GetValueRequest request;
    request.set_key(key);
    request.set_with_content(true);
    auto response = node_->GetValue(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() && response->found() ? response->content() : "-";
  }

  ManualClock clock_;
  SeededRandom random_{11};
  TestObjects objects_;
  MemoryCatalog catalog_;
  std::unique_ptr<LocalNode> node_;
};

}  // namespace tilekv
