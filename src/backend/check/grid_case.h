// SPDX-License-Identifier: Apache-2.0
//
// For the tests of all backends: the layer of a one-node graph, some of whose values lie on grids of bytes,
// with random operands, and the comparison of a tactic's result with the oracle on the same integers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backend/tactic.h"

namespace lathe {

class GridCase {
 public:
  // `graph` as text; the layer may also have these types.
  explicit GridCase(const std::string& graph, std::vector<DType> allowed_types = {});

  const Node& node() const { return graph_.node(graph_.order()[0]); }
  const Graph& graph() const { return graph_; }
  LayerQuery query() const { return {graph_, graph_.order()[0], ranges_}; }
  Extents extents(ValueId id) const;

  // As the tactic reads it, in the order of its format; of constants nothing.
  std::vector<std::byte> stored_operand(const Tactic& tactic, size_t i) const;
  // What the oracle gives for these operands, in the tactic's type.
  Tensor expected(const Tactic& tactic) const;
  // A value as bytes of its grid, or weights as whatever the tactic packs.
  bool stores_integers(const Tactic& tactic) const;
  // A value as bytes that are floats.
  static bool stores_small_floats(const Tactic& tactic);

 private:
  Tensor operand(const Tactic& tactic, size_t i) const;
  void round_constants();

  Graph graph_;
  SymbolRanges ranges_;
  std::vector<Tensor> numbers_;  // of inputs that are no constants
};

// Of products of floats of 8 bits: exact but for rounding to FP32, or cut off 13 bits behind the leading one,
// as tensor cores do.
enum class SmallFloatSums : uint8_t { Whole, Cut };

// `result` is what the tactic wrote. Bytes may differ by one step, and one in 200 of them does where sums are
// scaled in FP32, one in 40 where the oracle rounds them to 16 bits in between, one in 10 where sums are cut;
// floats differ by rounding alone. A difference is a test failure that names `name`.
void expect_on_grid(const GridCase& layer, const Tactic& tactic, const std::byte* result,
                    const Tensor& expected, const std::string& name,
                    SmallFloatSums sums = SmallFloatSums::Whole);

// "[item, item, ...]" as scales and zero points of a grid are written.
std::string repeated_list(int64_t count, const std::string& item);

}  // namespace lathe
