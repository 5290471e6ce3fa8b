// How a directory becomes an open engine, and when it does not.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/local_engine_test_fixture.h"
#include "kvstore/object/read_only_engine.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

TEST_F(LocalEngineTest, RefusesAnotherLimitAndNamesBoth) {
  options_.max_object_bytes = kMiB;
  Open();
  engine_.reset();
  options_.max_object_bytes = 2 * kMiB;
  absl::Status status = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(status), Reason::kStoreMismatch);
  EXPECT_THAT(ErrorText(status), HasSubstr("1,048,576 bytes (1 MiB)"));
  EXPECT_THAT(ErrorText(status), HasSubstr("2,097,152 bytes (2 MiB)"));
  options_.max_object_bytes.reset();
  Open();
  EXPECT_EQ(engine_->max_object_bytes(), kMiB);
  options_.directory += "2";
  for (uint64_t bad : {kLeastMaxObjectBytes - 1, kGreatestMaxObjectBytes + 1}) {
    options_.max_object_bytes = bad;
    EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kInvalidArgument);
  }
  std::filesystem::remove_all(options_.directory);
}

TEST_F(LocalEngineTest, LetsOneWriterInAndNamesItToTheSecond) {
  options_.server_address = "127.0.0.1:7070";
  Open();
  absl::Status status = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(status), Reason::kStoreLocked);
  EXPECT_THAT(ErrorText(status), HasSubstr(fmt::format("process {}", getpid())));
  EXPECT_THAT(ErrorText(status), HasSubstr("127.0.0.1:7070"));
  EXPECT_TRUE(Put("still writing").ok());
}

TEST_F(LocalEngineTest, LeavesAForeignDirectoryAlone) {
  std::filesystem::create_directory(directory_.path());
  std::ofstream(directory_ / "thesis.tex") << "precious";
  absl::Status status = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(status), Reason::kStoreMismatch);
  EXPECT_THAT(ErrorText(status), HasSubstr("thesis.tex"));
  EXPECT_THAT(*fs_.List(directory_.path()), testing::ElementsAre("thesis.tex"));
}

TEST_F(LocalEngineTest, MakesAStoreOnlyWhenAsked) {
  options_.create_if_missing = false;
  EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(directory_.path()));
}

TEST_F(LocalEngineTest, RefusesALaterFormatAndADamagedSuperblock) {
  Open();
  engine_.reset();
  std::string path = directory_ / "SUPERBLOCK";
  std::string text = *ReadFile(fs_, path, kMiB);
  ASSERT_TRUE(WriteFileAtomically(fs_, path, "tilekv-store 2\nnew things\n").ok());
  absl::Status later = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(later), Reason::kStoreMismatch);
  EXPECT_THAT(ErrorText(later), HasSubstr("format 2"));
  text[text.find("max_object_bytes ") + 17] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(fs_, path, text).ok());
  EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kDataLoss);
}

TEST_F(LocalEngineTest, DoesNotTakeALostIndexForAnEmptyStore) {
  Open();
  ASSERT_TRUE(Put(TestContent(100'000, 1)).ok());
  engine_.reset();
  std::filesystem::remove_all(directory_ / "index");
  EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kDataLoss);
  EXPECT_EQ(CountPayloadFiles(directory_.path()), 1u);
}

TEST_F(LocalEngineTest, TakesACatalogForASignThatTheIndexIsLost) {
  Open();
  engine_.reset();
  std::filesystem::remove_all(directory_ / "index");
  std::filesystem::create_directory(directory_ / "catalog");
  std::ofstream(directory_ / "catalog/CURRENT") << "MANIFEST-000001";
  absl::Status status = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  EXPECT_THAT(ErrorText(status), HasSubstr("catalog"));
  // Rows that are newer than a backup of the index alone would be unknown, and their files garbage.
  EXPECT_THAT(ErrorText(status), HasSubstr("--rebuild-index"));
  EXPECT_THAT(ErrorText(status), testing::Not(HasSubstr("backup")));
}

TEST_F(LocalEngineTest, MakesTheEntriesOfItsDirectoriesDurableAlsoWhereTheyWereThere) {
  std::filesystem::create_directory(directory_.path());
  std::multiset<std::string> synced;
  fs_.hook = [&](const std::string& call, const std::string& path) {
    if (call == "sync_directory") synced.insert(path);
    return absl::OkStatus();
  };
  Open();
  std::string parent = std::filesystem::path(directory_.path()).parent_path();
  EXPECT_EQ(synced.count(parent), 1u);
  synced.clear();
  Open();
  EXPECT_EQ(synced.count(directory_.path()), 1u);
  engine_.reset();
  fs_.hook = nullptr;
}

TEST_F(LocalEngineTest, LetsTheLockDecideBetweenTwoWhoMakeAStoreAtOnce) {
  LocalEngineOptions other = options_;
  other.file_system = FileSystem::Posix();
  std::unique_ptr<LocalEngine> first;
  fs_.hook = [&](const std::string& call, const std::string& path) {
    if (call != "open" || path != directory_ / "SUPERBLOCK" || first != nullptr) {
      return absl::OkStatus();
    }
    // Right after this one found no store.
    first = *LocalEngine::Open(other);
    return MakeError(Reason::kNotFound, "not yet");
  };
  EXPECT_EQ(GetReason(LocalEngine::Open(options_).status()), Reason::kStoreLocked);
  fs_.hook = nullptr;
  first.reset();
  Open();
}

TEST_F(LocalEngineTest, BelongsToTheClusterThatItWasMadeForAndToNoOther) {
  options_.cluster_uuid = std::string(32, 'a');
  Open();
  ASSERT_TRUE(Put("works").ok());
  Open();
  engine_.reset();
  const auto refused = [&](const std::string& cluster_uuid) {
    LocalEngineOptions other = options_;
    other.cluster_uuid = cluster_uuid;
    absl::Status writer = LocalEngine::Open(other).status();
    EXPECT_EQ(GetReason(writer), Reason::kStoreMismatch);
    EXPECT_EQ(GetReason(ReadOnlyEngine::Open(other).status()), Reason::kStoreMismatch);
    return ErrorText(writer);
  };
  EXPECT_THAT(refused(std::string(32, 'b')), HasSubstr("another cluster"));
  EXPECT_THAT(refused(""), HasSubstr("--etcd"));
}

TEST_F(LocalEngineTest, AStoreByItselfIsNoClusterNodesDisk) {
  Open();
  engine_.reset();
  options_.cluster_uuid = std::string(32, 'a');
  absl::Status status = LocalEngine::Open(options_).status();
  EXPECT_EQ(GetReason(status), Reason::kStoreMismatch);
  EXPECT_THAT(ErrorText(status), HasSubstr("an empty directory"));
}

TEST_F(LocalEngineTest, GoesOnWithAStoreWhoseMakingWasInterrupted) {
  std::filesystem::create_directory(directory_.path());
  std::ofstream(directory_ / "LOCK") << "process 1";
  std::ofstream(directory_ / "SUPERBLOCK.tmp") << "til";
  Open();
  EXPECT_TRUE(Put("works").ok());
}

}  // namespace
}  // namespace tilekv
