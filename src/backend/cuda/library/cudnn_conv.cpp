// SPDX-License-Identifier: Apache-2.0
//
// Convolutions through cuDNN, channels-last, in FP16, BF16 and FP32 (TF32 unless forbidden).
//
// cuDNN has its good precompiled plans for one pattern: convolution, + residual, + bias in the type of the
// data, ReLU or nothing, in that order; another order falls silently to kernels that are compiled for 0.3 s
// and more. So a bias is always there (zeros if the layer has none). Other activations have two ways: as part
// of the graph, compiled by cuDNN, or the pattern without activation and a pointwise kernel of ours behind
// it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "backend/cuda/codegen/epilogue.h"
#include "backend/cuda/codegen/fused_tail.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/library/cudnn_graph.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/hash.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kCudnnConvRunner = "CudnnConvolution";
// Of a layer's first type; of its own type, when that is the second, there are few: it is there to fall back
// on. The tuner times about two dozen tactics of a layer, and cuBLASLt's and ours have to be among them.
constexpr size_t kMostConfigs = 10, kMostCompiled = 1, kFallbackConfigs = 2;
enum TensorId : int64_t { kXTensor = 1, kWTensor, kYTensor, kBiasTensor, kResidualTensor };

// A convolution as a cuDNN graph needs it.
struct ConvProblem {
  Extents x, w, y;
  CudnnGraph::Window window;
  int64_t groups = 1;
  DType source = DType::Float32, result = DType::Float32;
  bool residual = false;
  std::optional<PointwiseStep> activation;

  // Equal problems have equal text.
  std::string text() const {
    return fmt::format("{} {} {} p{} q{} s{} d{} g{} {} {} r{} a{}", to_string(x), to_string(w), to_string(y),
                       to_string(window.pads_begin), to_string(window.pads_end), to_string(window.strides),
                       to_string(window.dilations), groups, dtype_name(source), dtype_name(result), residual,
                       activation ? fmt::format("{}/{}/{}", static_cast<int>(activation->code),
                                                activation->alpha, activation->beta)
                                  : "");
  }
};

// One spatial dim becomes two: cuDNN has 2-D and 3-D convolutions.
Extents with_two_spatial(Extents extents) {
  if (extents.size() == 3) extents.insert(extents.begin() + 2, 1);
  return extents;
}

ConvProblem problem_of(const Conv& conv, const Extents& x, const Extents& w, const Extents& y) {
  ConvProblem p{
      .x = with_two_spatial(x), .w = with_two_spatial(w), .y = with_two_spatial(y), .groups = conv.groups};
  const WindowSpec spec{conv.kernel,     conv.strides,  conv.dilations,
                        conv.pads_begin, conv.pads_end, conv.auto_pad};
  for (const WindowAxis& axis : resolve_window(spec, Extents(x.begin() + 2, x.end()))) {
    const int64_t reach = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    p.window.pads_begin.push_back(axis.pad_begin);
    p.window.pads_end.push_back(std::max<int64_t>(0, reach - axis.input - axis.pad_begin));
    p.window.strides.push_back(axis.stride);
    p.window.dilations.push_back(axis.dilation);
  }
  if (x.size() == 3) {
    p.window.pads_begin.insert(p.window.pads_begin.begin(), 0);
    p.window.pads_end.insert(p.window.pads_end.begin(), 0);
    p.window.strides.insert(p.window.strides.begin(), 1);
    p.window.dilations.insert(p.window.dilations.begin(), 1);
  }
  return p;
}

Extents channels_last_strides(const Extents& extents) {
  Extents strides(extents.size());
  int64_t step = extents[1];
  strides[1] = 1;
  for (size_t i = extents.size(); i-- > 2;) {
    strides[i] = step;
    step *= extents[i];
  }
  strides[0] = step;
  return strides;
}

