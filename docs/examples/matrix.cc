// A matrix that is too large for one object: stored as tiles, read whole, in part and as a stream.
//
//     matrix DIR-OR-URI

#include <cstdio>
#include <cstring>
#include <vector>

#include "client/connect.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/model_writer.h"

namespace {

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", tilekv::ErrorText(result.status()).c_str());
    std::exit(1);
  }
  return *std::move(result);
}
void OrDie(const absl::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", tilekv::ErrorText(status).c_str());
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto store = OrDie(tilekv::Connect(argv[1]));
  constexpr uint64_t kRows = 2048, kColumns = 3000;
  std::vector<float> weights(kRows * kColumns);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 10'007);
  tilekv::Bytes bytes{reinterpret_cast<const uint8_t*>(weights.data()),
                      weights.size() * sizeof(float)};

  // Where the bytes come from: here memory, asked for piece by piece from several threads.
  tilekv::WriteInput input;
  input.tensors.push_back({.name = "dense.weight",
                           .dtype = tilekv::DType::kF32,
                           .shape = {kRows, kColumns},
                           .read = [&](uint64_t offset, tilekv::MutableBytes out) {
                             std::memcpy(out.data(), bytes.data() + offset, out.size());
                             return absl::OkStatus();
                           }});
  tilekv::ModelName name = OrDie(tilekv::ModelName::Parse("examples/matrix"));
  tilekv::WriteReport written = OrDie(tilekv::WriteModel(*store, name, input, {.tags = {"first"}}));
  std::printf("version %llu: %llu tiles, %llu new bytes\n",
              static_cast<unsigned long long>(written.version.record().number()),
              static_cast<unsigned long long>(written.tiles),
              static_cast<unsigned long long>(written.new_bytes));

  // 64 MiB is what may be in flight, whatever the model's size.
  auto reader = OrDie(tilekv::ModelReader::Open(*store, name, {.memory_bytes = 64 * tilekv::kMiB}));
  std::vector<float> loaded(weights.size());
  tilekv::MutableBytes out{reinterpret_cast<uint8_t*>(loaded.data()),
                           loaded.size() * sizeof(float)};
  OrDie(reader->ReadTensor("dense.weight", out));

  // weights[-2:, ::1000], as NumPy would give it; only the tiles that it touches are read.
  tilekv::Shape shape = {kRows, kColumns};
  tilekv::ResolvedSlice slice = OrDie(tilekv::ResolveSlice("-2:, ::1000", shape));
  std::vector<float> corner(2 * 3);
  OrDie(reader->ReadSlice(
      "dense.weight", slice,
      {reinterpret_cast<uint8_t*>(corner.data()), corner.size() * sizeof(float)}));
  std::printf("corner[1][2] = %g\n", corner[5]);

  uint64_t streamed = 0;
  auto stream = OrDie(reader->StreamTiles());
  while (auto tile = OrDie(stream->Next())) streamed += tile->content.size();
  std::printf("streamed %llu bytes in tiles\n", static_cast<unsigned long long>(streamed));

  bool same = loaded == weights && corner[5] == weights[(kRows - 1) * kColumns + 2000] &&
              streamed == bytes.size();
  return same ? 0 : 1;
}
