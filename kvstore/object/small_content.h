// Small contents whose row is lost.
#pragma once

#include <optional>
#include <string>

#include "kvstore/object/object_store.h"

namespace tilekv {

// The row, as far as the bytes tell it, of a content that the index holds as `value`: level, length
// and encoding with which it hashes to `id`. None: these are other bytes.
std::optional<ObjectRow> RecognizeSmallContent(const ObjectId& id, const std::string& value);

}  // namespace tilekv