std::optional<CudnnGraph::PointwiseMode> activation_mode(const PointwiseStep& step) {
  switch (step.code) {
    case PointwiseCode::Relu:
      return CudnnGraph::PointwiseMode{CUDNN_POINTWISE_RELU_FWD};
    case PointwiseCode::Silu:
      return CudnnGraph::PointwiseMode{.mode = CUDNN_POINTWISE_SWISH_FWD, .swish_beta = step.alpha};
    case PointwiseCode::Sigmoid:
      return CudnnGraph::PointwiseMode{CUDNN_POINTWISE_SIGMOID_FWD};
    case PointwiseCode::Tanh:
      return CudnnGraph::PointwiseMode{CUDNN_POINTWISE_TANH_FWD};
    case PointwiseCode::GeluErf:
      return CudnnGraph::PointwiseMode{CUDNN_POINTWISE_GELU_FWD};
    case PointwiseCode::Clip:
      return CudnnGraph::PointwiseMode{
          .mode = CUDNN_POINTWISE_RELU_FWD, .lower_clip = step.alpha, .upper_clip = step.beta};
    default:
      return std::nullopt;
  }
}

CudnnGraph make_graph(const Device& device, const ConvProblem& p) {
  CudnnGraph graph(device);
  const cudnnDataType_t source = cudnn_type(p.source), result = cudnn_type(p.result);
  const Extents y_strides = channels_last_strides(p.y);
  Extents bias_extents(p.y.size(), 1);
  bias_extents[1] = p.y[1];
  const CudnnNode x = graph.tensor(kXTensor, source, p.x, channels_last_strides(p.x));
  const CudnnNode w = graph.tensor(kWTensor, source, p.w, channels_last_strides(p.w));
  const CudnnNode y = graph.tensor(kYTensor, result, p.y, y_strides);
  // ReLU6 with a bias of 16 bits matches a pattern that no engine serves.
  const bool wide_bias = p.activation && p.activation->code == PointwiseCode::Clip;
  const CudnnNode bias = graph.tensor(kBiasTensor, wide_bias ? CUDNN_DATA_FLOAT : result, bias_extents,
                                      channels_last_strides(bias_extents));
  CudnnNode value = graph.virtual_tensor(CUDNN_DATA_FLOAT, p.y, y_strides);
  graph.convolution(x, w, value, p.window);
  if (p.residual) {
    const CudnnNode residual = graph.tensor(kResidualTensor, result, p.y, y_strides);
    const CudnnNode sum = graph.virtual_tensor(CUDNN_DATA_FLOAT, p.y, y_strides);
    graph.pointwise({}, value, residual, sum);
    value = sum;
  }
  const CudnnNode biased = p.activation ? graph.virtual_tensor(CUDNN_DATA_FLOAT, p.y, y_strides) : y;
  graph.pointwise({}, value, bias, biased);
  if (p.activation) graph.pointwise(*activation_mode(*p.activation), biased, nullptr, y);
  graph.finish();
  return graph;
}

class PreparedConv final : public PreparedLayer {
 public:
  explicit PreparedConv(const Device& device) : device_(device) {}
  size_t scratch_bytes() const override { return scratch_offset + plan_scratch; }
  void enqueue(const LayerArgs& args, CUstream stream) const override {
    void* result = epilogue ? args.scratch : static_cast<std::byte*>(args.outputs[0]);
    std::vector<int64_t> ids = {kXTensor, kWTensor, kYTensor, kBiasTensor};
    std::vector<const void*> addresses = {args.inputs[0], weights, result, bias};
    if (residual) {
      ids.push_back(kResidualTensor);
      addresses.push_back(args.inputs[*residual]);
    }
    enqueue_cudnn_plan(device_, *plan, ids, addresses, args.scratch + scratch_offset, stream);
    if (epilogue) epilogue->enqueue(args, result, stream);
  }

  std::shared_ptr<CudnnDescriptor> plan;
  std::unique_ptr<PreparedEpilogue> epilogue;
  const void *weights = nullptr, *bias = nullptr;
  std::optional<size_t> residual;
  size_t scratch_offset = 0, plan_scratch = 0;

 private:
  const Device& device_;
};

// How a tactic handles the layer's epilogue.
struct ConvForm {
  std::optional<FusedTail> tail;  // nothing: a pointwise kernel does all of it
  std::optional<size_t> bias;     // input of the node
};

