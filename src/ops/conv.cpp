// SPDX-License-Identifier: Apache-2.0
//
// Conv and ConvTranspose for any number of spatial dims. Both are a matrix product of the weights with
// patches of the input; they differ only in which input element meets which tap for an output position.
// Integer convolutions (ConvInteger) come out exact: their sums are far below 2^53.

#include <functional>
#include <limits>

#include "ops/families.h"
#include "ops/gemm.h"
#include "ops/movement.h"
#include "ops/transposed_window.h"
#include "ops/window.h"

namespace lathe {

namespace {

// --- shapes

// Kernel extents: the attribute, or else the weight's own.
Ints kernel_of(const Ints& attribute, const Shape& weight) {
  if (!attribute.empty()) return attribute;
  Ints kernel;
  for (size_t i = 2; i < weight.size(); ++i) {
    if (!weight[i].is_constant()) throw_input_error("the kernel extents of the weight must be constant");
    kernel.push_back(weight[i].value());
  }
  return kernel;
}

void require_equal(const Dim& a, const Dim& b, const std::string& what) {
  if (a.is_constant() && b.is_constant() && !(a == b)) {
    throw_input_error(what + ": " + a.to_string() + " and " + b.to_string() + " differ");
  }
}

// Checks what both operators share and returns the kernel.
Ints check_conv(const InferContext& context, const Ints& kernel_attribute, int64_t groups,
                const Dim& bias_size) {
  const Shape &x = context.input(0).shape, &w = context.input(1).shape;
  if (x.size() < 3 || w.size() != x.size()) {
    throw_input_error("needs data (N, C, spatial...) and a weight of the same rank, has " + to_string(x) +
                      " and " + to_string(w));
  }
  if (groups < 1) throw_input_error("groups is " + std::to_string(groups) + ", expected 1 or more");
  const Ints kernel = kernel_of(kernel_attribute, w);
  for (size_t i = 0; i < kernel.size() && i + 2 < w.size(); ++i) {
    require_equal(w[i + 2], Dim(kernel[i]), "kernel_shape and the weight's spatial dims");
  }
  if (context.has(2)) {
    if (context.rank(2) != 1)
      throw_input_error("the bias must have rank 1, has " + to_string(context.input(2).shape));
    require_equal(context.input(2).shape[0], bias_size, "the bias and the output channels");
  }
  return kernel;
}

WindowSpec spec_of(const Conv& op, const Ints& kernel) {
  return {kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad};
}

std::vector<ResultInfo> infer_conv(const Conv& op, const InferContext& context) {
  const Shape &x = context.input(0).shape, &w = context.input(1).shape;
  const Ints kernel = check_conv(context, op.kernel, op.groups, w.empty() ? Dim(0) : w[0]);
  const WindowSpec spec = spec_of(op, kernel);
  check_window(spec, x.size() - 2, "Conv");
  require_equal(x[1], w[1] * Dim(op.groups), "input channels and weight channels times groups");
  if (w[0].is_constant() && w[0].value() % op.groups != 0) {
    throw_input_error(w[0].to_string() + " output channels do not divide into " + std::to_string(op.groups) +
                      " groups");
  }
  const Shape spatial(x.begin() + 2, x.end());
  Shape shape = {x[0], w[0]};
  for (const Dim& dim : window_output(spec, spatial)) shape.push_back(dim);
  if (is_static(spatial)) resolve_window(spec, to_extents(spatial));  // throws when the kernel does not fit
  return {{context.input(0).dtype, std::move(shape)}};
}

// --- transposed

// Extent before pads are cut off.
Dim full_extent(const ConvTranspose& op, const Ints& kernel, size_t i, const Dim& input) {
  const int64_t reach = (kernel[i] - 1) * entry_or(op.dilations, i, 1) + 1;
  return Dim(entry_or(op.strides, i, 1)) * (input - Dim(1)) + Dim(entry_or(op.output_padding, i, 0) + reach);
}

Dim transposed_output(const ConvTranspose& op, const Ints& kernel, size_t i, const Dim& input) {
  if (!op.output_shape.empty()) return Dim(op.output_shape[i]);
  if (op.auto_pad == AutoPad::SameUpper || op.auto_pad == AutoPad::SameLower) {
    return input * Dim(entry_or(op.strides, i, 1));
  }
  const bool padded = op.auto_pad == AutoPad::NotSet;
  const int64_t pads = padded ? entry_or(op.pads_begin, i, 0) + entry_or(op.pads_end, i, 0) : 0;
  return full_extent(op, kernel, i, input) - Dim(pads);
}

std::vector<ResultInfo> infer_conv_transpose(const ConvTranspose& op, const InferContext& context) {
  const Shape &x = context.input(0).shape, &w = context.input(1).shape;
  const Dim channels = w.size() > 1 ? w[1] * Dim(op.groups) : Dim(0);
  const Ints kernel = check_conv(context, op.kernel, op.groups, channels);
  const size_t rank = x.size() - 2;
  check_window({kernel, op.strides, op.dilations, op.pads_begin, op.pads_end}, rank, "ConvTranspose");
  require_equal(x[1], w[0], "input channels and the weight's first dim");
  for (const int64_t padding : op.output_padding)
    if (padding < 0 || padding > std::numeric_limits<int32_t>::max())
      throw_input_error("output_padding holds " + std::to_string(padding) + ", expected 0 to " +
                        std::to_string(std::numeric_limits<int32_t>::max()));
  if (!op.output_shape.empty() && op.output_shape.size() != rank) {
    throw_input_error("output_shape has " + std::to_string(op.output_shape.size()) + " entries for " +
                      std::to_string(rank) + " spatial dims");
  }
  Shape shape = {x[0], channels};
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(transposed_output(op, kernel, i, x[i + 2]));
    if (shape.back().is_constant() && shape.back().value() < 1) {
      throw_input_error("spatial dim " + std::to_string(i) + " of the output would be " +
                        shape.back().to_string());
    }
  }
  return {{context.input(0).dtype, std::move(shape)}};
}

}  // namespace

