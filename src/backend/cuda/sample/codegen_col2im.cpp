// SPDX-License-Identifier: Apache-2.0
//
// Col2Im: a thread for each pixel, which adds up the taps of the blocks that hold it, in their order. Bytes:
// each element of a block is read once, the image is written once.
#include "backend/cuda/sample/sample.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kCol2imRunner = "Col2Im";

std::vector<Tactic> list_col2im(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Col2Im>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kCol2imRunner, "cuda_col2im", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0});
    const Shape& block = input_shape(query, 2);
    if (block.size() != 1 || !block[0].is_constant(static_cast<int64_t>(output_shape(query).size()) - 2))
      t.support = Support::no("a block of another rank than the image");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// Extent d of a block: what the model says, or what the run brings.
std::string block_extent(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, size_t d) {
  const Value& block = query.graph.value(query.layer().inputs[2]);
  if (block.is_constant() && block.constant.has_bytes()) return std::to_string(block.constant.to_int64s()[d]);
  return "(idx)widen(" + b.input(2, tactic.inputs[2].dtype) + "[" + std::to_string(d) + "])";
}

LayerSource generate_col2im(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Col2Im>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const size_t rank = y.size() - 2;
  const Dim pixels = product(y, 2, y.size()), total = element_count(y);
  KernelBuilder b = start_kernel(query, tactic, "col2im", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = ceil_div(total, Dim(256));
  b.line("const idx at = (idx)blockIdx.x * 256 + threadIdx.x;\nif (at >= " + b.number(total) +
         ") return;\nidx rest = at % " + b.number(pixels) + ";");
  std::string taps = "1", open, close, tap = "0", place = "0";
  for (size_t d = rank; d-- > 0;) {
    const std::string extent = b.number(y[d + 2]), n = std::to_string(d);
    b.line("const idx p" + n + " = rest % " + extent + " + " + std::to_string(entry_or(op.pads_begin, d, 0)) +
           ";\nrest /= " + extent + ";");
  }
  for (size_t d = 0; d < rank; ++d) {
    const std::string n = std::to_string(d), kernel = "e" + n, count = "b" + n,
                      stride = std::to_string(entry_or(op.strides, d, 1)),
                      dilation = std::to_string(entry_or(op.dilations, d, 1)),
                      padded = b.number(y[d + 2] +
                                        Dim(entry_or(op.pads_begin, d, 0) + entry_or(op.pads_end, d, 0)));
    b.line("const idx " + kernel + " = " + block_extent(b, query, tactic, d) + ", " + count + " = (" +
           padded + " - ((" + kernel + " - 1) * " + dilation + " + 1)) / " + stride + " + 1;");
    open += "for (idx k" + n + " = 0; k" + n + " < " + kernel + "; ++k" + n + ") {\nconst idx o" + n +
            " = p" + n + " - k" + n + " * " + dilation + ";\nif (o" + n + " < 0 || o" + n + " % " + stride +
            " != 0 || o" + n + " / " + stride + " >= " + count + ") continue;\n";
    taps += " * " + kernel;
    tap = "(" + tap + " * " + kernel + " + k" + n + ")";
    place = "(" + place + " * " + count + " + o" + n + " / " + stride + ")";
    close += "}";
  }
  // A block that the run brings may not fit x: what lies outside is zero.
  b.line("const auto* x = " + b.input(0, tactic.inputs[0].dtype) + ";\nconst idx plane = at / " +
         b.number(pixels) + " * (" + taps + ") * " + b.number(x[2]) + ";\nfloat v[1] = {0.f};\n" + open +
         "const idx from = plane + " + tap + " * " + b.number(x[2]) + " + " + place +
         ";\nif (from >= 0 && from < " + b.number(element_count(x)) + ") v[0] += widen(x[from]);\n" + close +
         "\nfinish1(at, v);");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily col2im_family() {
  return {kCol2imRunner, list_col2im, generate_col2im};
}

}  // namespace lathe::cuda