bool has_bias_input(const Node& node) {
  return node.has_op_input(2);
}

ConvForm fused_form(const LayerQuery& query) {
  const Node& node = query.layer();
  ConvForm form{.tail = fused_tail(query, 1)};
  if (form.tail && form.tail->bias && has_bias_input(node)) form.tail = std::nullopt;
  if (form.tail && form.tail->activation && !activation_mode(*form.tail->activation))
    form.tail = std::nullopt;
  form.bias = form.tail ? form.tail->bias : std::nullopt;
  if (has_bias_input(node)) form.bias = 2;
  return form;
}

ConvForm plain_form(const LayerQuery& query) {
  ConvForm form;
  if (has_bias_input(query.layer())) form.bias = 2;
  return form;
}

class CudnnConvKernel final : public LayerKernel {
 public:
  CudnnConvKernel(const LayerQuery& query, const Tactic& tactic, ConvForm form, const Device& device,
                  const PackContext& pack)
      : device_(device),
        op_(std::get<Conv>(query.layer().op)),
        form_(std::move(form)),
        config_(CudnnConfig::of(tactic.params)),
        source_(tactic.inputs[0].dtype),
        result_(tactic.outputs[0]),
        tensor_cores_(source_ != DType::Float32 || tactic.params.get("tf32") != 0),
        weight_extents_(query.graph.value(query.layer().inputs[1]).constant.extents()) {
    const Node& node = query.layer();
    weights_ = DeviceMemory(
        device, pack.packed("w", dtype_bytes(source_, element_count(weight_extents_)),
                            [&] { return packed_weights(query.graph.value(node.inputs[1]).constant); }));
    const int64_t channels = weight_extents_[0];
    const bool wide_bias =
        form_.tail && form_.tail->activation && form_.tail->activation->code == PointwiseCode::Clip;
    const DType bias_type = wide_bias ? DType::Float32 : result_.dtype;
    bias_ = DeviceMemory(device, pack.packed("bias", dtype_bytes(bias_type, channels), [&] {
      if (!form_.bias) return std::vector<std::byte>(static_cast<size_t>(dtype_bytes(bias_type, channels)));
      return channel_vector(query.graph.value(node.inputs[*form_.bias]).constant, channels, bias_type);
    }));
    if (!form_.tail && !node.epilogue.empty()) epilogue_.emplace(query, tactic, result_, device, pack);
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    ConvProblem problem = problem_of(op_, context.inputs[0], weight_extents_, context.outputs[0]);
    problem.source = source_;
    problem.result = result_.dtype;
    problem.residual = form_.tail && form_.tail->residual;
    if (form_.tail) problem.activation = form_.tail->activation;
    auto prepared = std::make_unique<PreparedConv>(device_);
    prepared->plan = make_plan(make_graph(device_, problem));
    prepared->plan_scratch = CudnnGraph::scratch_bytes(*prepared->plan);
    prepared->weights = weights_.data();
    prepared->bias = bias_.data();
    if (form_.tail) prepared->residual = form_.tail->residual;
    if (epilogue_) {
      prepared->epilogue = epilogue_->prepare(context);
      const int64_t bytes = dtype_bytes(result_.dtype, element_count(context.outputs[0]));
      prepared->scratch_offset = static_cast<size_t>((bytes + 255) / 256 * 256);
    }
    return prepared;
  }

 private:
  // The chosen configuration; where it does not take these extents (it was chosen at others), the heuristic's
  // first that does.
  std::shared_ptr<CudnnDescriptor> make_plan(const CudnnGraph& graph) const {
    try {
      return graph.plan(config_);
    } catch (const Error& refused) {
      for (const CudnnConfig& config : graph.configs(tensor_cores_)) try {
          return graph.plan(config);
        } catch (const Error&) {
          // the next one
        }
      throw;
    }
  }

  // (M, C/g, spatial...) to (M, spatial..., C/g).
  std::vector<std::byte> packed_weights(const Tensor& constant) const {
    const Extents& e = constant.extents();
    const int64_t channels = e[1], pixels = element_count(e) / std::max<int64_t>(1, e[0] * e[1]);
    const int64_t extents[] = {e[0], pixels, channels}, strides[] = {channels * pixels, 1, pixels};
    return convert_floats(constant, source_, extents, strides);
  }

