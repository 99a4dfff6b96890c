// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/line_sort.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::cuda {
namespace {

constexpr int kSortThreads = 256, kSortTile = 2048, kDigits = 256;

// Where a pass reads and writes.
struct Buffers {
  Dim keys, places;
};

class LongSort {
 public:
  LongSort(const LineSort& sort, Dim& bytes) : sort_(sort), tiles_(ceil_div(sort.length, Dim(kSortTile))) {
    const Dim elements = sort.lines * sort.length;
    const auto take = [&](const Dim& size) {
      const Dim at = bytes;
      bytes = bytes + aligned_bytes(size);
      return at;
    };
    for (Buffers& b : buffers_) b.keys = take(elements * Dim(sort.bits > 32 ? 8 : 4));
    for (Buffers& b : buffers_) b.places = take(elements * Dim(4));
    counts_ = take(sort.lines * tiles_ * Dim(4 * kDigits));
    bases_ = take(sort.lines * Dim(4 * kDigits));
  }

  Dim append(std::vector<KernelSource>& kernels) {
    const int passes = (sort_.bits + 7) / 8;
    for (int pass = 0; pass < passes; ++pass) {
      kernels.push_back(count(pass));
      kernels.push_back(add_up());
      kernels.push_back(place(pass, pass + 1 == passes));
    }
    return buffers_[passes % 2].places;
  }

 private:
  const Buffers& from(int pass) const { return buffers_[pass % 2]; }
  const Buffers& to(int pass) const { return buffers_[(pass + 1) % 2]; }

  // The block's line and tile, and digit_at(i, key): the digit of element i.
  KernelBuilder start(const std::string& entry, int pass) {
    KernelBuilder b = sort_.start(entry);
    add_counting(b);
    b.kernel().threads = kSortThreads;
    b.kernel().grid[0] = sort_.lines * tiles_;
    const std::string tiles = b.number(tiles_), n = b.number(sort_.length), type = key_type(sort_.bits);
    b.line("const idx n = " + n + ", line = blockIdx.x / " + tiles + ", tile = blockIdx.x % " + tiles + ";");
    const std::string key = pass == 0 ? sort_.key(b) : b.scratch(from(pass).keys, type) + "[line * n + i]";
    b.line("const auto digit_at = [&](idx i, " + type + "& key) { key = " + key + "; return (u32)(key >> " +
           std::to_string(8 * pass) + ") & 255u; };");
    return b;
  }

  KernelSource count(int pass) {
    KernelBuilder b = start("sort_count", pass);
    b.line("__shared__ u32 bins[256];\nbins[threadIdx.x] = 0;\n__syncthreads();\n" + key_type(sort_.bits) +
           " key;\nfor (int j = 0; j < 8; ++j) {\nconst idx i = tile * 2048 + j * 256 + threadIdx.x;\n"
           "if (i < n) atomic_add(&bins[digit_at(i, key)], 1u);\n}\n__syncthreads();\n" +
           b.scratch(counts_, "u32") + "[(idx)blockIdx.x * 256 + threadIdx.x] = bins[threadIdx.x];");
    return b.finish();
  }

  // A thread has a digit: its counts become how many come in front of each tile, and the totals of digits
  // where each digit begins.
  KernelSource add_up() {
    KernelBuilder b = sort_.start("sort_add_up");
    add_counting(b);
    b.kernel().threads = kSortThreads;
    b.kernel().grid[0] = sort_.lines;
    const std::string tiles = b.number(tiles_);
    b.line("__shared__ u32 buffer[256];\nu32* counts = " + b.scratch(counts_, "u32") +
           " + (idx)blockIdx.x * " + tiles +
           " * 256 + threadIdx.x;\nu32 total = 0, all;\n#pragma unroll 8\n" + "for (idx t = 0; t < " + tiles +
           "; ++t) { const u32 x = counts[t * 256]; counts[t * 256] = total; total += x; }\n" +
           b.scratch(bases_, "u32") +
           "[(idx)blockIdx.x * 256 + threadIdx.x] = block_prefix<256>(total, buffer, all);");
    return b.finish();
  }

