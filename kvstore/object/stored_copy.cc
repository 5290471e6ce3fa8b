#include "kvstore/object/stored_copy.h"

#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/payload_file.h"

namespace tilekv {
namespace {

class Copy : public ObjectReader {
 public:
  Copy(const ObjectRow& row, DamageReport report) : row_(row), report_(std::move(report)) {}
  const ObjectRow& row() const override { return row_; }
  std::span<const LeafHash> leaves() const override { return leaves_; }
  std::span<const uint32_t> block_table() const override { return block_table_; }
  void ReportDamage() override {
    if (report_ != nullptr) report_(row_);
  }

 protected:
  absl::Status Damaged(std::string_view what) const { return ObjectDamaged(row_.ref, what); }
  absl::Status Unreadable(const absl::Status& status) const {
    return ObjectUnreadable(row_.ref, ErrorText(status));
  }
  absl::Status CheckInStored(uint64_t offset, uint64_t bytes) const {
    if (offset <= row_.stored_length && bytes <= row_.stored_length - offset) {
      return absl::OkStatus();
    }
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("object {}: a read past its stored bytes", row_.ref.id.Short()));
  }
  bool coded() const { return row_.encoding.kind != EncodingKind::kNone; }
  absl::Status CheckTable() const {
    if (!coded()) {
      return row_.stored_length == row_.ref.length ? absl::OkStatus()
                                                   : Damaged("its stored length is wrong");
    }
    absl::Status status = CheckBlockTable(row_.ref.length, row_.stored_length, block_table_);
    return status.ok() ? status : Damaged(ErrorText(status));
  }

  const ObjectRow row_;
  LeafTable leaves_;
  std::vector<uint32_t> block_table_;

 private:
  const DamageReport report_;
};

class PayloadCopy : public Copy {
 public:
  PayloadCopy(const ObjectRow& row, DamageReport report, std::unique_ptr<File> file)
      : Copy(row, std::move(report)), file_(std::move(file)) {}

  // Checks the header against the row, and reads the tables.
  absl::Status Load(const PayloadHeader& expected) {
    uint8_t head[kPayloadHeaderBytes];
    TILEKV_RETURN_IF_ERROR(ReadAt(0, head));
    auto header = DecodePayloadHeader(head);
    if (!header.ok()) return Damaged(ErrorText(header.status()));
    if (*header != expected) return Damaged("its payload file belongs to another object");
    PayloadLayout layout = LayoutOf(row_.ref.length, row_.stored_length, row_.encoding);
    absl::StatusOr<uint64_t> size = file_->Size();
    if (!size.ok()) return Unreadable(size.status());
    if (*size != layout.file_length) {
      return Damaged(
          fmt::format("its payload file has {} bytes, not {}", *size, layout.file_length));
    }
    leaves_.resize(LeafCount(row_.ref.length));
    block_table_.resize(coded() ? BlockCount(row_.ref.length) : 0);
    std::vector<uint8_t> tables(layout.tables_end - layout.leaf_table_offset);
    TILEKV_RETURN_IF_ERROR(ReadAt(layout.leaf_table_offset, tables));
    uint64_t leaf_bytes = leaves_.size() * sizeof(LeafHash);
    std::memcpy(leaves_.data(), tables.data(), leaf_bytes);
    if (coded()) {
      std::memcpy(block_table_.data(), tables.data() + leaf_bytes, tables.size() - leaf_bytes);
    }
    return CheckTable();
  }

  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    return ReadStoredPieces(stored_offset, {&out, 1});
  }
  absl::Status ReadStoredPieces(uint64_t stored_offset,
                                std::span<const MutableBytes> pieces) override {
    uint64_t bytes = 0;
    for (MutableBytes piece : pieces) bytes += piece.size();
    TILEKV_RETURN_IF_ERROR(CheckInStored(stored_offset, bytes));
    absl::Status status =
        AllOf(bytes, pieces.size() == 1 ? file_->Read(PayloadOffset(stored_offset), pieces[0])
                                        : file_->ReadPieces(PayloadOffset(stored_offset), pieces));
    // Not left to who reads: it may be far away.
    if (!status.ok()) ReportDamage();
    return status;
  }

