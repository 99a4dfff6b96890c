// SPDX-License-Identifier: Apache-2.0
//
// Flops and bytes of a layer. Our own files give them; for others they are counted from shapes and
// attributes, for the families whose meaning those determine. Multiply and add count as two. Every operand is
// read once and every result written once; a gather or slice reads no more than it gives. What cannot be
// known stays unknown.
#include <algorithm>
#include <array>

#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

using Count = std::optional<double>;

Count elements(const TensorUse& tensor) {
  const auto count = element_count(tensor.shape);
  return count ? Count(static_cast<double>(*count)) : Count();
}

// A list of integers among the attributes, empty when there is none.
Shape attribute_list(const Layer& layer, const char* key) {
  const auto found = layer.attributes->find(key);
  Shape values;
  if (found == layer.attributes->end() || !found->is_array()) return values;
  for (const auto& item : *found) {
    if (!item.is_number_integer()) return {};
    values.push_back(item.get<int64_t>());
  }
  return values;
}

double attribute_number(const Layer& layer, const char* key, double otherwise) {
  const auto found = layer.attributes->find(key);
  return found != layer.attributes->end() && found->is_number() ? found->get<double>() : otherwise;
}

double product(const Shape& values) {
  double result = 1;
  for (const int64_t v : values) result *= static_cast<double>(v);
  return result;
}

Count first_output(const Layer& layer) {
  return layer.outputs.empty() ? Count() : elements(layer.outputs[0]);
}

// Steps of the pointwise program behind a convolution or product: one per element each.
double epilogue_steps(const Layer& layer) {
  const auto found = layer.attributes->find("PointWiseExpressionOperations");
  if (found != layer.attributes->end() && found->is_array()) return static_cast<double>(found->size());
  return attribute_number(layer, "HasReLU", 0) > 0 ? 1 : 0;
}

Count convolution_flops(const Layer& layer, bool transposed) {
  const Shape kernel = attribute_list(layer, "Kernel");
  if (kernel.empty() || layer.inputs.empty() || layer.outputs.empty()) return {};
  const auto input = elements(layer.inputs[0]), output = elements(layer.outputs[0]);
  if (!input || !output || layer.inputs[0].shape.size() < 2 || layer.outputs[0].shape.size() < 2) return {};
  const double groups = std::max(1.0, attribute_number(layer, "Groups", 1));
  const auto in_channels = static_cast<double>(layer.inputs[0].shape[1]),
             out_channels = static_cast<double>(layer.outputs[0].shape[1]);
  const double products = transposed ? *input * out_channels / groups * product(kernel)
                                     : *output * in_channels / groups * product(kernel);
  return 2 * products + *output * epilogue_steps(layer);  // a bias starts the sum, it costs nothing
}

// A convolution with a pooling behind it, whose attributes have prefixes ("ConvKernel"). The convolution's
// own result is in no list of tensors: its extents follow from kernel, stride, dilation and padding.
Count pooled_convolution_flops(const Layer& layer) {
  const Shape kernel = attribute_list(layer, "ConvKernel"), stride = attribute_list(layer, "ConvStride"),
              dilation = attribute_list(layer, "ConvDilation"),
              before = attribute_list(layer, "ConvPrePadding"),
              after = attribute_list(layer, "ConvPostPadding"),
              window = attribute_list(layer, "PoolingWindowSize");
  const size_t rank = kernel.size();
  if (rank == 0 || window.empty() || layer.inputs.empty() || layer.inputs[0].shape.size() != rank + 2)
    return {};
  for (const Shape* list : {&stride, &dilation, &before, &after}) {
    if (list->size() != rank) return {};
  }
  const Shape& input = layer.inputs[0].shape;
  const auto pooled = first_output(layer);
  const double groups = std::max(1.0, attribute_number(layer, "ConvGroups", 1));
  double output = static_cast<double>(input[0]) * attribute_number(layer, "ConvOutMaps", 0);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t room = input[i + 2] + before[i] + after[i] - dilation[i] * (kernel[i] - 1) - 1;
    if (stride[i] < 1 || room < 0) return {};
    output *= static_cast<double>(room / stride[i] + 1);
  }
  if (!pooled || output <= 0) return {};
  const auto activation = layer.attributes->find("ConvActivation");
  const bool active = activation != layer.attributes->end() && activation->is_string() &&
                      activation->get<std::string>() != "NONE";
  return 2 * output * static_cast<double>(input[1]) / groups * product(kernel) + (active ? output : 0) +
         *pooled * product(window);
}

