// A tree of every level and type: the first byte is the level that its id says.
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"
#include "kvstore/object/tree.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/source_files.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  if (size == 0) return 0;
  uint8_t level = data[0];
  Bytes content(data + 1, size - 1);
  auto tree = DecodeTree(level, content);
  auto children = DecodeTreeChildren(level, content);
  TILEKV_CHECK(tree.ok() == children.ok());
  if (tree.ok()) {
    TILEKV_CHECK(tree->children == *children);
    TILEKV_CHECK(EncodeTree(*tree) == AsText(content));
  }
  DecodeChunkedBlob(level, content, Reason::kDataLoss).status().IgnoreError();
  DecodeManifestRoot(content).status().IgnoreError();
  DecodeManifestPage(content).status().IgnoreError();
  DecodeTileList(content).status().IgnoreError();
  DecodeMetadata(content).status().IgnoreError();
  DecodeSourceFiles(content).status().IgnoreError();
  return 0;
}
