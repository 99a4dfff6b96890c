// SPDX-License-Identifier: Apache-2.0
//
// Col2Im: a thread for each pixel, which adds up the taps of the blocks that hold it, in their order. Bytes:
// each element of a block is read once, the image is written once.
#include "backend/cuda/sample/sample.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "Col2Im";

// The extents of a block; nothing when only a run knows them.
std::optional<Ints> block_of(const LayerQuery& query) {
  const Value& block = query.graph.value(query.layer().inputs[2]);
  if (!block.is_constant() || !block.constant.has_bytes()) return std::nullopt;
  return block.constant.to_int64s();
}

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<Col2Im>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRunner, "cuda_col2im", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0});
    if (!block_of(query)) t.support = Support::no("the block is known only at run time");
    for (const Dim& d : output_shape(query))
      if (!d.data_dependent_names().empty()) t.support = Support::no("the image is known only at run time");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Col2Im>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const Ints block = *block_of(query);
  const auto entry = [](const Ints& list, size_t i, int64_t otherwise) {
    return i < list.size() ? list[i] : otherwise;
  };
  Dim taps = 1;
  for (const int64_t k : block) taps = taps * Dim(k);
  const Dim pixels = product(y, 2, y.size()), total = element_count(y);
  KernelBuilder b = start_kernel(query, tactic, "col2im", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = ceil_div(total, Dim(256));
  b.line("const idx at = (idx)blockIdx.x * 256 + threadIdx.x;\nif (at >= " + b.number(total) +
         ") return;\nidx rest = at % " + b.number(pixels) +
         ";\nconst auto* plane = " + b.input(0, tactic.inputs[0].dtype) + " + at / " + b.number(pixels) +
         " * " + b.number(taps) + " * " + b.number(x[2]) + ";");
  std::string open, close, tap = "0", place = "0";
  for (size_t d = block.size(); d-- > 0;) {
    const std::string extent = b.number(y[d + 2]), n = std::to_string(d);
    b.line("const idx p" + n + " = rest % " + extent + " + " + std::to_string(entry(op.pads_begin, d, 0)) +
           ";\nrest /= " + extent + ";");
  }
  for (size_t d = 0; d < block.size(); ++d) {
    const std::string n = std::to_string(d), kernel = std::to_string(block[d]),
                      stride = std::to_string(entry(op.strides, d, 1)),
                      dilation = std::to_string(entry(op.dilations, d, 1));
    const Dim reach((block[d] - 1) * entry(op.dilations, d, 1) + 1);
    const Dim blocks =
        floor_div(y[d + 2] + Dim(entry(op.pads_begin, d, 0) + entry(op.pads_end, d, 0)) - reach,
                  Dim(entry(op.strides, d, 1))) +
        Dim(1);
    const std::string count = b.number(blocks);
    open += "for (idx k" + n + " = 0; k" + n + " < " + kernel + "; ++k" + n + ") {\nconst idx o" + n +
            " = p" + n + " - k" + n + " * " + dilation + ";\nif (o" + n + " < 0 || o" + n + " % " + stride +
            " != 0 || o" + n + " / " + stride + " >= " + count + ") continue;\n";
    tap = "(" + tap + " * " + kernel + " + k" + n + ")";
    place = "(" + place + " * " + count + " + o" + n + " / " + stride + ")";
    close += "}";
  }
  b.line("float v[1] = {0.f};\n" + open + "v[0] += widen(plane[" + tap + " * " + b.number(x[2]) + " + " +
         place + "]);\n" + close + "\nfinish1(at, v);");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily col2im_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
