// SPDX-License-Identifier: Apache-2.0
//
// Reduce of every kind, over any axes, of every type of whole bytes: what has no vector kernel (reduce.cpp).
// Sums in double or in integers that wrap around, as the operator is defined.
//
// Bytes: the input read once (twice for LogSumExp), the result written once. Where the last dim stays, 64
// neighbouring results go together, so that memory is read as it lies; else one chain of additions bounds a
// row: about one element per ns.
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/region/vector_reduction.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kExactReduceRunner = "ExactReduce";
constexpr int64_t kSumsTogether = 64;

// Neighbouring dims of one kind are one.
struct Axis {
  int64_t extent = 1, stride = 1;
};

bool in_integers(ReduceKind kind) {
  return kind == ReduceKind::Sum || kind == ReduceKind::Max || kind == ReduceKind::Min ||
         kind == ReduceKind::Prod || kind == ReduceKind::L1 || kind == ReduceKind::SumSquare;
}

template <class Number>
Number first_value(ReduceKind kind) {
  if (kind == ReduceKind::Prod) return 1;
  if (kind != ReduceKind::Max && kind != ReduceKind::Min && kind != ReduceKind::LogSumExp) return 0;
  const bool low = kind != ReduceKind::Min;
  if constexpr (std::is_floating_point_v<Number>)
    return low ? -std::numeric_limits<Number>::infinity() : std::numeric_limits<Number>::infinity();
  else
    return low ? std::numeric_limits<Number>::lowest() : std::numeric_limits<Number>::max();
}

template <class Number>
Number combine(ReduceKind kind, Number a, Number x) {
  using Sum = std::conditional_t<std::is_floating_point_v<Number>, Number, uint64_t>;  // wraps around
  const auto s = static_cast<Sum>(a), v = static_cast<Sum>(x);
  switch (kind) {
    case ReduceKind::Max:
    case ReduceKind::LogSumExp:  // its first pass
      return x > a || x != x ? x : a;
    case ReduceKind::Min:
      return x < a || x != x ? x : a;
    case ReduceKind::Prod:
      return static_cast<Number>(s * v);
    case ReduceKind::L1:
      return static_cast<Number>(x < 0 ? s - v : s + v);
    case ReduceKind::L2:
    case ReduceKind::SumSquare:
      return static_cast<Number>(s + v * v);
    default:
      return static_cast<Number>(s + v);
  }
}

class PreparedExactReduce final : public PreparedLayer {
 public:
  ReduceKind kind = ReduceKind::Sum;
  DType type = DType::Float32;
  std::vector<Axis> kept, reduced;  // the last reduced one is walked innermost
  bool rows = false;                // the last dim stays: its elements go together
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int64_t length() const { return rows ? kept.back().extent : 1; }
  int64_t pieces() const { return (length() + kSumsTogether - 1) / kSumsTogether; }
  static int64_t count(const std::vector<Axis>& axes) {
    int64_t n = 1;
    for (const Axis& a : axes) n *= a.extent;
    return n;
  }
  int members(int available) const override {
    return members_for(1.3 * static_cast<double>(count(kept) * count(reduced)), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    with_codec(type, [&]<class Codec>() {
      using Wide = typename Codec::Wide;
      const Worker::Range part = worker.slice(count(kept) / std::max<int64_t>(1, length()) * pieces());
      for (int64_t i = part.begin; i < part.end; ++i) {
        const int64_t from = i % pieces() * kSumsTogether, n = std::min(kSumsTogether, length() - from);
        if (Codec::kFloat || !in_integers(kind))
          reals<Codec>(args, i / pieces(), from, n);
        else if constexpr (!Codec::kFloat)
          integers<Codec, Wide>(args, i / pieces(), from, n);
      }
    });
  }

 private:
  static int64_t offset(const std::vector<Axis>& axes, size_t dims, int64_t index) {
    int64_t at = 0;
    for (size_t d = dims; d-- > 0; index /= axes[d].extent) at += index % axes[d].extent * axes[d].stride;
    return at;
  }
  // Calls f(where n neighbouring elements begin) for everything that goes into them.
  template <class F>
  void for_each(int64_t start, F&& f) const {
    const Axis inner = reduced.back();
    const int64_t outer = count(reduced) / std::max<int64_t>(1, inner.extent);
    for (int64_t o = 0; o < outer; ++o) {
      int64_t at = start + offset(reduced, reduced.size() - 1, o);
      for (int64_t i = 0; i < inner.extent; ++i, at += inner.stride) f(at);
    }
  }
  int64_t start(int64_t row, int64_t from) const {
    return offset(kept, kept.size() - (rows ? 1 : 0), row) + from;
  }

  template <class Codec, class Number>
  void integers(const LayerArgs& args, int64_t row, int64_t from, int64_t n) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    std::array<Number, kSumsTogether> sums;
    sums.fill(first_value<Number>(kind));
    for_each(start(row, from), [&](int64_t at) {
      for (int64_t j = 0; j < n; ++j)
        sums[static_cast<size_t>(j)] =
            combine<Number>(kind, sums[static_cast<size_t>(j)], Codec::get(x, at + j));
    });
    for (int64_t j = 0; j < n; ++j)
      Codec::put(static_cast<std::byte*>(args.outputs[0]), row * length() + from + j,
                 sums[static_cast<size_t>(j)]);
  }
  template <class Codec>
  void reals(const LayerArgs& args, int64_t row, int64_t from, int64_t n) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    std::array<double, kSumsTogether> sums;
    sums.fill(first_value<double>(kind));
    const auto value = [&](int64_t at) { return static_cast<double>(Codec::get(x, at)); };
    for_each(start(row, from), [&](int64_t at) {
      for (int64_t j = 0; j < n; ++j)
        sums[static_cast<size_t>(j)] = combine<double>(kind, sums[static_cast<size_t>(j)], value(at + j));
    });
    if (kind == ReduceKind::LogSumExp) {
      const std::array<double, kSumsTogether> top = sums;
      sums.fill(0);
      for_each(start(row, from), [&](int64_t at) {
        for (int64_t j = 0; j < n; ++j)
          sums[static_cast<size_t>(j)] += std::exp(value(at + j) - top[static_cast<size_t>(j)]);
      });
      for (size_t j = 0; j < kSumsTogether; ++j)
        sums[j] = std::isinf(top[j]) ? top[j] : top[j] + std::log(sums[j]);
    }
    finish(args, sums, row * length() + from, n);
  }
  void finish(const LayerArgs& args, std::array<double, kSumsTogether>& sums, int64_t at, int64_t n) const {
    for (double& s : sums) {
      if (kind == ReduceKind::Mean) s /= static_cast<double>(count(reduced));
      if (kind == ReduceKind::L2) s = std::sqrt(s);
      if (kind == ReduceKind::LogSum) s = std::log(s);
    }
    if (epilogue == nullptr)
      return ElementWriter(type, static_cast<std::byte*>(args.outputs[0])).store_doubles(at, n, sums.data());
    std::array<float, kSumsTogether> results;
    for (int64_t j = 0; j < n; ++j)
      results[static_cast<size_t>(j)] = static_cast<float>(sums[static_cast<size_t>(j)]);
    epilogue->apply(args, results.data(), n, at, 1, n, n);
  }
};

