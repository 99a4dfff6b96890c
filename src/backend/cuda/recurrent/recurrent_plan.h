// SPDX-License-Identifier: Apache-2.0
//
// How a recurrent layer is shared out over the blocks of a GPU.
//
// A cluster of blocks keeps the state of a few sequences for all steps. Each block has the gates of its part
// of the hidden values: it multiplies the whole state with its rows of r, makes its part of the new state,
// and sends that to the other blocks. Rows of r are fragments of 512 bytes, 16 for each lane of a warp: the
// first ones of a warp stay in registers, the next ones in shared memory, and the rest is read from the L2 in
// each step.
#pragma once

#include <optional>

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

inline constexpr int kRecurrentThreads = 512, kRecurrentWarps = kRecurrentThreads / 32;
enum RecurrentInput : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

struct RecurrentSizes {
  Dim steps, batch;
  int64_t width = 0, hidden = 0, gates = 1;
  // A GRU whose last gate multiplies h times the reset gate: a second product, and a second meeting, each
  // step.
  bool multiplies_twice = false;
};
// Of a layer with constant weights.
RecurrentSizes recurrent_sizes(const LayerQuery& query);

// What a block multiplies with the state at once: the rows of some gates of its hidden values. A warp has
// `each` fragments for each of its steps along k; `groups` warps have all rows, `slices` of them all of k.
struct RecurrentRows {
  int64_t first_gate = 0, gates = 0;
  int each = 1, groups = 1, slices = 1, steps = 1;
  int kept = 0, staged = 0;  // steps whose fragments lie in registers and in shared memory
  int pitch = 0;             // floats between the sums of two sequences

  int warps() const { return groups * slices; }
  int fragments() const { return each * steps; }
  int64_t staged_bytes() const { return int64_t{kRecurrentWarps} * staged * each * 512; }
};

struct RecurrentPlan {
  RecurrentSizes sizes;
  DType type = DType::Float32;
  int blocks = 1, sequences = 1;  // of a cluster
  int64_t units = 0;              // hidden values of a block
  int64_t state_pitch = 0;        // elements between the states of two sequences
  std::vector<RecurrentRows> products;
  int64_t parts_at = 0, staged_at = 0, shared_bytes = 0;

  bool has_tensor_cores() const { return is_half(type); }
  int units_of_thread() const { return has_tensor_cores() ? 2 : 1; }
  // Expected time at those extents.
  double microseconds(const DeviceProperties& gpu, int64_t steps, int64_t batch) const;
};

// Nothing where registers or shared memory do not hold what a block needs.
std::optional<RecurrentPlan> plan_recurrent(const RecurrentSizes& sizes, DType type, int blocks,
                                            int sequences, const DeviceProperties& gpu);

// The rows of r in fragments: [block][warp][fragment][lane] of 16 bytes.
PackedBlock recurrent_rows_block(const RecurrentPlan& plan, const RecurrentRows& rows, const Tensor& r);

// The launch that multiplies x of all steps with w, adds the biases, and leaves FP32 in scratch memory:
// (steps * batch, gates * hidden). It reads w as the block "w".
KernelSource recurrent_inputs_kernel(const LayerQuery& query, const Tactic& tactic,
                                     const RecurrentSizes& sizes, const Device& device);
PackedBlock recurrent_inputs_block(const RecurrentSizes& sizes, DType type, const Tensor& w);
// The launch of all steps; rows of r as the blocks "r0" and "r1".
KernelSource recurrent_steps_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentPlan& plan);

}  // namespace lathe::cuda
