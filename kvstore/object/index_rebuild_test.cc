// What a rebuild takes over of indexes that are damaged in every place there is.
#include "kvstore/object/index_rebuild.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/object/index_test_util.h"
#include "kvstore/object/local_engine_test_fixture.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/tree.h"

namespace tilekv {
namespace {

constexpr size_t kContents = 36;

class IndexRebuildTest : public LocalEngineTest {
 protected:
  void SetUp() override {
    Open();
    const std::vector<Encoding> encodings = {{},
                                             {EncodingKind::kZstd, 0},
                                             {EncodingKind::kPlanes, 1},
                                             {EncodingKind::kPlanes, 2},
                                             {EncodingKind::kPlanes, 4},
                                             {EncodingKind::kPlanes, 8}};
    size_t used = 0;
    for (size_t i = 0; i < kContents; ++i) {
      // Some end within an element; more than one in a block, and one over several.
      std::string content = TestContent(i % 7 == 0 ? 9'001 : 1'803, i);
      const Encoding& encoding = encodings[i % encodings.size()];
      auto put = PutContent(*engine_, content, {.encoding = encoding});
      ASSERT_TRUE(put.ok()) << put.status();
      used += RowOf(put->ref.id).encoding == encoding;
      ids_.push_back(put->ref.id);
    }
    EXPECT_GT(used, kContents / 2) << "the others gained nothing by it";
    PutTree();
    ids_.push_back(Put("")->ref.id);
    ids_.push_back(Put("a few bytes")->ref.id);
  }

  void PutTree() {
    std::vector<ObjectRef> children = {RefOf(0, AsBytes("a few bytes"))};
    auto put = PutContent(*engine_, EncodeTree({.level = 3, .children = children, .opaque = {}}),
                          {.level = 3});
    ASSERT_TRUE(put.ok()) << put.status();
    ids_.push_back(put->ref.id);
  }

  // Closes the store, and keeps it as it is for Restore.
  void Keep(bool in_tables) {
    engine_.reset();
    if (in_tables) MoveIntoTables(Index());
    std::filesystem::copy(directory_.path(), kept_.path(),
                          std::filesystem::copy_options::recursive);
  }
  void Restore() {
    engine_.reset();
    std::filesystem::remove_all(directory_.path());
    std::filesystem::copy(kept_.path(), directory_.path(),
                          std::filesystem::copy_options::recursive);
  }

  std::string Index() { return directory_ / "index"; }

  // Makes the file where there is none.
  static void Fill(const std::string& path, uint64_t offset, char byte, uint64_t bytes) {
    std::ofstream made(path, std::ios::app);
    made.close();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << std::string(bytes, byte);
    ASSERT_TRUE(file.good()) << path;
  }
  static void Overwrite(const std::string& path, uint64_t offset, uint64_t bytes) {
    Fill(path, offset, '\xff', bytes);
  }
  static std::string ReadAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // How many contents are gone after a rebuild.
  size_t LostByRebuild() {
    auto report = RebuildIndex(options_, {50});
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return ids_.size();
    report_ = *report;
    Open();
    size_t lost = 0;
    for (const ObjectId& id : ids_) lost += !GetContent(*engine_, id).ok();
    EXPECT_EQ(report->small_contents, ids_.size() - lost);
    return lost;
  }

