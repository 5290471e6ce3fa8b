// What a damaged index still gives of small contents, which have no other place. The index is not
// opened, as that ends at the first damage: its tables are read one by one, damaged ones as plain
// bytes, and its logs record by record, past records that are damaged. Rows are not needed: the id
// in a content's key decides whether these bytes are the content, of which level and in which
// encoding.
//
// What was deleted may come along as long as its bytes are there. Changes nothing. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/object_store.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace tilekv {

struct SalvageReport {
  uint64_t numbers = 0;               // above all numbers of files that it tells of
  std::vector<std::string> problems;  // of its files, each: what could not be read
};

// `visit` is told of each small content, checked to its id, some more than once: a row with ref,
// encoding and stored length, and what the index holds of it. Its error ends the walk and is
// returned; there is no other.
using SmallContentFound =
    std::function<absl::Status(Domain domain, const ObjectRow& row, const std::string& value)>;
absl::StatusOr<SalvageReport> SalvageIndex(const std::string& path, rocksdb::Env* env,
                                           const SmallContentFound& visit);

}  // namespace tilekv
