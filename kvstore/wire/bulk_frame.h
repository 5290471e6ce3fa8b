// Framing by hand of the messages that carry bulk (PutObjectRequest, ReadObjectsResponse,
// PutValueRequest): their bytes are never copied into or out of a protobuf object. What goes over
// the wire is protobuf all the same: any generated stub can write what is read here, and read what
// is written here.
//
// In all three messages the bulk is the field `data`, with the number kBulkDataField, the greatest
// of the message. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "kvstore/base/bytes.h"

namespace tilekv {

inline constexpr int kBulkDataField = 15;

// What stands before the data on the wire: all fields of `fields`, whose own `data` is empty, then
// tag and length of `data_bytes` of data. The message is this head followed by exactly those bytes.
std::string EncodeBulkHead(const google::protobuf::MessageLite& fields, uint64_t data_bytes);

// A message in pieces, as they came: split anywhere, fields in any order, unknown ones skipped,
// repeated numbers packed or not. `fields` gets everything but `data`; `data` gets the parts of
// `pieces` that are the data, in order and without empty ones. They point into the pieces. Accepts
// exactly what protobuf's own parser accepts; INVALID_ARGUMENT otherwise, with the outputs in any
// state.
absl::Status DecodeBulk(std::span<const Bytes> pieces, google::protobuf::MessageLite& fields,
                        std::vector<Bytes>& data);

// Bytes in all pieces.
uint64_t TotalBytes(std::span<const Bytes> pieces);

}  // namespace tilekv
