// SPDX-License-Identifier: Apache-2.0
//
// A node that loses much when an input of it is rounded (a difference of numbers that are nearly equal, an
// exponential of large ones) is not helped by computing in float32: what it reads has to come in float32. So
// the input is what stays.
#include "builder/autocast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "onnx/import.h"
#include "onnx/quantization_plan.h"
#include "ops/interpreter.h"
#include "ops/op_def.h"
#include "quant/narrowing.h"

namespace lathe {
namespace {

// Of a tensor: ordinary numbers lose less than one unit of roundoff, numbers below the type's smallest all.
constexpr double kMostLost = 4;
// Of a node's result, when an input of it is rounded.
constexpr double kMostAmplified = 16;
// Rounding errors of a network's nodes together.
constexpr double kMostAccumulated = 32;
constexpr double kRoom = 4;  // for values that the samples do not show

bool is_conv_or_matmul(const Node& node) {
  return std::holds_alternative<Conv>(node.op) || std::holds_alternative<MatMul>(node.op);
}

class Measurement {
 public:
  Measurement(const Graph& graph, ThreadPool& pool, const AutocastOptions& options)
      : graph_(graph),
        pool_(pool),
        options_(options),
        narrow_(options.scope.narrow),
        seen_(graph.value_count(), NarrowingObserver(narrow_)),
        held_(graph.value_count()),
        left_(graph.value_count(), 0),
        most_(options.largest_magnitude > 0 ? options.largest_magnitude : largest_finite(narrow_) / kRoom) {
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (node.origins.size() == 1) ++parts_[node.origins[0].name];
      for (const ValueId output : node.outputs)
        if (output != kNoValue && graph.value(output).dtype == DType::Float32)
          facts_.computed.insert(graph.value(output).name);
    }
  }

  std::vector<Tensor> add(const std::vector<Tensor>& sample) {
    check_sample(sample);
    symbols_ = bind_symbols(graph_, sample);
    const bool is_first = samples_ == 0;
    if (is_first) hold_inputs(sample);
    for (size_t i = 0; i < sample.size(); ++i) observe(graph_.inputs()[i], sample[i]);
    std::vector<Tensor> outputs =
        interpret(graph_, sample, {.pool = &pool_, .on_value = [&](ValueId id, const Tensor& value) {
                                     observe(id, value);
                                     if (is_first) hold(id, value);
                                   }});
    ++samples_;
    return outputs;
  }

  int64_t samples() const { return samples_; }

  onnx::MixedPrecisionFacts facts(const onnx::ModelProto& model, onnx::TensorSource& tensors) {
    for (size_t id = 0; id < seen_.size(); ++id)
      judge(graph_.value(static_cast<ValueId>(id)).name, seen_[id]);
    for (const auto& [name, proto] : onnx::constant_tensors(model.graph)) {
      if (proto->data_type != static_cast<int32_t>(DType::Float32)) continue;
      NarrowingObserver seen(narrow_);
      seen.add(tensors.load(*proto).data<float>());
      judge(std::string(name), seen);
    }
    return std::move(facts_);
  }

 private:
  void check_sample(const std::vector<Tensor>& sample) const {
    for (size_t i = 0; i < sample.size(); ++i) {
      if (sample[i].dtype() != DType::Float32) continue;
      const auto elements = sample[i].data<float>();
      if (!std::all_of(elements.begin(), elements.end(), [](float x) { return std::isfinite(x); }))
        throw_input_error(fmt::format("sample {}: input '{}' has an element that is not a finite number",
                                      samples_ + 1, graph_.value(graph_.inputs()[i]).name));
    }
  }

  void observe(ValueId id, const Tensor& value) {
    if (value.dtype() == DType::Float32) seen_[static_cast<size_t>(id)].add(value.data<float>());
  }

  void judge(const std::string& name, const NarrowingObserver& seen) {
    const std::string type(dtype_name(narrow_));
    if (seen.largest() > most_)
      facts_.tensors[name] = {
          "values are too large for " + type,
          fmt::format("'{}' reaches {:.3g}, and {:.4g} is allowed", name, seen.largest(), most_)};
    else if (seen.relative_loss() > kMostLost * unit_roundoff(narrow_))
      facts_.tensors[name] = {"values are too small for " + type,
                              fmt::format("'{}' loses {:.2g} of itself", name, seen.relative_loss())};
  }

  // --- what nodes make of rounded inputs, on the first sample

  void hold_inputs(const std::vector<Tensor>& sample) {
    for (const NodeId id : graph_.order())
      for (const ValueId input : graph_.node(id).inputs)
        if (input != kNoValue) ++left_[static_cast<size_t>(input)];
    for (size_t i = 0; i < sample.size(); ++i) held_[static_cast<size_t>(graph_.inputs()[i])] = sample[i];
  }

  void hold(ValueId id, const Tensor& value) {
    held_[static_cast<size_t>(id)] = value;
    const Node& node = graph_.node(graph_.value(id).producer);
    const auto last = std::find_if(node.outputs.rbegin(), node.outputs.rend(),
                                   [](ValueId output) { return output != kNoValue; });
    if (*last != id) return;
    if (node.outputs.size() == 1) measure(node, value);
    note_sums(node);
    for (const ValueId input : node.inputs)
      if (input != kNoValue && --left_[static_cast<size_t>(input)] == 0)
        held_[static_cast<size_t>(input)] = Tensor();
  }

