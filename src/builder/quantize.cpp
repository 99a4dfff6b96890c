// SPDX-License-Identifier: Apache-2.0
#include "builder/quantize.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/thread_pool.h"
#include "ir/edit.h"
#include "ops/interpreter.h"
#include "quant/smoothing.h"

namespace lathe {
// The tensors whose elements are observed: inputs of the model, and values that become outputs beside its
// own.
class Calibrator {
 public:
  Calibrator(Builder& builder, const Network& network, const onnx::QuantizationPlan& plan,
             const std::vector<onnx::SmoothableTensor>& smoothable,
             const std::vector<onnx::BiasUse>& corrected)
      : builder_(builder), network_(network) {
    for (const auto& tensor : smoothable) channels_[tensor.tensor];
    for (const onnx::BiasUse& use : corrected) means_[use.x];
    auto graph = std::make_shared<Graph>(*network.graph);
    GraphEditor editor(*graph);
    for (const auto& [name, range_of] : plan.activations) {
      if (observers_.contains(range_of)) continue;
      observers_[range_of];
      const std::optional<ValueId> value = graph->find_value(range_of);
      check(value.has_value(), "a tensor of the plan is no value");
      if (!graph->is_input(*value) && !graph->is_output(*value)) editor.mark_output(*value);
    }
    network_.graph = std::move(graph);
  }

  void add(const std::vector<Tensor>& sample) {
    if (samples_ == 0) build(sample);
    check_sample(sample);
    const std::vector<Tensor> outputs = context_->run(sample);
    struct Seen {
      RangeObserver* ranges;
      ChannelRanges* channels;
      ChannelMeans* means;
      const Tensor* tensor;
    };
    std::vector<Seen> seen;
    const auto note = [&](const std::vector<TensorInfo>& infos, const std::vector<Tensor>& tensors) {
      for (size_t i = 0; i < infos.size(); ++i)
        if (const auto found = observers_.find(infos[i].name); found != observers_.end())
          seen.push_back(
              {&found->second, find(channels_, found->first), find(means_, found->first), &tensors[i]});
    };
    note(context_->engine().inputs(), sample);
    note(context_->engine().outputs(), outputs);
    pool_.parallel_for(static_cast<int64_t>(seen.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const auto& [ranges, channels, means, tensor] = seen[i];
        ranges->add(tensor->data<float>());
        if (means) means->add(tensor->data<float>(), tensor->extents());
        if (channels) channels->add(tensor->data<float>(), static_cast<size_t>(tensor->extents().back()));
      }
    });
    ++samples_;
    for (const auto& [name, observer] : observers_)
      if (observer.not_finite() > 0)
        throw_input_error("the tensor '" + name + "' has an element that is not a finite number in sample " +
                          std::to_string(samples_));
  }

  int64_t samples() const { return samples_; }
  const RangeObserver& observer(const std::string& name) const { return observers_.at(name); }
  bool has_channels(const std::string& name) const { return channels_.contains(name); }
  std::vector<double> means(const std::string& name) const { return means_.at(name).means(); }
  const std::vector<ValueRange>& channels(const std::string& name) const {
    return channels_.at(name).ranges();
  }

 private:
  template <class T>
  static T* find(std::map<std::string, T, std::less<>>& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : &found->second;
  }

  void build(const std::vector<Tensor>& sample) {
    const std::vector<TensorInfo> inputs = network_.inputs();
    OptimizationProfile profile;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Extents& e = sample.at(i).extents();
      profile.shapes[inputs[i].name] = {e, e, e};
    }
    BuildOptions options;
    options.profiles = {profile};
    options.optimization_level = 0;
    options.batch_part = 0;
    options.timing_cache_mode = TimingCacheMode::Disabled;
    context_ = builder_.build(network_, options)->create_context(0);
    extents_.clear();
    for (const Tensor& tensor : sample) extents_.push_back(tensor.extents());
  }

  void check_sample(const std::vector<Tensor>& sample) const {
    for (size_t i = 0; i < sample.size(); ++i) {
      const std::string where =
          "sample " + std::to_string(samples_ + 1) + ": input '" + context_->engine().inputs()[i].name + "'";
      if (sample[i].extents() != extents_[i])
        throw_input_error(where + " is " + to_string(sample[i].extents()) + ", in the first sample " +
                          to_string(extents_[i]));
      if (sample[i].dtype() != DType::Float32) continue;
      const auto elements = sample[i].data<float>();
      if (!std::all_of(elements.begin(), elements.end(), [](float x) { return std::isfinite(x); }))
        throw_input_error(where + " has an element that is not a finite number");
    }
  }

  Builder& builder_;
  Network network_;
  std::map<std::string, RangeObserver, std::less<>> observers_;
  std::map<std::string, ChannelRanges, std::less<>> channels_;
  std::map<std::string, ChannelMeans, std::less<>> means_;
  std::unique_ptr<Context> context_;
  std::vector<Extents> extents_;
  ThreadPool pool_;
  int64_t samples_ = 0;
};

