// SPDX-License-Identifier: Apache-2.0
#include "report/engine_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "backend/storage_layout.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

// A tactic may round its operands from FP32 to TF32, which keeps 11 bits of 24. The factor is against limits
// that allow for long FP32 sums. The budget of errors does not count it: the user's options allow it.
double rounding_factor(const Tactic& tactic) {
  return tactic.params.get("tf32", 0) != 0 ? 1024 : 1;
}

using Values = std::map<ValueId, Tensor>;  // of the model's graph

double rms(std::span<const double> numbers) {
  double squares = 0;
  for (const double x : numbers) squares += x * x;
  return numbers.empty() ? 0 : std::sqrt(squares / static_cast<double>(numbers.size()));
}

std::vector<double> from_zero(const Tensor& integers, double zero) {
  std::vector<double> numbers = integers.to_doubles();
  for (double& x : numbers) x -= zero;
  return numbers;
}

// The limit behind QuantizeLinear, relative to the numbers that the integers stand for. Other small floats
// than E4M3 have no steps that are known.
double limit_on_grid(double limit, const std::vector<Tensor>& operands, const Tensor& result) {
  if (result.dtype() == DType::Float8E4M3FN && operands[1].size() == 1) {
    std::vector<double> numbers = operands[0].to_doubles();
    for (double& x : numbers) x /= operands[1].to_doubles()[0];
    return tolerance_on_e4m3(limit, numbers, NumbersAre::Unrounded);
  }
  if (result.dtype() == DType::Float8E4M3FN)
    return tolerance_on_e4m3(limit, result.to_doubles(), NumbersAre::Rounded);
  if (is_float(result.dtype())) return std::max(limit, std::sqrt(limit));
  const bool has_zero = operands.size() > 2 && operands[2] && operands[2].size() == 1;
  const std::vector<double> rounded = from_zero(result, has_zero ? operands[2].to_doubles()[0] : 0);
  std::vector<double> numbers;
  if (operands[1].size() == 1) {  // one scale for all
    numbers = operands[0].to_doubles();
    const double scale = operands[1].to_doubles()[0];
    for (double& x : numbers) x /= scale;
  }
  return tolerance_on_grid(limit, {.elements = result.size(), .rms = rms(rounded), .numbers = numbers});
}

// The same for numbers that lie on a grid, where what was rounded to it is not known. Of several scales the
// largest counts.
double limit_on_grid(double limit, const Tensor& result, const Quantization& grid) {
  if (grid.has_floats())
    return tolerance_on_e4m3(limit, quantize(result, grid).to_doubles(), NumbersAre::Rounded);
  const double step = static_cast<double>(*std::ranges::max_element(grid.scales));
  return tolerance_on_grid(limit, {.elements = result.size(), .rms = rms(result.to_doubles()) / step});
}

// The limit behind a node whose operands may be off by `limit`. A layer may compute in a wider type than the
// model asks for: the difference is then the model's own rounding.
double limit_behind(const Node& node, double limit, DType own, DType compute_type, int64_t terms,
                    const std::vector<Tensor>& operands, const Tensor& result) {
  if (std::holds_alternative<QuantizeLinear>(node.op)) return limit_on_grid(limit, operands, result);
  if (!is_float(own)) return limit + tolerance(own, terms);
  return limit + std::max(tolerance(compute_type, terms), tolerance(own, terms));
}

// What the run of a graph found: dims that stand alone in the shape of a value that is there now.
void learn_symbols(const Shape& shape, const Extents& extents, SymbolValues& symbols) {
  for (size_t d = 0; d < shape.size() && d < extents.size(); ++d)
    if (const auto name = shape[d].as_symbol()) symbols.emplace(*name, extents[d]);
}

