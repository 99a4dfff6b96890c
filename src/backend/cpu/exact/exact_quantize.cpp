// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear and DequantizeLinear that are no pointwise program of whole bytes: scales of blocks, and
// types of less than 8 bits and floats of 8 as results. Pieces are read as double, and a quotient or product
// is rounded to FP32 as in ONNX.
//
// Bytes: the operand and its scales read once, the result written once. The floor is the conversion of an
// element between its type and double, 2 to 5 ns and thread.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/whole_program.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kQuantizeRunner = "Quantize";
constexpr int64_t kQuantizePiece = 512;  // a multiple of 4: elements of 2 bits share bytes

struct Quantization {
  bool back = false;  // DequantizeLinear
  int64_t axis = 1, block = 0;
  DType from = DType::Undefined, to = DType::Undefined;
  bool saturate = true;
};

// Where the scale, or the zero point, of an element is.
struct ScaleWalk {
  DType type = DType::Undefined;
  bool one = true;                                       // for all elements
  int64_t inner = 1, length = 1, block = 1, blocks = 1;  // of the axis; blocks == length: one for each index
  bool by_block = false;

  // Those of elements [begin, begin + n).
  void load(const void* data, int64_t begin, int64_t n, double* out) const {
    const auto* bytes = static_cast<const std::byte*>(data);
    if (one) {
      load_doubles(type, bytes, 0, 1, out);
      std::fill(out + 1, out + n, out[0]);
      return;
    }
    for (int64_t i = 0; i < n;) {
      const int64_t at = begin + i, in = at % inner, along = at / inner % length;
      const int64_t first = by_block ? (at / inner / length * blocks + along / block) * inner + in : along;
      const bool many = by_block && inner > 1;  // neighbours have scales of their own
      const int64_t run = many ? inner - in : std::min(block - along % block, length - along) * inner - in;
      const int64_t count = std::min(n - i, run);
      load_doubles(type, bytes, first, many ? count : 1, out + i);
      if (!many) std::fill(out + i + 1, out + i + count, out[i]);
      i += count;
    }
  }
};

class PreparedQuantize final : public PreparedLayer {
 public:
  Quantization op;
  ScaleWalk scale, zero;
  bool has_zero = false;
  int64_t elements = 0;

  int members(int available) const override {
    return members_for(4 * static_cast<double>(elements), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice((elements + kQuantizePiece - 1) / kQuantizePiece);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t begin = i * kQuantizePiece;
      piece(args, begin, std::min(kQuantizePiece, elements - begin));
    }
  }

 private:
  void piece(const LayerArgs& args, int64_t begin, int64_t n) const {
    std::array<double, kQuantizePiece> x, s, z;
    load_doubles(op.from, static_cast<const std::byte*>(args.inputs[0]), begin, n, x.data());
    scale.load(args.inputs[1], begin, n, s.data());
    if (has_zero)
      zero.load(args.inputs[2], begin, n, z.data());
    else
      std::fill(z.begin(), z.begin() + n, 0);
    const bool rounds = !is_float(op.to);
    for (int64_t i = 0; i < n; ++i) {
      const auto number = static_cast<float>(x[i]), unit = static_cast<float>(s[i]);
      if (op.back)
        x[i] = (number - static_cast<float>(z[i])) * unit;
      else
        x[i] = (rounds ? std::nearbyint(number / unit) : number / unit) + z[i];
    }
    ElementWriter(op.to, static_cast<std::byte*>(args.outputs[0]))
        .store_doubles(begin, n, x.data(), op.saturate);
  }
};

class QuantizeKernel final : public LayerKernel {
 public:
  explicit QuantizeKernel(const LayerQuery& query) {
    const Node& node = query.layer();
    if (const auto* quantize = std::get_if<QuantizeLinear>(&node.op)) {
      op_ = {false, quantize->axis, quantize->block_size, {}, quantize->to, quantize->saturate};
    } else {
      const auto& dequantize = std::get<DequantizeLinear>(node.op);
      op_ = {true, dequantize.axis, dequantize.block_size, {}, dequantize.to, true};
    }
    op_.from = query.graph.value(node.inputs[0]).dtype;
    for (const ValueId input : node.inputs)
      types_.push_back(input == kNoValue ? DType::Undefined : query.graph.value(input).dtype);
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedQuantize>();
    p->op = op_;
    p->elements = element_count(context.outputs[0]);
    p->scale = walk(context, 1);
    p->has_zero = types_.size() > 2 && types_[2] != DType::Undefined;
    if (p->has_zero) p->zero = walk(context, 2);
    return p;
  }

 private:
  ScaleWalk walk(const ShapeContext& context, size_t input) const {
    const Extents &x = context.inputs[0], &scale = context.inputs[input];
    const int64_t count = element_count(scale);
    ScaleWalk walk{.type = types_[input]};
    if (count == 1 && (op_.block == 0 || input == 2)) return walk;
    const auto at = static_cast<size_t>(
        normalize_axis(op_.axis, static_cast<int64_t>(x.size()), "the quantization axis"));
    walk.one = false;
    walk.length = x[at];
    walk.by_block = op_.block > 0;
    walk.block = std::max<int64_t>(1, op_.block);
    for (size_t i = at + 1; i < x.size(); ++i) walk.inner *= x[i];
    Extents expected = {walk.length};
    if (walk.by_block) {
      expected = x;
      expected[at] = walk.length / walk.block + (walk.length % walk.block != 0);  // blocks of any length
      walk.blocks = expected[at];
    }
    if (scale != expected)
      throw_input_error((input == 1 ? "the scale has shape " : "the zero point has shape ") +
                        to_string(scale) + ", expected " + to_string(expected) + " for data " + to_string(x));
    return walk;
  }

  Quantization op_;
  std::vector<DType> types_;
};

std::vector<Tactic> list_quantize(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const bool quantizes = std::holds_alternative<QuantizeLinear>(node.op);
  if (!quantizes && !std::holds_alternative<DequantizeLinear>(node.op)) return {};
  // Whole bytes with one scale, or one for each index of an axis, are pointwise programs.
  const bool whole_bytes = dtype_info(query.graph.value(node.inputs[0]).dtype).bits >= 8;
  if (is_plain_quantization(node) && whole_bytes) return {};
  Tactic t = linear_tactic(query, kQuantizeRunner, quantizes ? "quantize_exact" : "dequantize_exact");
  if (!node.epilogue.empty()) t.support = Support::no("it has no epilogue");
  return {t};
}

std::unique_ptr<LayerKernel> make_quantize(const LayerQuery& query, const Tactic&, const Machine&,
                                           const PackContext&) {
  return std::make_unique<QuantizeKernel>(query);
}

}  // namespace

TacticFamily exact_quantize_tactics() {
  return {kQuantizeRunner, list_quantize, make_quantize};
}

}  // namespace lathe::cpu
