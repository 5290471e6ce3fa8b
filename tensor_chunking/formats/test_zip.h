// Zip archives for tests, right and wrong ones.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"

namespace tilekv {

struct ZipEntry {
  std::string name;
  std::string content;
  bool deflate = false;
  bool zip64 = false;  // sizes in the extra field, as numpy.savez writes them
  uint16_t flags = 0;
  uint16_t method_override = 0;  // 0: as it is
};

inline std::string Deflated(std::string_view content) {
  z_stream zlib{};
  TILEKV_CHECK(deflateInit2(&zlib, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&zlib, content.size()), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  zlib.avail_in = static_cast<uInt>(content.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  TILEKV_CHECK(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

inline std::string ZipFile(const std::vector<ZipEntry>& entries) {
  std::string file;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    std::string stored = entry.deflate ? Deflated(entry.content) : entry.content;
    auto method = static_cast<uint16_t>(entry.deflate ? 8 : 0);
    if (entry.method_override != 0) method = entry.method_override;
    auto crc = static_cast<uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(entry.content.data()), entry.content.size()));
    uint64_t offset = file.size();
    std::string extra;
    if (entry.zip64) {
      AppendLe<uint16_t>(extra, 1);
      AppendLe<uint16_t>(extra, 16);
      AppendLe<uint64_t>(extra, entry.content.size());
      AppendLe<uint64_t>(extra, stored.size());
    }
    // What local header and directory have in common.
    std::string common;
    AppendLe<uint16_t>(common, entry.zip64 ? 45 : 20);
    AppendLe<uint16_t>(common, entry.flags);
    AppendLe<uint16_t>(common, method);
    AppendLe<uint32_t>(common, 0x21);  // 1980-01-01
    AppendLe<uint32_t>(common, crc);
    AppendLe<uint32_t>(common, entry.zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(stored.size()));
    AppendLe<uint32_t>(common,
                       entry.zip64 ? 0xFFFFFFFF : static_cast<uint32_t>(entry.content.size()));
    AppendLe<uint16_t>(common, static_cast<uint16_t>(entry.name.size()));
    AppendLe<uint16_t>(common, static_cast<uint16_t>(extra.size()));
    file += "PK\x03\x04" + common + entry.name + extra + stored;
    directory += "PK\x01\x02";
    AppendLe<uint16_t>(directory, 45);
    directory += common;
    AppendLe<uint16_t>(directory, 0);  // comment
    AppendLe<uint16_t>(directory, 0);  // disk
    AppendLe<uint16_t>(directory, 0);  // internal attributes
    AppendLe<uint32_t>(directory, 0);  // external attributes
    AppendLe<uint32_t>(directory, static_cast<uint32_t>(offset));
    directory += entry.name + extra;
  }
  std::string end = "PK\x05\x06";
  AppendLe<uint32_t>(end, 0);  // disks
  AppendLe<uint16_t>(end, static_cast<uint16_t>(entries.size()));
  AppendLe<uint16_t>(end, static_cast<uint16_t>(entries.size()));
  AppendLe<uint32_t>(end, static_cast<uint32_t>(directory.size()));
  AppendLe<uint32_t>(end, static_cast<uint32_t>(file.size()));
  AppendLe<uint16_t>(end, 0);
  return file + directory + end;
}

}  // namespace tilekv