  const Device& device_;
  const Conv op_;
  const ConvForm form_;
  const CudnnConfig config_;
  const DType source_;
  const TensorType result_;
  const bool tensor_cores_;
  const Extents weight_extents_;
  DeviceMemory weights_, bias_;
  std::optional<Epilogue> epilogue_;
};

// ---- listing

// Heuristics take milliseconds, and a layer is listed several times while an engine is built.
std::vector<CudnnConfig> configs_of(const Device& device, const ConvProblem& problem) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<CudnnConfig>> known;
  const std::string key = fmt::format("{} {} {} {}", device.architecture(), device.properties.multiprocessors,
                                      device.tf32, problem.text());
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  std::vector<CudnnConfig> configs;
  try {
    configs = make_graph(device, problem).configs(problem.source != DType::Float32 || device.tf32);
  } catch (const Error&) {
    // cuDNN refuses the graph: no configurations
  }
  const std::lock_guard lock(mutex);
  return known.insert_or_assign(key, std::move(configs)).first->second;
}

std::string reason_to_refuse_cudnn_conv(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (device.libraries->cudnn == nullptr) return "cuDNN (libcudnn.so.9) is not there";
  if (!w.is_constant()) return "the weights are computed at run time";
  if (has_bias_input(node) && !query.graph.value(node.inputs[2]).is_constant())
    return "the bias is computed at run time";
  if (x.shape.size() < 3 || x.shape.size() > 5) return "cuDNN convolves over one to three spatial dims";
  if (library_types(query).empty()) return fmt::format("{} input", dtype_name(x.dtype));
  for (const Value* v : {&x, &w, &query.graph.value(node.outputs[0])})
    for (const Dim& d : v->shape)
      if (d.is_constant(0)) return "an operand without elements";
  return {};
}

Tactic skeleton(const LayerQuery& query, DType type, const ConvForm& form, bool tf32,
                const CudnnConfig& config) {
  const Node& node = query.layer();
  TacticParams params = {{"fused", form.tail.has_value()}, {"tf32", tf32}};
  config.add_to(params);
  Tactic tactic = with_variant(
      {.runner = std::string(kCudnnConvRunner)},
      fmt::format("cudnn_conv_{}_{}{}", form.tail ? "fused" : "plain", tf32 ? "tf32_" : "", config.name()),
      std::move(params));
  tactic.inputs = {{type, kChannelsLast}, {}};
  if (node.op_input_count() > 2) tactic.inputs.emplace_back();
  tactic.outputs = {{type, kChannelsLast}};
  if (!form.tail) {
    if (const Support s = Epilogue::list(query, tactic.outputs[0], tactic.inputs); !s.ok) tactic.support = s;
    return tactic;
  }
  tactic.keeps_nan = !form.tail->activation;
  for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i)
    tactic.inputs.push_back(form.tail->residual == i ? TensorType{type, kChannelsLast} : TensorType{});
  return tactic;
}

void add_tactics(const LayerQuery& query, const Device& device, DType type, const ConvForm& form,
                 std::vector<Tactic>& tactics) {
  const Node& node = query.layer();
  const SymbolValues opt = query.opt_values();
  const auto extents = [&](ValueId id) { return upper_extents(query.graph.value(id).shape, opt); };
  ConvProblem problem = problem_of(std::get<Conv>(node.op), extents(node.inputs[0]), extents(node.inputs[1]),
                                   extents(node.outputs[0]));
  problem.source = problem.result = type;
  problem.residual = form.tail && form.tail->residual;
  if (form.tail) problem.activation = form.tail->activation;
  const bool first_type = type == library_types(query).front();
  const size_t most = first_type ? kMostConfigs : kFallbackConfigs;
  size_t listed = 0, compiled = 0;
  const auto add = [&](const CudnnConfig& config) {
    const bool tf32 = type == DType::Float32 && config.tensor_cores;
    tactics.push_back(skeleton(query, type, form, tf32, config));
  };
  const std::vector<CudnnConfig> configs = configs_of(device, problem);
  for (const CudnnConfig& config : configs)
    if (!config.compiled_at_run_time && listed++ < most) add(config);
  // What cuDNN compiles takes up to a second and is half as fast as what it has ready (ResNet-50's layers on
  // an H200: 13 to 39 us instead of 4 to 7), so it is a rival only where it saves a kernel, and a last way
  // where nothing is ready.
  const bool saves_a_kernel = first_type && form.tail && form.tail->activation && !form.tail->is_relu();
  for (const CudnnConfig& config : configs)
    if (config.compiled_at_run_time && (saves_a_kernel || listed == 0) && compiled++ < kMostCompiled)
      add(config);
}

