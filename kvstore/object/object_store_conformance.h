// What every ObjectStore must do: one suite for all engines. An engine's test links
// object_store_conformance.cc and instantiates ObjectStoreConformance with a way to make its store.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvstore/object/object_store.h"

namespace tilekv {

// A store under test, and what is done to it from outside.
class StoreHarness {
 public:
  virtual ~StoreHarness() = default;
  virtual ObjectStore& store() = 0;
  // Closes it and opens it again. False where contents end with the store.
  virtual bool Reopen() = 0;
  // Damages the stored copy of an object of domain 0.
  virtual void FlipBit(const ObjectId& id, uint64_t stored_offset) = 0;
};

struct ConformanceParam {
  std::string name;
  std::function<std::unique_ptr<StoreHarness>(uint64_t max_object_bytes)> make;
};

class ObjectStoreConformance : public testing::TestWithParam<ConformanceParam> {
 protected:
  static constexpr uint64_t kLimit = 1024 * 1024;
  void SetUp() override { harness_ = GetParam().make(kLimit); }
  ObjectStore& store() { return harness_->store(); }

  std::unique_ptr<StoreHarness> harness_;
};

// --- helpers, for engine tests too ---

// Bytes that a seed gives; every other run of 1,000 bytes compresses well.
std::string TestContent(uint64_t length, uint64_t seed);

struct PutPieces {
  uint8_t level = 0;
  Encoding encoding;
  Revision touched_rev{1};
  Domain domain = kDefaultDomain;
  bool declare = true;       // tell the id beforehand
  uint64_t piece_bytes = 0;  // 0: all at once (coded: always all at once)
};
absl::StatusOr<PutOutcome> PutContent(ObjectStore& store, std::string_view content,
                                      const PutPieces& how = {});
// Verified, the whole content.
absl::StatusOr<std::string> GetContent(ObjectStore& store, const ObjectId& id,
                                       Domain domain = kDefaultDomain);

}  // namespace tilekv
