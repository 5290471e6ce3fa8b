// Single zstd frames in memory of known size. Each is for one thread at a time; contexts are made
// at first use and kept.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tilekv {

class ZstdEncoder {
 public:
  enum class Mode {
    kFast,      // matches and entropy coding, at the lowest usual level
    kLiterals,  // entropy coding alone: for bytes whose order says nothing; decodes twice as fast
  };
  explicit ZstdEncoder(Mode mode) : mode_(mode) {}
  ~ZstdEncoder();
  ZstdEncoder(const ZstdEncoder&) = delete;
  ZstdEncoder& operator=(const ZstdEncoder&) = delete;

  // Length of the frame, or 0 where it does not fit `out`.
  size_t Encode(Bytes content, MutableBytes out);

 private:
  const Mode mode_;
  ZSTD_CCtx_s* context_ = nullptr;
};

class ZstdDecoder {
 public:
  ZstdDecoder() = default;
  ~ZstdDecoder();
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  // DATA_LOSS where `frame` is not exactly one frame of exactly out.size() bytes. Takes no memory
  // for what a frame claims, and writes nothing past `out`.
  absl::Status Decode(Bytes frame, MutableBytes out);

 private:
  ZSTD_DCtx_s* context_ = nullptr;
};

}  // namespace tilekv
