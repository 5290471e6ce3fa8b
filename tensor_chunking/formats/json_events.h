// Strict JSON as a stream of events: headers and indexes are read into flat tables, never into a
// tree of values, so that memory stays in proportion to the text and a repeated key is seen.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace tilekv {

// Receives the events of one document in order; the first error ends the parse. Texts are decoded
// and live only during the call. Handlers see a document that is well-formed up to here: a Key
// comes before each member of an object, and every Begin has its End.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual absl::Status BeginObject() = 0;
  virtual absl::Status EndObject() = 0;
  virtual absl::Status BeginArray() = 0;
  virtual absl::Status EndArray() = 0;
  virtual absl::Status Key(std::string_view key) = 0;
  virtual absl::Status String(std::string_view value) = 0;
  // A number written as digits only, up to 2^64 - 1.
  virtual absl::Status Unsigned(uint64_t value) = 0;
  // Anything else: null, true, false, a negative number, a fraction, one above 2^64 - 1. `text` is
  // how it is written.
  virtual absl::Status Other(std::string_view text) = 0;
};

// Feeds `text`, one JSON document and white space, to `handler`. INVALID_FILE says what is wrong
// with the JSON and at which byte: not UTF-8, a NUL byte, bad syntax, nesting above kMaxJsonDepth.
// Errors of the handler pass through. Thread-compatible; uses memory for the longest text only.
absl::Status ParseJson(std::string_view text, JsonHandler& handler);

}  // namespace tilekv
