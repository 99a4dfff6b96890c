// SPDX-License-Identifier: Apache-2.0
//
// What shapes alone decide: ShapeTensor, ShapeOf, Fill and random numbers of a seed. The values are made once
// per shapes, by the operator's definition; a run copies them.
#include <cstring>

#include "backend/cpu/vector/own_tactic.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kShapeValuesRunner = "ShapeValues";

class PreparedValues final : public PreparedLayer {
 public:
  explicit PreparedValues(Tensor values) : values_(std::move(values)) {}
  int members(int available) const override {
    return members_for(0.05 * static_cast<double>(values_.bytes().size()), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const std::span<const std::byte> from = values_.bytes();
    const Worker::Range part = worker.slice(static_cast<int64_t>(from.size()), 64);
    if (part.begin < part.end)
      std::memcpy(static_cast<std::byte*>(args.outputs[0]) + part.begin, from.data() + part.begin,
                  static_cast<size_t>(part.end - part.begin));
  }

 private:
  Tensor values_;
};

class ValuesKernel final : public LayerKernel {
 public:
  explicit ValuesKernel(const LayerQuery& query)
      : op_(query.layer().op), result_(query.graph.value(query.layer().outputs[0]).dtype) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    Node node;
    node.op = op_;
    node.outputs = {0};
    if (const auto* shape_of = std::get_if<ShapeOf>(&op_)) node.op = dims_of(*shape_of, context.inputs[0]);
    // The extents are known where the symbols are not: a tuner bounds sizes that only a run finds, and sizes
    // of operands' values are found before the layer is prepared.
    if (auto* fill = std::get_if<Fill>(&node.op)) fill->shape = to_shape(context.outputs[0]);
    if (auto* uniform = std::get_if<RandomUniform>(&node.op)) uniform->shape = to_shape(context.outputs[0]);
    if (auto* normal = std::get_if<RandomNormal>(&node.op)) normal->shape = to_shape(context.outputs[0]);
    return std::make_unique<PreparedValues>(
        evaluate_node(node, {.output_count = 1, .symbols = &context.symbols}, result_)[0]);
  }

 private:
  static ShapeTensor dims_of(const ShapeOf& op, const Extents& x) {
    const auto rank = static_cast<int64_t>(x.size());
    const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t begin = clamped(op.start), end = std::max(begin, op.end ? clamped(op.end->at(0)) : rank);
    return {.dims = to_shape(Extents(x.begin() + begin, x.begin() + end))};
  }
  Op op_;
  DType result_;
};

bool is_known_from_shapes(const Op& op) {
  return std::holds_alternative<ShapeTensor>(op) || std::holds_alternative<ShapeOf>(op) ||
         std::holds_alternative<Fill>(op) || std::holds_alternative<RandomUniform>(op) ||
         std::holds_alternative<RandomNormal>(op);
}

std::vector<Tactic> list_shape_values(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!is_known_from_shapes(node.op)) return {};
  Tactic t = linear_tactic(query, kShapeValuesRunner, "shape_values");
  if (!node.epilogue.empty()) t.support = Support::no("values of shapes take no epilogue");
  return {t};
}

std::unique_ptr<LayerKernel> make_shape_values(const LayerQuery& query, const Tactic&, const Machine&,
                                               const PackContext&) {
  return std::make_unique<ValuesKernel>(query);
}

}  // namespace

TacticFamily shape_values_tactics() {
  return {kShapeValuesRunner, list_shape_values, make_shape_values};
}

}  // namespace lathe::cpu
