// An open copy of an object in a directory: its payload file, or its small content.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Called in the reader's thread when what it read was damaged.
using DamageReport = std::function<void(const ObjectRow& row)>;

// NOT_FOUND where the file is gone; DATA_LOSS where it is cut short or its header, tables or length
// are not those of the row, or the disk does not give them (IsUnreadable). The content itself is
// for the reader to verify.
absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPayload(FileSystem* fs, const std::string& path,
                                                          const std::string& store_uuid,
                                                          Domain domain, const ObjectRow& row,
                                                          DamageReport report);
// The same of a file that is open.
absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPayload(std::unique_ptr<File> file,
                                                          const std::string& store_uuid,
                                                          Domain domain, const ObjectRow& row,
                                                          DamageReport report);
// A small content as the index holds it: block table and stored bytes. Leaves are recomputed, so
// the id vouches for them.
absl::StatusOr<std::shared_ptr<ObjectReader>> OpenSmallContent(std::string value,
                                                               const ObjectRow& row,
                                                               DamageReport report);

}  // namespace tilekv
