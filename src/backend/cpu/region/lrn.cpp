// SPDX-License-Identifier: Apache-2.0
//
// Lrn on FP32, BF16 and FP16, in linear and channels-last format.
//
// Bytes: x read once from memory and once per channel of the window from L1, the result written once; that is
// the floor for the usual window of 5 channels and power of 3/4, whose two roots and quotient take about as
// long per vector. In linear format a piece of a channel goes after the same piece of the channel before it,
// so that the window stays in L1.
#include "backend/cpu/region/lrn_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kLrnRunner = "Lrn";
constexpr int64_t kLrnPiece = 512;  // positions of a channel

class PreparedLrn final : public PreparedLayer {
 public:
  LrnFormula formula;
  int64_t before = 0, after = 0;
  TensorType type;
  int64_t images = 0, channels = 0, pixels = 0;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    const double each = 0.3 + 0.05 * static_cast<double>(std::min(before + after + 1, channels));
    return members_for(each * static_cast<double>(images * channels * pixels), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    if (!type.format.is_linear()) {
      const Worker::Range part = worker.slice(images * pixels);
      for (int64_t i = part.begin; i < part.end; ++i) run_pixel(args, i, own);
      return;
    }
    const int64_t pieces = (pixels + kLrnPiece - 1) / kLrnPiece;
    const Worker::Range part = worker.slice(images * pieces * channels);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t c = i % channels, first = i / channels % pieces * kLrnPiece;
      const int64_t at = (i / channels / pieces * channels + c) * pixels + first;
      run_line(args, at, c, pixels, std::min(kLrnPiece, pixels - first), own);
    }
  }

 private:
  int64_t member_floats() const { return type.format.is_linear() ? kLrnPiece : round_up(channels, 16); }
  const LrnTable& table() const { return isa == Isa::Avx2 ? lrn_table_avx2() : lrn_table_avx512(); }

  // Elements from `at` on, all of them with the window of channel `c`, whose neighbours are `step` apart.
  void line(const LayerArgs& args, int64_t at, int64_t c, int64_t last, int64_t step, float* y,
            int64_t n) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, at);
    table().line(x, stored_as(type.dtype), std::min(before, c), std::min(after, channels - 1 - last), step,
                 formula, y, n);
  }
  void run_line(const LayerArgs& args, int64_t at, int64_t c, int64_t step, int64_t n, float* own) const {
    float* y = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + at : own;
    line(args, at, c, c, step, y, n);
    epilogue->apply(args, y, n, at, 1, n, n);
  }
  // Channels with a whole window go together.
  void run_pixel(const LayerArgs& args, int64_t pixel, float* own) const {
    const int64_t at = pixel * channels;
    float* y = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + at : own;
    for (int64_t c = 0; c < channels;) {
      const bool whole = c >= before && c + after < channels;
      const int64_t n = whole ? channels - after - c : 1;
      line(args, at + c, c, c + n - 1, 1, y + c, n);
      c += n;
    }
    epilogue->apply(args, y, channels, at, 1, channels, channels);
  }
};

class LrnKernel final : public LayerKernel {
 public:
  LrnKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Lrn>(query.layer().op)),
        type_(tactic.inputs[0]),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedLrn>();
    const Extents& x = context.inputs[0];
    p->formula = {op_.alpha / static_cast<float>(op_.size), op_.beta, op_.bias};
    p->before = (op_.size - 1) / 2;
    p->after = op_.size - 1 - p->before;
    p->type = type_;
    p->images = x[0];
    p->channels = x[1];
    p->pixels = element_count(Extents(x.begin() + 2, x.end()));
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Lrn op_;
  TensorType type_;
  Isa isa_;
  Epilogue epilogue_;
};

Support supports_lrn(const LayerQuery& query, const Lrn& op, DType type) {
  if (!is_vector_float(type)) return no_vector_kernel(type);
  const bool by_roots = op.beta == 0.75f || op.beta == 0.5f || op.beta == 1;
  if (!by_roots && !(op.alpha >= 0 && op.bias >= 0 && op.beta > 0))
    return Support::no("a power of what may be negative, or no positive power");
  if (query.graph.value(query.layer().inputs[0]).is_constant())
    return Support::no("the operand is a constant");
  return {};
}

std::vector<Tactic> list_lrn(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Lrn>(&query.layer().op);
  if (!op) return {};
  std::vector<Format> formats = {kLinear};
  if (query.graph.value(query.layer().outputs[0]).shape.size() >= 3) formats.push_back(kChannelsLast);
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query))
    for (const Format& format : formats) {
      Tactic t = typed_tactic(query, kLrnRunner, "lrn_" + std::string(isa_suffix(machine)), {type, format},
                              {type, format});
      if (const Support s = supports_lrn(query, *op, type); !s.ok) t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_lrn(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                      const PackContext&) {
  return std::make_unique<LrnKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily lrn_tactics() {
  return {kLrnRunner, list_lrn, make_lrn};
}

}  // namespace lathe::cpu
