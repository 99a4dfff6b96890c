// SPDX-License-Identifier: Apache-2.0
//
// How a recurrent layer is shared out over the blocks of a GPU.
//
// A cluster of blocks keeps the state of a few sequences for all steps. A warp has some hidden values, all
// their gates and all of k: what its lanes sum up meets within the warp, whose lanes then make the new values
// and send them to all blocks. Rows of r are fragments of 512 bytes, 16 for each lane: the first ones of a
// warp stay in registers, the next ones in shared memory, and the rest is read from the L2 in each step.
//
// Plain multiply-adds: lanes are groups, one for each gate (a power of two of them), of lanes that share out
// k, four elements each in turn; a fragment is one hidden value of a step along k. Tensor cores: a fragment
// is the left operand of a product of 16 rows (four hidden values with four gates, or sixteen with one) and
// sixteen of k, and eight sequences are its columns.
#pragma once

#include <optional>

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

enum RecurrentInput : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

struct RecurrentSizes {
  Dim steps, batch;
  int64_t width = 0, hidden = 0, gates = 1;
  // A GRU whose last gate multiplies h times the reset gate: a second product, and a second meeting, each
  // step.
  bool multiplies_twice = false;
};
// Of a layer whose weights have known sizes.
RecurrentSizes recurrent_sizes(const LayerQuery& query);

// What a warp multiplies with the state at once: some gates of its hidden values, `each` fragments for each
// step along k.
struct RecurrentRows {
  int64_t first_gate = 0, gates = 1;
  int each = 1, steps = 1;
  int kept = 0, staged = 0;  // steps whose fragments lie in registers and in shared memory

  int fragments() const { return each * steps; }
};

struct RecurrentPlan {
  RecurrentSizes sizes;
  DType type = DType::Float32;
  int blocks = 1, sequences = 1;  // of a cluster
  int warps = 1;
  int64_t units = 0, warp_units = 0;  // hidden values of a block and of a warp
  int64_t state_pitch = 0;            // elements between the states of two sequences
  int items = 1;                      // new values that a lane makes
  std::vector<RecurrentRows> products;
  int64_t staged_at = 0, shared_bytes = 0;

  bool has_tensor_cores() const { return is_half(type); }
  // A lane has all gates of a hidden value once lanes have met; else a product has gates of its own.
  bool joins_gates() const { return !sizes.multiplies_twice && sizes.gates > 1; }
  // Groups of lanes with multiply-adds, and values that a warp makes, filled up to a power of two.
  int lane_groups() const { return sizes.multiplies_twice ? 2 : sizes.gates > 1 ? 4 : 1; }
  int padded_values() const;
  int64_t staged_bytes(const RecurrentRows& rows) const {
    return int64_t{warps} * rows.staged * rows.each * 512;
  }
  // Expected time at those extents.
  double microseconds(const DeviceProperties& gpu, int64_t steps, int64_t batch) const;
};

// Nothing where registers or shared memory do not hold what a block needs.
std::optional<RecurrentPlan> plan_recurrent(const RecurrentSizes& sizes, DType type, int blocks,
                                            int sequences, const DeviceProperties& gpu);

// The rows of r in fragments: [block][warp][fragment][lane] of 16 bytes.
int64_t recurrent_rows_count(const RecurrentPlan& plan, const RecurrentRows& rows);  // elements
PackedBlock recurrent_rows_block(const RecurrentPlan& plan, const RecurrentRows& rows, const Tensor& r);
// w, filled up with zeros to whole tiles.
int64_t recurrent_inputs_rows(const RecurrentSizes& sizes);
int64_t recurrent_inputs_count(const RecurrentSizes& sizes);  // elements
PackedBlock recurrent_inputs_block(const RecurrentSizes& sizes, DType type, const Tensor& w);

// Where kernels find packed weights: block 0 is w, 1 and 2 are rows of r. The build makes blocks "w", "r0"
// and "r1" of constants; weights that the run brings are packed by kernels, into the front of scratch memory.
struct RecurrentWeights {
  bool of_run = false;
  std::vector<int64_t> places;  // of each block in scratch memory
  int64_t bytes = 0;            // of scratch memory

  std::string pointer(KernelBuilder& b, size_t block, std::string_view type) const;
};
RecurrentWeights recurrent_weights(const LayerQuery& query, const RecurrentPlan& plan);
// The launches that pack weights of the run.
std::vector<KernelSource> recurrent_pack_kernels(const LayerQuery& query, const Tactic& tactic,
                                                 const RecurrentPlan& plan, const RecurrentWeights& weights);

// The launch that multiplies x of all steps with w, adds the biases, and leaves FP32 in scratch memory,
// behind the weights: (steps * batch, gates * hidden).
KernelSource recurrent_inputs_kernel(const LayerQuery& query, const Tactic& tactic,
                                     const RecurrentSizes& sizes, const RecurrentWeights& weights,
                                     const Device& device);
// The launch of all steps.
KernelSource recurrent_steps_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentPlan& plan,
                                    const RecurrentWeights& weights);

}  // namespace lathe::cuda
