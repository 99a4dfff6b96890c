// SPDX-License-Identifier: Apache-2.0
//
// The last resort: every operator in linear format and the graph's own types, through its reference
// evaluation. Slow and right. With it a valid graph always builds.
//
// It reads constants at run time and takes part in data-dependent shapes: the evaluation returns tensors with
// their true extents, from which the new symbols are read.
#include <fmt/format.h>

#include <cstring>

#include "backend/cpu/own_tactic.h"
#include "base/error.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRunner = "Reference";

class PreparedReference final : public PreparedLayer {
 public:
  PreparedReference(const Graph& graph, const Node& node, const Tactic& tactic, const ShapeContext& context)
      : graph_(graph),
        node_(node),
        tactic_(tactic),
        symbols_(context.symbols),
        inputs_(context.inputs),
        outputs_(context.outputs) {}

  int members(int) const override { return 1; }

  void run(const LayerArgs& args, const Worker&) const override {
    std::vector<Tensor> inputs(node_.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node_.inputs[i] == kNoValue) continue;
      const Value& value = graph_.value(node_.inputs[i]);
      if (value.is_constant()) {
        inputs[i] = value.constant;
        continue;
      }
      const auto bytes = static_cast<size_t>(dtype_bytes(tactic_.inputs[i].dtype, element_count(inputs_[i])));
      inputs[i] = Tensor::wrap(tactic_.inputs[i].dtype, inputs_[i],
                               {static_cast<const std::byte*>(args.inputs[i]), bytes}, nullptr);
    }
    const EvaluateContext context{
        .inputs = inputs, .output_count = node_.outputs.size(), .symbols = &symbols_};
    const std::vector<Tensor> results = evaluate_node(node_, context, tactic_.outputs[0].dtype);
    result_extents_.assign(results.size(), {});
    for (size_t i = 0; i < results.size() && i < node_.outputs.size(); ++i) {
      if (node_.outputs[i] == kNoValue || args.outputs[i] == nullptr) continue;
      store(results[i], i, args.outputs[i]);
    }
  }

  void resolve(const LayerArgs&, SymbolValues& values) const override {
    for (size_t i = 0; i < result_extents_.size(); ++i) {
      if (node_.outputs[i] == kNoValue) continue;
      const Shape& shape = graph_.value(node_.outputs[i]).shape;
      for (size_t d = 0; d < shape.size() && d < result_extents_[i].size(); ++d)
        if (const auto name = shape[d].as_symbol(); name && !values.contains(*name))
          values.emplace(*name, result_extents_[i][d]);
    }
  }

 private:
  void store(const Tensor& result, size_t index, void* address) const {
    const size_t room =
        static_cast<size_t>(dtype_bytes(tactic_.outputs[index].dtype, element_count(outputs_[index])));
    if (result.dtype() != tactic_.outputs[index].dtype || result.bytes().size() > room)
      throw_input_error(fmt::format("{} '{}' computed {} {}, but its output {} was planned as {} {} at most",
                                    op_display_name(node_.op), node_.name, dtype_name(result.dtype()),
                                    to_string(result.extents()), index,
                                    dtype_name(tactic_.outputs[index].dtype), to_string(outputs_[index])));
    if (!result.bytes().empty()) std::memcpy(address, result.bytes().data(), result.bytes().size());
    result_extents_[index] = result.extents();
  }

  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const SymbolValues symbols_;
  const std::vector<Extents> inputs_, outputs_;
  mutable std::vector<Extents> result_extents_;  // written by run(), read by resolve(), both on member 0
};

class ReferenceKernel final : public LayerKernel {
 public:
  ReferenceKernel(const LayerQuery& query, const Tactic& tactic)
      : graph_(query.graph), node_(query.layer()), tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedReference>(graph_, node_, tactic_, context);
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
};

std::vector<Tactic> list_reference(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (std::holds_alternative<Reformat>(node.op)) return {};  // formats are not the reference's business
  Tactic tactic = linear_tactic(query, kRunner, fmt::format("reference_{}", op_name(node.op)));
  tactic.last_resort = true;
  return {tactic};
}

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                            const PackContext&) {
  return std::make_unique<ReferenceKernel>(query, tactic);
}

}  // namespace

TacticFamily reference_tactics() {
  return {kRunner, list_reference, make_reference};
}

}  // namespace lathe::cpu