// The oracle's run of the model, with every value kept, and evaluation of a part of it on other operands.
class Oracle {
 public:
  Oracle(const Graph& graph, const Graph& engine, std::span<const Tensor> inputs, ThreadPool* pool)
      : graph_(graph), pool_(pool), symbols_(bind_symbols(graph, inputs)) {
    for (const NodeId id : engine.order())
      for (const Origin& origin : engine.node(id).origins) kept_.insert(origin.name);
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs()[i]] = inputs[i];
    outputs_ = interpret(graph, inputs, {.pool = pool, .on_value = [&](ValueId id, const Tensor& tensor) {
                                           values_[id] = tensor;
                                           learn_symbols(graph.value(id).shape, tensor.extents(), symbols_);
                                         }});
  }

  const Graph& graph() const { return graph_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }

  const Tensor* value(ValueId id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? nullptr : &found->second;
  }

  // `target` from `operands` through the nodes that implement one of `origins`, through those that no layer
  // of the engine implements (they were removed as doing nothing), and through those that only move what
  // the layer reads (it may do its work in front of them); other values are the oracle's own. Adds the
  // tolerance of every node on the way to `limit`.
  Tensor evaluate(ValueId target, const std::set<std::string>& origins, Values& operands, DType compute_type,
                  double& limit) const {
    if (const auto found = operands.find(target); found != operands.end()) return found->second;
    const Value& value = graph_.value(target);
    if (value.is_constant()) return value.constant;
    if (value.producer == kNoNode || !(implements(graph_.node(value.producer), origins) ||
                                       moves_operand(graph_.node(value.producer), operands)))
      return values_.at(target);
    const Node& node = graph_.node(value.producer);
    std::vector<Tensor> inputs;
    std::vector<Extents> extents;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == kNoValue ? Tensor()
                                         : evaluate(input, origins, operands, compute_type, limit));
      extents.push_back(inputs.back().extents());
    }
    auto results = interpret_node(graph_, graph_.node(value.producer), inputs, symbols_, pool_);
    const auto output = static_cast<size_t>(std::ranges::find(node.outputs, target) - node.outputs.begin());
    limit = limit_behind(node, limit, value.dtype, compute_type, reduction_length(node, extents), inputs,
                         results[output]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) operands[node.outputs[i]] = std::move(results[i]);
    }
    return operands.at(target);
  }

  // Of what the limit of `own`, the value of `target`, is relative to, and of its elements: integers of
  // QuantizeLinear are compared as they are, and stand for distances to a zero point.
  double ratio_of_sizes(ValueId target, const Tensor& own) const {
    const NodeId id = graph_.value(target).producer;
    if (id == kNoNode || is_float(own.dtype())) return 1;
    const Node& node = graph_.node(id);
    if (!std::holds_alternative<QuantizeLinear>(node.op) || node.inputs.size() < 3 ||
        node.inputs[2] == kNoValue)
      return 1;
    const Tensor* zero = value(node.inputs[2]);
    if (graph_.value(node.inputs[2]).is_constant()) zero = &graph_.value(node.inputs[2]).constant;
    const double size = rms(own.to_doubles());
    return zero != nullptr && zero->size() == 1 && size > 0
               ? rms(from_zero(own, zero->to_doubles()[0])) / size
               : 1;
  }

 private:
  bool implements(const Node& node, const std::set<std::string>& origins) const {
    const auto in = [&](const std::set<std::string>& names) {
      return std::any_of(node.origins.begin(), node.origins.end(),
                         [&](const Origin& origin) { return names.contains(origin.name); });
    };
    return in(origins) || (!node.origins.empty() && !in(kept_));
  }

  // The node moves what the layer reads, alone or behind others that move it.
  bool moves_operand(const Node& node, const Values& operands) const {
    for (const Node* at = &node;;) {
      const bool moves = std::holds_alternative<ReshapeOp>(at->op) ||
                         std::holds_alternative<Transpose>(at->op) ||
                         std::holds_alternative<Gather>(at->op) || std::holds_alternative<Slice>(at->op);
      if (!moves) return false;
      if (operands.contains(at->inputs[0])) return true;
      const NodeId before = graph_.value(at->inputs[0]).producer;
      if (before == kNoNode) return false;
      at = &graph_.node(before);
    }
  }

  const Graph& graph_;
  ThreadPool* pool_;
  SymbolValues symbols_;
  std::set<std::string> kept_;  // the model's nodes that the engine's layers implement
  Values values_;
  std::vector<Tensor> outputs_;
};

// Which value of the model an engine's value is: the one of that name; copies that the tuner inserted are
// their source.
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