  // A warp has 256 elements in a row, and 32 of them at a time: those of one digit are numbered by their
  // lanes.
  KernelSource place(int pass, bool last) {
    KernelBuilder b = start("sort_place", pass);
    const std::string type = key_type(sort_.bits);
    b.line("__shared__ u32 heads[8][256];\n" + type +
           " key;\nconst int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
           "for (int w = 0; w < 8; ++w) heads[w][threadIdx.x] = 0;\n__syncthreads();\n"
           "const idx first = tile * 2048 + warp * 256 + lane;\n"
           "for (int j = 0; j < 8; ++j)\nif (first + j * 32 < n) atomic_add(&heads[warp][digit_at(first + j "
           "* 32, key)], 1u);\n__syncthreads();");
    b.line("u32 next = " + b.scratch(bases_, "u32") + "[line * 256 + threadIdx.x] + " +
           b.scratch(counts_, "u32") +
           "[(idx)blockIdx.x * 256 + threadIdx.x];\nfor (int w = 0; w < 8; ++w) {\nconst u32 x = "
           "heads[w][threadIdx.x];\nheads[w][threadIdx.x] = next;\nnext += x;\n}\n__syncthreads();");
    b.line(
        "for (int j = 0; j < 8; ++j) {\nconst idx i = first + j * 32;\nconst bool valid = i < n;\n"
        "const u32 digit = valid ? digit_at(i, key) : 0;\nu32 same = ballot(valid);\n#pragma unroll\n"
        "for (int bit = 0; bit < 8; ++bit) {\nconst bool set = digit >> bit & 1;\nconst u32 vote = "
        "ballot(set);\nsame &= set ? vote : ~vote;\n}\nconst int rank = population(same & "
        "lanes_below());\nconst idx at = line * n + (valid ? heads[warp][digit] + rank : 0);\n"
        "__syncwarp();\nif (valid && rank == 0) heads[warp][digit] += population(same);\n__syncwarp();\n"
        "if (valid) {");
    if (!last) b.line(b.scratch(to(pass).keys, type) + "[at] = key;");
    b.line(b.scratch(to(pass).places, "u32") + "[at] = " +
           (pass == 0 ? "(u32)i" : b.scratch(from(pass).places, "u32") + "[line * n + i]") + ";\n}\n}");
    return b.finish();
  }

  const LineSort& sort_;
  Dim tiles_;
  Buffers buffers_[2];
  Dim counts_, bases_;
};

}  // namespace

void emit_short_sort(KernelBuilder& b, const LineSort& sort) {
  check(sort.is_short(), "a line is too long to be sorted by one block");
  int64_t room = 2;
  while (room < sort.most) room *= 2;
  const std::string type = key_type(sort.bits);
  const int threads = static_cast<int>(std::clamp<int64_t>(room / 4, 32, 512));
  b.kernel().threads = threads;
  b.kernel().grid[0] = sort.lines;
  b.kernel().shared_bytes = static_cast<int>(room * (sort.bits > 32 ? 12 : 8));
  const std::string ts = std::to_string(threads), rs = std::to_string(room);
  b.line("const idx n = " + b.number(sort.length) + ", line = blockIdx.x;");
  b.line(type + "* keys = (" + type + "*)shared_memory();\nu32* places = (u32*)(keys + " + rs +
         ");\nint size = 2;\nwhile (size < n) size <<= 1;\nfor (idx i = threadIdx.x; i < size; i += " + ts +
         ") {\nkeys[i] = i < n ? " + sort.key(b) + " : (" + type + ")-1;\nplaces[i] = i < n ? " +
         (sort.place ? sort.place(b) : "(u32)i") + " : 0xffffffffu;\n}\n__syncthreads();");
  // What fills the line up is behind all elements: its keys are the largest, and its places larger ones.
  b.line(
      "for (int run = 2; run <= size; run <<= 1)\nfor (int step = run >> 1; step > 0; step >>= 1) {\n"
      "for (int t = threadIdx.x; t < size / 2; t += " +
      ts + ") {\nconst int a = (t & ~(step - 1)) << 1 | (t & (step - 1)), b = a | step;\nconst " + type +
      " x = keys[a], y = keys[b];\nconst u32 px = places[a], py = places[b];\n"
      "const bool later = x > y || (x == y && px > py), ascends = (a & run) == 0;\n"
      "if (later == ascends) { keys[a] = y; keys[b] = x; places[a] = py; places[b] = px; }\n}\n"
      "__syncthreads();\n}");
}

Dim append_sort(std::vector<KernelSource>& kernels, const LineSort& sort, Dim& bytes) {
  if (!sort.is_short()) return LongSort(sort, bytes).append(kernels);
  const Dim places = bytes;
  bytes = bytes + aligned_bytes(sort.lines * sort.length * Dim(4));
  KernelBuilder b = sort.start("sort_short");
  add_counting(b);
  emit_short_sort(b, sort);
  b.line("for (idx i = threadIdx.x; i < n; i += " + std::to_string(b.kernel().threads) + ") " +
         b.scratch(places, "u32") + "[line * n + i] = places[i];");
  kernels.push_back(b.finish());
  return places;
}

}  // namespace lathe::cuda
