// SPDX-License-Identifier: Apache-2.0
//
// Weights of a recurrent layer that the run brings, put in the order in which its kernels read them
// (recurrent_plan.cpp does the same with constants). Bodies of kernels; a thread for each packed element.
//
// The generator writes in front:
//   T                     type of packed elements
//   COUNT                 packed elements
//   FROM, TO              the weights, and packed memory
// of w
//   N, I, KP              rows and columns of w, and packed columns
// of rows of r
//   HIDDEN                columns of r, and rows of a gate
//   FIRST_GATE, INPUTS    gates that the product has
//   EACH, ELEMENTS        fragments of a step along k, and elements that a lane has of one
//   OF_WARP, OF_BLOCK     elements of a warp and of a block
//   PART, WARP_UNITS      hidden values of a block and of a warp
//   TENSOR, JOINS         fragments are operands of tensor cores, which have all gates of four values

//# kColumns
const idx i = (idx)blockIdx.x * 256 + threadIdx.x;
if (i >= COUNT) return;
const idx row = i / KP, k = i % KP;
TO[i] = Narrow<T>::from(row < N && k < I ? widen(FROM[row * I + k]) : 0.f);

//# kRows
const idx i = (idx)blockIdx.x * 256 + threadIdx.x;
if (i >= COUNT) return;
const int fragment = (int)(i % OF_WARP) / (32 * ELEMENTS), lane = (int)(i / ELEMENTS % 32);
const int e = (int)(i % ELEMENTS), step = fragment / EACH, part = fragment % EACH;
int gate, unit, k;
if constexpr (TENSOR) {
  const int row = lane / 4 + e / 2 % 2 * 8;
  k = step * 16 + lane % 4 * 2 + e % 2 + e / 4 * 8;
  gate = JOINS ? row / 4 : part % INPUTS;
  unit = JOINS ? part * 4 + row % 4 : part / INPUTS * 16 + row;
} else {
  constexpr int LANES = 32 / (INPUTS > 2 ? 4 : INPUTS);
  gate = lane / LANES;
  unit = part;
  k = (step * LANES + lane % LANES) * 4 + e;
}
const int own = (int)(i % OF_BLOCK / OF_WARP) * WARP_UNITS + unit;
const idx at = i / OF_BLOCK * PART + own;
const bool inside = gate < INPUTS && own < PART && at < HIDDEN && k < HIDDEN;
TO[i] = Narrow<T>::from(inside ? widen(FROM[((FIRST_GATE + gate) * HIDDEN + at) * HIDDEN + k]) : 0.f);