std::vector<WindowAxis> resolve_transposed(const ConvTranspose& op, const Ints& kernel,
                                           const Extents& input) {
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < input.size(); ++i) {
    WindowAxis axis{input[i], transposed_output(op, kernel, i, Dim(input[i])).value(), kernel[i],
                    entry_or(op.strides, i, 1), entry_or(op.dilations, i, 1)};
    const bool from_output =
        !op.output_shape.empty() || op.auto_pad == AutoPad::SameUpper || op.auto_pad == AutoPad::SameLower;
    if (from_output) {
      const int64_t total = full_extent(op, kernel, i, Dim(input[i])).value() - axis.output;
      const int64_t half = total >> 1;  // downwards for negative totals too
      axis.pad_begin = op.auto_pad == AutoPad::SameUpper ? half : total - half;
    } else if (op.auto_pad == AutoPad::NotSet) {
      axis.pad_begin = entry_or(op.pads_begin, i, 0);
    }
    axes.push_back(axis);
  }
  return axes;
}

namespace {

// --- evaluation

// Input position along an axis for (output position, tap), or -1.
using Meet = int64_t (*)(const WindowAxis&, int64_t output, int64_t tap);

int64_t meet_conv(const WindowAxis& axis, int64_t output, int64_t tap) {
  const int64_t position = output * axis.stride - axis.pad_begin + tap * axis.dilation;
  return position >= 0 && position < axis.input ? position : -1;
}

int64_t meet_transposed(const WindowAxis& axis, int64_t output, int64_t tap) {
  const int64_t spread = output + axis.pad_begin - tap * axis.dilation;
  if (spread < 0 || spread % axis.stride != 0) return -1;
  return spread / axis.stride < axis.input ? spread / axis.stride : -1;
}

// Offsets into one input plane for output positions [begin, begin + count) at one tap; -1 where the tap meets
// padding.
void tap_offsets(const std::vector<WindowAxis>& axes, Meet meet, int64_t tap, int64_t begin, int64_t count,
                 std::vector<int64_t>& offsets) {
  offsets.assign(static_cast<size_t>(count), 0);
  int64_t plane_stride = 1, output_stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    const WindowAxis& axis = axes[d];
    const int64_t axis_tap = tap % axis.kernel;
    tap /= axis.kernel;
    for (int64_t j = 0; j < count; ++j) {
      int64_t& offset = offsets[static_cast<size_t>(j)];
      if (offset < 0) continue;
      const int64_t position = meet(axis, (begin + j) / output_stride % axis.output, axis_tap);
      offset = position < 0 ? -1 : offset + position * plane_stride;
    }
    plane_stride *= axis.input;
    output_stride *= axis.output;
  }
}

struct ConvLayout {
  int64_t batch, groups, in_channels, out_channels;  // channels per group
  bool transposed;
  std::vector<WindowAxis> axes;
};

int64_t product(const std::vector<WindowAxis>& axes, int64_t WindowAxis::*member) {
  int64_t result = 1;
  for (const WindowAxis& axis : axes) result *= axis.*member;
  return result;
}

