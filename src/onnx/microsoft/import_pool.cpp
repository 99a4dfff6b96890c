// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: MaxpoolWithMask. In each row of a window, a masked pixel hides itself and what follows it;
// the first pixel of a plane is never masked. With the pixels x0, x1, x2 of such a row and their masks:
//   where(m0, max(x0, where(m1, max(x1, where(m2, x2, lowest)), lowest)), lowest)
// for all windows at once: xk and mk are every stride-th pixel from k on. A MaxPool over the other dims
// follows.
#include <limits>

#include "onnx/importers.h"
#include "onnx/window.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

constexpr int64_t kLongestRow = 64;  // of a window: each pixel of it is three layers

class MaskedPool {
 public:
  explicit MaskedPool(NodeImport& node)
      : node_(node), dims_(spatial_dims(node)), window_(read_window(node, dims_)) {
    if (!node.has_attribute("kernel_shape")) node.fail("attribute 'kernel_shape' is missing");
    kernel_ = read_spatial(node, "kernel_shape", dims_, 1);
    for (const int64_t k : kernel_)
      if (k < 1) node.fail("kernel_shape has the entry " + std::to_string(k));
    if (kernel_.back() > kLongestRow)
      throw_unsupported("windows of more than " + std::to_string(kLongestRow) + " columns are not supported");
    if (window_.auto_pad != AutoPad::NotSet && window_.auto_pad != AutoPad::Valid)
      throw_unsupported("auto_pad is not supported here; write the pads out");
    if (node.dtype(0) != DType::Float32)
      node.fail("x is " + std::string(dtype_name(node.dtype(0))) + ", expected float32");
    if (node.dtype(1) != DType::Int32)
      node.fail("the mask is " + std::string(dtype_name(node.dtype(1))) + ", expected int32");
  }

  Values run() {
    const ValueId lowest = node_.scalar(std::numeric_limits<float>::lowest(), DType::Float32);
    const ValueId x = padded(node_.in(0), lowest, "x"),
                  mask = padded(kept(), node_.scalar(1, DType::Int32), "mask");
    ValueId rows = kNoValue;
    for (int64_t k = kernel_.back(); k-- > 0;) {
      const std::string number = std::to_string(k);
      ValueId best = column(x, k, "x" + number);
      if (rows != kNoValue) best = node_.pointwise(C::Max, {best, rows}, "best" + number);
      const ValueId open = node_.cast(column(mask, k, "mask" + number), DType::Bool, "open" + number);
      rows = node_.pointwise(C::Where, {open, best, lowest}, "row" + number);
    }
    Pool pool{.kind = PoolKind::Max,
              .kernel = kernel_,
              .strides = window_.strides,
              .dilations = Ints(dims_, 1),
              .pads_begin = window_.pads_begin,
              .pads_end = window_.pads_end};
    pool.kernel.back() = pool.strides.back() = 1;
    pool.pads_begin.back() = pool.pads_end.back() = 0;
    return {node_.add(pool, {rows})};
  }

 private:
  // The mask as (1, 1, spatial dims of x), 1 at the first pixel.
  ValueId kept() {
    const Shape x = node_.shape(0), mask = node_.shape(1);
    Shape wanted(x.size(), Dim(1));
    std::copy(x.begin() + 2, x.end(), wanted.begin() + 2);
    if (mask.size() != x.size() || !std::equal(x.begin() + 2, x.end(), mask.begin() + 2))
      node_.fail("the shape of the mask is " + to_string(mask) + ", expected " + to_string(wanted));
    if (!mask[0].is_constant(1) || !mask[1].is_constant(1))
      throw_unsupported(
          "masks of several planes are not supported (ONNX Runtime reads the first one at other places)");
    const Dim pixels = element_count(Shape(x.begin() + 2, x.end()));
    const ValueId flat = node_.reshape(node_.in(1), {pixels}, "mask_pixels");
    const ValueId others = node_.slice(flat, 0, 1, pixels, "other_pixels");
    const ValueId first = node_.constant(Tensor::from<int32_t>({1}, {1}), "first_pixel");
    return node_.reshape(node_.add(Concat{.axis = 0}, {first, others}, "kept_pixels"), wanted, "kept");
  }
  ValueId padded(ValueId v, ValueId with, const std::string& name) {
    if (window_.pads_begin.back() == 0 && window_.pads_end.back() == 0) return v;
    const size_t rank = dims_ + 2;
    Shape pads(2 * rank, Dim(0));
    pads[rank - 1] = window_.pads_begin.back();
    pads.back() = window_.pads_end.back();
    return node_.add(Pad{.pads = pads}, {v, kNoValue, with}, name + "_padded");
  }
  // Pixel k of each window's row.
  ValueId column(ValueId v, int64_t k, const std::string& name) {
    const Dim width = node_.shape_of(v).back();
    const Slice op{.starts = Shape{k},
                   .ends = Shape{width - (kernel_.back() - 1 - k)},
                   .axes = {static_cast<int64_t>(dims_) + 1},
                   .steps = {window_.strides.back()}};
    return node_.add(op, {v}, name);
  }

  NodeImport& node_;
  size_t dims_;
  Window window_;
  Ints kernel_;
};

Values import_masked_pool(NodeImport& node) {
  return MaskedPool(node).run();
}

}  // namespace

std::vector<Importer> microsoft_pool_importers() {
  return {{"MaxpoolWithMask", 1, kLatestOpset, import_masked_pool, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
