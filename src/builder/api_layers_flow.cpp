// SPDX-License-Identifier: Apache-2.0
//
// Control flow of the network API: bodies that functions fill.
#include "builder/network_state.h"
#include "runtime/api_bridge.h"

namespace lathe::v1 {

namespace {

using State = NetworkTensor::State;

// Gives the body's function a builder for the time of the call.
template <class Fill>
void fill_body(const std::shared_ptr<State>& around, onnx::BodyBuilder& body, const Fill& fill) {
  const auto state = std::make_shared<State>(around, body);
  const std::unique_ptr<State, void (*)(State*)> at_end(state.get(), [](State* s) { s->close(); });
  fill(state);
  body.builder.editor().remove_dead_nodes();
}

void add_outputs(State& body, const NetworkTensors& tensors, const std::string& who) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ValueId id = body.resolve(tensors[i], who);
    if (id == kNoValue)
      throw Error(ErrorKind::Input,
                  {.what = "result " + std::to_string(i) + " of its body is none", .where = who});
    body.builder().add_output("result_" + std::to_string(i), id);
  }
}

onnx::Values add_layer(State& state, onnx::WithBodies made, const std::string& name,
                       const std::string& op_type) {
  return state.builder().add(name, std::move(made.op), std::move(made.operands), {{name, op_type}},
                             made.outputs);
}

}  // namespace

NetworkTensors NetworkBuilder::tensors(const std::vector<int32_t>& ids) const {
  NetworkTensors all;
  for (const ValueId id : ids) all.push_back(id == kNoValue ? NetworkTensor() : NetworkTensor(state_, id));
  return all;
}

NetworkTensors NetworkBuilder::if_else(const NetworkTensor& condition, const Branch& then,
                                       const Branch& otherwise, const std::string& name) {
  return translate_errors([&] {
    const std::string layer = state_->layer_name(name, "If"), who = "layer '" + layer + "' (If)";
    const auto filled_by = [&](const Branch& branch) -> onnx::FillBody {
      return [&](onnx::BodyBuilder& body) {
        fill_body(state_, body, [&](const std::shared_ptr<State>& state) {
          NetworkBuilder builder(state);
          add_outputs(*state, branch(builder), who);
        });
      };
    };
    onnx::WithBodies made = onnx::make_if(state_->builder(), state_->resolve(condition, who), filled_by(then),
                                          filled_by(otherwise));
    return tensors(add_layer(*state_, std::move(made), layer, "If"));
  });
}

NetworkTensors NetworkBuilder::loop(const NetworkTensor& trip_count, const NetworkTensor& condition,
                                    const NetworkTensors& carried, const LoopBody& function,
                                    const std::string& name) {
  return translate_errors([&] {
    const std::string layer = state_->layer_name(name, "Loop"), who = "layer '" + layer + "' (Loop)";
    onnx::Values operands = {state_->resolve(trip_count, who), state_->resolve(condition, who)};
    onnx::InputNames names = {"iteration", "condition"};
    for (const NetworkTensor& tensor : carried) {
      operands.push_back(state_->resolve(tensor, who));
      names.push_back("carried_" + std::to_string(names.size() - 2));
    }
    const onnx::FillBody fill = [&](onnx::BodyBuilder& body) {
      fill_body(state_, body, [&](const std::shared_ptr<State>& state) {
        NetworkBuilder builder(state);
        NetworkTensors inputs;
        for (const ValueId id : body.own_inputs) inputs.push_back({state, id});
        const LoopStep step = function(builder, inputs[0], NetworkTensors(inputs.begin() + 2, inputs.end()));
        if (step.carried.size() != carried.size())
          throw Error(ErrorKind::Input,
                      {.what = "its body gives " + std::to_string(step.carried.size()) + " values to carry",
                       .where = who,
                       .why = std::to_string(carried.size()) + " are carried"});
        NetworkTensors results = {step.go_on ? step.go_on : inputs[1]};
        results.insert(results.end(), step.carried.begin(), step.carried.end());
        results.insert(results.end(), step.scanned.begin(), step.scanned.end());
        add_outputs(*state, results, who);
      });
    };
    onnx::ChangingDims changing;
    onnx::WithBodies made = onnx::make_loop(state_->builder(), layer, operands, names, fill, changing);
    return tensors(add_layer(*state_, std::move(made), layer, "Loop"));
  });
}

}  // namespace lathe::v1
