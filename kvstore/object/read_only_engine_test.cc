#include "kvstore/object/read_only_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "kvstore/base/status.h"
#include "kvstore/object/engine_test_util.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/payload_directory.h"

namespace tilekv {
namespace {

// Every file below the directory with its size and time of change.
std::map<std::string, std::string> Snapshot(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    std::string what = "directory";
    if (entry.is_regular_file()) {
      what = std::to_string(entry.file_size()) + " " +
             std::to_string(entry.last_write_time().time_since_epoch().count());
    }
    files[entry.path()] = what;
  }
  return files;
}

class ReadOnlyEngineTest : public testing::Test {
 protected:
  std::unique_ptr<LocalEngine> OpenWriter() {
    return *LocalEngine::Open({.directory = directory_.path(), .create_if_missing = true});
  }
  std::unique_ptr<ReadOnlyEngine> OpenReader() {
    return *ReadOnlyEngine::Open({.directory = directory_.path()});
  }
  TestDirectory directory_;
};

TEST_F(ReadOnlyEngineTest, SeesWhatTheWriterStoresAndDeletesWhileBothAreOpen) {
  auto writer = OpenWriter();
  std::string early = TestContent(100'000, 1);
  ObjectId early_id = PutContent(*writer, early)->ref.id;
  auto reader = OpenReader();
  auto second = OpenReader();
  EXPECT_EQ(reader->store_uuid(), writer->store_uuid());
  EXPECT_EQ(*GetContent(*reader, early_id), early);
  // Stored after the opening: a miss refreshes.
  for (uint64_t size : {uint64_t{10}, uint64_t{300'000}}) {
    std::string late = TestContent(size, 2);
    ObjectId late_id = PutContent(*writer, late)->ref.id;
    EXPECT_EQ(*GetContent(*reader, late_id), late);
    EXPECT_TRUE(second->Stat(kDefaultDomain, late_id)->has_value());
  }
  // Deleted and stored again under another number: the old file's absence refreshes.
  ASSERT_TRUE(*writer->DeleteBelow(kDefaultDomain, early_id, {2}));
  ASSERT_TRUE(PutContent(*writer, early).ok());
  EXPECT_EQ(*GetContent(*reader, early_id), early);
  ASSERT_TRUE(*writer->DeleteBelow(kDefaultDomain, early_id, {2}));
  EXPECT_EQ(GetReason(reader->Open(kDefaultDomain, early_id).status()), Reason::kNotFound);
  EXPECT_EQ(reader->Usage()->objects, 2u);
  int rows = 0;
  ASSERT_TRUE(
      reader->Scan(kDefaultDomain, std::nullopt, [&](const ObjectRow&) { return ++rows > 0; })
          .ok());
  EXPECT_EQ(rows, 2);
}

TEST_F(ReadOnlyEngineTest, FollowsTheWriterThroughFlushesOfTheIndex) {
  auto writer = OpenWriter();
  auto reader = OpenReader();
  // 30 MB of small contents: several memtables.
  std::vector<std::pair<ObjectId, std::string>> stored;
  for (int i = 0; i < 500; ++i) {
    std::string content = TestContent(60'000, i);
    stored.emplace_back(PutContent(*writer, content)->ref.id, content);
    if (i % 100 == 0) {
      EXPECT_EQ(*GetContent(*reader, stored.back().first), content);
    }
  }
  for (const auto& [id, content] : stored) {
    auto got = GetContent(*reader, id);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(*got, content);
  }
}

TEST_F(ReadOnlyEngineTest, ChangesNothingOnTheDisk) {
  std::string content = TestContent(100'000, 1);
  ObjectId id;
  {
    auto writer = OpenWriter();
    id = PutContent(*writer, content)->ref.id;
  }
  auto before = Snapshot(directory_.path());
  {
    auto reader = OpenReader();
    EXPECT_EQ(*GetContent(*reader, id), content);
    EXPECT_FALSE(reader->Open(kDefaultDomain, IdOf(0, AsBytes("absent"))).ok());
    ObjectRef ref = RefOf(0, AsBytes(content));
    for (const absl::Status& status :
         {reader->NewWriter({.length = 1}).status(),
          reader->Link(kDefaultDomain, {&ref, 1}, {1}).status(),
          reader->DeleteBelow(kDefaultDomain, id, {9}).status(),
          reader->MarkSuspect(kDefaultDomain, id), reader->Verify(kDefaultDomain, id).status()}) {
      EXPECT_EQ(GetReason(status), Reason::kPermissionDenied);
    }
  }
  EXPECT_EQ(Snapshot(directory_.path()), before);
}

TEST_F(ReadOnlyEngineTest, ReportsDamageItCannotMark) {
  auto writer = OpenWriter();
  ObjectId id = PutContent(*writer, TestContent(100'000, 1))->ref.id;
  uint64_t number = (*writer->Stat(kDefaultDomain, id))->file_number;
  std::string path = directory_ / ("payload/0/" + std::to_string(number));
  auto reader = OpenReader();
  FlipBitInFile(path, 70'000);
  EXPECT_EQ(GetReason(GetContent(*reader, id).status()), Reason::kDataLoss);
  std::filesystem::remove(path);
  EXPECT_EQ(GetReason(reader->Open(kDefaultDomain, id).status()), Reason::kDataLoss);
}

TEST_F(ReadOnlyEngineTest, WhatItMetIsSuspectBeforeTheWriterLinksOrStoresAgain) {
  auto writer = OpenWriter();
  std::string content = TestContent(100'000, 1);
  ObjectRef ref = PutContent(*writer, content)->ref;
  auto path = [&] {
    return PayloadPath(directory_.path(), (*writer->Stat(0, ref.id))->file_number);
  };
  auto reader = OpenReader();
  auto linked = [&] { return (*writer->Link(kDefaultDomain, {&ref, 1}, {1}))[0].present; };
  for (bool gone : {false, true}) {
    SCOPED_TRACE(gone);
    ASSERT_TRUE(linked());
    if (gone) {
      std::filesystem::remove(path());
      EXPECT_EQ(GetReason(reader->Open(kDefaultDomain, ref.id).status()), Reason::kDataLoss);
    } else {
      FlipBitInFile(path(), 70'000);
      EXPECT_EQ(GetReason(GetContent(*reader, ref.id).status()), Reason::kDataLoss);
    }
    EXPECT_FALSE(linked());
    EXPECT_TRUE(PutContent(*writer, content)->stored);
    EXPECT_EQ(*GetContent(*reader, ref.id), content);
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "suspect")) << "reports are taken once";
  }
  // Without a writer they wait for the next one.
  FlipBitInFile(path(), 70'000);
  EXPECT_FALSE(GetContent(*reader, ref.id).ok());
  writer.reset();
  writer = OpenWriter();
  EXPECT_EQ((*writer->Stat(kDefaultDomain, ref.id))->state, RowState::kSuspect);
}

TEST_F(ReadOnlyEngineTest, TheFolderForReportsIsTheWriters) {
  OpenWriter();
  EXPECT_TRUE(std::filesystem::is_directory(directory_ / "suspect"));
}

TEST_F(ReadOnlyEngineTest, NamesThatAreNoReportsAreLeftAlone) {
  auto writer = OpenWriter();
  ObjectRef ref = PutContent(*writer, TestContent(100'000, 1))->ref;
  std::filesystem::create_directory(directory_ / "suspect");
  for (const std::string& name : {ref.id.Hex(), "x-" + ref.id.Hex(), "0-" + ref.id.Short(),
                                  "-" + ref.id.Hex(), std::string("0-")}) {
    std::ofstream(directory_ / ("suspect/" + name)) << "x";
  }
  EXPECT_TRUE((*writer->Link(kDefaultDomain, {&ref, 1}, {1}))[0].present);
}

TEST_F(ReadOnlyEngineTest, NeverMakesAStore) {
  EXPECT_EQ(
      GetReason(ReadOnlyEngine::Open({.directory = directory_.path(), .create_if_missing = true})
                    .status()),
      Reason::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(directory_.path()));
  std::filesystem::create_directory(directory_.path());
  std::ofstream(directory_ / "letter.txt") << "x";
  EXPECT_EQ(GetReason(ReadOnlyEngine::Open({.directory = directory_.path()}).status()),
            Reason::kStoreMismatch);
}

TEST_F(ReadOnlyEngineTest, RefusesAnotherLimit) {
  OpenWriter();
  EXPECT_EQ(
      GetReason(ReadOnlyEngine::Open({.directory = directory_.path(), .max_object_bytes = kMiB})
                    .status()),
      Reason::kStoreMismatch);
}

}  // namespace
}  // namespace tilekv
