// A node on a store in a directory whose files tests damage.
#pragma once

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/open_catalog.h"
#include "kvstore/node/store_repair.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/test_file_system.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {

// Of a content that has a file of its own.
inline constexpr uint64_t kInFile = 200'000;

class StoreDamageTest : public testing::Test {
 protected:
  StoreDamageTest() { Open(); }

  void Open() {
    Close();
    LocalEngineOptions options;
    options.directory = directory_.path();
    options.create_if_missing = true;
    options.clock = &clock_;
    options.file_system = &fs_;
    engine_ = *LocalEngine::Open(options);
    catalog_ = *OpenStoreCatalog(directory_.path(), false, *engine_);
    NodeOptions node;
    node.clock = &clock_;
    node_ = *LocalNode::Create(*engine_, *catalog_, node);
  }
  void Close() {
    node_.reset();
    catalog_.reset();
    engine_.reset();
  }
  // The value's object.
  ObjectRef PutValue(const std::string& key, const std::string& content) {
    v1::PutValueHeader header;
    header.set_key(key);
    header.set_request_id(std::string(16, 'r'));
    SpanSource source(AsBytes(content));
    auto outcome = node_->PutValue(header, &source, nullptr);
    EXPECT_TRUE(outcome.ok() && outcome->applied()) << outcome.status();
    return RefOf(0, AsBytes(content));
  }
  absl::Status Read(const ObjectRef& ref) {
    std::string out(ref.length, 0);
    ObjectRead read{
        .ref = ref, .offset = 0, .out = {reinterpret_cast<uint8_t*>(out.data()), out.size()}};
    return node_->ReadObjects({&read, 1});
  }
  bool Linked(const ObjectRef& ref) {
    auto begun = node_->BeginSession({});
    v1::LinkRequest link;
    link.set_session_rev(begun->session_rev());
    ObjectRefToWire(ref, link.add_refs());
    auto linked = node_->Link(link);
    EXPECT_TRUE(linked.ok()) << linked.status();
    return linked.ok() && linked->present(0);
  }
  RowState StateOf(const ObjectRef& ref) { return (*engine_->Stat(kDefaultDomain, ref.id))->state; }
  std::string FileOf(const ObjectRef& ref) {
    return PayloadPath(directory_.path(), (*engine_->Stat(kDefaultDomain, ref.id))->file_number);
  }
  v1::FsckResponse Fsck(bool repair = false, bool content = false) {
    v1::FsckRequest request;
    request.set_repair(repair);
    request.set_verify_content(content);
    auto response = node_->Fsck(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return *response;
  }

  IndexRebuildReport RebuildNow() {
    LocalEngineOptions options;
    options.directory = directory_.path();
    options.clock = &clock_;
    auto report = RebuildStoreIndex(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : IndexRebuildReport();
  }

  TestDirectory directory_;
  TestFileSystem fs_;
  ManualClock clock_;
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<LocalNode> node_;
};

}  // namespace tilekv
