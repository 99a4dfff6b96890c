// SPDX-License-Identifier: Apache-2.0
//
// The network API: graphs that are made call by call. Every layer is an ONNX operator that the importers turn
// into core operators, so that a network that was made and one that was read mean the same.
#include <algorithm>

#include "builder/edit_network.h"
#include "builder/network_state.h"
#include "ir/substitute.h"
#include "onnx/export.h"
#include "ops/build.h"
#include "runtime/api_bridge.h"

namespace lathe::v1 {

namespace {

// An operator's attribute as the importers take it.
struct ToImporters {
  onnx::AttributeValue operator()(int64_t v) const { return v; }
  onnx::AttributeValue operator()(double v) const { return static_cast<float>(v); }
  onnx::AttributeValue operator()(const std::string& v) const { return v; }
  onnx::AttributeValue operator()(const Dims& v) const { return v; }
  onnx::AttributeValue operator()(const std::vector<double>& v) const {
    return std::vector<float>(v.begin(), v.end());
  }
  onnx::AttributeValue operator()(const std::vector<std::string>& v) const { return v; }
  onnx::AttributeValue operator()(const HostTensor& v) const {
    return Tensor::wrap(to_dtype(v.type), v.dims, v.bytes, nullptr);
  }
};

[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& hint) {
  throw Error(ErrorKind::Input, {.what = what, .where = where, .hint = hint});
}

Tensor copy_of(const HostTensor& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.bytes);
  return Tensor::wrap(to_dtype(values.type), values.dims, *bytes, bytes);
}

Shape shape_of_input(const std::string& name, const Dims& dims, const std::vector<std::string>& dim_names) {
  Shape shape;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < -1)
      refuse("it has the dim " + std::to_string(dims[i]), "input '" + name + "'", "-1 is dynamic");
    const bool named = i < dim_names.size() && !dim_names[i].empty();
    shape.push_back(dims[i] >= 0 ? Dim(dims[i])
                                 : Dim::symbol(onnx::symbol_name(named ? dim_names[i]
                                                                       : name + ".dim" + std::to_string(i))));
  }
  return shape;
}

}  // namespace

// --- Network

std::vector<TensorInfo> Network::inputs() const {
  return lathe::to_public(impl_->network.inputs());
}
std::vector<TensorInfo> Network::outputs() const {
  return lathe::to_public(impl_->network.outputs());
}
std::string Network::name() const {
  return impl_->network.graph->name();
}
int Network::layer_count() const {
  return static_cast<int>(impl_->network.graph->order().size());
}
std::vector<NetworkLayer> Network::layers() const {
  const Graph& graph = *impl_->network.graph;
  const auto names = [&](const std::vector<ValueId>& ids) {
    std::vector<std::string> all;
    for (const ValueId id : ids) all.push_back(id == kNoValue ? "" : graph.value(id).name);
    return all;
  };
  std::vector<NetworkLayer> layers;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    layers.push_back(
        {node.name, std::string(op_display_name(node.op)), names(node.inputs), names(node.outputs)});
  }
  return layers;
}
void Network::to_onnx(const std::string& path) const {
  translate_errors([&] { export_onnx(*impl_->network.graph, path); });
}
std::vector<std::byte> Network::to_onnx_bytes() const {
  return translate_errors([&] {
    const std::string bytes = export_onnx(*impl_->network.graph);
    const auto all = std::as_bytes(std::span(bytes));
    return std::vector<std::byte>(all.begin(), all.end());
  });
}

// --- NetworkTensor

const NetworkTensor::State& NetworkTensor::state() const {
  if (!state_) refuse("it is none", "a tensor of a network", "only optional inputs may be absent");
  if (state_->closed)
    refuse("its body is complete", "a tensor of a body", "return it from the body's function");
  return *state_;
}
std::string NetworkTensor::name() const {
  return state().value(id_).name;
}
DataType NetworkTensor::type() const {
  return to_data_type(state().value(id_).dtype);
}
Dims NetworkTensor::dims() const {
  Dims dims;
  for (const Dim& d : state().value(id_).shape) dims.push_back(d.is_constant() ? d.value() : -1);
  return dims;
}
std::vector<std::string> NetworkTensor::dim_names() const {
  std::vector<std::string> names;
  for (const Dim& d : state().value(id_).shape) names.push_back(d.to_string());
  return names;
}

ValueId NetworkTensor::State::resolve(const NetworkTensor& tensor, const std::string& who) {
  if (!tensor) return kNoValue;
  tensor.state();  // checks that it lives
  if (tensor.state_.get() == this) return tensor.id_;
  if (!around)
    refuse("one of its inputs is a tensor of another network", who,
           "tensors belong to the builder whose call made them");
  const ValueId outer = around->resolve(tensor, who);
  return body->capture(around->builder(), outer);
}

std::string NetworkTensor::State::layer_name(const std::string& wanted, std::string_view op_type) {
  if (!wanted.empty()) return wanted;
  return std::string(op_type) + "_" + std::to_string(unnamed[std::string(op_type)]++);
}

// --- NetworkBuilder

NetworkBuilder::NetworkBuilder(const std::string& name) : state_(std::make_shared<State>(Graph())) {
  state_->builder().editor().set_name(name);
}
NetworkBuilder::NetworkBuilder(const Network& network)
    : state_(std::make_shared<State>(*network.impl().network.graph)) {}

NetworkBuilder& NetworkBuilder::use_plugins(const PluginRegistry& plugins) {
  state_->plugins = plugins.impl()->registry;
  return *this;
}

