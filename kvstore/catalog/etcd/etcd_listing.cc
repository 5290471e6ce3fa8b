#include "kvstore/catalog/etcd/etcd_listing.h"

#include <algorithm>
#include <utility>

namespace tilekv {
namespace {

constexpr size_t kMaxRemembered = 256;
constexpr size_t kMaxPieceEntries = 2'000;  // of one request
// A range of so many times the piece is walked in vain for the most part: take smaller blocks.
constexpr size_t kTooManyTimes = 8;

const std::string& LastKey(const etcdserverpb::RangeResponse& response) {
  return response.kvs(response.kvs_size() - 1).key();
}

}  // namespace

std::string BlockEnd(std::string_view key, size_t bits) {
  while (bits > 0) {
    size_t byte = (bits - 1) / 8;
    size_t used = bits - byte * 8;  // 1 to 8 bits of that byte
    unsigned value = byte < key.size() ? static_cast<unsigned char>(key[byte]) : 0;
    unsigned next = (value >> (8 - used)) + 1;
    if (next < 1u << used) {
      std::string end(key.substr(0, byte));
      end.resize(byte, '\0');
      end.push_back(static_cast<char>(next << (8 - used)));
      return end;
    }
    bits = byte * 8;  // the last block of this byte ends where the byte before it does
  }
  return "";
}

size_t CommonBits(std::string_view a, std::string_view b) {
  size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  unsigned x = common < a.size() ? static_cast<unsigned char>(a[common]) : 0;
  unsigned y = common < b.size() ? static_cast<unsigned char>(b[common]) : 0;
  size_t bits = common * 8;
  if (common == a.size() || common == b.size()) return bits;
  for (unsigned mask = 0x80; mask > 0 && (x & mask) == (y & mask); mask >>= 1) ++bits;
  return bits;
}

size_t BlockSizes::Get(const std::string& end) {
  MutexLock lock(mutex_);
  auto found = bits_.find(end);
  return found == bits_.end() ? 0 : found->second;
}

void BlockSizes::Set(const std::string& end, size_t bits) {
  MutexLock lock(mutex_);
  if (bits_.size() >= kMaxRemembered && bits_.count(end) == 0) bits_.clear();
  bits_[end] = bits;
}

absl::StatusOr<EtcdPage> ReadPage(const std::string& start, const std::string& end, size_t limit,
                                  BlockSizes& sizes, const RangeCall& call) {
  EtcdPage page;
  size_t bits = sizes.Get(end);
  size_t step = 1;
  std::string from = start;
  const size_t whole = std::min(limit + 1, kMaxPieceEntries);
  // One more than the page has room for tells whether there is more.
  while (page.kvs.size() <= limit && from < end) {
    std::string to = BlockEnd(from, bits);
    if (to.empty() || to > end) to = end;
    size_t wanted = std::min(limit + 1 - page.kvs.size(), kMaxPieceEntries);
    auto response = call(from, to, wanted);
    if (!response.ok()) return response.status();
    size_t count = static_cast<size_t>(response->count());
    size_t got = static_cast<size_t>(response->kvs_size());
    if (count > kTooManyTimes * whole) {
      // What a piece just spanned is a good block; the rest of a page spans too little.
      size_t span = got < whole / 2 ? 0 : CommonBits(response->kvs(0).key(), LastKey(*response));
      bits = std::max(bits + 1, span);
      step = 1;
    } else if (!response->more() && count < std::max<size_t>(1, wanted / 2)) {
      // Few: larger blocks, at a growing pace where there is nothing at all. Not larger than all.
      bits = std::max(bits - std::min(bits, step), CommonBits(from, end));
      step *= 2;
    } else {
      step = 1;
    }
    from = response->more() && got > 0 ? LastKey(*response) + '\0' : to;
    for (auto& kv : *response->mutable_kvs()) page.kvs.push_back(std::move(kv));
  }
  sizes.Set(end, bits);
  page.more = page.kvs.size() > limit;
  if (page.more) page.kvs.resize(limit);
  return page;
}

}  // namespace tilekv
