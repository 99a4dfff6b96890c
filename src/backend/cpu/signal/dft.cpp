// SPDX-License-Identifier: Apache-2.0
//
// DFT on FP32, BF16 and FP16, along any dim, of real and complex numbers, also of half a spectrum; the length
// is known when the layer is prepared.
//
// Lines that lie next to one another are transformed together (fft.h), so that every pass runs over vectors.
// Operations: about 5 n log2 n for each line; bytes: x once, the result once, and 16 per number and pass, in
// L2 up to some thousand points.
#include <array>

#include "backend/cpu/signal/lines.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kDftRunner = "DFT";

class PreparedDft final : public PreparedLayer {
 public:
  DFT op;
  Stored type = Stored::F32;
  int64_t points = 1, in = 1, out = 1;  // of a line
  int64_t in_parts = 2, out_parts = 2;  // 1: real
  int64_t stride = 1, total = 0;        // numbers between those of a line; lines
  std::shared_ptr<const Fft> fft;
  Lines lines;
  int threads = 1;

  explicit PreparedDft(const Lines& l) : lines(l) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(lines.member_floats() * threads) * 4; }
  int members(int available) const override {
    return members_for(6.0 * static_cast<double>(total) * static_cast<double>(points),
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * lines.member_floats();
    const ComplexRows first = lines.first(own), second = lines.second(own);
    const auto turned = [&](ComplexRows x) { return op.inverse ? ComplexRows{x.im, x.re} : x; };
    const Worker::Range part = worker.slice((total + lines.together() - 1) / lines.together());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t line = i * lines.together(), count = std::min(lines.together(), total - line);
      with_stored(type, [&]<Stored kType>() {
        read<kType>(args, line, count, first);
        write<kType>(args, line, count, turned(fft->transform(turned(first), turned(second), count)));
      });
    }
  }

 private:
  int64_t first_number(int64_t line, int64_t extent) const {
    return line / stride * extent * stride + line % stride;
  }
  // Lines cut or filled with zeros; half a spectrum is completed by its mirror image.
  template <Stored kType>
  void read(const LayerArgs& args, int64_t line, int64_t count, const ComplexRows& to) const {
    const bool half = op.inverse && op.onesided;
    const int64_t used = std::min(in, half ? points / 2 + 1 : points);
    for_each_piece(used, count, [&](int64_t l, int64_t begin, int64_t end) {
      const int64_t from = first_number(line + l, in);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = (from + i * stride) * in_parts;
        const bool is_real = in_parts == 1 || (half && (i == 0 || 2 * i == points));
        put_number(to, i * count + l, read_float<kType>(args.inputs[0], at),
                   is_real ? 0.0f : read_float<kType>(args.inputs[0], at + 1), points);
      }
    });
    std::fill(to.re + used * count, to.re + points * count, 0.0f);
    std::fill(to.im + used * count, to.im + points * count, 0.0f);
    for (int64_t i = 1; half && i < (points + 1) / 2; ++i)
      for (int64_t l = 0; l < count; ++l) {
        to.re[(points - i) * count + l] = to.re[i * count + l];
        to.im[(points - i) * count + l] = -to.im[i * count + l];
      }
  }
  template <Stored kType>
  void write(const LayerArgs& args, int64_t line, int64_t count, const ComplexRows& from) const {
    const float scale = op.inverse ? 1 / static_cast<float>(points) : 1;
    for_each_piece(out, count, [&](int64_t l, int64_t begin, int64_t end) {
      const int64_t to = first_number(line + l, out);
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = (to + k * stride) * out_parts;
        write_float<kType>(args.outputs[0], at, from.re[k * count + l] * scale);
        if (out_parts == 2) write_float<kType>(args.outputs[0], at + 1, from.im[k * count + l] * scale);
      }
    });
  }
};

class DftKernel final : public LayerKernel {
 public:
  DftKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<DFT>(query.layer().op)), type_(stored_as(tactic.inputs[0].dtype)), isa_(machine.isa()) {
    const Node& node = query.layer();
    const auto constant = [&](size_t i) -> std::optional<int64_t> {
      if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return std::nullopt;
      return query.graph.value(node.inputs[i]).constant.to_int64s().at(0);
    };
    length_ = constant(1);
    axis_ = constant(2).value_or(-2);
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &y = context.outputs[0];
    const auto axis = static_cast<size_t>(normalize_axis(axis_, static_cast<int64_t>(x.size()), "DFT"));
    const bool half = op_.inverse && op_.onesided;
    const int64_t points = length_.value_or(half ? y[axis] : x[axis]);
    const auto fft = std::make_shared<const Fft>(std::max<int64_t>(1, points), isa_);
    const int64_t numbers = y.back() == 0 ? 0 : element_count(y) / y.back();
    const int64_t total = y[axis] == 0 ? 0 : numbers / y[axis];
    auto p = std::make_unique<PreparedDft>(Lines(*fft, total, context.threads));
    p->op = op_;
    p->type = type_;
    p->points = points;
    p->in = x[axis];
    p->out = y[axis];
    p->in_parts = x.back();
    p->out_parts = y.back();
    for (size_t d = axis + 1; d + 1 < x.size(); ++d) p->stride *= x[d];
    p->total = total;
    p->fft = fft;
    p->threads = context.threads;
    return p;
  }

 private:
  DFT op_;
  Stored type_;
  Isa isa_;
  std::optional<int64_t> length_;
  int64_t axis_ = -2;
};

Support supports_dft(const LayerQuery& query, DType type) {
  const Node& node = query.layer();
  if (!node.epilogue.empty()) return Support::no("a transform applies no epilogue");
  if (!is_vector_float(type)) return no_vector_kernel(type);
  if (query.graph.value(node.inputs[0]).is_constant()) return Support::no("the operand is a constant");
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant())
      return Support::no(i == 1 ? "the length is known only at run time"
                                : "the axis is known only at run time");
  return {};
}

std::vector<Tactic> list_dft(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<DFT>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kDftRunner, "fft_" + std::string(isa_suffix(machine)));
    t.inputs[0].dtype = t.outputs[0].dtype = type;
    t.support = supports_dft(query, type);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_dft(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                      const PackContext&) {
  return std::make_unique<DftKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily dft_tactics() {
  return {kDftRunner, list_dft, make_dft};
}

}  // namespace lathe::cpu
