#include "kvstore/catalog/memory_catalog.h"

#include "kvstore/catalog/catalog_conformance.h"

namespace tilekv {

INSTANTIATE_TEST_SUITE_P(Memory, CatalogConformance,
                         testing::Values(CatalogMaker{"memory", [](Clock* clock, Random* random) {
                                                        return std::make_shared<MemoryCatalog>(
                                                            clock, random);
                                                      }}));

}  // namespace tilekv
