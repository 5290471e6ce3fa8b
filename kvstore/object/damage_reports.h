// Damage that was met by who may not change the store: openings for reading. An empty file in
// DIR/suspect for each object (docs/formats.md, section 4); whoever writes to the store marks its
// row suspect, so that storing the object again looks at its copy. A report is a hint: nothing is
// synced, and where one cannot be left or taken nothing else is the worse for it. Thread-safe.
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
};

void LeaveDamageReport(FileSystem& fs, const std::string& store_directory,
                       const DamageReported& damaged);
// Of whoever writes to the store, so that the folder is its own: it could remove nothing from one
// that another user's reading has made.
void MakeDamageReportFolder(FileSystem& fs, const std::string& store_directory);
// Those that are there, which then are not any more. One that cannot be removed is none: it would
// come back for ever. `refused` is the error of such a removal.
std::vector<DamageReported> TakeDamageReports(FileSystem& fs, const std::string& store_directory,
                                              absl::Status& refused);

}  // namespace tilekv