namespace {

// Of each index of k, over all weights that read the tensor.
std::vector<float> largest_weights(const onnx::ConstantTensors& constants, onnx::TensorSource& tensors,
                                   const onnx::SmoothableTensor& tensor) {
  std::vector<float> largest;
  for (const onnx::ConstantUse& use : tensor.weights) {
    const Tensor weights = tensors.load(*constants.find(use.name)->second);
    const Extents& e = weights.extents();
    const auto k = static_cast<size_t>(e[use.axis == 0 ? 1 : 0]);
    const size_t inner = use.axis == 0 ? 1 : static_cast<size_t>(e[1]);
    largest.resize(k, 0);
    const auto elements = weights.data<float>();
    for (size_t i = 0; i < elements.size(); ++i)
      largest[i / inner % k] = std::max(largest[i / inner % k], std::abs(elements[i]));
  }
  return largest;
}

// Biases of products whose input lies as it is in the model, with its channels in dim 1.
std::vector<onnx::BiasUse> correctable(const onnx::ModelProto& model, const onnx::QuantizationPlan& plan,
                                       const std::vector<onnx::SmoothableTensor>& smoothable) {
  std::vector<onnx::BiasUse> uses;
  for (const onnx::BiasUse& use : plan.biases) {
    const bool transposed = onnx::has_flag(model.graph.nodes[use.bias.node], "transA");
    const bool smoothed = std::any_of(smoothable.begin(), smoothable.end(),
                                      [&](const auto& tensor) { return tensor.tensor == use.x; });
    if (!transposed && !smoothed && plan.activations.at(use.x) == use.x) uses.push_back(use);
  }
  return uses;
}

// Minus the mean, over the samples, of what the rounding of the weights adds to each channel of the result.
std::vector<double> bias_shift(const onnx::ConstantTensors& constants, onnx::TensorSource& tensors,
                               const onnx::QuantizationPlan& plan, const onnx::BiasUse& use,
                               const std::vector<double>& means, DType dtype) {
  const auto weight = std::find_if(plan.weights.begin(), plan.weights.end(),
                                   [&](const auto& other) { return other.node == use.bias.node; });
  const Tensor weights = tensors.load(*constants.find(weight->name)->second);
  const Quantization grid = onnx::weight_grid(weights, weight->name, weight->axis, dtype);
  const Tensor rounded = dequantize(quantize(weights, grid), grid);
  const auto before = weights.data<float>(), after = rounded.data<float>();
  const Extents& e = weights.extents();
  const bool by_k = weight->axis == 1;
  const auto columns = static_cast<size_t>(e[by_k ? 1 : 0]), inputs = static_cast<size_t>(e[by_k ? 0 : 1]),
             taps = before.size() / columns / inputs, groups = means.size() / inputs;
  std::vector<double> shift(columns, 0);
  for (size_t i = 0; i < before.size(); ++i) {
    const size_t column = by_k ? i % columns : i / (inputs * taps),
                 input = by_k ? i / columns : column / (columns / groups) * inputs + i / taps % inputs;
    shift[column] -= static_cast<double>(after[i] - before[i]) * means[input];
  }
  return shift;
}

bool is_quantized(const onnx::QuantizationPlan& plan, const onnx::BiasUse& use) {
  return std::any_of(plan.biases.begin(), plan.biases.end(),
                     [&](const onnx::BiasUse& other) { return other.bias.node == use.bias.node; });
}

// Shape computations and tensors of other types are not quantised.
onnx::QuantizationScope of_floats(const Graph& graph, onnx::QuantizationScope scope) {
  auto& tensors = scope.tensors.emplace();
  scope.other_tensors = "an input is no float32 value";
  const auto note = [&](ValueId id) {
    if (id != kNoValue && graph.value(id).dtype == DType::Float32) tensors.insert(graph.value(id).name);
  };
  for (const ValueId id : graph.inputs()) note(id);
  for (const NodeId id : graph.order())
    for (const ValueId output : graph.node(id).outputs) note(output);
  return scope;
}

}  // namespace

