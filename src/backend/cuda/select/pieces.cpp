// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/select/pieces.h"

namespace lathe::cuda {
namespace {

constexpr int64_t kPieceTile = 1024;   // elements that a block sees at a time
constexpr int64_t kMostPieces = 1024;  // whose counts each block adds up

}  // namespace

// One piece at least: its block says that there is nothing.
Pieces::Pieces(const Dim& all) : elements(all) {
  const Dim tiles = max(ceil_div(all, Dim(kPieceTile)), Dim(1));
  pieces = min(tiles, Dim(kMostPieces));
  length = ceil_div(tiles, pieces) * Dim(kPieceTile);
}

void Pieces::begin(KernelBuilder& b) const {
  b.kernel().grid[0] = pieces;
  const std::string n = b.number(elements), l = b.number(length);
  b.line("__shared__ u32 buffer[256];\nconst idx count = " + n + ", first = min((idx)blockIdx.x * (idx)" + l +
         ", count), last = min(first + (idx)" + l + ", count);\nu32 all;");
}

void Pieces::count(KernelBuilder& b, const std::string& has, const Dim& counts) const {
  begin(b);
  b.line("u32 mine = 0;\nfor (idx i = first + threadIdx.x; i < last; i += 256) mine += (" + has +
         ") ? 1 : 0;\nblock_prefix<256>(mine, buffer, all);\nif (threadIdx.x == 0) " +
         b.scratch(counts, "u32") + "[blockIdx.x] = all;");
}

void Pieces::number(KernelBuilder& b, const std::string& has, const Dim& counts, const std::string& then,
                    const std::string& once) const {
  begin(b);
  b.line("const u32* counts = " + b.scratch(counts, "u32") +
         ";\nu32 front = 0, every = 0, total, base;\nfor (int p = threadIdx.x; p < " + b.number(pieces) +
         "; p += 256) {\nevery += counts[p];\nif (p < (int)blockIdx.x) front += counts[p];\n}\n"
         "block_prefix<256>(every, buffer, total);\nblock_prefix<256>(front, buffer, base);\n"
         "if (blockIdx.x == 0 && threadIdx.x == 0) {\n" +
         once + "\n}");
  b.line(
      "for (idx tile = first; tile < last; tile += 1024) {\nbool sets[4];\nu32 mine = 0;\n#pragma unroll\n"
      "for (int j = 0; j < 4; ++j) {\nconst idx i = tile + threadIdx.x * 4 + j;\nsets[j] = i < last && (" +
      has +
      ");\nmine += sets[j];\n}\nidx at = (idx)(base + block_prefix<256>(mine, buffer, all));\nbase += all;\n"
      "#pragma unroll\nfor (int j = 0; j < 4; ++j) {\nconst idx i = tile + threadIdx.x * 4 + j;\n"
      "const bool set = sets[j];\nif (i < last) {\n" +
      then + "\n}\nat += set;\n}\n}");
}

}  // namespace lathe::cuda
