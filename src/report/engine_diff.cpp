// SPDX-License-Identifier: Apache-2.0
#include "report/engine_diff.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "reference/interpreter.h"

namespace lathe {
namespace {

using Values = std::map<ValueId, Tensor>;  // of the model's graph

// The oracle's run of the model, with every value kept, and evaluation of a part of it on other operands.
class Oracle {
 public:
  Oracle(const Graph& graph, std::span<const Tensor> inputs, ThreadPool* pool)
      : graph_(graph), pool_(pool), symbols_(bind_symbols(graph, inputs)) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs()[i]] = inputs[i];
    outputs_ = interpret(graph, inputs, {.pool = pool, .on_value = [&](ValueId id, const Tensor& tensor) {
                                           values_[id] = tensor;
                                           learn_symbols(graph.value(id).shape, tensor.extents());
                                         }});
  }

  const Graph& graph() const { return graph_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }

  const Tensor* value(ValueId id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? nullptr : &found->second;
  }

  // `target` from `operands` through the nodes that implement one of `origins`; other values are the oracle's own.
  // Adds the tolerance of every node on the way to `limit`.
  Tensor evaluate(ValueId target, const std::set<std::string>& origins, Values& operands, DType compute_type,
                  double& limit) const {
    if (const auto found = operands.find(target); found != operands.end()) return found->second;
    const Value& value = graph_.value(target);
    if (value.is_constant()) return value.constant;
    if (value.producer == kNoNode || !implements(graph_.node(value.producer), origins))
      return values_.at(target);
    const Node& node = graph_.node(value.producer);
    std::vector<Tensor> inputs;
    std::vector<Extents> extents;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == kNoValue ? Tensor()
                                         : evaluate(input, origins, operands, compute_type, limit));
      extents.push_back(inputs.back().extents());
    }
    auto results = interpret_node(graph_, value.producer, inputs, symbols_, pool_);
    limit += tolerance(is_float(value.dtype) ? compute_type : value.dtype, reduction_length(node, extents));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) operands[node.outputs[i]] = std::move(results[i]);
    }
    return operands.at(target);
  }

 private:
  static bool implements(const Node& node, const std::set<std::string>& origins) {
    return std::any_of(node.origins.begin(), node.origins.end(),
                       [&](const Origin& origin) { return origins.contains(origin.name); });
  }

  void learn_symbols(const Shape& shape, const Extents& extents) {
    for (size_t d = 0; d < shape.size() && d < extents.size(); ++d) {
      if (const auto name = shape[d].as_symbol()) symbols_.emplace(*name, extents[d]);
    }
  }

  const Graph& graph_;
  ThreadPool* pool_;
  SymbolValues symbols_;
  Values values_;
  std::vector<Tensor> outputs_;
};

// Which value of the model an engine's value is: the one of that name; copies that the tuner inserted are their source.
class NameMap {
 public:
  NameMap(const Graph& engine, const Graph& model) {
    for (const ValueId id : engine.inputs()) add(engine, model, id);
    for (const NodeId id : engine.order()) {
      const Node& node = engine.node(id);
      const bool is_copy = std::holds_alternative<Reformat>(node.op) ||
                           (std::holds_alternative<Cast>(node.op) && node.origins.empty());
      for (const ValueId output : node.outputs) {
        if (output == kNoValue) continue;
        add(engine, model, output);
        if (is_copy && !ids_.contains(output) && ids_.contains(node.inputs[0]))
          ids_[output] = ids_.at(node.inputs[0]);
      }
    }
  }
  std::optional<ValueId> find(ValueId engine_value) const {
    const auto found = ids_.find(engine_value);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  void add(const Graph& engine, const Graph& model, ValueId id) {
    if (const auto same = model.find_value(engine.value(id).name)) ids_[id] = *same;
  }
  std::map<ValueId, ValueId> ids_;
};

class LayerObserver {
 public:
  LayerObserver(const Oracle& oracle, Context& context)
      : oracle_(oracle),
        context_(context),
        graph_(context.engine().graph(context.profile())),
        names_(graph_, oracle.graph()) {}

  // Before the layer runs: it may overwrite its operands.
  void before(size_t layer) {
    operands_.clear();
    known_operands_ = true;
    const Node& node = graph_.node(graph_.order()[layer]);
    for (const ValueId input : node.inputs) {
      if (input == kNoValue || graph_.value(input).is_constant()) continue;
      const auto id = names_.find(input);
      if (!id) {
        known_operands_ = false;
        continue;
      }
      Tensor tensor = context_.execution().read(input);
      const Tensor* own = oracle_.value(*id);
      if (own == nullptr || own->extents() != tensor.extents()) {
        known_operands_ = false;
      } else {
        operands_[*id] = own->dtype() == tensor.dtype()
                             ? std::move(tensor)
                             : Tensor::from_doubles(own->dtype(), tensor.extents(), tensor.to_doubles());
      }
    }
  }

