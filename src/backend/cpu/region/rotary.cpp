// SPDX-License-Identifier: Apache-2.0
//
// Rotary embedding on FP32, BF16 and FP16 rows; computation in FP32. Rows of all operands are shared out over
// the team. Bytes: every element read and written once; cosines and sines of a position serve all heads and
// stay in L1.
#include "backend/cpu/region/row_kernels.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRotaryRunner = "Rotary";

// Cosines or sines: where the row for a row of x starts.
struct Angles {
  DType type = DType::Float32;
  Extents strides;  // per leading dim of x
};

// One x: `rows` rows of `n` elements.
struct RotaryOperand {
  Extents leading;
  int64_t rows = 0, n = 0;
  Angles cosines, sines;
};

int64_t offset_of(const Extents& leading, const Extents& strides, int64_t row) {
  int64_t offset = 0;
  for (size_t d = leading.size(); d-- > 0; row /= leading[d]) offset += row % leading[d] * strides[d];
  return offset;
}

class PreparedRotary final : public PreparedLayer {
 public:
  bool interleaved = false;
  DType type = DType::Float32;
  int64_t width = 0;  // elements that turn
  int64_t longest = 0;
  std::vector<RotaryOperand> operands;
  Isa isa = Isa::Avx2;
  int threads = 1;

  // Per member: a row, cosines and sines.
  int64_t row_floats() const { return round_up(longest, 16); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(3 * row_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    double elements = 0;
    for (const RotaryOperand& x : operands) elements += static_cast<double>(x.rows * x.n);
    return members_for(0.25 * elements, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * 3 * row_floats();
    for (size_t i = 0; i < operands.size(); ++i) {
      const Worker::Range part = worker.slice(operands[i].rows);
      for (int64_t r = part.begin; r < part.end; ++r) run_row(args, i, r, buffer);
    }
  }

 private:
  const float* angles(const LayerArgs& args, size_t input, const RotaryOperand& x, const Angles& a,
                      int64_t row, float* buffer) const {
    const int64_t offset = offset_of(x.leading, a.strides, row);
    const auto* base = static_cast<const std::byte*>(args.inputs[input]) + dtype_bytes(a.type, offset);
    return widen(pointwise_table(isa), a.type, base, width, buffer);
  }
  void run_row(const LayerArgs& args, size_t i, int64_t row, float* buffer) const {
    const RotaryOperand& x = operands[i];
    const PointwiseTable& convert = pointwise_table(isa);
    const int64_t bytes = dtype_bytes(type, row * x.n);
    const float* from =
        widen(convert, type, static_cast<const std::byte*>(args.inputs[Rotary::kOperands + i]) + bytes, x.n,
              buffer);
    const float* cosines = angles(args, 0, x, x.cosines, row, buffer + row_floats());
    const float* sines = angles(args, 1, x, x.sines, row, buffer + 2 * row_floats());
    std::byte* out = static_cast<std::byte*>(args.outputs[i]) + bytes;
    float* to = type == DType::Float32 ? reinterpret_cast<float*>(out) : buffer;
    const RowsTable& table = rows_table(isa);
    (interleaved ? table.turn_neighbours : table.turn_halves)(from, cosines, sines, to, width);
    if (to != from) std::copy(from + width, from + x.n, to + width);
    if (type != DType::Float32)
      (type == DType::BFloat16 ? convert.store_bf16 : convert.store_f16)(to, reinterpret_cast<uint16_t*>(out),
                                                                         x.n);
  }
};

class RotaryKernel final : public LayerKernel {
 public:
  RotaryKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Rotary>(query.layer().op)), tactic_(tactic), isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedRotary>();
    p->interleaved = op_.interleaved;
    p->type = tactic_.inputs[Rotary::kOperands].dtype;
    p->width = context.inputs[0].back();
    p->isa = isa_;
    p->threads = context.threads;
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      const Extents& x = context.inputs[Rotary::kOperands + i];
      RotaryOperand operand{.leading = Extents(x.begin(), x.end() - 1), .rows = 1, .n = x.back()};
      for (const int64_t extent : operand.leading) operand.rows *= extent;
      operand.cosines = angles_of(context.inputs[0], tactic_.inputs[0].dtype, operand.leading);
      operand.sines = angles_of(context.inputs[1], tactic_.inputs[1].dtype, operand.leading);
      p->longest = std::max(p->longest, operand.n);
      p->operands.push_back(std::move(operand));
    }
    return p;
  }

 private:
  static Angles angles_of(const Extents& extents, DType type, const Extents& leading) {
    const Extents own = row_major_strides(extents);
    Angles angles{type, Extents(leading.size(), 0)};
    const size_t missing = leading.size() + 1 - extents.size();
    for (size_t d = 0; d + 1 < extents.size(); ++d)
      if (extents[d] != 1) angles.strides[missing + d] = own[d];
    return angles;
  }
  Rotary op_;
  Tactic tactic_;
  Isa isa_;
};

std::vector<Tactic> list_rotary(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Rotary>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kRotaryRunner, "rotary_" + std::string(isa_suffix(machine)));
    for (size_t i = Rotary::kOperands; i < t.inputs.size(); ++i) t.inputs[i].dtype = type;
    for (TensorType& output : t.outputs) output.dtype = type;
    if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind a rotary embedding");
    for (const TensorType& input : t.inputs)
      if (!is_vector_float(input.dtype)) t.support = no_vector_kernel(input.dtype);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_rotary(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext&) {
  return std::make_unique<RotaryKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily rotary_tactics() {
  return {kRotaryRunner, list_rotary, make_rotary};
}

}  // namespace lathe::cpu
