// SPDX-License-Identifier: Apache-2.0
//
// Bytes: the image is read once, in rows of a window (16 pixels of FP32 are 64 bytes), and written once in
// the products' type.
#include "backend/cuda/product/codegen_patches.h"

namespace lathe::cuda {

Support tiles_the_image(const LayerQuery& query) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (op == nullptr || op->kernel.size() != 2) return Support::no("not a convolution of images");
  const auto all = [](const Ints& list, int64_t wanted) {
    return std::all_of(list.begin(), list.end(), [&](int64_t i) { return i == wanted; });
  };
  if (op->strides != op->kernel || !all(op->dilations, 1) || op->groups != 1)
    return Support::no("windows that overlap, or groups");
  if (op->auto_pad != AutoPad::NotSet || !all(op->pads_begin, 0) || !all(op->pads_end, 0))
    return Support::no("pads");
  if (op->kernel[1] % 8 != 0 || !divides(8, input_shape(query, 0)[3]))
    return Support::no("rows of a window that are no multiples of 8");
  return {};
}

Dim patch_bytes(const LayerQuery& query) {
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const auto& op = std::get<Conv>(query.layer().op);
  return y[0] * y[2] * y[3] * x[1] * Dim(op.kernel[0] * op.kernel[1] * 2);
}

KernelSource patch_kernel(const LayerQuery& query, const Tactic& tactic) {
  const auto& op = std::get<Conv>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const DType type = tactic.outputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "patches", type);
  const std::string in = b.input(0, tactic.inputs[0].dtype), to = b.scratch(0, storage_name(type)),
                    kh = std::to_string(op.kernel[0]), kw = std::to_string(op.kernel[1]),
                    pieces = std::to_string(op.kernel[1] / 8);
  const Dim total = y[0] * y[2] * y[3] * x[1] * Dim(op.kernel[0] * op.kernel[1] / 8);
  b.kernel().grid[0] = ceil_div(total, Dim(256));
  // Threads side by side read side by side: along a row of the image.
  b.line("idx r = (idx)blockIdx.x * 256 + threadIdx.x;\nif (r >= " + b.number(total) + ") return;");
  const auto next = [&](const std::string& name, const std::string& extent) {
    b.line("const idx " + name + " = r % " + extent + "; r /= " + extent + ";");
  };
  next("piece", pieces);
  next("px", b.number(y[3]));
  next("i", kh);
  next("py", b.number(y[2]));
  next("c", b.number(x[1]));
  b.line("float v[8];\nload(" + in + " + (((r * " + b.number(x[1]) + " + c) * " + b.number(x[2]) +
         " + py * " + kh + " + i) * " + b.number(x[3]) + " + px * " + kw + " + piece * 8), v);\nstore(" + to +
         " + ((((r * " + b.number(y[2]) + " + py) * " + b.number(y[3]) + " + px) * " + b.number(x[1]) +
         " + c) * " + kh + " + i) * " + kw + " + piece * 8, v);");
  return b.finish();
}

}  // namespace lathe::cuda
