// SPDX-License-Identifier: Apache-2.0
//
// Models: as they were imported, or made call by call.
//
//   NetworkBuilder net("two layers");
//   NetworkTensor x = net.input("x", DataType::Float, {-1, 3, 32, 32}, {"batch"});
//   NetworkTensor y = net.activation(Activation::Relu, net.convolution(x, net.constant(weights), {},
//   {.strides = {2, 2}})); net.output(net.reduce(Reduction::Mean, y, {2, 3}, false), "features");
//   Engine engine = builder.build(net.finish());
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/types.h"

namespace lathe::v1 {

// An operator of a network before optimization.
struct NetworkLayer {
  std::string name, op_type;                 // op_type: Lathe's, "Conv", "Relu", "Reshape"
  std::vector<std::string> inputs, outputs;  // names of tensors; "" is an absent one
};

// Made by Builder or NetworkBuilder. Cheap to copy; immutable.
class Network {
 public:
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  std::string name() const;
  int layer_count() const;  // operators before optimization
  std::vector<NetworkLayer> layers() const;

  // As an ONNX model. Weights go to a file beside it, path.data, where they pass 2 GB. Throws for what ONNX
  // cannot say.
  void to_onnx(const std::string& path) const;
  std::vector<std::byte> to_onnx_bytes() const;