// True when one shape is the other with neighbouring dims merged: then both order their elements alike.
// (Equal counts do not suffice: a transposed value has them, too.)
bool same_order(const Extents& a, const Extents& b) {
  if (element_count(a) != element_count(b)) return false;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    int64_t left = a[i++], right = b[j++];
    const bool merges_a = left < right;
    while (left != right) {
      if (left < right && merges_a && i < a.size()) {
        left *= a[i++];
      } else if (right < left && !merges_a && j < b.size()) {
        right *= b[j++];
      } else {
        return false;  // both sides would have to merge: no plain merge
      }
    }
    if (left == 0) return a == b;
  }
  return true;
}

class LayerObserver {
 public:
  LayerObserver(const Oracle& oracle, Context& context, std::span<const Tensor> inputs, ThreadPool* pool)
      : oracle_(oracle),
        context_(context),
        pool_(pool),
        graph_(context.engine().graph(context.profile())),
        names_(graph_, oracle.graph()),
        symbols_(bind_symbols(graph_, inputs)) {}

  // Before the layer runs: it may overwrite its operands.
  void before(size_t layer) {
    tactic_ = &context_.engine().choices(context_.profile())[layer].tactic;
    operands_.clear();
    own_operands_.clear();
    known_operands_ = true;
    for (const ValueId input : graph_.node(graph_.order()[layer]).inputs) {
      if (input == kNoValue || graph_.value(input).is_constant()) {
        own_operands_.push_back(input == kNoValue ? Tensor() : graph_.value(input).constant);
      } else {
        own_operands_.push_back(context_.execution().read(input));
        learn_symbols(graph_.value(input).shape, own_operands_.back().extents(), symbols_);
        add_operand(input, own_operands_.back());
      }
    }
    std::vector<Extents> extents;
    for (const Tensor& operand : own_operands_) extents.push_back(operand.extents());
    terms_ = reduction_length(graph_.node(graph_.order()[layer]), extents);
  }

