// What every catalog must do, as tests with a factory as parameter: INSTANTIATE_TEST_SUITE_P beside
// the implementation.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"

namespace tilekv {

struct CatalogMaker {
  std::string name;
  // A new, empty catalog. Whatever it needs goes with it.
  std::function<std::shared_ptr<Catalog>(Clock*, Random*)> make;
};
inline void PrintTo(const CatalogMaker& maker, std::ostream* out) { *out << maker.name; }

class CatalogConformance : public testing::TestWithParam<CatalogMaker> {
 protected:
  CatalogConformance() : catalog_(GetParam().make(&clock_, &random_)) {}

  // Applies, or fails the test.
  Revision Write(std::vector<CatalogWrite> writes, std::vector<Compare> compares = {});
  std::string ValueOf(const std::string& key);  // "-" when absent

  ManualClock clock_;
  SeededRandom random_{7};
  std::shared_ptr<Catalog> catalog_;
};

}  // namespace tilekv