NetworkTensor NetworkBuilder::input(const std::string& name, DataType type, const Dims& dims,
                                    const std::vector<std::string>& dim_names) {
  if (name.empty()) refuse("it has no name", "an input", "names are how inputs are bound");
  if (state_->around)
    refuse("a body cannot have inputs", "input '" + name + "'", "use tensors of the network around it");
  if (state_->graph.find_value(name))
    refuse("the name is taken", "input '" + name + "'", "choose another one");
  const Shape shape = shape_of_input(name, dims, dim_names);
  return {state_, state_->builder().editor().add_input(name, to_dtype(type), shape)};
}
NetworkTensor NetworkBuilder::constant(const HostTensor& values, const std::string& name) {
  return translate_errors([&]() -> NetworkTensor {
    borrow(values, "constant '" + name + "'");  // checks the size
    return {state_, state_->builder().add_constant(state_->layer_name(name, "constant"), copy_of(values))};
  });
}
NetworkTensor NetworkBuilder::constant(DataType type, const Dims& dims, const void* data,
                                       std::shared_ptr<const void> keep_alive, const std::string& name) {
  return translate_errors([&]() -> NetworkTensor {
    const std::span bytes(static_cast<const std::byte*>(data), data_bytes(type, volume(dims)));
    return {state_,
            state_->builder().add_constant(state_->layer_name(name, "constant"),
                                           Tensor::wrap(to_dtype(type), dims, bytes, std::move(keep_alive)))};
  });
}
NetworkTensor NetworkBuilder::scalar(double value, DataType type) {
  const Tensor tensor = Tensor::from_doubles(to_dtype(type), {}, std::span(&value, 1));
  return {state_, state_->builder().add_constant(state_->layer_name("", "scalar"), tensor)};
}
NetworkTensor NetworkBuilder::ints(const Dims& values) {
  const Tensor tensor = Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
  return {state_, state_->builder().add_constant(state_->layer_name("", "ints"), tensor)};
}
void NetworkBuilder::output(const NetworkTensor& tensor, const std::string& name) {
  const std::string wanted = name.empty() ? tensor.name() : name;
  if (state_->around) refuse("a body's results are what its function returns", "output '" + wanted + "'", "");
  for (const ValueId id : state_->graph.outputs())
    if (state_->graph.value(id).name == wanted)
      refuse("there is one of this name", "output '" + wanted + "'", "give it another name");
  translate_errors(
      [&] { state_->builder().add_output(wanted, state_->resolve(tensor, "output '" + wanted + "'")); });
}
void NetworkBuilder::set_input_shape(const std::string& input, const Dims& dims) {
  translate_errors([&] { lathe::set_input_shape(state_->graph, input, dims); });
}
void NetworkBuilder::cut_input(const std::string& tensor) {
  translate_errors([&] { lathe::cut_input(state_->graph, tensor); });
}
void NetworkBuilder::rename(const std::string& from, const std::string& to) {
  translate_errors([&] { lathe::rename(state_->graph, from, to); });
}
void NetworkBuilder::fold() {
  translate_errors([&] { lathe::fold(state_->graph); });
}
void NetworkBuilder::clear_outputs() {
  GraphEditor(state_->graph).clear_outputs();
}
NetworkTensor NetworkBuilder::find(const std::string& name) const {
  const auto id = state_->graph.find_value(name);
  if (!id)
    refuse("the network has no such tensor", "tensor '" + name + "'",
           "names are those of the model's values");
  return {state_, *id};
}
void NetworkBuilder::replace(const NetworkTensor& from, const NetworkTensor& to) {
  if (from.type() != to.type() || from.dim_names() != to.dim_names())
    refuse("type and shape differ", "tensor '" + to.name() + "' in the place of '" + from.name() + "'",
           "a tensor is replaced by one of its type and shape");
  translate_errors([&] {
    GraphEditor& editor = state_->builder().editor();
    const ValueId old = state_->resolve(from, "replace"), now = state_->resolve(to, "replace");
    if (!editor.can_replace_uses(old, now))
      refuse("the output '" + from.name() + "' cannot be an input or another output", "replace",
             "add an identity");
    editor.replace_uses(old, now);
    editor.sort();
  });
}

Network NetworkBuilder::finish() const {
  return translate_errors([&] {
    if (state_->around) refuse("a body is no network", "finish()", "call it on the builder of the network");
    if (state_->graph.outputs().empty())
      refuse("it has no outputs", "the network", "mark them with output()");
    auto graph = std::make_shared<Graph>(state_->graph);
    GraphEditor(*graph).remove_dead_nodes();
    verify_graph(*graph);
    lathe::Network network{.graph = graph, .model = {.name = graph->name(), .producer = "Lathe"}};
    return Network(std::make_shared<Network::Impl>(Network::Impl{std::move(network)}));
  });
}

NetworkTensors NetworkBuilder::op(const std::string& op_type, const NetworkTensors& inputs,
                                  const Attributes& attributes, size_t outputs, const std::string& name) {
  return translate_errors([&] {
    onnx::OperatorCall call{.op_type = op_type,
                            .name = state_->layer_name(name, op_type),
                            .outputs = outputs,
                            .plugins = state_->plugin_source()};
    for (const NetworkTensor& input : inputs)
      call.inputs.push_back(state_->resolve(input, "layer '" + call.name + "'"));
    for (const auto& [key, value] : attributes)
      call.attributes.emplace_back(key, std::visit(ToImporters(), value));
    return tensors(onnx::call_operator(state_->builder(), call));
  });
}

NetworkTensor NetworkBuilder::one(const std::string& op_type, const NetworkTensors& inputs,
                                  const Attributes& attributes, const std::string& name) {
  return op(op_type, inputs, attributes, 1, name)[0];
}

}  // namespace lathe::v1