  void after(size_t layer) {
    const NodeId id = graph_.order()[layer];
    const Node& node = graph_.node(id);
    const Tactic& tactic = *tactic_;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output == kNoValue) continue;
      EngineLayerDifference difference{node.name, std::string(op_display_name(node.op)), tactic.name,
                                       graph_.value(output).name, node.origins};
      const Tensor actual = context_.execution().read(output);
      learn_symbols(graph_.value(output).shape, actual.extents(), symbols_);
      compare_with_model(difference, node, output, actual);
      if (!difference.local) compare_with_layer(difference, id, i, actual);
      difference.limit = std::max(difference.limit, tolerance(compute_type(node, output), 1)) *
                         tactic.error_factor * rounding_factor(tactic);
      result.layers.push_back(std::move(difference));
    }
  }

  EngineDifference result;

 private:
  void add_operand(ValueId input, const Tensor& tensor) {
    const auto id = names_.find(input);
    const Tensor* own = id ? oracle_.value(*id) : nullptr;
    if (own == nullptr || !same_order(own->extents(), tensor.extents())) {
      known_operands_ = false;
      return;
    }
    const Tensor typed = own->dtype() == tensor.dtype()
                             ? tensor
                             : Tensor::from_doubles(own->dtype(), tensor.extents(), tensor.to_doubles());
    operands_[*id] = typed.reshaped(own->extents());
  }

  // The value has a name in the model: against the oracle's run, and against the ONNX nodes on the layer's
  // operands.
  void compare_with_model(EngineLayerDifference& difference, const Node& node, ValueId output,
                          const Tensor& actual) {
    const auto id = names_.find(output);
    const Tensor* expected = id ? oracle_.value(*id) : nullptr;
    if (expected == nullptr || !same_order(actual.extents(), expected->extents())) return;
    const Tensor shaped = actual.reshaped(expected->extents());
    difference.accumulated = compare(shaped, *expected);
    if (!known_operands_) return;
    std::set<std::string> origins;
    for (const auto& origin : node.origins) origins.insert(origin.name);
    Values operands = operands_;
    const Tensor own = oracle_.evaluate(*id, origins, operands, compute_type(node, output), difference.limit);
    difference.limit *= oracle_.ratio_of_sizes(*id, own);
    difference.local = compare(shaped, own);
  }

  // A value that only the engine has: against the layer itself, evaluated by reference. Weights that were
  // packed are not there any more; such layers have no local error of this kind.
  void compare_with_layer(EngineLayerDifference& difference, NodeId id, size_t output, const Tensor& actual) {
    const Node& node = graph_.node(id);
    std::vector<Extents> extents;
    for (const auto& operand : own_operands_) {
      if (operand && operand.size() > 0 && !operand.has_bytes()) return;
      extents.push_back(operand.extents());
    }
    auto results = interpret_node(graph_, graph_.node(id), own_operands_, symbols_, pool_);
    const Value& value = graph_.value(node.outputs[output]);
    difference.limit = tolerance(compute_type(node, node.outputs[output]), reduction_length(node, extents));
    if (value.is_stored_quantized()) results[output] = dequantize(results[output], *value.quantization);
    if (value.quantization && !value.quantization->scales.empty())  // a file may leave a grid's numbers out
      difference.limit = limit_on_grid(difference.limit, results[output], *value.quantization);
    if (results[output].extents() != actual.extents()) return;
    difference.local = compare(actual, results[output]);
  }

  // The type that limits a layer's accuracy: the narrowest float of its operands and result, or what its
  // tactic makes of wider ones to multiply them.
  DType compute_type(const Node& node, ValueId output) const {
    for (const DType type : {DType::Float16, DType::BFloat16})
      if (tactic_->params.get(dtype_name(type), 0) != 0) return type;
    DType narrowest = graph_.value(output).number_type();
    if (!is_float(narrowest)) return narrowest;
    for (const ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      const DType type = graph_.value(input).number_type();
      if (is_float(type) && dtype_info(type).bits < dtype_info(narrowest).bits) narrowest = type;
    }
    return multiplies_floats_of_grid(node) ? sum_type(narrowest) : narrowest;
  }

  bool multiplies_floats_of_grid(const Node& node) const {
    const auto is_stored = [&](ValueId id) {
      return id != kNoValue && graph_.value(id).is_stored_quantized() &&
             graph_.value(id).quantization->has_floats();
    };
    return (std::holds_alternative<Conv>(node.op) || std::holds_alternative<MatMul>(node.op)) &&
           is_stored(node.inputs[0]);
  }

  // Tensor cores cut sums of products of E4M3 off 13 bits behind the leading one, after every 32 terms: what
  // FP16 keeps of some thousand terms, BF16 of more.
  DType sum_type(DType result) const {
    constexpr int64_t kHalfTerms = 1024;
    if (dtype_info(result).bits < 16 || result == DType::BFloat16) return result;
    return terms_ > kHalfTerms ? DType::BFloat16 : DType::Float16;
  }

  const Oracle& oracle_;
  Context& context_;
  ThreadPool* pool_;
  const Graph& graph_;
  NameMap names_;
  SymbolValues symbols_;
  Values operands_;                   // of the model's graph
  std::vector<Tensor> own_operands_;  // of the layer, in order
  const Tactic* tactic_ = nullptr;    // of the layer
  bool known_operands_ = true;
  int64_t terms_ = 1;  // of each of the layer's sums
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
    const Tensor stored = in_format(inputs[i], context.engine().inputs()[i].format);
    const auto bytes = stored.bytes();
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
  const Oracle oracle(model, engine.graph(context.profile()), inputs, pool);
  for (size_t i = 0; i < inputs.size(); ++i)
    context.set_input_shape(engine.inputs()[i].name, inputs[i].extents());
  context.resolve_shapes();
  const auto stream = engine.backend()->create_stream();
  const Bindings bindings = make_bindings(context, inputs, *stream);
  LayerObserver observer(oracle, context, inputs, pool);
  context.enqueue_observed(bindings.addresses, *stream,
                           {.before = [&](size_t layer) { observer.before(layer); },
                            .after = [&](size_t layer) { observer.after(layer); }});
  for (size_t i = 0; i < engine.outputs().size(); ++i) {
    const TensorInfo& output = engine.outputs()[i];
    const Extents extents = context.output_extents(i);
    const bool linear = output.format.is_linear();
    Tensor actual = allocate_stored({output.dtype, output.format}, extents);
    context.copy_output(i, actual, bindings.addresses[inputs.size() + i], *stream);
    stream->synchronize();
    if (!linear) actual = to_linear({output.dtype, output.format}, extents, actual.bytes().data());
    observer.result.outputs.push_back({engine.outputs()[i].name, compare(actual, oracle.outputs()[i])});
  }
  return std::move(observer.result);
}

}  // namespace lathe
