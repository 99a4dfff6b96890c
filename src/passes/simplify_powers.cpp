// SPDX-License-Identifier: Apache-2.0
//
//   x^1    ->  Identity(x)       x^2    ->  Square(x)
//   x^3    ->  Square(x) * x     x^4    ->  Square(Square(x))
//   x^-1   ->  Reciprocal(x)     x^-2   ->  Square(Reciprocal(x))
//   x^0.5  ->  Sqrt(x)           x^-0.5 ->  Rsqrt(x)             where x is nowhere below +0
//
// Products and roots are computed exactly to a rounding or two, at a tenth of a power's cost or less, and
// other passes know them. x^-2 squares the reciprocal: the square of a large x overflows where x^-2 does
// not vanish.
//
// Must not fire when the exponent is no constant of one element or broadcasts x to another shape, nor on the
// roots of what may be negative: (-0)^0.5 is +0 and (-inf)^0.5 is +inf, where Sqrt gives -0 and NaN. Integers
// become products only: their other powers are whole, too.
#include <cmath>

#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_nowhere_negative(const Graph& graph, ValueId value, int depth = 4);

bool gives_no_sign(const Graph& graph, const Node& node, const Pointwise& op, int depth) {
  using C = PointwiseCode;
  const auto holds = [&](size_t i) { return is_nowhere_negative(graph, node.inputs[i], depth); };
  switch (op.code) {
    case C::Square:
    case C::Abs:
    case C::Exp:
    case C::Sigmoid:
    case C::Softplus:
      return true;
    case C::Clip:
      return op.alpha > 0;
    case C::Sqrt:
    case C::Reciprocal:
    case C::Identity:
      return holds(0);
    case C::Add:
      return holds(0) && holds(1);
    case C::Mul:
      return node.inputs[0] == node.inputs[1] || (holds(0) && holds(1));
    default:
      return false;
  }
}

bool gives_no_sign(const Graph& graph, const Node& node, const Reduce& op, int depth) {
  switch (op.kind) {
    case ReduceKind::L1:
    case ReduceKind::L2:
    case ReduceKind::SumSquare:
      return true;
    case ReduceKind::Sum:
    case ReduceKind::Mean:
      return is_nowhere_negative(graph, node.inputs[0], depth);
    default:
      return false;
  }
}

// +0 or above, or NaN.
bool is_nowhere_negative(const Graph& graph, ValueId value, int depth) {
  if (const auto scalar = scalar_constant(graph, value)) return !std::signbit(*scalar);
  if (value == kNoValue || depth == 0) return false;
  const NodeId id = graph.value(value).producer;
  if (const auto* op = plain_op<Pointwise>(graph, id))
    return gives_no_sign(graph, graph.node(id), *op, depth - 1);
  if (const auto* op = plain_op<Reduce>(graph, id))
    return gives_no_sign(graph, graph.node(id), *op, depth - 1);
  return false;
}

// What takes the place of a power: `last`, of the result of `first` where there is one, and of x where it
// takes two operands.
struct PowerSteps {
  std::optional<PointwiseCode> first;
  PointwiseCode last;
};

std::optional<PowerSteps> steps_of_power(const Graph& graph, ValueId x, double exponent) {
  using C = PointwiseCode;
  if (exponent == 1) return PowerSteps{{}, C::Identity};
  if (exponent == 2) return PowerSteps{{}, C::Square};
  if (exponent == 3) return PowerSteps{C::Square, C::Mul};
  if (exponent == 4) return PowerSteps{C::Square, C::Square};
  if (!is_float(graph.value(x).dtype)) return std::nullopt;
  if (exponent == -1) return PowerSteps{{}, C::Reciprocal};
  if (exponent == -2) return PowerSteps{C::Reciprocal, C::Square};
  if (std::abs(exponent) == 0.5 && is_nowhere_negative(graph, x))
    return PowerSteps{{}, exponent > 0 ? C::Sqrt : C::Rsqrt};
  return std::nullopt;
}

bool simplify_power(Graph& graph, PassContext& context, NodeId id) {
  const ValueId x = graph.node(id).inputs[0], exponent = graph.node(id).inputs[1];
  const auto number = scalar_constant(graph, exponent);
  const Value& result = graph.value(result_of(graph, id));
  if (!number || graph.value(x).shape != result.shape || graph.value(x).dtype != result.dtype) return false;
  // An integer with a float exponent saturates where products wrap around.
  if (!is_float(result.dtype) && is_float(graph.value(exponent).dtype)) return false;
  const auto steps = steps_of_power(graph, x, *number);
  if (!steps || !context.may_change()) return false;
  std::vector<ValueId> inputs = {x};
  if (steps->first) {
    const char* suffix = *steps->first == PointwiseCode::Square ? "_square" : "_reciprocal";
    inputs[0] = insert_like(graph, id, suffix, Pointwise{*steps->first}, {x});
  }
  if (pointwise_info(steps->last).arity == 2) inputs.push_back(x);
  GraphEditor editor(graph);
  editor.set_op(id, Pointwise{steps->last});
  editor.set_inputs(id, std::move(inputs));
  return true;
}

}  // namespace

bool simplify_powers(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_pointwise(graph, id, PointwiseCode::Pow)) continue;
    changed |= simplify_power(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
