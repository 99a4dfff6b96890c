// SPDX-License-Identifier: Apache-2.0
//
// ArgReduce, CumSum and CumProd: lines along one axis, on every type of whole bytes.
//
// Bytes: input read once, result written once. Where the axis is not the last one, up to 256 neighbouring
// lines go together, so that memory is read as it lies and there are independent chains. FP32 goes in
// vectors but for running sums along the last axis, which are one chain.
#include <array>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kLinesRunner = "Lines";
enum class Does : uint8_t { Max, Min, Sum, Product };

class PreparedLines final : public PreparedLayer {
 public:
  Does does = Does::Max;
  bool last_index = false;                  // ArgReduce: of several equal ones
  bool exclusive = false, reverse = false;  // running sums
  DType type = DType::Float32;
  Isa isa = Isa::Avx2;
  int64_t outer = 1, count = 0, inner = 1;

  int64_t pieces() const { return (inner + kLinesTogether - 1) / kLinesTogether; }
  int members(int available) const override {
    const bool vectors = type == DType::Float32 && (chooses() || inner > 1);
    return members_for((vectors ? 0.1 : 0.8) * static_cast<double>(outer * count * inner), available);
  }
  bool chooses() const { return does == Does::Max || does == Does::Min; }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (type == DType::Float32 && chooses() && count <= INT32_MAX) return choose_floats(args, worker);
    if (type == DType::Float32 && !chooses() && inner > 1) return accumulate_floats(args, worker);
    with_codec(type, [&]<class Codec>() {
      for_pieces(worker, [&](int64_t o, int64_t from, int64_t n) {
        if (chooses())
          choose<Codec>(args, o, from, n);
        else
          accumulate<Codec>(args, o, from, n);
      });
    });
  }

 private:
  void choose_floats(const LayerArgs& args, const Worker& worker) const {
    const ReduceTable& table = reduce_table(isa);
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<int64_t*>(args.outputs[0]);
    if (inner == 1) {
      const Worker::Range part = worker.slice(outer);
      for (int64_t o = part.begin; o < part.end; ++o) {
        const float* line = x + o * count;
        const float best = table.row(line, Stored::F32, count, does == Does::Max ? Fold::Max : Fold::Min);
        y[o] = table.find(line, count, best, last_index);
      }
      return;
    }
    std::array<int32_t, kLinesTogether> index;
    for_pieces(worker, [&](int64_t o, int64_t from, int64_t n) {
      table.extremes(x + o * count * inner + from, count, inner, n, does == Does::Max, last_index,
                     index.data());
      std::copy_n(index.begin(), n, y + o * inner + from);
    });
  }
  // A row of running sums is the one before it and a row of elements.
  void accumulate_floats(const LayerArgs& args, const Worker& worker) const {
    const PointwiseTable& table = pointwise_table(isa);
    const BinaryLoop join = (does == Does::Product ? table.mul : table.add).vector_vector;
    for_pieces(worker, [&](int64_t o, int64_t from, int64_t n) {
      const int64_t first = o * count * inner + from, step = reverse ? -inner : inner;
      const float* x =
          static_cast<const float*>(args.inputs[0]) + first + (reverse ? (count - 1) * inner : 0);
      float* y = static_cast<float*>(args.outputs[0]) + first + (reverse ? (count - 1) * inner : 0);
      if (exclusive)
        table.splat(does == Does::Product ? 1.0f : 0.0f, y, n);
      else
        table.copy(x, y, n, 0, 0);
      for (int64_t i = 1; i < count; ++i)
        join(y + (i - 1) * step, x + (exclusive ? i - 1 : i) * step, y + i * step, n);
    });
  }
  // Calls f(outer index, first line, lines).
  template <class F>
  void for_pieces(const Worker& worker, F&& f) const {
    const Worker::Range part = worker.slice(outer * pieces());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t from = i % pieces() * kLinesTogether;
      f(i / pieces(), from, std::min(kLinesTogether, inner - from));
    }
  }
  template <class Codec>
  void choose(const LayerArgs& args, int64_t o, int64_t from, int64_t n) const {
    using Wide = typename Codec::Wide;
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    std::array<Wide, kLinesTogether> best;
    std::array<int64_t, kLinesTogether> index{};
    const int64_t first = o * count * inner + from;
    for (int64_t j = 0; j < n; ++j) best[static_cast<size_t>(j)] = Codec::get(x, first + j);
    for (int64_t i = 1; i < count; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<size_t>(j);
        const Wide a = best[at], b = Codec::get(x, first + i * inner + j);
        if (!wins(a, b)) continue;
        best[at] = b;
        index[at] = i;
      }
    std::copy_n(index.begin(), n, static_cast<int64_t*>(args.outputs[0]) + o * inner + from);
  }
  // NaN wins, as in numpy, for the smallest too.
  template <class Wide>
  bool wins(Wide a, Wide b) const {
    if (a != a) return last_index && b != b;
    if (b != b) return true;
    return (does == Does::Max ? b > a : b < a) || (last_index && a == b);
  }
  template <class Codec>
  void accumulate(const LayerArgs& args, int64_t o, int64_t from, int64_t n) const {
    using Wide = typename Codec::Wide;
    using Number = std::conditional_t<Codec::kFloat, Wide, uint64_t>;  // integers wrap around
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    auto* y = static_cast<std::byte*>(args.outputs[0]);
    std::array<Number, kLinesTogether> totals;
    totals.fill(does == Does::Product ? 1 : 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (o * count + (reverse ? count - 1 - i : i)) * inner + from;
      for (int64_t j = 0; j < n; ++j) {
        Number& total = totals[static_cast<size_t>(j)];
        const auto element = static_cast<Number>(Codec::get(x, row + j));
        const Number next = does == Does::Product ? total * element : total + element;
        Codec::put(y, row + j, static_cast<Wide>(exclusive ? total : next));
        total = next;
      }
    }
  }
};