template <class Real>
void convolve(const ConvLayout& layout, const Real* x, const Real* w, std::span<const double> bias,
              const ElementWriter& writer, const EvaluateContext& context) {
  const int64_t taps = product(layout.axes, &WindowAxis::kernel),
                in_plane = product(layout.axes, &WindowAxis::input);
  const int64_t out_plane = product(layout.axes, &WindowAxis::output);
  const int64_t in = layout.in_channels, out = layout.out_channels;
  const Meet meet = layout.transposed ? meet_transposed : meet_conv;
  // Depth runs over taps, and over channels within a tap, so that offsets are computed once per tap.
  const auto pack_weights = [&](int64_t batch, int64_t row, int64_t rows, int64_t k, int64_t depth,
                                double* packed) {
    const int64_t group = batch % layout.groups;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t tap = (k + d) / in, channel = (k + d) % in;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t m = row + r;
        const int64_t pair =
            layout.transposed ? (group * in + channel) * out + m : (group * out + m) * in + channel;
        packed[gemm::panel_index(r, d, depth)] = static_cast<double>(w[pair * taps + tap]);
      }
    }
  };
  const auto pack_patches = [&](int64_t batch, int64_t column, int64_t columns, int64_t k, int64_t depth,
                                double* packed) {
    std::vector<int64_t> offsets;
    int64_t tap_of_offsets = -1;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t tap = (k + d) / in, channel = (k + d) % in;
      if (tap != tap_of_offsets) tap_offsets(layout.axes, meet, tap, column, columns, offsets);
      tap_of_offsets = tap;
      const Real* plane = x + (batch * in + channel) * in_plane;
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t offset = offsets[static_cast<size_t>(j)];
        packed[gemm::panel_index(j, d, depth)] = offset < 0 ? 0.0 : static_cast<double>(plane[offset]);
      }
    }
  };
  const auto store = [&](int64_t batch, int64_t row, int64_t column, int64_t columns, double* values) {
    const int64_t channel = batch % layout.groups * out + row;
    if (!bias.empty()) {
      for (int64_t j = 0; j < columns; ++j) values[j] += bias[static_cast<size_t>(channel)];
    }
    writer.store_doubles((batch * out + row) * out_plane + column, columns, values);
  };
  blocked_gemm(context, {layout.batch * layout.groups, out, out_plane, taps * in}, pack_weights, pack_patches,
               store);
}

Tensor evaluate_layout(const ConvLayout& layout, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &w = context.input(1);
  if (x.extents()[1] != layout.groups * layout.in_channels) {
    throw_input_error("data of " + to_string(x.extents()) + " does not fit a weight of " +
                      to_string(w.extents()) + " in " + std::to_string(layout.groups) + " groups");
  }
  const std::vector<double> bias = context.has(2) ? context.input(2).to_doubles() : std::vector<double>{};
  if (context.has(2) && context.input(2).size() != layout.groups * layout.out_channels) {
    throw_input_error("the bias has " + std::to_string(bias.size()) + " elements for " +
                      std::to_string(layout.groups * layout.out_channels) + " output channels");
  }
  Extents extents = {layout.batch, layout.groups * layout.out_channels};
  for (const WindowAxis& axis : layout.axes) extents.push_back(axis.output);
  Tensor result = allocate_result(x.dtype(), std::move(extents));
  const ElementWriter writer(result);
  with_real_arrays(x, w, [&](const auto* x_data, const auto* w_data) {
    convolve(layout, x_data, w_data, bias, writer, context);
  });
  return result;
}

Extents spatial_extents(const Tensor& x) {
  return Extents(x.extents().begin() + 2, x.extents().end());
}

std::vector<Tensor> evaluate_conv(const Conv& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &w = context.input(1);
  const Ints kernel = kernel_of(op.kernel, to_shape(w.extents()));
  return {evaluate_layout({x.extents()[0], op.groups, w.extents()[1], w.extents()[0] / op.groups, false,
                           resolve_window(spec_of(op, kernel), spatial_extents(x))},
                          context)};
}

std::vector<Tensor> evaluate_conv_transpose(const ConvTranspose& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &w = context.input(1);
  const Ints kernel = kernel_of(op.kernel, to_shape(w.extents()));
  return {evaluate_layout({x.extents()[0], op.groups, w.extents()[0] / op.groups, w.extents()[1], true,
                           resolve_transposed(op, kernel, spatial_extents(x))},
                          context)};
}

// Multiply and add for every output element, tap and input channel of its group.
double conv_flops(const Op&, const CostContext& context) {
  const Extents &y = context.outputs[0], &w = context.inputs[1];
  return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(element_count(w)) /
         static_cast<double>(std::max<int64_t>(w[0], 1));
}

// Every input element meets every tap and output channel of its group.
double conv_transpose_flops(const Op&, const CostContext& context) {
  const Extents &x = context.inputs[0], &w = context.inputs[1];
  return 2.0 * static_cast<double>(element_count(x)) * static_cast<double>(element_count(w)) /
         static_cast<double>(std::max<int64_t>(w[0], 1));
}

}  // namespace

std::vector<OpDef> conv_ops() {
  return {op_def<Conv, infer_conv, evaluate_conv>(conv_flops),
          op_def<ConvTranspose, infer_conv_transpose, evaluate_conv_transpose>(conv_transpose_flops)};
}

}  // namespace lathe
