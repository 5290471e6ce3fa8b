// What TileKV is measured against: small programs that move the same bytes without any store.
// Streams take tiles of kTileBytes in pieces of kPieceBytes.
#pragma once

#include <cstdint>
#include <string>

#include "kvstore/base/bytes.h"

namespace tilekv::bench {

inline constexpr size_t kTileBytes = size_t{8} << 20;
inline constexpr size_t kPieceBytes = size_t{1} << 20;

// Hashes every 64 KiB, as a receiver that verifies has to.
void HashAll(Bytes content);

// --- in a process of its own
// Serves ranges of the file, read from the page cache. Returns the port.
uint16_t ServeFile(const std::string& file);
// Receives tiles, hashes them, writes each to a file of its own in `folder` with O_DIRECT and
// fdatasync by two threads, and acknowledges each. Returns the port.
uint16_t ServeTileStore(const std::string& folder);

// --- in the process that measures
// `out` is filled by `streams` connections at once, each with its share.
void FetchFile(uint16_t port, MutableBytes out, int streams, bool hash);
// Hashes and sends; returns when everything is acknowledged.
void StoreTiles(uint16_t port, Bytes content, int streams);
// Without a network: hashed (where asked) and written by `threads`.
void WriteTiles(const std::string& folder, Bytes content, int threads, bool hash);
// pread of the file by `threads`, hashed by them where asked.
void ReadFile(const std::string& file, MutableBytes out, int threads, bool hash);

}  // namespace tilekv::bench