  Tensor tensor(ValueId id) const {
    if (id == kNoValue) return {};
    const Value& value = graph_.value(id);
    return value.is_constant() ? value.constant : held_[static_cast<size_t>(id)];
  }

  bool knows_dims(const Node& node) const {
    for (const Dim& dim : graph_.value(node.outputs[0]).shape)
      for (const std::string& name : dim.symbols())
        if (!symbols_.contains(name)) return false;
    return true;
  }

  void measure(const Node& node, const Tensor& result) {
    const bool makes_integers = std::holds_alternative<Cast>(node.op) && !is_float(result.dtype());
    const bool is_one_node = node.origins.size() == 1 && parts_[node.origins[0].name] == 1;
    if (!is_one_node || is_conv_or_matmul(node) || !knows_dims(node) || result.size() == 0) return;
    if (result.dtype() != DType::Float32 && !makes_integers) return;
    std::vector<Tensor> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(tensor(input));
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k] || inputs[k].dtype() != DType::Float32) continue;
      const Tensor exact = std::exchange(inputs[k], rounded_to(narrow_, inputs[k]));
      const Comparison change = compare(interpret_node(graph_, node, inputs, symbols_, &pool_)[0], result);
      inputs[k] = exact;
      note_change(node, graph_.value(node.inputs[k]).name, change, makes_integers);
    }
  }

  void note_change(const Node& node, const std::string& input, const Comparison& change, bool integers) {
    const std::string type(dtype_name(narrow_)), reader = node.origins[0].name;
    if (integers && change.max_absolute > 0)
      facts_.tensors[input] = {"integers are made of it",
                               fmt::format("'{}' rounded to {} gives others in '{}'", input, type, reader)};
    if (!integers && !change.within(kMostAmplified * unit_roundoff(narrow_)))
      facts_.tensors[input] = {
          "rounding costs too much",
          fmt::format("'{}' rounded to {} changes '{}' by {:.2g}", input, type, reader, change.relative_l2)};
  }

  void note_sums(const Node& node) {
    if (options_.longest_sum <= 0 || node.origins.empty()) return;
    std::vector<Extents> extents;
    for (const ValueId input : node.inputs) extents.push_back(tensor(input).extents());
    const int64_t length = reduction_length(node, extents);
    if (length > options_.longest_sum)
      for (const Origin& origin : node.origins)
        facts_.nodes[origin.name] = {fmt::format("it sums more than {}", options_.longest_sum),
                                     fmt::format("'{}' sums {}", origin.name, length)};
  }

  const Graph& graph_;
  ThreadPool& pool_;
  const AutocastOptions& options_;
  DType narrow_;
  std::vector<NarrowingObserver> seen_;
  std::vector<Tensor> held_;
  std::vector<int> left_;
  double most_;
  std::map<std::string, int, std::less<>> parts_;  // nodes of the graph that an ONNX node became
  SymbolValues symbols_;
  onnx::MixedPrecisionFacts facts_;
  int64_t samples_ = 0;
};

// The written model, read again.
std::vector<Tensor> run_written(const std::string& bytes, const std::vector<Tensor>& sample,
                                ThreadPool& pool) {
  NullObserver observer;
  const ImportedModel model = import_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())), {}, observer);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.size(); ++i) {
    const DType dtype = model.graph.value(model.graph.inputs()[i]).dtype;
    inputs.push_back(dtype == sample[i].dtype()
                         ? sample[i]
                         : Tensor::from_doubles(dtype, sample[i].extents(), sample[i].to_doubles()));
  }
  return interpret(model.graph, inputs, {.pool = &pool});
}

}  // namespace

double AutocastResult::limit() const {
  return kMostAccumulated * unit_roundoff(plan.narrow);
}

bool AutocastResult::fits() const {
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](const Output& output) { return output.comparison.within(limit()); });
}

AutocastResult autocast_model(const std::filesystem::path& path, const Graph& graph, ThreadPool& pool,
                              const SampleSource& source, const AutocastOptions& options,
                              const std::function<void(int64_t)>& progress) {
  const auto file = MappedFile::open(path);
  const onnx::ModelProto model = onnx::parse_model(file->bytes());
  onnx::check_is_float(model);
  Measurement measurement(graph, pool, options);
  std::vector<Tensor> last, sample, expected;
  if (!source(last)) throw_input_error("there are no samples to measure with");
  while (source(sample)) {
    measurement.add(last);
    last = std::exchange(sample, {});
    if (progress) progress(measurement.samples());
  }
  const bool is_held_back = measurement.samples() > 0;
  expected = is_held_back ? interpret(graph, last, {.pool = &pool}) : measurement.add(last);
  onnx::TensorSource tensors(file, path.parent_path());
  AutocastResult result;
  result.plan = onnx::plan_mixed_precision(model, options.scope, measurement.facts(model, tensors));
  result.model = onnx::write_mixed_precision_model(file->bytes(), model, tensors, result.plan);
  result.plan.floats.clear();  // names of the file, which is closed here
  result.samples = measurement.samples();
  result.is_held_back = is_held_back;
  const std::vector<Tensor> actual = run_written(result.model.bytes, last, pool);
  for (size_t i = 0; i < expected.size(); ++i)
    result.outputs.push_back({graph.value(graph.outputs()[i]).name, compare(actual.at(i), expected[i])});
  return result;
}

}  // namespace lathe
