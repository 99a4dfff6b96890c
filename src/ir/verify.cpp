// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <set>

#include "base/error.h"

namespace lathe {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph, int depth = 0)
      : graph_(graph), depth_(depth), defined_(graph.value_count(), false) {}

  void run() {
    for (ValueId id : graph_.inputs()) {
      require_id(id, "the graph's inputs");
      require(graph_.value(id).producer == kNoNode && !graph_.value(id).is_constant(), "input ",
              graph_.value(id).name, " is computed or constant");
      define(id, "the graph's inputs");
    }
    for (NodeId id : graph_.order()) verify_node(id);
    for (ValueId id : graph_.outputs()) {
      require_id(id, "the graph's outputs");
      require(is_known(id), "output ", graph_.value(id).name, " is never computed");
      verify_value(id);
    }
  }

 private:
  void verify_node(NodeId id) {
    require(id >= 0 && static_cast<size_t>(id) < graph_.node_count(),
            "the order holds an id that is no node");
    const Node& node = graph_.node(id);
    const std::string what = "node " + node.name;
    require(!node.removed, what, " was removed but stands in the order");
    require(node_names_.insert(node.name).second, what, ": the name is used twice");
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      require_id(input, what);
      require(is_known(input), what, " reads ", graph_.value(input).name, " before it is computed");
      verify_value(input);
    }
    verify_epilogue(node, what);
    verify_bodies(node, what);
    require(!node.outputs.empty(), what, " has no output");
    for (ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      require_id(output, what);
      require(graph_.value(output).producer == id, what, " is not the producer of ",
              graph_.value(output).name);
      require(!graph_.value(output).is_constant(), what, " writes the constant ", graph_.value(output).name);
      define(output, what);
      verify_value(output);
    }
  }

  void verify_bodies(const Node& node, const std::string& what) {
    for (const Body& body : bodies_of(node.op)) {
      require(static_cast<bool>(body), what, " has no body");
      require(depth_ < kMaxBodies, what, ": bodies lie in each other too deep");
      Verifier(body.graph(), depth_ + 1).run();
    }
  }

  void verify_epilogue(const Node& node, const std::string& what) {
    if (node.epilogue.empty()) return;
    const PointwiseProgram& program = node.epilogue;
    require(program.input_count >= 1 && node.inputs.size() + 1 >= static_cast<size_t>(program.input_count),
            what, " has fewer inputs than its epilogue reads");
    for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i) {
      require(node.inputs[i] != kNoValue, what, ": an operand of the epilogue is absent");
    }
    verify_program(program, what + ": epilogue");
    require(node.outputs[0] != kNoValue, what, " has an epilogue but no first output");
  }

  void verify_program(const PointwiseProgram& program, const std::string& what) {
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const PointwiseStep& step = program.steps[i];
      require(static_cast<int>(step.operands.size()) == pointwise_info(step.code).arity, what, ": step ",
              std::to_string(i), " has a wrong number of operands");
      for (int operand : step.operands) {
        require(operand >= 0 && operand < program.input_count + static_cast<int>(i), what, ": step ",
                std::to_string(i), " reads what is not computed yet");
      }
    }
  }

  void verify_value(ValueId id) {
    const Value& value = graph_.value(id);
    require(!value.name.empty() && graph_.find_value(value.name) == id, "value name \"", value.name,
            "\" is not unique");
    require(value.dtype != DType::Undefined, "value ", value.name, " has no type");
    if (value.quantization) verify_quantization(value);
    if (!value.is_constant()) return;
    require(value.constant.dtype() == value.dtype && to_shape(value.constant.extents()) == value.shape,
            "constant ", value.name, " differs from its type or shape");
    require(value.format.is_linear(), "constant ", value.name, " is not linear");
  }

  void verify_quantization(const Value& value) {
    const std::string error = quantization_error(*value.quantization, value.shape);
    require(error.empty(), "value ", value.name, ": ", error);
    const bool is_wide_float = is_float(value.dtype) && dtype_info(value.dtype).bits >= 16;
    require(is_wide_float || value.dtype == value.quantization->dtype, "value ", value.name,
            " is neither a float nor stored as its grid says");
    require(!value.is_constant() || !value.is_stored_quantized(), "constant ", value.name,
            " is stored as numbers of a grid");
  }

  bool is_known(ValueId id) const {
    return defined_[static_cast<size_t>(id)] || graph_.value(id).is_constant();
  }
  void define(ValueId id, const std::string& what) {
    require(!defined_[static_cast<size_t>(id)], what, ": ", graph_.value(id).name, " is defined twice");
    defined_[static_cast<size_t>(id)] = true;
  }
  void require_id(ValueId id, const std::string& what) {
    require(id >= 0 && static_cast<size_t>(id) < graph_.value_count(), what, ": an id is out of range");
  }
  // The pieces of the message are joined only when they are needed: this runs after every pass.
  template <class... Pieces>
  void require(bool condition, const Pieces&... pieces) {
    if (condition) return;
    std::string rule;
    ((rule += pieces), ...);
    check(false, "graph " + graph_.name() + ": " + rule);
  }

  const Graph& graph_;
  const int depth_;
  std::vector<bool> defined_;
  std::set<std::string> node_names_;
};

}  // namespace

void verify_structure(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace lathe
