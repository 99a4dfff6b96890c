// SPDX-License-Identifier: Apache-2.0
//
// 8x8 transposition with AVX2, used at every level: 512-bit shuffles move no more elements per cycle on the
// CPUs at hand.
//
// Bytes: 4 read and 4 written per element, both in whole cache lines: 16 rows are taken together, so that 64
// bytes are written at a time, and their lines stay in L1 while the columns advance. Where the lines of a
// column fall into one set of L1, which has room for 8 to 12 of them, 16 x 16 elements go through memory of
// their own, so that each line is read and written once. The floor is the bandwidth of where they lie.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/transpose_tile.h"

namespace lathe::cpu {
namespace {

inline void transpose_8x8(const float* in, int64_t in_stride, float* out, int64_t out_stride) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(in + i * in_stride);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i + 0] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// Rows that are a multiple of 1 KiB apart share 4 sets of an L1 of 4 KiB a way, or fewer.
bool shares_sets(int64_t stride) {
  return stride * 4 % 1024 == 0;
}

inline void transpose_16x16(const float* in, int64_t in_stride, float* out, int64_t out_stride) {
  alignas(64) float tile[16 * 16];
  for (int r = 0; r < 16; r += 8)
    for (int c = 0; c < 16; c += 8) transpose_8x8(in + r * in_stride + c, in_stride, tile + c * 16 + r, 16);
  for (int c = 0; c < 16; ++c) {
    _mm256_storeu_ps(out + c * out_stride, _mm256_load_ps(tile + c * 16));
    _mm256_storeu_ps(out + c * out_stride + 8, _mm256_load_ps(tile + c * 16 + 8));
  }
}

// 16 bytes of each line become kLines vectors: each is made of one shuffle of every line. 9 shuffles for 16
// pixels of a picture, where its bytes lie in L2 twice the time of a copy.
template <int kLines>
int64_t interleave_vectors(const uint8_t* in, int64_t in_stride, uint8_t* out, int64_t count) {
  alignas(16) int8_t places[kLines][kLines][16];  // [vector][line]: which byte of the line, or none (-1)
  for (int v = 0; v < kLines; ++v)
    for (int line = 0; line < kLines; ++line)
      for (int i = 0; i < 16; ++i) {
        const int at = v * 16 + i;
        places[v][line][i] = static_cast<int8_t>(at % kLines == line ? at / kLines : -1);
      }
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i from[kLines];
    for (int line = 0; line < kLines; ++line)
      from[line] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + line * in_stride + i));
    for (int v = 0; v < kLines; ++v) {
      __m128i all = _mm_setzero_si128();
      for (int line = 0; line < kLines; ++line) {
        const auto place = _mm_load_si128(reinterpret_cast<const __m128i*>(places[v][line]));
        all = _mm_or_si128(all, _mm_shuffle_epi8(from[line], place));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * kLines + v * 16), all);
    }
  }
  return i;
}

}  // namespace

void interleave_bytes_avx2(const void* in, int64_t in_stride, int64_t lines, void* out, int64_t count) {
  const auto* from = static_cast<const uint8_t*>(in);
  auto* to = static_cast<uint8_t*>(out);
  int64_t i = lines == 2   ? interleave_vectors<2>(from, in_stride, to, count)
              : lines == 3 ? interleave_vectors<3>(from, in_stride, to, count)
              : lines == 4 ? interleave_vectors<4>(from, in_stride, to, count)
                           : 0;
  for (; i < count; ++i)
    for (int64_t line = 0; line < lines; ++line) to[i * lines + line] = from[line * in_stride + i];
}

void transpose_4byte_avx2(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                          int64_t cols) {
  const auto* a = static_cast<const float*>(in);
  auto* b = static_cast<float*>(out);
  const int64_t whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
  for (int64_t r0 = 0; r0 < whole_rows; r0 += 16) {
    const int64_t end = r0 + 16 < whole_rows ? r0 + 16 : whole_rows;
    int64_t c = 0;
    if (end - r0 == 16 && (shares_sets(in_stride) || shares_sets(out_stride)))
      for (; c + 16 <= whole_cols; c += 16)
        transpose_16x16(a + r0 * in_stride + c, in_stride, b + c * out_stride + r0, out_stride);
    for (; c < whole_cols; c += 8)
      for (int64_t r = r0; r < end; r += 8)
        transpose_8x8(a + r * in_stride + c, in_stride, b + c * out_stride + r, out_stride);
  }
  // Integer copies: a float register would be free to change the bits of a signalling NaN.
  const auto* ia = static_cast<const uint32_t*>(in);
  auto* ib = static_cast<uint32_t*>(out);
  for (int64_t c = whole_cols; c < cols; ++c)
    for (int64_t r = 0; r < whole_rows; ++r) ib[c * out_stride + r] = ia[r * in_stride + c];
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = whole_rows; r < rows; ++r) ib[c * out_stride + r] = ia[r * in_stride + c];
}

}  // namespace lathe::cpu