Quantization activation_grid(const ValueRange& range, DType dtype) {
  const double low = std::min(0.0, static_cast<double>(range.low)),
               high = std::max(0.0, static_cast<double>(range.high));
  const bool symmetric = dtype != DType::UInt8;
  const double most = dtype == DType::Int8 ? 127 : static_cast<double>(kMostE4M3);
  const double width = symmetric ? std::max(-low, high) / most : (high - low) / 255;
  constexpr double kSmallest = 1e-30;  // a tensor of zeros has any scale
  const float scale = width > kSmallest ? static_cast<float>(width) : 1.0f;
  const double zero = symmetric ? 0 : std::nearbyint(-low / static_cast<double>(scale));
  return {.dtype = dtype, .scales = {scale}, .zeros = {static_cast<int32_t>(std::clamp(zero, 0.0, 255.0))}};
}

struct CalibratedModel::State {
  std::shared_ptr<const MappedFile> file;
  onnx::ModelProto model;
  QuantizeOptions options;
  onnx::QuantizationScope scope;
  onnx::QuantizationPlan plan;  // of all nodes
  std::vector<onnx::SmoothableTensor> smoothable;
  std::vector<onnx::BiasUse> corrected;
  onnx::TensorSource tensors;
  std::unique_ptr<Calibrator> calibrator = nullptr;
};

CalibratedModel::CalibratedModel(CalibratedModel&&) noexcept = default;
CalibratedModel::~CalibratedModel() = default;

CalibratedModel::CalibratedModel(const std::filesystem::path& path, const Network& network, Builder& builder,
                                 const SampleSource& source, const QuantizeOptions& options,
                                 const std::function<void(int64_t)>& progress) {
  const auto file = MappedFile::open(path);
  state_ = std::make_unique<State>(State{.file = file,
                                         .model = onnx::parse_model(file->bytes()),
                                         .options = options,
                                         .scope = of_floats(*network.graph, options.scope),
                                         .tensors = onnx::TensorSource(file, path.parent_path())});
  State& s = *state_;
  if (options.weights() == DType::Float8E4M3FN) {
    onnx::check_small_floats(s.model);
    // A number of FP8 has three bits: rounding what functions read costs more than it saves.
    if (s.scope.op_types.empty()) s.scope.op_types = onnx::quantizable_op_types();
    for (const std::string& type : onnx::quantizable_functions()) s.scope.op_types.erase(type);
  }
  s.plan = onnx::plan_quantization(s.model, s.scope);
  if (options.smoothing >= 0) s.smoothable = onnx::smoothable_tensors(s.model, s.plan);
  if (options.corrects_bias) s.corrected = correctable(s.model, s.plan, s.smoothable);
  s.calibrator = std::make_unique<Calibrator>(builder, network, s.plan, s.smoothable, s.corrected);
  for (std::vector<Tensor> sample; source(sample);) {
    s.calibrator->add(sample);
    if (progress) progress(s.calibrator->samples());
  }
  if (s.calibrator->samples() == 0) throw_input_error("there are no samples to calibrate with");
}

std::vector<std::string> CalibratedModel::products() const {
  std::map<std::string, int, std::less<>> unnamed;
  std::vector<std::string> names, products;
  for (const onnx::NodeProto& node : state_->model.graph.nodes)
    names.push_back(onnx::node_name(node, unnamed));
  for (const onnx::ConstantUse& use : state_->plan.weights) products.push_back(names[use.node]);
  return products;
}

QuantizeResult CalibratedModel::write(const std::vector<std::string>& exclude) {
  State& s = *state_;
  onnx::QuantizationScope scope = s.scope;
  scope.exclude.insert(scope.exclude.end(), exclude.begin(), exclude.end());
  const onnx::QuantizationPlan plan = exclude.empty() ? s.plan : onnx::plan_quantization(s.model, scope);
  const onnx::ConstantTensors constants = onnx::constant_tensors(s.model.graph);
  onnx::Smoothing smoothing;
  if (s.options.smoothing >= 0)
    for (const auto& tensor : onnx::smoothable_tensors(s.model, plan))
      if (s.calibrator->has_channels(tensor.tensor))
        smoothing[tensor.tensor] =
            smoothing_factors(s.calibrator->channels(tensor.tensor),
                              largest_weights(constants, s.tensors, tensor), s.options.smoothing);
  onnx::BiasShifts shifts;
  for (const onnx::BiasUse& use : s.corrected)
    if (is_quantized(plan, use))
      shifts[use.bias.node] =
          bias_shift(constants, s.tensors, plan, use, s.calibrator->means(use.x), s.options.weights());
  std::map<std::string, Quantization, std::less<>> grids;
  TensorScales scales;
  for (const auto& [name, range_of] : plan.activations) {
    const ValueRange range =
        smoothing.contains(name)
            ? smoothed_range(s.calibrator->channels(name), smoothing.at(name))
            : s.calibrator->observer(s.plan.activations.at(name)).range(s.options.calibration);
    grids[name] = activation_grid(range, s.options.activations);
    scales[name] = activation_grid(range, DType::Int8).scale();
  }
  return {onnx::write_quantized_model(s.file->bytes(), s.model, s.tensors, plan, grids, smoothing, shifts,
                                      s.options.weights()),
          plan.left, s.calibrator->samples(), scales};
}

