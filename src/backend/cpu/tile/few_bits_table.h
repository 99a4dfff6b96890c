// SPDX-License-Identifier: Apache-2.0
//
// Products of floats with weights of four or eight bits: a few rows by a panel of columns. A word of 32 bits
// holds the weights of one column for 8 (or 4) indices of k that follow one another, the first in its lowest
// bits.
//
// Without dot products of bytes the weights become floats in registers (few_bits.inc). A weight q at bit s of
// its word is not shifted down: what a mask leaves is q * 2^s, an exact FP32 number, and x comes multiplied
// by 2^-s. So a vector of weights costs three instructions: and, convert, multiply-add. The highest weight of
// a word, whose sign bit a conversion would see, is shifted. With dot products of bytes the weights stay
// bytes (few_bits_quads.inc).
//
// With blocks of k that share a scale: y += scale * (sum(q * x) - zero * sum(x)) for each block. Both sums
// are far larger than their difference where x has one sign (140,000 and some hundreds for 1848 positive
// numbers under 8 bits), so what is long is summed up in pieces, or subtracted in exact integers.
//
// A panel, for each block: scales of all columns (FP16 or FP32), zero points (bytes; or none where all are
// `middle`), and the words, [group of k][column].
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::cpu {

struct FewBitShape {
  static constexpr int64_t kPieceGroups = 64;  // of sums in FP32

  int64_t bits = 4;           // or 8
  int64_t depth = 0;          // of k
  int64_t block = 0;          // indices of k with one scale, which divide `depth`
  bool half_scales = false;   // FP16, else FP32
  bool stores_zeros = false;  // else all are the middle, 8 or 128

  int64_t fields() const { return 32 / bits; }
  int64_t blocks() const { return depth / block; }
  int64_t groups() const { return (block + fields() - 1) / fields(); }  // of a block
  int64_t padded_depth() const { return blocks() * groups() * fields(); }
  int64_t pieces() const { return (groups() + kPieceGroups - 1) / kPieceGroups; }  // of a block
  float middle() const { return bits == 4 ? 8 : 128; }
  int64_t block_bytes(int64_t panel) const {
    return panel * ((half_scales ? 2 : 4) + (stores_zeros ? 1 : 0) + groups() * 4);
  }
};

// Rows of x as prepare() made them, in as many bytes as their padded numbers take as floats: those times 2^-s
// and the sum of each piece of each block, or their digits and what these need.
struct FewBitRows {
  const float* x = nullptr;
  const float* sums = nullptr;
  int64_t x_stride = 0, sums_stride = 0, rows = 0;  // at most FewBitTable::tile_rows
};

struct FewBitTable {
  const char* name;                                // "avx2"
  int64_t panel;                                   // columns
  int64_t tile_rows;                               // of a call of multiply()
  int64_t (*sum_count)(const FewBitShape& shape);  // numbers of `sums` of a row
  void (*prepare)(const FewBitShape& shape, const float* x, float* prepared, float* sums);  // one row
  // out: rows of `panel` numbers, out_stride apart.
  void (*multiply)(const FewBitShape& shape, const FewBitRows& rows, const std::byte* panel, float* out,
                   int64_t out_stride);
};

const FewBitTable& few_bit_table_avx2();
const FewBitTable& few_bit_table_avx512();
// With dot products of bytes (few_bits_quads.inc).
const FewBitTable& few_bit_table_avxvnni();
const FewBitTable& few_bit_table_avx512_vnni();

}  // namespace lathe::cpu