  TestDirectory kept_;
  std::vector<ObjectId> ids_;
  IndexRebuildReport report_;
};

TEST_F(IndexRebuildTest, TakesEverythingFromALogButTheRecordThatIsDamaged) {
  Keep(/*in_tables=*/false);
  std::string log = FilesOfIndex(Index(), ".log").at(0);
  uint64_t size = std::filesystem::file_size(log);
  for (uint64_t at : {uint64_t{2}, size / 4, size / 3 + 4, size / 2, size * 3 / 4}) {
    SCOPED_TRACE(at);
    Restore();
    FlipBitInFile(log, at);
    EXPECT_LE(LostByRebuild(), 1u);
    EXPECT_NE(report_.old_index_error, "");
  }
  // The last record is of the counts of a clean end.
  Restore();
  FlipBitInFile(log, size - 3);
  EXPECT_EQ(LostByRebuild(), 0u);
}

TEST_F(IndexRebuildTest, NeedsNoRowsForTheContents) {
  Keep(/*in_tables=*/true);
  std::string rows = FilesOfIndex(Index(), ".sst").at(1);
  uint64_t size = std::filesystem::file_size(rows);
  for (uint64_t at : {uint64_t{20}, size / 2, size - 20}) {
    SCOPED_TRACE(at);
    Restore();
    FlipBitInFile(rows, at);
    EXPECT_EQ(LostByRebuild(), 0u);
  }
  Restore();
  std::filesystem::remove(rows);
  EXPECT_EQ(LostByRebuild(), 0u);
}

TEST_F(IndexRebuildTest, TakesEverythingFromATableButTheContentThatIsDamaged) {
  Keep(/*in_tables=*/true);
  std::string table = FilesOfIndex(Index(), ".sst").at(0);
  uint64_t size = std::filesystem::file_size(table);
  for (uint64_t at :
       {uint64_t{1}, uint64_t{9}, size / 5, size / 3, size / 2, size * 4 / 5, size - 3}) {
    SCOPED_TRACE(at);
    Restore();
    FlipBitInFile(table, at);
    EXPECT_LE(LostByRebuild(), 1u);
    EXPECT_NE(report_.old_index_error, "");
  }
}

TEST_F(IndexRebuildTest, GoesOnBehindWhatIsNoBlockAnyMore) {
  Keep(/*in_tables=*/true);
  std::string table = FilesOfIndex(Index(), ".sst").at(0);
  uint64_t size = std::filesystem::file_size(table);
  Restore();
  for (uint64_t at : {uint64_t{0}, size / 3, size / 2, size * 2 / 3}) Overwrite(table, at, 2'000);
  // None is longer than 9,001 bytes, most are shorter than 1,804.
  EXPECT_LE(LostByRebuild(), 12u);
}

TEST_F(IndexRebuildTest, NeedsNeitherManifestNorCurrent) {
  Keep(/*in_tables=*/true);
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "index")) {
    std::string name = entry.path().filename().string();
    if (name == "CURRENT" || name.rfind("MANIFEST", 0) == 0) {
      std::filesystem::remove(entry.path());
    }
  }
  EXPECT_EQ(LostByRebuild(), 0u);
}

TEST_F(IndexRebuildTest, TellsOfReadsThatFailAndTakesTheContentsAllTheSame) {
  Keep(/*in_tables=*/true);
  options_.rocksdb_env = &env_;
  bool failed = true;
  for (int reads = 0; failed; reads += 5) {
    SCOPED_TRACE(reads);
    Restore();
    env_.reads_left = reads;
    auto report = RebuildIndex(options_, {50});
    failed = env_.reads_left.exchange(std::numeric_limits<int>::max()) < 0;
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->small_contents, ids_.size());
    EXPECT_EQ(report->old_index_error.empty(), !failed) << report->old_index_error;
  }
}

TEST_F(IndexRebuildTest, SyncsOnceHoweverMuchItTakesOver) {
  Keep(/*in_tables=*/false);
  options_.rocksdb_env = &env_;
  ASSERT_TRUE(RebuildIndex(options_, {50}).ok());
  EXPECT_EQ(env_.log_syncs, 1);
}

TEST_F(IndexRebuildTest, UsesNoNumberThatTheOldIndexTellsOf) {
  std::string large = TestContent(100'000, 1);
  ASSERT_TRUE(Put(large).ok());
  ObjectId gone[] = {IdOf(0, AsBytes(large))};
  uint64_t number = RowOf(gone[0]).file_number;
  ASSERT_TRUE(engine_->DeleteAllBelow(kDefaultDomain, gone, {10}).ok());
  engine_.reset();
  for (bool in_tables : {false, true}) {
    SCOPED_TRACE(in_tables);
    if (in_tables) MoveIntoTables(Index());
    ASSERT_TRUE(RebuildIndex(options_, {50}).ok());
    Open();
    ASSERT_TRUE(Put(large).ok());
    EXPECT_GT(RowOf(gone[0]).file_number, number);
    number = RowOf(gone[0]).file_number;
    ASSERT_TRUE(engine_->DeleteAllBelow(kDefaultDomain, gone, {100}).ok());
    engine_.reset();
  }
}

// The header is written last; but a disk may have lost what it had.
TEST_F(IndexRebuildTest, RemovesNoFileWithoutAHeaderInWhichSomethingIs) {
  auto put = Put(TestContent(100'000, 1));
  ASSERT_TRUE(put.ok());
  const std::string lost_header = PayloadOf(put->ref.id);
  const std::string folder = std::filesystem::path(lost_header).parent_path();
  engine_.reset();
  Fill(lost_header, 0, '\0', kPayloadHeaderBytes);
  const std::string whole = ReadAll(lost_header);
  std::ofstream(folder + "/1001") << std::string(2'000, '\0') + "of a header";
  Fill(folder + "/1002", 9 * kMiB, 'c', 1);
  std::ofstream empty(folder + "/1003");
  empty.close();
  Fill(folder + "/1004", 9 * kMiB, '\0', 1);
  auto report = RebuildIndex(options_, {50});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->set_aside, 3u);
  EXPECT_EQ(report->unfinished, 2u);
  Open();
  EXPECT_EQ(*engine_->RemoveUnnamedFiles(), 2u);
  EXPECT_EQ(
      ReadAll(directory_ / "damaged/" + std::filesystem::path(lost_header).filename().string()),
      whole);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "damaged/1001"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "damaged/1002"));
}

}  // namespace
}  // namespace tilekv
