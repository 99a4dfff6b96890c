// SPDX-License-Identifier: Apache-2.0
//
// For the tests of all backends: a product of rows with constant weights of few bits, as the text of a graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace lathe {

struct FewBitProduct {
  int64_t rows = 1, depth = 64, columns = 37, block = 32;  // block 0: a scale per column
  std::string dtype = "uint4";
  int32_t zero = 8;
  bool equal_zeros = true, halves = true, transposed = true;
  std::string epilogue;

  std::string grid() const {
    const int64_t blocks = block > 0 ? (depth + block - 1) / block : 1;
    std::string scales, zeros;
    for (int64_t i = 0; i < blocks * columns; ++i) {
      const double scale = (1 + static_cast<double>(i % 7)) / 64;
      scales += (i ? ", " : "") + std::to_string(i % 5 == 4 ? -scale : scale) + (halves ? "" : "1");
      zeros += (i ? ", " : "") + std::to_string(zero + (equal_zeros ? 0 : static_cast<int32_t>(i % 3)));
    }
    if (block == 0) std::erase(scales, '-');
    const bool k_is_last = transposed;
    const int64_t axis = (block > 0) == k_is_last ? 1 : 0;
    return " quantized " + dtype + " scale [" + scales + "] zero [" + zeros + "] axis " +
           std::to_string(axis);
  }

  std::string text() const {
    const std::string k = std::to_string(depth), n = std::to_string(columns), m = std::to_string(rows);
    return "graph \"g\" {\n input %x: float32[" + m + ", " + k + "]\n const %w: float32[" +
           (transposed ? n + ", " + k : k + ", " + n) + "]" + grid() + " = random 3\n const %b: float32[" +
           n + "] = random 4\n %y: float32[" + m + ", " + n + "] = MatMul \"m\" (%x, %w" +
           (epilogue.empty() ? "" : ", %b") + ") {" + (transposed ? "transpose_b=true" : "") + "}" +
           epilogue + "\n output %y\n}\n";
  }
};

}  // namespace lathe
