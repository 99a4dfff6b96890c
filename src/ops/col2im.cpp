// SPDX-License-Identifier: Apache-2.0
//
// Col2Im, the opposite of cutting an image into blocks: each element of each block is added to the pixel that
// it came from.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/shape_rules.h"
#include "ops/window.h"

namespace lathe {
namespace {

// The blocks of an image lie as the windows of a convolution over it.
std::vector<WindowAxis> block_windows(const Col2Im& op, const Extents& image, const Extents& block) {
  if (block.size() != image.size())
    throw_input_error("the image has " + std::to_string(image.size()) + " dims, the block " +
                      std::to_string(block.size()));
  const WindowSpec spec{block, op.strides, op.dilations, op.pads_begin, op.pads_end};
  check_window(spec, image.size(), "Col2Im");
  return resolve_window(spec, image);
}

void check_columns(const Shape& x, const Extents& block, const std::vector<WindowAxis>& axes) {
  Extents counts;
  for (const WindowAxis& axis : axes) counts.push_back(axis.output);
  const int64_t blocks = element_count(counts);  // refuses what 64 bits cannot count
  if (x[1].is_constant() && x[1].value() % element_count(block) != 0)
    throw_input_error("the " + x[1].to_string() + " rows of x are no multiple of a block of " +
                      to_string(block));
  if (x[2].is_constant() && x[2].value() != blocks)
    throw_input_error("x has " + x[2].to_string() + " columns, the image has " + std::to_string(blocks) +
                      " blocks");
}

std::vector<ResultInfo> infer_col2im(const Col2Im& op, const InferContext& context) {
  expect_rank(context, 0, "x", 3);
  const Value& x = context.input(0);
  const int64_t rank = shape_input_length(context, 1);
  expect_shape(context, 2, "the block", {rank});
  for (const size_t i : {size_t{1}, size_t{2}})
    if (context.input(i).dtype != DType::Int64)
      throw_input_error("the shapes of image and block must be int64, input " + std::to_string(i) + " is " +
                        std::string(dtype_name(context.input(i).dtype)));
  const auto image = context.contents(1), block = context.contents(2);
  const bool known_block = block && is_static(*block);
  if (known_block && image && is_static(*image))
    check_columns(x.shape, to_extents(*block), block_windows(op, to_extents(*image), to_extents(*block)));
  ResultInfo result{x.dtype, {x.shape[0]}};
  result.shape.push_back(known_block ? floor_div(x.shape[1], element_count(*block))
                                     : Dim::data_dependent(context.dim_name("channels"), x.shape[1]));
  const Shape pixels = image ? *image : data_dependent_shape(context, rank, kUnboundedUpper);
  result.shape.insert(result.shape.end(), pixels.begin(), pixels.end());
  return {result};
}

// The pixel of tap `tap` in block `block`; -1 when it lies in the padding.
int64_t pixel_of(const std::vector<WindowAxis>& axes, int64_t block, int64_t tap) {
  int64_t pixel = 0, stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    const WindowAxis& axis = axes[d];
    const int64_t at = block % axis.output * axis.stride - axis.pad_begin + tap % axis.kernel * axis.dilation;
    if (at < 0 || at >= axis.input) return -1;
    pixel += at * stride;
    stride *= axis.input;
    block /= axis.output;
    tap /= axis.kernel;
  }
  return pixel;
}

std::vector<Tensor> evaluate_col2im(const Col2Im& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_col2im);
  const Tensor& x = context.input(0);
  const Extents image = context.input(1).to_int64s(), block = context.input(2).to_int64s();
  const std::vector<WindowAxis> axes = block_windows(op, image, block);
  const int64_t taps = element_count(block), blocks = x.extents()[2], pixels = element_count(image);
  if (results[0].size() == 0) return results;
  const std::vector<double> values = x.to_doubles();
  std::vector<double> out(static_cast<size_t>(results[0].size()));
  context.parallel_for(results[0].size() / pixels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * taps * blocks; i < end * taps * blocks; ++i) {
      const int64_t pixel = pixel_of(axes, i % blocks, i / blocks % taps);
      if (pixel >= 0)
        out[static_cast<size_t>(i / (taps * blocks) * pixels + pixel)] += values[static_cast<size_t>(i)];
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

}  // namespace

std::vector<OpDef> col2im_ops() {
  return {op_def<Col2Im, infer_col2im, evaluate_col2im>(one_per_input)};
}

}  // namespace lathe