  struct Impl;
  explicit Network(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// A tensor of a network that is being made: an input, a constant, or the result of a layer. Cheap to copy.
class NetworkTensor {
 public:
  NetworkTensor() = default;  // none: for inputs that may be absent
  explicit operator bool() const { return state_ != nullptr; }
  std::string name() const;
  DataType type() const;
  Dims dims() const;                           // -1: dynamic
  std::vector<std::string> dim_names() const;  // "batch" for a dynamic dim, "2*seq", "3"

  struct State;  // of the network that it belongs to

 private:
  friend class NetworkBuilder;
  NetworkTensor(std::shared_ptr<State> state, int32_t id) : state_(std::move(state)), id_(id) {}
  const State& state() const;
  std::shared_ptr<State> state_;
  int32_t id_ = -1;
};
using NetworkTensors = std::vector<NetworkTensor>;

// An attribute of an operator.
using Attribute = std::variant<int64_t, double, std::string, Dims, std::vector<double>,
                               std::vector<std::string>, HostTensor>;
using Attributes = std::map<std::string, Attribute>;

enum class Activation {
  Relu,
  Sigmoid,
  Tanh,
  LeakyRelu,
  Elu,
  Selu,
  Softsign,
  Softplus,
  Clip,
  HardSigmoid,
  ScaledTanh,
  ThresholdedRelu,
  GeluErf,
  GeluTanh,
  Silu,
  HardSwish,
  Mish,
  Celu
};
enum class Unary {
  Exp,
  Log,
  Sqrt,
  Reciprocal,
  Abs,
  Neg,
  Sin,
  Cos,
  Tan,
  Sinh,
  Cosh,
  Asin,
  Acos,
  Atan,
  Asinh,
  Acosh,
  Atanh,
  Ceil,
  Floor,
  Erf,
  Not,
  Sign,
  Round,
  IsInf,
  IsNaN,
  BitwiseNot
};
enum class Elementwise {
  Sum,
  Product,
  Max,
  Min,
  Sub,
  Div,
  Pow,
  FloorDiv,
  And,
  Or,
  Xor,
  Equal,
  Greater,
  Less,
  GreaterOrEqual,
  LessOrEqual,
  Mod,
  BitwiseAnd,
  BitwiseOr,
  BitwiseXor
};
enum class Reduction { Sum, Product, Max, Min, Mean, L1, L2, LogSum, LogSumExp, SumSquare };
enum class Pooling { Max, Average, Lp };
enum class AutoPadding { None, SameUpper, SameLower };
enum class Padding { Constant, Reflect, Edge, Wrap };
enum class Interpolation { Nearest, Linear, Cubic };
enum class ScatterMode { Replace, Add, Multiply, Min, Max };

// Spatial parameters, one entry per spatial dim; empty: 1 for strides and dilations, 0 for pads.
struct ConvolutionOptions {
  Dims strides = {}, dilations = {}, pads_begin = {}, pads_end = {};
  AutoPadding auto_padding = AutoPadding::None;  // other than None: pads are found
  int64_t groups = 1;
  Dims output_padding = {};  // of a deconvolution
};
struct PoolingOptions {
  Dims strides = {}, dilations = {}, pads_begin = {}, pads_end = {};
  AutoPadding auto_padding = AutoPadding::None;
  bool round_up = false;  // of the number of windows
  bool count_padding = false;
  int64_t p = 2;  // of Lp
};
// Either sizes or scales, one per axis.
struct ResizeOptions {
  Dims sizes = {};
  std::vector<float> scales = {};
  Interpolation mode = Interpolation::Nearest;
  std::string coordinates = "half_pixel";      // ONNX's coordinate_transformation_mode
  std::string nearest = "round_prefer_floor";  // ONNX's nearest_mode
  float cubic_coeff = -0.75f;
  bool exclude_outside = false, antialias = false;
};

// Adds layers one by one. Each call checks types and shapes and throws Error (Input) that names the layer. A
// layer without a name gets its operator's and a number. Tensors of the networks around a body may be used
// inside of it.
class NetworkBuilder {
 public:
  explicit NetworkBuilder(const std::string& name = "network");
  // Goes on with a network: find() has its tensors, and its outputs stay outputs.
  explicit NetworkBuilder(const Network& network);

  // Dims of -1 are dynamic; `dim_names` names them. Equal names mean equal extents.
  NetworkTensor input(const std::string& name, DataType type, const Dims& dims,
                      const std::vector<std::string>& dim_names = {});
  NetworkTensor constant(const HostTensor& values, const std::string& name = {});
  // By reference: `keep_alive` holds the memory, which must not change, as long as a network or an engine
  // needs it.
  NetworkTensor constant(DataType type, const Dims& dims, const void* data,
                         std::shared_ptr<const void> keep_alive, const std::string& name = {});
  NetworkTensor scalar(double value, DataType type = DataType::Float);
  // Makes a tensor an output, called `name`, or else as it is.
  void output(const NetworkTensor& tensor, const std::string& name = {});
  // Dynamic dims of an input get extents; -1 leaves one dynamic.
  void set_input_shape(const std::string& input, const Dims& dims);
  // The tensor of this name becomes an input; finish() leaves out what computed it.
  void cut_input(const std::string& tensor);
  // A tensor, or else a layer.
  void rename(const std::string& from, const std::string& to);
  // Computes what depends on constants alone; tensors that vanish by this must not be used any more.
  void fold();
  // The network has no outputs any more.
  void clear_outputs();
  // A tensor by its name. Throws when there is none.
  NetworkTensor find(const std::string& name) const;
  // All that reads `from` reads `to`, which must be of the same type and shape.
  void replace(const NetworkTensor& from, const NetworkTensor& to);
  // The network as it is now, without what no output needs.
  Network finish() const;

  // op() knows these custom operators, too, from now on. Builders of the network need the same registry.
  NetworkBuilder& use_plugins(const PluginRegistry& plugins);
  // Any ONNX operator, as its newest version means it. Inputs may be absent; as many results as `outputs`.
  NetworkTensors op(const std::string& op_type, const NetworkTensors& inputs,
                    const Attributes& attributes = {}, size_t outputs = 1, const std::string& name = {});

  // --- pointwise. Shapes broadcast as numpy's.
  // alpha and beta are ONNX's; without them its defaults. Clip: between alpha and beta. ScaledTanh: alpha *
  // tanh(beta * x).
  NetworkTensor activation(Activation kind, const NetworkTensor& x, std::optional<double> alpha = {},
                           std::optional<double> beta = {}, const std::string& name = {});
  NetworkTensor unary(Unary kind, const NetworkTensor& x, const std::string& name = {});
  NetworkTensor elementwise(Elementwise kind, const NetworkTensor& a, const NetworkTensor& b,
                            const std::string& name = {});
  NetworkTensor select(const NetworkTensor& condition, const NetworkTensor& then,
                       const NetworkTensor& otherwise, const std::string& name = {});
  NetworkTensor parametric_relu(const NetworkTensor& x, const NetworkTensor& slope,
                                const std::string& name = {});
  // (x * scale + shift) ^ power; what is absent is left out. Tensors of one dim lie along `axis` of x.
  NetworkTensor scale(const NetworkTensor& x, const NetworkTensor& scale, const NetworkTensor& shift = {},
                      const NetworkTensor& power = {}, int64_t axis = 1, const std::string& name = {});
  NetworkTensor cast(const NetworkTensor& x, DataType type, const std::string& name = {});
  NetworkTensor identity(const NetworkTensor& x, const std::string& name = {});

  // --- products
  // x (N, C, spatial...), weights (M, C/groups, kernel...), bias (M) or none.
  NetworkTensor convolution(const NetworkTensor& x, const NetworkTensor& weights,
                            const NetworkTensor& bias = {}, const ConvolutionOptions& options = {},
                            const std::string& name = {});
  // weights (C, M/groups, kernel...).
  NetworkTensor deconvolution(const NetworkTensor& x, const NetworkTensor& weights,
                              const NetworkTensor& bias = {}, const ConvolutionOptions& options = {},
                              const std::string& name = {});
  // The last two dims; the others broadcast. transpose_* swaps them first.
  NetworkTensor matrix_multiply(const NetworkTensor& a, const NetworkTensor& b, bool transpose_a = false,
                                bool transpose_b = false, const std::string& name = {});
  NetworkTensor einsum(const std::string& equation, const NetworkTensors& inputs,
                       const std::string& name = {});
  // q (B, H, Sq, D), k (B, H, Sk, D), v (B, H, Sk, Dv). mask: bool (true keeps) or float (added). scale: 1 /
  // sqrt(D) without one.
  NetworkTensor attention(const NetworkTensor& q, const NetworkTensor& k, const NetworkTensor& v,
                          const NetworkTensor& mask = {}, bool causal = false,
                          std::optional<double> scale = {}, const std::string& name = {});
  // x (B, H, S, D); caches (positions, D/2) with position_ids (B, S), else (B, S, D/2). rotary_dim: of D; 0:
  // all.
  NetworkTensor rotary_embedding(const NetworkTensor& x, const NetworkTensor& cos_cache,
                                 const NetworkTensor& sin_cache, const NetworkTensor& position_ids = {},
                                 bool interleaved = false, int64_t rotary_dim = 0,
                                 const std::string& name = {});
  // The cache (B, H, length, D) with `update` (B, H, S, D) written from position write_indices (B) on.
  NetworkTensor kv_cache_update(const NetworkTensor& cache, const NetworkTensor& update,
                                const NetworkTensor& write_indices, const std::string& name = {});

  // --- reductions, normalization, pooling
  // Empty axes: all.
  NetworkTensor reduce(Reduction kind, const NetworkTensor& x, const Dims& axes = {}, bool keep_dims = true,
                       const std::string& name = {});
  NetworkTensor arg_max(const NetworkTensor& x, int64_t axis, bool keep_dims = true,
                        const std::string& name = {});
  NetworkTensor arg_min(const NetworkTensor& x, int64_t axis, bool keep_dims = true,
                        const std::string& name = {});
  // Values and indices (int64). k: one int64 element, a constant or not.
  std::pair<NetworkTensor, NetworkTensor> top_k(const NetworkTensor& x, const NetworkTensor& k,
                                                int64_t axis = -1, bool largest = true, bool sorted = true,
                                                const std::string& name = {});
  NetworkTensor softmax(const NetworkTensor& x, int64_t axis = -1, bool logarithm = false,
                        const std::string& name = {});
  // Softmax over the first lengths[i] elements of row i of x (rows, columns) or (Z, rows, columns); the
  // others become 0.
  NetworkTensor ragged_softmax(const NetworkTensor& x, const NetworkTensor& lengths,
                               const std::string& name = {});
  // Mean 0 and variance 1 over dims from `axis` on; scale and bias have these dims. rms: no mean is
  // subtracted.
  NetworkTensor layer_norm(const NetworkTensor& x, const NetworkTensor& scale, const NetworkTensor& bias = {},
                           int64_t axis = -1, double epsilon = 1e-5, bool rms = false,
                           const std::string& name = {});
  // Per image and group of channels; groups 0: each channel. scale and bias (C).
  NetworkTensor group_norm(const NetworkTensor& x, const NetworkTensor& scale, const NetworkTensor& bias,
                           int64_t groups = 0, double epsilon = 1e-5, const std::string& name = {});
  NetworkTensor batch_norm(const NetworkTensor& x, const NetworkTensor& scale, const NetworkTensor& bias,
                           const NetworkTensor& mean, const NetworkTensor& variance, double epsilon = 1e-5,
                           const std::string& name = {});
  NetworkTensor lrn(const NetworkTensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                    double bias = 1, const std::string& name = {});
  NetworkTensor pooling(Pooling kind, const NetworkTensor& x, const Dims& window,
                        const PoolingOptions& options = {}, const std::string& name = {});
  NetworkTensor cumulative(const NetworkTensor& x, int64_t axis, bool exclusive = false, bool reverse = false,
                           bool product = false, const std::string& name = {});

  // --- shapes and data movement
  NetworkTensor shape(const NetworkTensor& x, const std::string& name = {});  // int64
  // 0 keeps a dim, one -1 is found.
  NetworkTensor reshape(const NetworkTensor& x, const Dims& dims, const std::string& name = {});
  NetworkTensor reshape(const NetworkTensor& x, const NetworkTensor& dims, const std::string& name = {});
  NetworkTensor transpose(const NetworkTensor& x, const Dims& permutation, const std::string& name = {});
  NetworkTensor squeeze(const NetworkTensor& x, const Dims& axes, const std::string& name = {});
  NetworkTensor unsqueeze(const NetworkTensor& x, const Dims& axes, const std::string& name = {});
  NetworkTensor concatenation(const NetworkTensors& inputs, int64_t axis, const std::string& name = {});
  NetworkTensors split(const NetworkTensor& x, const Dims& sizes, int64_t axis, const std::string& name = {});
  // From starts up to before ends, of `axes` (empty: the first ones); steps empty: 1.
  NetworkTensor slice(const NetworkTensor& x, const Dims& starts, const Dims& ends, const Dims& axes = {},
                      const Dims& steps = {}, const std::string& name = {});
  NetworkTensor slice(const NetworkTensor& x, const NetworkTensor& starts, const NetworkTensor& ends,
                      const NetworkTensor& axes = {}, const NetworkTensor& steps = {},
                      const std::string& name = {});
  // pads: in front of each dim, then behind each; negative ones cut off.
  NetworkTensor pad(const NetworkTensor& x, const Dims& pads, Padding mode = Padding::Constant,
                    double value = 0, const std::string& name = {});
  NetworkTensor resize(const NetworkTensor& x, const ResizeOptions& options, const std::string& name = {});
  NetworkTensor resize(const NetworkTensor& x, const NetworkTensor& sizes, const ResizeOptions& options,
                       const std::string& name = {});
  NetworkTensor expand(const NetworkTensor& x, const Dims& dims, const std::string& name = {});
  NetworkTensor expand(const NetworkTensor& x, const NetworkTensor& dims, const std::string& name = {});
  NetworkTensor tile(const NetworkTensor& x, const Dims& repeats, const std::string& name = {});
  NetworkTensor gather(const NetworkTensor& x, const NetworkTensor& indices, int64_t axis = 0,
                       const std::string& name = {});
  NetworkTensor gather_elements(const NetworkTensor& x, const NetworkTensor& indices, int64_t axis = 0,
                                const std::string& name = {});
  NetworkTensor gather_nd(const NetworkTensor& x, const NetworkTensor& indices, int64_t batch_dims = 0,
                          const std::string& name = {});
  NetworkTensor scatter_elements(const NetworkTensor& x, const NetworkTensor& indices,
                                 const NetworkTensor& updates, int64_t axis = 0,
                                 ScatterMode mode = ScatterMode::Replace, const std::string& name = {});
  NetworkTensor scatter_nd(const NetworkTensor& x, const NetworkTensor& indices, const NetworkTensor& updates,
                           ScatterMode mode = ScatterMode::Replace, const std::string& name = {});
  NetworkTensor one_hot(const NetworkTensor& indices, const NetworkTensor& depth, const NetworkTensor& values,
                        int64_t axis = -1, const std::string& name = {});
  NetworkTensor reverse_sequence(const NetworkTensor& x, const NetworkTensor& lengths, int64_t batch_axis = 1,
                                 int64_t time_axis = 0, const std::string& name = {});
  NetworkTensor fill(const Dims& dims, double value, DataType type = DataType::Float,
                     const std::string& name = {});
  NetworkTensor fill(const NetworkTensor& dims, double value, DataType type = DataType::Float,
                     const std::string& name = {});
  // Scalars: start, start + delta, ... before limit.
  NetworkTensor range(const NetworkTensor& start, const NetworkTensor& limit, const NetworkTensor& delta,
                      const std::string& name = {});
  NetworkTensor random_uniform(const Dims& dims, double low = 0, double high = 1, int seed = 0,
                               const std::string& name = {});
  NetworkTensor random_normal(const Dims& dims, double mean = 0, double scale = 1, int seed = 0,
                              const std::string& name = {});

  // --- selection, sampling
  NetworkTensor non_zero(const NetworkTensor& x, const std::string& name = {});
  // boxes (B, N, 4), scores (B, C, N); gives (selected, 3): image, class, box.
  NetworkTensor non_max_suppression(const NetworkTensor& boxes, const NetworkTensor& scores,
                                    const NetworkTensor& max_boxes_per_class,
                                    const NetworkTensor& iou_threshold = {},
                                    const NetworkTensor& score_threshold = {}, bool center_point_box = false,
                                    const std::string& name = {});
  // padding: "zeros", "border", "reflection".
  NetworkTensor grid_sample(const NetworkTensor& x, const NetworkTensor& grid,
                            Interpolation mode = Interpolation::Linear, const std::string& padding = "zeros",
                            bool align_corners = false, const std::string& name = {});

  // --- quantization. axis: of scales of one dim. block: elements of `axis` that share a scale; 0: none do.
  NetworkTensor quantize(const NetworkTensor& x, const NetworkTensor& scale,
                         const NetworkTensor& zero_point = {}, DataType type = DataType::Int8,
                         int64_t axis = 1, int64_t block = 0, const std::string& name = {});
  NetworkTensor dequantize(const NetworkTensor& x, const NetworkTensor& scale,
                           const NetworkTensor& zero_point = {}, int64_t axis = 1, int64_t block = 0,
                           const std::string& name = {});

  // --- control flow. A body is filled by a function, which may be called more than once.
  using Branch = std::function<NetworkTensors(NetworkBuilder& body)>;
  NetworkTensors if_else(const NetworkTensor& condition, const Branch& then, const Branch& otherwise,
                         const std::string& name = {});
  struct LoopStep {
    NetworkTensors carried;       // for the next iteration
    NetworkTensors scanned = {};  // collected along a new first dim
    NetworkTensor go_on = {};     // bool scalar: whether there is a next one; absent: yes
  };
  using LoopBody = std::function<LoopStep(NetworkBuilder& body, const NetworkTensor& iteration,
                                          const NetworkTensors& carried)>;
  // trip_count: one int64 element; condition: one bool; absent ones do not end the loop. Gives the carried
  // values, then what was scanned.
  NetworkTensors loop(const NetworkTensor& trip_count, const NetworkTensor& condition,
                      const NetworkTensors& carried, const LoopBody& body, const std::string& name = {});

 private:
  using State = NetworkTensor::State;
  explicit NetworkBuilder(std::shared_ptr<State> state) : state_(std::move(state)) {}
  NetworkTensor one(const std::string& op_type, const NetworkTensors& inputs, const Attributes& attributes,
                    const std::string& name);
  NetworkTensors tensors(const std::vector<int32_t>& ids) const;
  NetworkTensor ints(const Dims& values);
  NetworkTensor along(const NetworkTensor& values, const NetworkTensor& x, int64_t axis);
  std::shared_ptr<State> state_;
};

}  // namespace lathe::v1
