// Damage that was met by who may not change the store: openings for reading. An empty file in
// DIR/suspect for each object (docs/formats.md, section 4); whoever writes to the store marks its
// row suspect, so that storing the object again looks at its copy, and removes the report then: a
// process that ends between the two finds it again. Nothing is synced, and where a report cannot be
// left or removed nothing else is the worse for it. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/file_system.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

struct DamageReported {
  Domain domain = kDefaultDomain;
  ObjectId id;

  friend auto operator<=>(const DamageReported&, const DamageReported&) = default;
};

void LeaveDamageReport(FileSystem& fs, const std::string& store_directory,
                       const DamageReported& damaged);
// Of whoever writes to the store, so that the folder is its own: it could remove nothing from one
// that another user's reading has made.
void MakeDamageReportFolder(FileSystem& fs, const std::string& store_directory);
std::vector<DamageReported> ListDamageReports(FileSystem& fs, const std::string& store_directory);
// Once it has done its work. OK where it is gone by now.
absl::Status RemoveDamageReport(FileSystem& fs, const std::string& store_directory,
                                const DamageReported& damaged);

}  // namespace tilekv