class LinesKernel final : public LayerKernel {
 public:
  LinesKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : prepared_(std::make_shared<PreparedLines>()) {
    const Node& node = query.layer();
    prepared_->isa = machine.isa();
    prepared_->type = tactic.inputs[0].dtype;
    const auto running = [&](const auto& op, Does does) {
      prepared_->does = does;
      prepared_->exclusive = op.exclusive;
      prepared_->reverse = op.reverse;
      axis_ = query.graph.value(node.inputs[1]).constant.to_int64s()[0];
    };
    if (const auto* op = std::get_if<ArgReduce>(&node.op)) {
      prepared_->does = op->max ? Does::Max : Does::Min;
      prepared_->last_index = op->select_last_index;
      axis_ = op->axis;
    } else if (const auto* sum = std::get_if<CumSum>(&node.op)) {
      running(*sum, Does::Sum);
    } else {
      running(std::get<CumProd>(node.op), Does::Product);
    }
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedLines>(*prepared_);
    const Extents& x = context.inputs[0];
    const auto axis = static_cast<size_t>(normalize_axis(axis_, static_cast<int64_t>(x.size()), "the axis"));
    for (size_t d = 0; d < axis; ++d) p->outer *= x[d];
    for (size_t d = axis + 1; d < x.size(); ++d) p->inner *= x[d];
    p->count = x[axis];
    return p;
  }

 private:
  std::shared_ptr<PreparedLines> prepared_;
  int64_t axis_ = 0;
};

std::vector<Tactic> list_lines(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const bool chooses = std::holds_alternative<ArgReduce>(node.op);
  const bool sums = std::holds_alternative<CumSum>(node.op);
  if (!chooses && !sums && !std::holds_alternative<CumProd>(node.op)) return {};
  Tactic t = linear_tactic(query, kLinesRunner,
                           chooses ? "arg_lines"
                           : sums  ? "cumsum_lines"
                                   : "cumprod_lines");
  if (!node.epilogue.empty())
    t.support = Support::no("lines apply no epilogue");
  else if (dtype_info(t.inputs[0].dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  else if (!chooses && (!query.graph.value(node.inputs[1]).is_constant() ||
                        query.graph.value(node.inputs[1]).constant.size() != 1))
    t.support = Support::no("the axis is known only at run time");
  return {t};
}

std::unique_ptr<LayerKernel> make_lines(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                        const PackContext&) {
  return std::make_unique<LinesKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily lines_tactics() {
  return {kLinesRunner, list_lines, make_lines};
}

}  // namespace lathe::cpu
