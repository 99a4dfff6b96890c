// SPDX-License-Identifier: Apache-2.0
//
// For the tests of all backends: a one-node graph with random data, what the operator means for it
// (evaluate_node), and the comparison of a tactic's result with that.
//
// Random values have few mantissa bits, so that BF16 and FP16 tactics get the same inputs as the oracle;
// their results may then differ by one rounding of the result.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/tactic.h"
#include "ir/op.h"
#include "ir/pointwise.h"

namespace lathe {

struct CheckedInput {
  DType dtype = DType::Float32;
  Extents extents;
  bool constant = false;
  double low = -2, high = 2;
  bool absent = false;
  Tensor value = {};  // instead of random elements, for operators whose inputs are tables
};

struct LayerCase {
  Op op;
  std::vector<CheckedInput> inputs;
  PointwiseProgram epilogue;
  std::vector<CheckedInput> operands;  // of the epilogue
  size_t outputs = 1;
  std::vector<size_t> unasked = {};  // of the outputs: nobody reads them
  std::vector<DType> allowed_types;
  // Allowed difference relative to the largest result, times the tactic's error factor, for FP32 results.
  double tolerance = 2e-6;
  bool all_bits = false;  // random values use all of FP32's mantissa
  // Roundings to 16 bits between input and result, for 16-bit types.
  double rounding = 1;
  // The first dim of inputs that have the rank and batch of input 0 is a symbol: a kernel made for all
  // batches.
  bool dynamic_batch = false;
  TensorType from, to;  // of a Reformat
  // Results of what the operator's evaluation refuses and a device passes over (an index outside of its dim).
  std::vector<Tensor> expected = {};
  // Where the machine is only emulated: this many tactics of each type and format are run.
  int emulated = 100;
};

// What a few elements of the float inputs that are no constants are made of.
enum class Special : uint8_t { None, NaN, Infinity, Tiny /* denormal numbers and -0 */ };
inline constexpr Special kSpecials[] = {Special::NaN, Special::Infinity, Special::Tiny};

struct LayerProblem {
  Special special = Special::None;
  Graph graph;
  NodeId node = kNoNode;
  std::vector<Tensor> inputs, expected;
  SymbolRanges ranges;
  SymbolValues symbols;

  LayerQuery query() const { return {graph, node, ranges}; }
  std::vector<Extents> input_extents() const;  // absent ones are empty
  std::vector<Extents> output_extents() const;
};
LayerProblem make_problem(const LayerCase& layer, Special special = Special::None);
// One for each of kSpecials; none for a layer of many operations, which the oracle takes long for.
std::vector<LayerProblem> special_problems(const LayerCase& layer, const LayerProblem& plain);

// May the tactic be held to the rules for such inputs? NaN: where the oracle has NaN. Infinity: not finite
// where the oracle is infinite; transforms (Winograd, Strassen) and approximations may make NaN of it.
// Tactics with an error factor may spread both to neighbours, because they add up sums of several results.
// Denormal numbers: not in float16, where they are zero.
bool is_checked_with(const Tactic& tactic, Special special);

// Half of the distance from 1 to the next number of the type; 0 for types that need no allowance.
double rounding_of(DType type);

// "name input types -> output types".
std::string describe(const Tactic& tactic);

// Memory of exactly this content: a sanitizer sees the first byte too many.
class OperandMemory {
 public:
  OperandMemory() = default;
  OperandMemory(const std::vector<std::byte>& content, size_t alignment);
  std::byte* data() const { return bytes_.get(); }

 private:
  struct Free {
    size_t alignment = 0;
    void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(alignment)); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

// The operands of a problem as the tactic wants them stored; absent or packed ones are empty. Outputs are
// poisoned and have a guard behind them.
struct LayerBuffers {
  std::vector<std::vector<std::byte>> inputs, outputs;
};
LayerBuffers make_buffers(const LayerProblem& problem, const Tactic& tactic);

// A test failure that names `what` when a result is wrong, something was written behind it, or padding
// channels are not 0.
void expect_results(const LayerCase& layer, const LayerProblem& problem, const Tactic& tactic,
                    const LayerBuffers& buffers, const std::string& what);

}  // namespace lathe
