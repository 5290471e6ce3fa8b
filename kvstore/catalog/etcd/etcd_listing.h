// Pages of a listing in time that is linear in its keys. etcd 3.4 walks the whole range that it is
// asked for, whatever the limit is: pages of one long range would take time in the square of its
// keys. So a page is asked for in pieces that end with a block of the key space, blocks being
// aligned like those of a binary trie, of a size that is learned from the answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/catalog/etcd/etcd.pb.h"

namespace tilekv {

// The end of the block of `bits` leading bits that holds the key: all keys that agree with it in
// those bits are below. Empty: there is no end.
std::string BlockEnd(std::string_view key, size_t bits);
// Leading bits in which both agree; that of a byte against none counts as zero bits of it.
size_t CommonBits(std::string_view a, std::string_view b);

// How large the blocks of recent listings are, by the end of their range. Any value is right; the
// learned one is fast. Bounded. Thread-safe.
class BlockSizes {
 public:
  size_t Get(const std::string& end);
  void Set(const std::string& end, size_t bits);

 private:
  Mutex mutex_;
  std::map<std::string, size_t> bits_ ABSL_GUARDED_BY(mutex_);
};

// Asks for [start, end), at most `limit` of it.
using RangeCall = std::function<absl::StatusOr<etcdserverpb::RangeResponse>(
    const std::string& start, const std::string& end, size_t limit)>;

struct EtcdPage {
  std::vector<etcdserverpb::KeyValue> kvs;
  bool more = false;
};
// At most `limit` of [start, end), and whether there is more.
absl::StatusOr<EtcdPage> ReadPage(const std::string& start, const std::string& end, size_t limit,
                                  BlockSizes& sizes, const RangeCall& call);

}  // namespace tilekv