class ExactReduceKernel final : public LayerKernel {
 public:
  ExactReduceKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Reduce>(query.layer().op)), type_(tactic.inputs[0].dtype) {
    if (!query.layer().epilogue.empty()) epilogue_ = std::make_unique<Epilogue>(query, tactic, machine);
    const Node& node = query.layer();
    axes_ = op_.axes;
    if (!axes_ && node.has_op_input(1)) axes_ = query.graph.value(node.inputs[1]).constant.to_int64s();
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedExactReduce>();
    p->kind = op_.kind;
    p->type = type_;
    const Extents &x = context.inputs[0], strides = row_major_strides(x);
    const std::vector<bool> goes = reduced_dims(x.size());
    for (size_t d = 0; d < x.size(); ++d) {
      std::vector<Axis>& axes = goes[d] ? p->reduced : p->kept;
      const bool joins = d > 0 && goes[d] == goes[d - 1];
      if (joins)
        axes.back() = {axes.back().extent * x[d], strides[d]};
      else
        axes.push_back({x[d], strides[d]});
    }
    p->rows = !x.empty() && !goes.back();
    if (p->reduced.empty()) p->reduced.push_back({1, 0});
    if (epilogue_) p->epilogue = epilogue_->prepare(context);
    return p;
  }

 private:
  std::vector<bool> reduced_dims(size_t rank) const {
    const bool listed = axes_ && !axes_->empty();
    const bool none = (op_.axes && op_.axes->empty()) || (!listed && op_.noop_with_empty_axes);
    std::vector<bool> goes(rank, !listed && !none);
    for (size_t i = 0; listed && i < axes_->size(); ++i)
      goes[static_cast<size_t>(normalize_axis((*axes_)[i], static_cast<int64_t>(rank), "Reduce axis"))] =
          true;
    return goes;
  }
  Reduce op_;
  DType type_;
  std::optional<Ints> axes_;
  std::unique_ptr<Epilogue> epilogue_;
};

std::vector<Tactic> list_exact_reduce(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Reduce>(&node.op);
  if (!op || has_vector_reduction(query)) return {};
  const DType type = query.graph.value(node.outputs[0]).dtype;
  Tactic t = typed_tactic(query, kExactReduceRunner, "reduce_exact",
                          {query.graph.value(node.inputs[0]).dtype, kLinear}, {type, kLinear});
  const bool asks = !op->axes && node.has_op_input(1);
  if (dtype_info(type).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  else if (asks && !query.graph.value(node.inputs[1]).is_constant())
    t.support = Support::no("the axes are known only at run time");
  else if (!node.epilogue.empty() && !is_vector_float(type))
    t.support = Support::no("no epilogue in " + std::string(dtype_name(type)));
  return {t};
}

std::unique_ptr<LayerKernel> make_exact_reduce(const LayerQuery& query, const Tactic& tactic,
                                               const Machine& machine, const PackContext&) {
  return std::make_unique<ExactReduceKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily exact_reduce_tactics() {
  return {kExactReduceRunner, list_exact_reduce, make_exact_reduce};
}

}  // namespace lathe::cpu