QuantizeResult quantize_model(const std::filesystem::path& path, const Network& network, Builder& builder,
                              const SampleSource& source, const QuantizeOptions& options,
                              const std::function<void(int64_t)>& progress) {
  return CalibratedModel(path, network, builder, source, options, progress).write({});
}

QuantizeResult quantize_with_scales(const std::filesystem::path& path, const TensorScales& scales,
                                    onnx::QuantizationScope scope) {
  const auto file = MappedFile::open(path);
  const onnx::ModelProto model = onnx::parse_model(file->bytes());
  auto& known = scope.tensors.emplace();
  scope.other_tensors = "an input has no scale in the calibration cache";
  for (const auto& [name, scale] : scales) known.insert(name);
  const onnx::QuantizationPlan plan = onnx::plan_quantization(model, scope);
  std::map<std::string, Quantization, std::less<>> grids;
  for (const auto& [name, range_of] : plan.activations)
    grids[name] = {.dtype = DType::Int8,
                   .scales = {scales.at(known.contains(range_of) ? range_of : name)},
                   .zeros = {0}};
  onnx::TensorSource tensors(file, path.parent_path());
  return {onnx::write_quantized_model(file->bytes(), model, tensors, plan, grids), plan.left, 0, scales};
}

QuantizeResult quantize_weights(const std::filesystem::path& path, const onnx::WeightRounding& rounding,
                                const onnx::QuantizationScope& scope, const onnx::InputSumsByTensor& inputs) {
  const auto file = MappedFile::open(path);
  const onnx::ModelProto model = onnx::parse_model(file->bytes());
  const onnx::QuantizationPlan plan = onnx::plan_weight_only(model, scope);
  onnx::TensorSource tensors(file, path.parent_path());
  return {onnx::write_weight_only_model(file->bytes(), model, tensors, plan, rounding, inputs), plan.left};
}

onnx::InputSumsByTensor measure_inputs(const std::filesystem::path& path, const Graph& graph,
                                       const onnx::QuantizationScope& scope, const SampleSource& source,
                                       const std::function<void(int64_t)>& progress) {
  const auto file = MappedFile::open(path);
  const onnx::ModelProto model = onnx::parse_model(file->bytes());
  onnx::InputSumsByTensor sums;
  for (const onnx::WeightOnlyUse& use : onnx::plan_weight_only(model, scope).weight_only)
    sums[std::string(model.graph.nodes[use.node].inputs[0])].k = use.k;
  ThreadPool pool;
  int64_t samples = 0;
  const auto note = [&](ValueId id, const Tensor& value) {
    const auto found = sums.find(graph.value(id).name);
    if (found == sums.end() || value.dtype() != DType::Float32 || value.rank() == 0 ||
        value.extents().back() != found->second.k)
      return;
    const auto elements = value.data<float>();
    if (!std::all_of(elements.begin(), elements.end(), [](float x) { return std::isfinite(x); }))
      throw_input_error("the tensor '" + found->first +
                        "' has an element that is not a finite number in sample " +
                        std::to_string(samples + 1));
    found->second.add(elements, pool);
  };
  for (std::vector<Tensor> sample; source(sample);) {
    for (size_t i = 0; i < sample.size(); ++i) note(graph.inputs()[i], sample[i]);
    interpret(graph, sample, {.pool = &pool, .on_value = note});
    ++samples;
    if (progress) progress(samples);
  }
  if (samples == 0) throw_input_error("there are no samples to calibrate with");
  std::erase_if(sums, [](const auto& entry) { return entry.second.sums.empty(); });
  return sums;
}

}  // namespace lathe
