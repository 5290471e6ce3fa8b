// The matrices that the sections store and load.
#pragma once

#include <cstdint>
#include <string>

#include "kvstore/kv_store.h"
#include "kvstore/model_name.h"
#include "tensor_chunking/model_writer.h"

namespace tilekv::bench {

inline constexpr char kTensor[] = "w";

// Square, fp32, of this many bytes: 4 n^2.
Shape SquareOf(uint64_t bytes);

// A source in memory.
TensorSource MemoryTensor(DType dtype, Shape shape, Bytes content);
// Stores one tensor as model bench/NAME.
void StoreModel(KvStore& store, const std::string& name, TensorSource source,
                const std::string& layout, const std::string& encoding = "none");
void RemoveModel(KvStore& store, const std::string& name);
ModelName BenchName(const std::string& name);

// Bytes that are different in each of `generation`; none repeats.
void FillDistinct(MutableBytes out, uint64_t generation);
// Weights as training leaves them: bf16, normal, standard deviation near 0.02; no tile like
// another, nor like one of another seed.
void FillNormalBf16(MutableBytes out, uint64_t seed);

}  // namespace tilekv::bench