// The inner extent of C = A x B: from the transposes where the file has them, else a dimension of both A and
// B for which the element counts agree.
Count inner_extent(const Layer& layer) {
  const Shape& a = layer.inputs[0].shape;
  if (a.empty()) return {};
  const auto found = layer.attributes->find("OpA");
  if (found != layer.attributes->end() && found->is_string()) {
    const bool transposed = found->get<std::string>() == "kTRANSPOSE" && a.size() >= 2;
    return static_cast<double>(transposed ? a[a.size() - 2] : a.back());
  }
  const auto out = first_output(layer), in = elements(layer.inputs[0]);
  if (!out || !in || layer.inputs.size() < 2) return static_cast<double>(a.back());
  const Shape& b = layer.inputs[1].shape;
  const auto other = elements(layer.inputs[1]);
  for (size_t i = a.size(); i-- > 0 && a.size() - i <= 2;) {
    if (std::find(b.begin(), b.end(), a[i]) == b.end() || a[i] == 0 || !other) continue;
    const auto k = static_cast<double>(a[i]);
    // C = (A / K) x N with N = B / K, per batch: either B is shared by the batch or has it, too.
    const double rows = *in / k, columns = *other / k;
    double batch = 1;
    for (size_t d = 0; d + 2 < b.size(); ++d) batch *= static_cast<double>(b[d]);
    if (rows * columns == *out || rows * columns / batch == *out) return k;
  }
  return {};
}

Count matmul_flops(const Layer& layer) {
  const auto output = first_output(layer);
  if (!output || layer.inputs.empty()) return {};
  const auto k = inner_extent(layer);
  if (!k) return {};
  return 2 * *output * *k + *output * epilogue_steps(layer);
}

Count scaled_output(const Layer& layer, double factor) {
  const auto output = first_output(layer);
  return output ? Count(*output * factor) : Count();
}
Count scaled_input(const Layer& layer, double factor) {
  const auto input = layer.inputs.empty() ? Count() : elements(layer.inputs[0]);
  return input ? Count(*input * factor) : Count();
}

bool is_any(const std::string& type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Count count_flops(const Layer& layer) {
  const std::string& type = layer.type;
  if (type.starts_with("Convolution")) return convolution_flops(layer, false);
  if (type == "ConvActPool") return pooled_convolution_flops(layer);
  if (type == "Deconvolution") return convolution_flops(layer, true);
  if (is_any(type, {"MatrixMultiply", "gemm", "Gemm", "FullyConnected"})) return matmul_flops(layer);
  if (type == "Pooling") {
    const Shape window = attribute_list(layer, "WindowSize");
    return window.empty() ? Count() : scaled_output(layer, product(window));
  }
  if (type == "PointWise")
    return scaled_output(layer, std::max(1.0, attribute_number(layer, "NbOperations", 1)));
  if (is_any(type, {"ElementWise", "Unary", "Activation", "Scale", "Select"}))
    return scaled_output(layer, type == "Scale" ? 2 : 1);
  if (is_any(type, {"SoftMax", "SoftMaxV2"})) return scaled_output(layer, 5);
  if (type == "Reduce") return scaled_input(layer, 1);
  if (is_any(type,
             {"Normalization", "LayerNorm", "LayerNormalization", "InstanceNormalization", "GroupNorm"}))
    return scaled_output(layer, 8);
  if (layer.is_overhead() || layer.kind == "shape" || layer.kind == "sync" || type == "Gather") return 0.0;
  return {};
}

int64_t attribute_weight_bytes(const Layer& layer, const char* key) {
  const auto found = layer.attributes->find(key);
  if (found == layer.attributes->end() || !found->is_object()) return 0;
  const auto type = found->find("Type");
  const auto count = found->find("Count");
  if (type == found->end() || !type->is_string() || count == found->end() || !count->is_number_integer())
    return 0;
  const int64_t n = count->get<int64_t>();
  if (n < 0 || n > (int64_t{1} << 50)) return 0;
  return (n * element_bits(element_type(type->get<std::string>())) + 7) / 8;
}

bool reads_only_what_it_gives(const Layer& layer) {
  return is_any(layer.type, {"Gather", "Slice", "GatherElements", "GatherND", "Split"});
}

void count_bytes(Layer& layer) {
  int64_t attributes = 0;
  for (const char* key : {"Weights", "Bias", "ConvWeights", "ConvBias"})
    attributes += attribute_weight_bytes(layer, key);
  int64_t read = attributes, written = 0, constants = 0;
  bool known = !layer.outputs.empty();
  for (const auto& output : layer.outputs) {
    known = known && output.bytes;
    written += output.bytes.value_or(0);
  }
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const auto& input = layer.inputs[i];
    known = known && input.bytes;
    const int64_t bytes = input.bytes.value_or(0);
    read += i == 0 && reads_only_what_it_gives(layer) ? std::min(bytes, written) : bytes;
    if (input.is_weights) constants += bytes;
  }
  const auto given = layer.attributes->find("WeightBytes");
  layer.weights_bytes = given != layer.attributes->end() && given->is_number_integer()
                            ? given->get<int64_t>()
                            : attributes + constants;
  if (!known) return;
  if (!layer.bytes_read) layer.bytes_read = read;
  if (!layer.bytes_written) layer.bytes_written = written;
}

}  // namespace

void count_costs(EngineData& engine) {
  for (auto& layer : engine.layers) {
    count_bytes(layer);
    if (layer.flops || engine.names_only) continue;
    layer.flops = count_flops(layer);
    if (layer.flops) layer.flops_source = "counted";
  }
}

}  // namespace lathe::explorer
