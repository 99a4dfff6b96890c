// SPDX-License-Identifier: Apache-2.0
#include "plan/made_constants.h"

#include <algorithm>

#include "base/error.h"
#include "ops/build.h"

namespace lathe {
namespace {

// Of all that a graph computes: INT4 weights become FP32 (8), are scaled in FP64 and moved.
constexpr int64_t kMostGrowth = 64, kFreeBytes = 64 << 20;

void require_of_graph(bool condition, const std::string& what) {
  if (!condition) throw_input_error("the graph of made constants " + what);
}

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph), tensors_(graph.value_count()) {}

  std::vector<Tensor> read() {
    require_of_graph(graph_.inputs().empty(), "has inputs");
    for (size_t v = 0; v < graph_.value_count(); ++v) {
      const Tensor& constant = graph_.value(static_cast<ValueId>(v)).constant;
      require_of_graph(!constant || constant.has_bytes() || constant.size() == 0, "reads what is not there");
      tensors_[v] = constant;
      room_ += kMostGrowth * static_cast<int64_t>(constant.bytes().size());
    }
    for (const NodeId id : graph_.order()) add(graph_.node(id));
    std::vector<Tensor> outputs;
    for (const ValueId output : graph_.outputs()) outputs.push_back(tensors_[static_cast<size_t>(output)]);
    return outputs;
  }

 private:
  void add(const Node& node) {
    require_of_graph(!std::holds_alternative<Plugin>(node.op) && bodies_of(node.op).empty(),
                     "has a node of foreign code, '" + node.name + "'");
    Recipe recipe{.op = node.op, .epilogue = node.epilogue};
    for (const ValueId input : node.inputs) {
      recipe.inputs.push_back(input == kNoValue ? Tensor() : tensors_[static_cast<size_t>(input)]);
      if (const auto& made = recipe.inputs.back().recipe())
        recipe.depth = std::max(recipe.depth, made->depth + 1);
    }
    require_of_graph(recipe.depth <= kMaxRecipeDepth, "is deeper than " + std::to_string(kMaxRecipeDepth));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNoValue) continue;
      const Value& value = graph_.value(node.outputs[k]);
      require_of_graph(is_static(value.shape), "has a size that a run decides, '" + value.name + "'");
      const Extents extents = to_extents(value.shape);
      room_ -= dtype_bytes(value.dtype, element_count(extents));
      require_of_graph(room_ >= 0, "would take far more memory than the weights that it reads");
      recipe.output = k;
      tensors_[static_cast<size_t>(node.outputs[k])] =
          Tensor::without_bytes(value.dtype, extents).with_recipe(std::make_shared<Recipe>(recipe));
    }
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;  // by ValueId
  int64_t room_ = kFreeBytes;
};

}  // namespace

int64_t MadeConstantsWriter::add(const Tensor& tensor) {
  const ValueId value = value_of(tensor);
  const auto [found, is_new] = outputs_.try_emplace(value, static_cast<int64_t>(outputs_.size()));
  if (is_new) GraphEditor(graph_).mark_output(value);
  return found->second;
}

ValueId MadeConstantsWriter::value_of(const Tensor& tensor) {
  if (!tensor) return kNoValue;
  if (!tensor.recipe()) return leaf(tensor);
  const Recipe& recipe = *tensor.recipe();
  if (const auto known = nodes_.find(&recipe); known != nodes_.end()) return known->second;
  std::vector<ValueId> inputs;
  for (const Tensor& input : recipe.inputs) inputs.push_back(value_of(input));
  const size_t own = inputs.size() - (recipe.epilogue.empty() ? 0 : recipe.epilogue.input_count - 1);
  const std::vector<ValueId> operands(inputs.begin() + static_cast<std::ptrdiff_t>(own), inputs.end());
  inputs.resize(own);
  GraphEditor editor(graph_);
  const auto results = append_node(editor, "make", recipe.op, std::move(inputs), {}, {}, recipe.output + 1);
  const ValueId result = results[recipe.output];
  if (!recipe.epilogue.empty()) editor.set_epilogue(graph_.value(result).producer, recipe.epilogue, operands);
  return nodes_[&recipe] = result;
}

ValueId MadeConstantsWriter::leaf(const Tensor& tensor) {
  std::vector<ValueId>& known = leaves_[tensor.bytes().data()];
  for (const ValueId id : known)
    if (graph_.value(id).dtype == tensor.dtype() && graph_.value(id).constant.extents() == tensor.extents())
      return id;
  known.push_back(GraphEditor(graph_).add_constant("weights", tensor));
  return known.back();
}

std::vector<Tensor> made_constants(const Graph& graph) {
  return Reader(graph).read();
}

}  // namespace lathe
