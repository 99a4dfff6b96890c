// SPDX-License-Identifier: Apache-2.0
//
// DeformConv: the sample of a tap (codegen_deform_conv.cpp).

//# kSample
const idx top = place / OW * STRIDE_H - PAD_H, left = place % OW * STRIDE_W - PAD_W;
const auto sample = [&](idx k) {
  if (position >= POSITIONS || k >= K) return 0.f;
  const int tap = (int)(k % TAPS);
  const idx channel = group * GC + k / TAPS,
            places = (image * OFFSET_GROUPS + channel / (C / OFFSET_GROUPS)) * TAPS + tap;
  // Whole pixels and what is left of an offset, so that no place of a large image is rounded.
  const float oy = widen(OFFSETS[places * 2 * AREA + place]),
              ox = widen(OFFSETS[(places * 2 + 1) * AREA + place]);
  float sum = 0;
  if (fabsf(oy) < 1e9f && fabsf(ox) < 1e9f) {
    const float y = oy - floorf(oy), x = ox - floorf(ox);
    const idx iy = top + tap / KW * DILATION_H + (idx)floorf(oy),
              ix = left + tap % KW * DILATION_W + (idx)floorf(ox);
    const bool inside =
        iy < H && ix < W && (iy >= 0 || (iy == -1 && y > 0)) && (ix >= 0 || (ix == -1 && x > 0));
    const auto* plane = FROM + (image * C + channel) * H * W;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const idx py = iy + i / 2, px = ix + i % 2;
      if (!inside || py < 0 || py >= H || px < 0 || px >= W) continue;
      sum += (i / 2 ? y : 1 - y) * (i % 2 ? x : 1 - x) * widen(plane[py * W + px]);
    }
  }
  return sum * MASK(places * AREA + place);
};
const auto filter_at = [&](idx f, idx k) { return widen(FILTERS[(group * GF + f) * K + k]); };