std::vector<Tactic> list_convs(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Conv>(node.op)) return {};
  const auto refuse = [&](std::string why) -> std::vector<Tactic> {
    Tactic tactic{
        .runner = std::string(kCudnnConvRunner), .name = "cudnn_conv", .id = hash_text("cudnn_conv")};
    tactic.inputs.resize(node.inputs.size());
    tactic.outputs.resize(node.outputs.size());
    tactic.support = Support::no(std::move(why));
    return {tactic};
  };
  if (std::string reason = reason_to_refuse_cudnn_conv(query, device); !reason.empty())
    return refuse(std::move(reason));
  std::vector<Tactic> tactics;
  const ConvForm fused = fused_form(query), plain = plain_form(query);
  for (const DType type : library_types(query)) {
    // Where cuDNN would compile the activation in, the precompiled pattern and a kernel behind it compete;
    // they come first, because compiling takes longer than all of the rest of a build without timing.
    const bool in_pattern = fused.tail && (!fused.tail->activation || fused.tail->is_relu());
    if (!in_pattern) add_tactics(query, device, type, plain, tactics);
    if (fused.tail) add_tactics(query, device, type, fused, tactics);
  }
  if (tactics.empty()) return refuse("cuDNN has no configuration for it");
  return tactics;
}

bool is_fused(const Tactic& tactic) {
  return tactic.params.get("fused", 0) != 0;
}

// The bias is another vector, perhaps of another type, when cuDNN applies the epilogue.
std::string kind_of_cudnn_conv_packing(const Tactic& tactic) {
  return is_fused(tactic) ? "fused" : "plain";
}

// Whether cuDNN has the configuration is seen when the layer is prepared.
Support accepts_conv(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op)) return Support::no("it is no convolution");
  if (std::string reason = reason_to_refuse_cudnn_conv(query, device); !reason.empty())
    return Support::no(std::move(reason));
  const bool fused = is_fused(tactic);
  const ConvForm form = fused ? fused_form(query) : plain_form(query);
  if (fused && !form.tail) return Support::no("its epilogue is none that cuDNN fuses");
  const auto types = library_types(query);
  const DType type = tactic.inputs.empty() ? DType::Undefined : tactic.inputs[0].dtype;
  if (std::find(types.begin(), types.end(), type) == types.end())
    return Support::no("a type without kernels");
  const Tactic own =
      skeleton(query, type, form, tactic.params.get("tf32", 0) != 0, CudnnConfig::of(tactic.params));
  return own.support.ok ? is_offered({&own, 1}, tactic) : own.support;
}

std::unique_ptr<LayerKernel> make_conv(const LayerQuery& query, const Tactic& tactic, const Device& device,
                                       const PackContext& pack) {
  return std::make_unique<CudnnConvKernel>(
      query, tactic, is_fused(tactic) ? fused_form(query) : plain_form(query), device, pack);
}

std::vector<KernelSource> conv_sources(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const bool fused = is_fused(tactic) && fused_form(query).tail;
  return fused ? std::vector<KernelSource>{} : Epilogue::sources(query, tactic);
}

}  // namespace

TacticFamily cudnn_conv_tactics() {
  return {kCudnnConvRunner, list_convs, make_conv, conv_sources, accepts_conv, kind_of_cudnn_conv_packing};
}

}  // namespace lathe::cuda
