// The codecs behind NewBlockCodec.
#pragma once

#include <cstdint>
#include <memory>

#include "kvstore/object/encoding.h"

namespace tilekv {

std::unique_ptr<BlockCodec> NewZstdCodec();
// `width` as IsPlaneWidth has it.
std::unique_ptr<BlockCodec> NewPlanesCodec(uint8_t width);

}  // namespace tilekv
