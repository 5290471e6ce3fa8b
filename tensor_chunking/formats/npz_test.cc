#include "tensor_chunking/formats/npz.h"

#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/test_file_system.h"
#include "tensor_chunking/formats/golden_files.h"
#include "tensor_chunking/formats/model_source.h"
#include "tensor_chunking/formats/test_folder.h"
#include "tensor_chunking/formats/test_zip.h"

namespace tilekv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Npy(DType dtype, const Shape& shape, std::string_view data) {
  return BuildNpyHeader(dtype, shape).value() + std::string(data);
}
// Bytes that deflate makes a little smaller.
std::string SomeBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random() % 40);
  return out;
}

struct Archive {
  explicit Archive(std::string content) : bytes(std::move(content)) {}
  std::string bytes;
  uint64_t bytes_read = 0;

  absl::Status Read(uint64_t offset, MutableBytes out) {
    if (offset + out.size() > bytes.size()) return MakeError(Reason::kInvalidFile, "too short");
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    bytes_read += out.size();
    return absl::OkStatus();
  }
};
auto Reader(Archive& archive) {
  return [&archive](uint64_t offset, MutableBytes out) { return archive.Read(offset, out); };
}
absl::StatusOr<NpzFile> Open(Archive& archive, std::optional<DType> dtype = std::nullopt) {
  return NpzFile::Open(Reader(archive), archive.bytes.size(), "a.npz",
                       [&](std::string_view) { return dtype; });
}
std::string ErrorOf(const std::string& bytes) {
  Archive archive(bytes);
  auto npz = Open(archive);
  absl::Status status = npz.status();
  if (npz.ok()) status = npz->Verify(Reader(archive));
  return GetReason(status) == Reason::kInvalidFile ? ErrorText(status) : "";
}

const std::string kArray = Npy(DType::kU8, {4}, "abcd");

TEST(Npz, MembersAreTensorsCalledWithoutNpy) {
  Archive archive(ZipFile({{.name = "w/b.npy", .content = kArray},
                           {.name = "a.npy", .content = Npy(DType::kF32, {0, 3}, "")},
                           {.name = ".npy", .content = kArray, .deflate = true}}));
  auto npz = Open(archive);
  ASSERT_TRUE(npz.ok()) << npz.status();
  std::vector<std::string> names;
  for (const auto& member : npz->members()) names.push_back(member.tensor);
  EXPECT_THAT(names, ElementsAre("", "a", "w/b"));
  EXPECT_THAT(npz->members()[1].header.shape, ElementsAre(0, 3));
  EXPECT_TRUE(npz->Verify(Reader(archive)).ok());
}

TEST(Npz, AnArchiveWithoutMembersIsAModelWithoutTensors) {
  Archive archive(ZipFile({}));
  auto npz = Open(archive);
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_THAT(npz->members(), IsEmpty());
}

TEST(Npz, SizesInZip64FieldsAreRead) {
  for (bool deflate : {false, true}) {
    Archive archive(
        ZipFile({{.name = "a.npy", .content = kArray, .deflate = deflate, .zip64 = true}}));
    auto npz = Open(archive);
    ASSERT_TRUE(npz.ok()) << npz.status();
    EXPECT_EQ(npz->members()[0].content->member().content_bytes, kArray.size());
    EXPECT_TRUE(npz->Verify(Reader(archive)).ok());
  }
}

TEST(Npz, ADirectoryThatIsFoundByAZip64EndIsRead) {
  std::string bytes = ZipFile({{.name = "a.npy", .content = kArray, .zip64 = true}});
  // The usual end becomes one that says nothing, behind a zip64 end and its locator.
  size_t end = bytes.rfind("PK\x05\x06");
  auto directory_bytes = LoadLe<uint32_t>(reinterpret_cast<const uint8_t*>(&bytes[end + 12]));
  auto directory_at = LoadLe<uint32_t>(reinterpret_cast<const uint8_t*>(&bytes[end + 16]));
  std::string large = "PK\x06\x06";
  AppendLe<uint64_t>(large, 44);
  AppendLe<uint32_t>(large, 0x2D002D);
  AppendLe<uint64_t>(large, 0);  // disks
  AppendLe<uint64_t>(large, 1);
  AppendLe<uint64_t>(large, 1);
  AppendLe<uint64_t>(large, directory_bytes);
  AppendLe<uint64_t>(large, directory_at);
  large += "PK\x06\x07";
  AppendLe<uint32_t>(large, 0);
  AppendLe<uint64_t>(large, end);
  AppendLe<uint32_t>(large, 1);
  std::string last = bytes.substr(end);
  for (size_t i = 8; i < 20; ++i) last[i] = '\xff';
  Archive archive(bytes.substr(0, end) + large + last);
  auto npz = Open(archive);
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_TRUE(npz->Verify(Reader(archive)).ok());
}