  void after(size_t layer) {
    const Node& node = graph_.node(graph_.order()[layer]);
    const auto& tactic = context_.engine().choices(context_.profile())[layer].tactic;
    std::set<std::string> origins;
    for (const auto& origin : node.origins) origins.insert(origin.name);
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      EngineLayerDifference difference{node.name, std::string(op_display_name(node.op)), tactic.name,
                                       graph_.value(output).name, node.origins};
      const auto id = names_.find(output);
      const Tensor* expected = id ? oracle_.value(*id) : nullptr;
      if (expected != nullptr)
        compare_value(difference, *id, *expected, output, origins, tactic.error_factor);
      result.layers.push_back(std::move(difference));
    }
  }

  EngineDifference result;

 private:
  void compare_value(EngineLayerDifference& difference, ValueId id, const Tensor& expected, ValueId output,
                     const std::set<std::string>& origins, double error_factor) {
    const Tensor actual = context_.execution().read(output);
    if (actual.extents() != expected.extents()) return;  // another layout of the same name
    difference.accumulated = compare(actual, expected);
    if (!known_operands_) return;
    const DType type = is_float(graph_.value(output).dtype) ? narrowest_type(output) : actual.dtype();
    Values operands = operands_;
    const Tensor own = oracle_.evaluate(id, origins, operands, type, difference.limit);
    difference.limit = std::max(difference.limit, tolerance(type, 1)) * error_factor;
    difference.local = compare(actual, own);
  }

  // The type that limits a layer's accuracy: the narrowest float of its operands and result.
  DType narrowest_type(ValueId output) const {
    DType narrowest = graph_.value(output).dtype;
    for (const ValueId input : graph_.node(graph_.value(output).producer).inputs) {
      if (input == kNoValue || !is_float(graph_.value(input).dtype)) continue;
      if (dtype_info(graph_.value(input).dtype).bits < dtype_info(narrowest).bits)
        narrowest = graph_.value(input).dtype;
    }
    return narrowest;
  }

  const Oracle& oracle_;
  Context& context_;
  const Graph& graph_;
  NameMap names_;
  Values operands_;
  bool known_operands_ = true;
};

// Bindings with the inputs' bytes, on the backend.
struct Bindings {
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void*> addresses;
};

Bindings make_bindings(Context& context, std::span<const Tensor> inputs, Stream& stream) {
  const Backend& backend = *context.engine().backend();
  Bindings bindings;
  const auto add = [&](int64_t bytes) {
    bindings.buffers.push_back(backend.allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
    bindings.addresses.push_back(bindings.buffers.back()->data());
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    add(context.input_bytes(i));
    const auto bytes = inputs[i].bytes();
    if (!bytes.empty()) backend.copy_to_device(bindings.addresses.back(), bytes.data(), bytes.size(), stream);
  }
  for (size_t i = 0; i < context.engine().outputs().size(); ++i) add(context.output_bytes(i));
  stream.synchronize();
  return bindings;
}

}  // namespace

const EngineLayerDifference* EngineDifference::first_bad() const {
  for (const auto& layer : layers) {
    if (layer.bad()) return &layer;
  }
  return nullptr;
}

EngineDifference diff_engine(const Graph& model, Context& context, std::span<const Tensor> inputs,
                             ThreadPool* pool) {
  const Engine& engine = context.engine();
  const Oracle oracle(model, inputs, pool);
  for (size_t i = 0; i < inputs.size(); ++i)
    context.set_input_shape(engine.inputs()[i].name, inputs[i].extents());
  context.resolve_shapes();
  const auto stream = engine.backend()->create_stream();
  const Bindings bindings = make_bindings(context, inputs, *stream);
  LayerObserver observer(oracle, context);
  context.enqueue_observed(bindings.addresses, *stream,
                           {.before = [&](size_t layer) { observer.before(layer); },
                            .after = [&](size_t layer) { observer.after(layer); }});
  for (size_t i = 0; i < engine.outputs().size(); ++i) {
    Tensor actual = Tensor::allocate(engine.outputs()[i].dtype, context.output_extents(i));
    if (!actual.bytes().empty()) {
      engine.backend()->copy_to_host(actual.mutable_bytes().data(), bindings.addresses[inputs.size() + i],
                                     actual.bytes().size(), *stream);
    }
    stream->synchronize();
    observer.result.outputs.push_back({engine.outputs()[i].name, compare(actual, oracle.outputs()[i])});
  }
  return std::move(observer.result);
}

}  // namespace lathe