  absl::StatusOr<SharedBytes> MapStored(uint64_t stored_offset, uint64_t length) override {
    TILEKV_RETURN_IF_ERROR(CheckInStored(stored_offset, length));
    return file_->Map(PayloadOffset(stored_offset), length);
  }

 private:
  static uint64_t PayloadOffset(uint64_t stored_offset) {
    return kPayloadHeaderBytes + stored_offset;
  }
  absl::Status ReadAt(uint64_t offset, MutableBytes out) {
    return AllOf(out.size(), file_->Read(offset, out));
  }
  absl::Status AllOf(uint64_t bytes, const absl::StatusOr<uint64_t>& read) const {
    if (!read.ok()) return Unreadable(read.status());
    return *read == bytes ? absl::OkStatus() : Damaged("its payload file is cut short");
  }

  const std::unique_ptr<File> file_;
};

class SmallCopy : public Copy {
 public:
  SmallCopy(std::string value, const ObjectRow& row, DamageReport report)
      : Copy(row, std::move(report)), value_(std::move(value)) {}

  absl::Status Load() {
    if (coded()) {
      block_table_.resize(BlockCount(row_.ref.length));
      table_bytes_ = block_table_.size() * sizeof(uint32_t);
    }
    if (row_.ref.length >= kInlineContentBytes ||
        value_.size() != table_bytes_ + row_.stored_length) {
      return Damaged(fmt::format("its small content has {} bytes", value_.size()));
    }
    if (table_bytes_ > 0) std::memcpy(block_table_.data(), value_.data(), table_bytes_);
    TILEKV_RETURN_IF_ERROR(CheckTable());
    std::string decoded;
    Bytes content = Stored();
    if (coded() && !content.empty()) {
      TILEKV_ASSIGN_OR_RETURN(auto codec, NewBlockCodec(row_.encoding));
      decoded.resize(row_.ref.length);
      MutableBytes out{reinterpret_cast<uint8_t*>(decoded.data()), decoded.size()};
      absl::Status status = codec->Decode(content, block_table_[0], out);
      if (!status.ok()) return Damaged(ErrorText(status));
      content = out;
    }
    HashLeaves(content, leaves_);
    return absl::OkStatus();
  }

  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    TILEKV_RETURN_IF_ERROR(CheckInStored(stored_offset, out.size()));
    if (!out.empty()) std::memcpy(out.data(), Stored().data() + stored_offset, out.size());
    return absl::OkStatus();
  }

 private:
  Bytes Stored() const { return AsBytes(value_).subspan(table_bytes_); }

  const std::string value_;
  uint64_t table_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPayload(FileSystem* fs, const std::string& path,
                                                          const std::string& store_uuid,
                                                          Domain domain, const ObjectRow& row,
                                                          DamageReport report) {
  auto file = fs->Open(path, FileSystem::OpenMode::kRead);
  if (GetReason(file.status()) == Reason::kInternal) {
    return ObjectUnreadable(row.ref, ErrorText(file.status()));
  }
  TILEKV_RETURN_IF_ERROR(file.status());
  return OpenPayload(*std::move(file), store_uuid, domain, row, std::move(report));
}

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPayload(std::unique_ptr<File> file,
                                                          const std::string& store_uuid,
                                                          Domain domain, const ObjectRow& row,
                                                          DamageReport report) {
  auto copy = std::make_shared<PayloadCopy>(row, std::move(report), std::move(file));
  TILEKV_RETURN_IF_ERROR(copy->Load({.domain = domain,
                                     .store_uuid = store_uuid,
                                     .number = row.file_number,
                                     .ref = row.ref,
                                     .encoding = row.encoding,
                                     .stored_length = row.stored_length}));
  return copy;
}

absl::StatusOr<std::shared_ptr<ObjectReader>> OpenSmallContent(std::string value,
                                                               const ObjectRow& row,
                                                               DamageReport report) {
  auto copy = std::make_shared<SmallCopy>(std::move(value), row, std::move(report));
  TILEKV_RETURN_IF_ERROR(copy->Load());
  return copy;
}

}  // namespace tilekv
