#include "kvstore/object/damage_reports.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "fmt/format.h"

namespace tilekv {
namespace {

std::string FolderIn(const std::string& store_directory) { return store_directory + "/suspect"; }

std::string NameOf(const DamageReported& damaged) {
  return fmt::format("{}-{}", damaged.domain, damaged.id.Hex());
}

std::optional<DamageReported> FromName(std::string_view name) {
  size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  DamageReported damaged;
  const char* end = name.data() + dash;
  auto [parsed, error] = std::from_chars(name.data(), end, damaged.domain);
  absl::StatusOr<ObjectId> id = ObjectId::FromHex(name.substr(dash + 1));
  if (error != std::errc() || parsed != end || !id.ok()) return std::nullopt;
  damaged.id = *id;
  return damaged;
}

}  // namespace

void LeaveDamageReport(FileSystem& fs, const std::string& store_directory,
                       const DamageReported& damaged) {
  const std::string folder = FolderIn(store_directory);
  if (!fs.CreateDirectory(folder).ok()) return;
  fs.Open(folder + "/" + NameOf(damaged), FileSystem::OpenMode::kReadWrite).IgnoreError();
}

void MakeDamageReportFolder(FileSystem& fs, const std::string& store_directory) {
  fs.CreateDirectory(FolderIn(store_directory)).IgnoreError();
}

std::vector<DamageReported> ListDamageReports(FileSystem& fs, const std::string& store_directory) {
  std::vector<DamageReported> reported;
  absl::StatusOr<std::vector<std::string>> names = fs.List(FolderIn(store_directory));
  if (!names.ok()) return reported;
  for (const std::string& name : *names) {
    std::optional<DamageReported> damaged = FromName(name);
    // Under another name (zeros before the domain) it could not be removed.
    if (damaged && NameOf(*damaged) == name) reported.push_back(*damaged);
  }
  return reported;
}

absl::Status RemoveDamageReport(FileSystem& fs, const std::string& store_directory,
                                const DamageReported& damaged) {
  absl::Status removed = fs.Unlink(FolderIn(store_directory) + "/" + NameOf(damaged));
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace tilekv
