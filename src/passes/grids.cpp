// SPDX-License-Identifier: Apache-2.0
#include "passes/grids.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include "ir/block_grid.h"

namespace lathe {
namespace {

struct Reach {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

Reach clamped(const Reach& x, double low, double high) {
  return {std::clamp(x.low, low, high), std::clamp(x.high, low, high)};
}

// Where the result of a step lies, given where its first operand does. Only what can bound a value is known.
Reach after(const PointwiseStep& step, const Reach& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (step.code) {
    case PointwiseCode::Identity:
      return x;
    case PointwiseCode::Relu:
      return clamped(x, 0, kInfinity);
    case PointwiseCode::Clip:
      return step.alpha <= step.beta ? clamped(x, step.alpha, step.beta) : Reach{};
    case PointwiseCode::Sigmoid:
    case PointwiseCode::HardSigmoid:
      return {0, 1};
    case PointwiseCode::Tanh:
      return {-1, 1};
    default:
      return {};
  }
}

bool is_rank_kept(const Op& op) {
  return std::holds_alternative<Slice>(op) || std::holds_alternative<Split>(op) ||
         std::holds_alternative<Expand>(op) || std::holds_alternative<Tile>(op) ||
         std::holds_alternative<DepthToSpace>(op);
}

bool picks_elements(const Node& node) {
  const Op& op = node.op;
  if (const auto* pool = std::get_if<Pool>(&op)) return pool->kind == PoolKind::Max;
  if (const auto* resize = std::get_if<Resize>(&op)) return resize->mode == ResizeMode::Nearest;
  if (const auto* pointwise = std::get_if<Pointwise>(&op))  // every grid has zero
    return pointwise->code == PointwiseCode::Relu || pointwise->code == PointwiseCode::Identity;
  return std::holds_alternative<ReshapeOp>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Gather>(op) || is_rank_kept(op);
}

}  // namespace

std::optional<Quantization> grid_of_dequantize(const Graph& graph, const Node& node) {
  const auto* op = std::get_if<DequantizeLinear>(&node.op);
  if (!op || !node.epilogue.empty()) return std::nullopt;
  const Value& x = graph.value(node.inputs[0]);
  const bool floats = x.dtype == DType::Float8E4M3FN;
  if (!floats && x.dtype != DType::Int8 && x.dtype != DType::UInt8 && x.dtype != DType::Int4 &&
      x.dtype != DType::UInt4)
    return std::nullopt;
  const bool blocked = op->block_size != 0;
  if (floats && blocked) return std::nullopt;  // no kernel multiplies by those
  Quantization grid{.dtype = x.dtype == DType::Int8 || x.dtype == DType::Int4 ? DType::Int8 : DType::UInt8};
  if (floats || (blocked && (x.dtype == DType::Int4 || x.dtype == DType::UInt4))) grid.dtype = x.dtype;
  const Tensor& scale = graph.value(node.inputs[1]).constant;
  if (!scale || !scale.has_bytes() || (scale.rank() > 1 && !blocked) || scale.size() == 0)
    return std::nullopt;
  const std::vector<double> scales = scale.to_doubles();
  grid.scales.assign(scales.begin(), scales.end());
  if (blocked)  // a block of zeros: any scale will do
    std::replace(grid.scales.begin(), grid.scales.end(), 0.0f, 1.0f);
  grid.zeros.assign(scales.size(), 0);
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const Tensor& zero = graph.value(node.inputs[2]).constant;
    if (!zero || !zero.has_bytes() || (zero.size() != 1 && zero.size() != scale.size())) return std::nullopt;
    const std::vector<int64_t> zeros = zero.to_int64s();
    for (size_t i = 0; i < scales.size(); ++i)
      grid.zeros[i] = static_cast<int32_t>(zeros[zeros.size() == 1 ? 0 : i]);
  }
  if (scales.size() > 1 || blocked)
    grid.axis = op->axis < 0 ? op->axis + static_cast<int64_t>(x.shape.size()) : op->axis;
  if (blocked && block_of(grid, x.shape) != op->block_size) return std::nullopt;
  return quantization_error(grid, x.shape).empty() ? std::optional(grid) : std::nullopt;
}

std::optional<Quantization> grid_of_program(const PointwiseProgram& program) {
  if (program.empty()) return std::nullopt;
  if (program.steps.back().code == PointwiseCode::RoundToE4M3) {
    const Quantization grid{.dtype = DType::Float8E4M3FN, .scales = {program.steps.back().alpha}};
    return quantization_error(grid, {}).empty() ? std::optional(grid) : std::nullopt;
  }
  if (program.steps.back().code != PointwiseCode::RoundTo) return std::nullopt;
  std::vector<Reach> values(static_cast<size_t>(program.input_count));
  for (const PointwiseStep& step : program.steps) {
    if (&step == &program.steps.back()) break;
    values.push_back(after(step, values[static_cast<size_t>(step.operands[0])]));
  }
  const PointwiseStep& rounds = program.steps.back();
  const Reach range = values[static_cast<size_t>(rounds.operands[0])];
  const double low = std::nearbyint(range.low / static_cast<double>(rounds.alpha)),
               high = std::nearbyint(range.high / static_cast<double>(rounds.alpha));
  // Zero is on the grid too, because padding is.
  const double least = std::min(low, 0.0), most = std::max(high, 0.0);
  if (!(most - least <= 255)) return std::nullopt;
  const Quantization grid{.scales = {rounds.alpha}, .zeros = {static_cast<int32_t>(-least)}};
  return quantization_error(grid, {}).empty() ? std::optional(grid) : std::nullopt;
}

std::optional<Quantization> grid_of_moved(const Graph& graph, const Node& node) {
  if (!node.epilogue.empty() || node.inputs.empty() || node.inputs[0] == kNoValue) return std::nullopt;
  const std::optional<Quantization>& grid = graph.value(node.inputs[0]).quantization;
  if (!grid) return std::nullopt;
  if (std::holds_alternative<Concat>(node.op)) {
    const bool equal = std::all_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId v) { return graph.value(v).quantization == grid; });
    return equal && grid->is_per_tensor() ? grid : std::nullopt;
  }
  if (!picks_elements(node)) return std::nullopt;
  if (grid->is_per_tensor()) return grid;
  const auto* transpose = std::get_if<Transpose>(&node.op);
  const Shape& shape = graph.value(node.inputs[0]).shape;
  if (!transpose || transpose->perm.size() != shape.size()) return std::nullopt;
  return transposed(*grid, shape, transpose->perm);
}

}  // namespace lathe