TEST(Npz, EveryRangeOfAMemberIsRightInAnyOrder) {
  std::string content = SomeBytes(300'000, 1);
  for (bool deflate : {false, true}) {
    Archive archive(ZipFile({{.name = "a.npy",
                              .content = Npy(DType::kU8, {content.size()}, content),
                              .deflate = deflate}}));
    auto npz = Open(archive);
    ASSERT_TRUE(npz.ok()) << npz.status();
    std::mt19937 random(2);
    for (int i = 0; i < 200; ++i) {
      size_t begin = random() % content.size();
      size_t length = random() % (content.size() - begin + 1);
      std::string out(length, '\0');
      const auto& member = npz->members()[0];
      absl::Status status = member.content->Read(Reader(archive), member.header.data_start + begin,
                                                 {reinterpret_cast<uint8_t*>(out.data()), length});
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(out == std::string_view(content).substr(begin, length)) << begin << " " << length;
    }
    EXPECT_TRUE(npz->Verify(Reader(archive)).ok());
  }
}

TEST(Npz, APassThroughADeflatedMemberDecodesItOnce) {
  std::string content = SomeBytes(12'000'000, 3);
  Archive archive(ZipFile(
      {{.name = "a.npy", .content = Npy(DType::kU8, {content.size()}, content), .deflate = true}}));
  auto npz = Open(archive);
  ASSERT_TRUE(npz.ok()) << npz.status();
  ZipMemberReader& member = *npz->members()[0].content;
  uint64_t stored = member.member().stored_bytes;
  uint64_t data_start = npz->members()[0].header.data_start;
  std::string out(600'000, '\0');
  MutableBytes to{reinterpret_cast<uint8_t*>(out.data()), out.size()};
  archive.bytes_read = 0;
  // Neighbours are swapped, as threads swap them.
  for (uint64_t piece : {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, 17, 16, 19, 18}) {
    absl::Status status = member.Read(Reader(archive), data_start + piece * out.size(), to);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(out == std::string_view(content).substr(piece * out.size(), out.size()));
  }
  // At most the way back to a checkpoint for every second piece, never to the start.
  EXPECT_LT(archive.bytes_read, 4 * stored);
}

TEST(Npz, SeveralThreadsMayReadADeflatedMember) {
  std::string content = SomeBytes(9'000'000, 4);
  Archive archive(ZipFile(
      {{.name = "a.npy", .content = Npy(DType::kU8, {content.size()}, content), .deflate = true}}));
  auto npz = Open(archive);
  ASSERT_TRUE(npz.ok()) << npz.status();
  const auto& member = npz->members()[0];
  auto read = [&](uint64_t offset, MutableBytes out) {
    std::copy_n(archive.bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::string out(500'000, '\0');
      for (size_t at = t * out.size(); at < content.size(); at += wrong.size() * out.size()) {
        absl::Status status =
            member.content->Read(read, member.header.data_start + at,
                                 {reinterpret_cast<uint8_t*>(out.data()), out.size()});
        bool right = status.ok() && out == std::string_view(content).substr(at, out.size());
        wrong[t] += right ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0));
}

TEST(Npz, AnEncryptedMemberIsRefused) {
  EXPECT_THAT(ErrorOf(ZipFile({{.name = "a.npy", .content = kArray, .flags = 1}})),
              AllOf(HasSubstr("'a.npy'"), HasSubstr("encrypted")));
}

TEST(Npz, AMemberTwiceIsRefused) {
  EXPECT_THAT(ErrorOf(ZipFile(
                  {{.name = "a.npy", .content = kArray}, {.name = "a.npy", .content = kArray}})),
              AllOf(HasSubstr("'a.npy'"), HasSubstr("twice")));
}

TEST(Npz, NamesThatArePathsToElsewhereAreRefused) {
  for (const char* name : {"../a.npy", "/a.npy", "x/../../a.npy", "a\\b.npy", "\xff.npy"}) {
    EXPECT_THAT(ErrorOf(ZipFile({{.name = name, .content = kArray}})),
                HasSubstr("no plain relative path"))
        << name;
  }
}

TEST(Npz, OtherCompressionMethodsAreRefusedWithTheWayToConvert) {
  EXPECT_THAT(ErrorOf(ZipFile({{.name = "a.npy", .content = kArray, .method_override = 14}})),
              AllOf(HasSubstr("method 14"), HasSubstr("savez")));
}

TEST(Npz, AMemberThatIsNoArrayIsRefused) {
  EXPECT_THAT(ErrorOf(ZipFile({{.name = "data.pkl", .content = "x"}})),
              HasSubstr("'data.pkl' is no .npy array"));
  EXPECT_THAT(ErrorOf(ZipFile({{.name = "a.npy", .content = "x"}})), HasSubstr("'a.npz/a.npy'"));
}

TEST(Npz, ObjectArraysAreRefusedWithTheWayToConvert) {
  std::string dict = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
  std::string npy("\x93NUMPY\x01\x00", 8);
  AppendLe<uint16_t>(npy, static_cast<uint16_t>(dict.size()));
  for (bool deflate : {false, true}) {
    EXPECT_THAT(
        ErrorOf(ZipFile({{.name = "a.npy", .content = npy + dict + "\x80", .deflate = deflate}})),
        AllOf(HasSubstr("a.npz/a.npy"), HasSubstr("never unpickled")));
  }
}

TEST(Npz, Bfloat16SavedAsRawBytesNeedsItsDtype) {
  Archive archive(ZipFile({{.name = "a.npy", .content = Npy(DType::kBF16, {2}, "abcd")}}));
  EXPECT_THAT(ErrorText(Open(archive).status()), HasSubstr("BF16 for bfloat16"));
  auto npz = Open(archive, DType::kBF16);
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_EQ(npz->members()[0].header.dtype, DType::kBF16);
}

TEST(Npz, AFlippedBitInAMemberIsNoticed) {
  for (bool deflate : {false, true}) {
    std::string content = Npy(DType::kU8, {5000}, SomeBytes(5000, 5));
    std::string bytes = ZipFile({{.name = "a.npy", .content = content, .deflate = deflate}});
    bytes[bytes.size() / 2] ^= 1;
    EXPECT_THAT(ErrorOf(bytes), HasSubstr("'a.npz/a.npy' is damaged")) << deflate;
  }
}

TEST(Npz, EveryTruncationIsRefused) {
  std::string bytes = ZipFile({{.name = "a.npy", .content = kArray},
                               {.name = "b.npy", .content = kArray, .deflate = true}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(ErrorOf(bytes.substr(0, size)), "") << size;
  }
  EXPECT_EQ(ErrorOf(bytes), "");
}

TEST(Npz, ChangedBytesAreAnErrorOrTheSameContent) {
  std::string bytes = ZipFile({{.name = "a.npy", .content = kArray},
                               {.name = "b.npy", .content = kArray, .deflate = true}});
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      Archive archive(changed);
      auto npz = Open(archive);
      if (!npz.ok() || !npz->Verify(Reader(archive)).ok()) continue;
      for (const auto& member : npz->members()) {
        std::string out(member.header.data_bytes, '\0');
        MutableBytes to{reinterpret_cast<uint8_t*>(out.data()), out.size()};
        ASSERT_TRUE(member.content->Read(Reader(archive), member.header.data_start, to).ok());
        EXPECT_EQ(out, "abcd") << "byte " << at << " bit " << bit;
      }
    }
  }
}

TEST(Npz, AContentSizeThatLiesIsRefusedBeforeAnythingIsAllocated) {
  std::string bytes = ZipFile({{.name = "a.npy", .content = kArray, .deflate = true}});
  size_t directory = bytes.find("PK\x01\x02");
  for (int i = 0; i < 4; ++i) bytes[directory + 24 + i] = '\x7f';  // the content's size
  EXPECT_NE(ErrorOf(bytes), "");
}

TEST(Npz, MembersThatOverlapAreRefused) {
  std::string bytes =
      ZipFile({{.name = "a.npy", .content = kArray}, {.name = "b.npy", .content = kArray}});
  // The second entry points at the first member, whose name is then changed to fit.
  size_t second = bytes.find("PK\x01\x02", bytes.find("PK\x01\x02") + 1);
  for (int i = 0; i < 4; ++i) bytes[second + 42 + i] = '\0';
  EXPECT_NE(ErrorOf(bytes), "");
}

TEST(ModelSource, OpensAnNpzFileAndFoldersOfThem) {
  TestFolder folder;
  folder.Write("a.npz", ZipFile({{.name = "x.npy", .content = kArray, .deflate = true},
                                 {.name = "y.npy", .content = kArray}}));
  folder.Write("z.npy", kArray);
  auto single = OpenModelSource(*FileSystem::Posix(), folder.Path("a.npz"));
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(single->tensor_count(), 2u);
  auto source = OpenModelSource(*FileSystem::Posix(), folder.Path());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(source->tensor_count(), 3u);
  EXPECT_EQ(source->tensor_bytes(), 12u);
  for (size_t i = 0; i < 3; ++i) {
    std::string out(4, '\0');
    ASSERT_TRUE(source->ReadTensor(i, 0, {reinterpret_cast<uint8_t*>(out.data()), 4}).ok());
    EXPECT_EQ(out, "abcd");
  }
  EXPECT_TRUE(source->VerifyUnchanged().ok());
  folder.Write("y.npy", kArray);
  EXPECT_THAT(ErrorText(OpenModelSource(*FileSystem::Posix(), folder.Path()).status()),
              HasSubstr("'y' in 'a.npz' and 'y.npy'"));
}

TEST(ModelSource, ADamagedMemberIsFoundBeforeTheCommit) {
  TestFolder folder;
  std::string bytes =
      ZipFile({{.name = "a.npy", .content = Npy(DType::kU8, {5000}, SomeBytes(5000, 6))}});
  bytes[bytes.size() / 2] ^= 1;
  folder.Write("a.npz", bytes);
  auto source = OpenModelSource(*FileSystem::Posix(), folder.Path("a.npz"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ErrorText(source->VerifyUnchanged()), HasSubstr("'a.npz/a.npy' is damaged"));
}

// A deflated array of 4 MiB in Fortran order, all of whose elements differ; read by panels of rows.
class FortranArchive : public testing::Test {
 protected:
  static constexpr uint64_t kRows = 1024;
  static constexpr uint64_t kColumns = 1024;
  static constexpr uint64_t kPanelRows = 64;

  void SetUp() override {
    std::string header = BuildNpyHeader(DType::kU32, Shape{kRows, kColumns}).value();
    header.replace(header.find("False"), 5, "True ");
    std::string data;
    for (uint32_t column = 0; column < kColumns; ++column) {
      for (uint32_t row = 0; row < kRows; ++row) AppendLe(data, row << 16 | column);
    }
    folder_.Write("a.npz", ZipFile({{.name = "w.npy", .content = header + data, .deflate = true}}));
    fs_.hook = [this](const std::string& operation, const std::string& path) {
      bool scratch = path.find(".tilekv-inflated-") != std::string::npos;
      if (scratch && operation == "open") ++copies_;
      return scratch && operation == fails_ ? MakeError(Reason::kInternal, "no") : absl::OkStatus();
    };
  }
  void ExpectPanelsAreRight(const ModelSource& source) {
    std::vector<uint8_t> out(kPanelRows * kColumns * 4);
    for (uint64_t first = 0; first < kRows; first += kPanelRows) {
      ASSERT_TRUE(source.ReadTensor(0, first * kColumns * 4, out).ok());
      for (uint64_t i = 0; i < out.size() / 4; ++i) {
        ASSERT_EQ(LoadLe<uint32_t>(&out[i * 4]), (first + i / kColumns) << 16 | i % kColumns);
      }
    }
  }

  TestFolder folder_;
  TestFileSystem fs_;
  std::string fails_;  // operation on the copy
  int copies_ = 0;
};

TEST_F(FortranArchive, IsDecodedOnceWhateverItsPanelsAre) {
  auto source = OpenModelSource(fs_, folder_.Path("a.npz"));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectPanelsAreRight(*source);
  EXPECT_EQ(copies_, 1);
  EXPECT_GT(source->times().inflate_nanos, 0);
  EXPECT_GT(source->times().turn_nanos, 0);
  EXPECT_TRUE(source->VerifyUnchanged().ok());
  ExpectPanelsAreRight(*source);  // the copy has gone with the last panel
  EXPECT_EQ(copies_, 2);
}

TEST_F(FortranArchive, IsReadWithoutACopyWhereThereIsNoRoomForOne) {
  for (const char* operation : {"open", "write"}) {
    fails_ = operation;
    copies_ = 0;
    auto source = OpenModelSource(fs_, folder_.Path("a.npz"));
    ASSERT_TRUE(source.ok()) << source.status();
    ExpectPanelsAreRight(*source);
    EXPECT_EQ(copies_, 1) << operation;
  }
  fs_.space = DiskSpace{.total_bytes = kGiB, .available_bytes = 4 * kMiB};
  copies_ = 0;
  ExpectPanelsAreRight(*OpenModelSource(fs_, folder_.Path("a.npz")));
  EXPECT_EQ(copies_, 0);
}

TEST(ModelSource, ADtypeIsGivenToTheTensorsWhoseNamesMatch) {
  TestFolder folder;
  folder.Write("a.npz", ZipFile({{.name = "h.0.npy", .content = Npy(DType::kBF16, {2}, "abcd")},
                                 {.name = "scale.npy", .content = kArray}}));
  auto source = OpenModelSource(*FileSystem::Posix(), folder.Path("a.npz"),
                                {.dtypes = {{"h.*", DType::kBF16}}});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->tensor(0).dtype, DType::kBF16);
  EXPECT_EQ(source->tensor(1).dtype, DType::kU8);
}

}  // namespace
}  // namespace tilekv
