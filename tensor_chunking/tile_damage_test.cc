// Tiles of a store in a directory that are missing, flipped, truncated, or another version's: each
// is an error that names tensor and tile, and never content.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/formats/test_folder.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uint64_t kTileBytes = kMiB;
constexpr uint64_t kTiles = 3;
constexpr char kWhere[] = "tensor 'layer.w', tile 1 of 3";
const ModelName kModel{.ns = "t", .name = "m", .version = "1"};

std::string TileContent(int version, uint64_t tile) {
  std::string content(kTileBytes, '\0');
  uint64_t state = static_cast<uint64_t>(version) * 100 + tile + 1;
  for (char& c : content) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return content;
}

class TileDamage : public testing::Test {
 protected:
  // Two versions of a model of one tensor, of three tiles each, every tile in a file of its own.
  TileDamage() {
    auto store = OpenEmbeddedStore(folder_.Path("store"));
    TILEKV_CHECK(store.ok());
    for (int version : {1, 2}) {
      std::string content;
      for (uint64_t tile = 0; tile < kTiles; ++tile) content += TileContent(version, tile);
      WriteInput input;
      TensorSource source;
      source.name = "layer.w";
      source.dtype = DType::kU8;
      source.shape = {content.size()};
      source.content = AsBytes(content);
      input.tensors.push_back(std::move(source));
      auto report =
          WriteModel(**store, {.ns = "t", .name = "m"}, input, {.tile_bytes = kTileBytes});
      TILEKV_CHECK(report.ok() && report->tiles == kTiles);
    }
  }

  // The payload file that holds a tile.
  std::string FileOf(int version, uint64_t tile) const {
    const std::string content = TileContent(version, tile);
    for (const auto& entry : fs::recursive_directory_iterator(folder_.Path("store/payload"))) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::string held((std::istreambuf_iterator<char>(file)), {});
      if (held.find(content.substr(0, 1'000)) != held.npos) return entry.path();
    }
    ADD_FAILURE() << "no file holds tile " << tile << " of version " << version;
    return {};
  }

  // Every way to read it: whole, a slice, a stream. The other tiles are read as they are.
  void ExpectAllReadsNameTheTile() {
    auto store = OpenEmbeddedStore(folder_.Path("store"));
    ASSERT_TRUE(store.ok()) << store.status();
    auto reader = ModelReader::Open(**store, kModel);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::vector<uint8_t> out(kTiles * kTileBytes);
    ExpectNamed((*reader)->ReadTensor("layer.w", out), "whole");

    auto slice = [&](const std::string& text) {
      auto resolved = *ResolveSlice(text, (*(*reader)->Find("layer.w"))->shape);
      return (*reader)->ReadSlice("layer.w", resolved,
                                  MutableBytes(out).first(resolved.result_shape[0]));
    };
    ExpectNamed(slice("1572864:1572964"), "slice");  // where the bit is flipped
    ASSERT_TRUE(slice("0:100").ok());
    EXPECT_TRUE(AsText(Bytes(out).first(100)) == TileContent(1, 0).substr(0, 100));

    // It reads ahead, so what is before the damage may come or not; what comes is right.
    auto stream = *(*reader)->StreamTiles();
    auto tile = stream->Next();
    if (tile.ok()) {
      ASSERT_TRUE(tile->has_value());
      EXPECT_TRUE(AsText((*tile)->content.span()) == TileContent(1, 0));
      tile = stream->Next();
    }
    ExpectNamed(tile.status(), "stream");

    auto report = VerifyModel(**reader);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->damages.size(), 1u);
    EXPECT_EQ(report->damages[0].where, kWhere);
  }

  // A damaged copy is kept apart once it was found: it is not there any more then.
  static void ExpectNamed(const absl::Status& status, const std::string& way) {
    bool known = way != "whole" && GetReason(status) == Reason::kNotFound;
    EXPECT_TRUE(GetReason(status) == Reason::kDataLoss || known) << way << ": " << status;
    EXPECT_THAT(ErrorText(status), HasSubstr(kWhere)) << way;
  }

  TestFolder folder_;
};

TEST_F(TileDamage, AMissingTileIsNamedWithItsTensor) {
  fs::remove(FileOf(1, 1));
  ExpectAllReadsNameTheTile();
}

TEST_F(TileDamage, AFlippedBitIsNamedWithTensorAndTile) {
  std::fstream file(FileOf(1, 1), std::ios::in | std::ios::out | std::ios::binary);
  std::string held((std::istreambuf_iterator<char>(file)), {});
  const auto at =
      static_cast<std::streamoff>(held.find(TileContent(1, 1).substr(0, 1'000)) + kTileBytes / 2);
  file.clear();
  file.seekp(at);
  file.put(static_cast<char>(held[static_cast<size_t>(at)] ^ 1));
  ASSERT_TRUE(file.flush());
  ExpectAllReadsNameTheTile();
}

TEST_F(TileDamage, ATruncatedTileIsNamedWithItsTensor) {
  std::string file = FileOf(1, 1);
  fs::resize_file(file, fs::file_size(file) / 2);
  ExpectAllReadsNameTheTile();
}

TEST_F(TileDamage, ATileOfAnotherVersionIsNamedWithItsTensor) {
  fs::copy_file(FileOf(2, 1), FileOf(1, 1), fs::copy_options::overwrite_existing);
  ExpectAllReadsNameTheTile();
}

}  // namespace
}  // namespace tilekv
