// SPDX-License-Identifier: Apache-2.0
//
// Reductions over neighbouring axes: the last ones (rows), or ones in the middle of the storage (columns),
// which is what a global average pool is in channels-last and blocked formats; or over the last ones and the
// first ones, which are rows whose results go together. Sums in FP32 over several independent chains,
// products in double.
#include <cmath>

#include "backend/cpu/region/vector_reduction.h"
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/reduce_table.h"

namespace lathe::cpu {

namespace {

constexpr std::string_view kReduceRunner = "Reduce";
constexpr int64_t kReduceColumns = 256;  // columns per task

std::optional<Fold> fold_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
    case ReduceKind::LogSum:
      return Fold::Sum;
    case ReduceKind::Max:
      return Fold::Max;
    case ReduceKind::Min:
      return Fold::Min;
    case ReduceKind::L1:
      return Fold::SumAbs;
    case ReduceKind::L2:
    case ReduceKind::SumSquare:
      return Fold::SumSquare;
    default:
      return std::nullopt;
  }
}

// Kinds with a kernel for rows only.
bool folds_rows_only(ReduceKind kind) {
  return kind == ReduceKind::Prod || kind == ReduceKind::LogSumExp;
}

// The storage as [far][outer][reduced][inner]; `far` is reduced, too, and 1 where there is an inner dim.
struct ReduceShape {
  int64_t far = 1, outer = 1, reduced = 1, inner = 1;
};

ReduceShape reduce_shape(const std::vector<bool>& reduced, const Extents& extents) {
  ReduceShape shape;
  bool seen = false;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (reduced[d] && shape.inner > 1) {  // what seemed to be in the middle and inside was in front
      shape.far = shape.reduced;
      shape.outer = std::exchange(shape.inner, 1);
      shape.reduced = 1;
    }
    seen = seen || reduced[d];
    (reduced[d] ? shape.reduced : seen ? shape.inner : shape.outer) *= extents[d];
  }
  return shape;
}

std::vector<bool> reduced_axes(const Reduce& op, size_t rank) {
  std::vector<bool> reduced(rank, !op.axes.has_value());
  if (!op.axes) return reduced;
  for (const int64_t a : *op.axes)
    reduced[static_cast<size_t>(normalize_axis(a, static_cast<int64_t>(rank), "Reduce axis"))] = true;
  return reduced;
}

// In storage order. For a blocked format the block positions are part of the channel dim.
std::vector<bool> in_storage_order(const std::vector<bool>& reduced, const Format& format) {
  if (format.is_linear()) return reduced;
  std::vector<bool> out = {reduced[0]};
  if (format.kind == Format::Kind::ChannelBlocked) out.push_back(reduced[1]);
  out.insert(out.end(), reduced.begin() + 2, reduced.end());
  out.push_back(reduced[1]);
  return out;
}

// How often dims that are reduced and dims that are kept take turns.
int64_t turns(const std::vector<bool>& reduced) {
  int64_t changes = 0;
  for (size_t d = 1; d < reduced.size(); ++d) changes += reduced[d] != reduced[d - 1] ? 1 : 0;
  return changes;
}

class PreparedReduce final : public PreparedLayer {
 public:
  ReduceShape shape;
  ReduceKind kind = ReduceKind::Sum;
  float scale = 1;
  DType type = DType::Float32;
  Isa isa = Isa::Avx2;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int64_t chunks() const { return (shape.inner + kReduceColumns - 1) / kReduceColumns; }
  int members(int available) const override {
    return members_for(0.1 * static_cast<double>(shape.far * shape.outer * shape.reduced * shape.inner),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (shape.inner == 1)
      rows(args, worker);
    else
      columns(args, worker);
  }

 private:
  const std::byte* input(const LayerArgs& args, int64_t element) const {
    return static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type, element);
  }
  void rows(const LayerArgs& args, const Worker& worker) const {
    const ReduceTable& table = reduce_table(isa);
    const Worker::Range part = worker.slice(shape.outer);
    alignas(64) float results[kReduceColumns];
    for (int64_t at = part.begin; at < part.end; at += kReduceColumns) {
      const int64_t n = std::min(kReduceColumns, part.end - at);
      fold_rows(table, args, at, n, results);
      finish(results, n);
      epilogue->apply(args, results, n, at, 1, n, n);
    }
  }
  // Of n neighbouring rows from `at` on, and what goes to the same results from far.
  void fold_rows(const ReduceTable& table, const LayerArgs& args, int64_t at, int64_t n,
                 float* results) const {
    const Stored stored = stored_as(type);
    const auto row = [&](int64_t far, int64_t i) {
      return input(args, (far * shape.outer + at + i) * shape.reduced);
    };
    if (kind == ReduceKind::Prod) {
      for (int64_t i = 0; i < n; ++i) {
        double all = 1;
        for (int64_t f = 0; f < shape.far; ++f) all *= table.product(row(f, i), stored, shape.reduced);
        results[i] = static_cast<float>(all);
      }
      return;
    }
    if (kind == ReduceKind::LogSumExp) {
      table.rows(row(0, 0), stored, shape.reduced, n, Fold::Max, results);
      for (int64_t i = 0; i < n; ++i)
        if (const float top = results[i]; std::isfinite(top))
          results[i] = top + std::log(table.sum_exp(row(0, i), stored, shape.reduced, top));
      return;
    }
    const Fold fold = *fold_of(kind);
    table.rows(row(0, 0), stored, shape.reduced, n, fold, results);
    alignas(64) float next[kReduceColumns];
    for (int64_t f = 1; f < shape.far; ++f) {
      table.rows(row(f, 0), stored, shape.reduced, n, fold, next);
      for (int64_t i = 0; i < n; ++i) results[i] = joined(fold, results[i], next[i]);
    }
    for (int64_t i = 0; scale != 1 && i < n; ++i) results[i] *= scale;
  }
  static float joined(Fold fold, float a, float b) {
    if (fold == Fold::Max) return b > a || b != b ? b : a;
    if (fold == Fold::Min) return b < a || b != b ? b : a;
    return a + b;
  }
  void finish(float* results, int64_t n) const {
    if (kind == ReduceKind::L2)
      for (int64_t i = 0; i < n; ++i) results[i] = std::sqrt(results[i]);
    if (kind == ReduceKind::LogSum)
      for (int64_t i = 0; i < n; ++i) results[i] = std::log(results[i]);
  }
  // One call for several reductions whose results are neighbours: a plane of a blocked format has only one
  // vector of them.
  void columns(const LayerArgs& args, const Worker& worker) const {
    const ReduceTable& table = reduce_table(isa);
    alignas(64) float results[kReduceColumns];
    const WindowTaps taps{1, shape.reduced, 0, shape.inner};
    const auto fold_part = [&](int64_t o, int64_t count, int64_t c, int64_t n) {
      table.windows(input(args, o * shape.reduced * shape.inner + c), stored_as(type), taps, n, count,
                    shape.reduced * shape.inner, *fold_of(kind), scale, results);
      finish(results, count * n);
      epilogue->apply(args, results, count * n, o * shape.inner + c, 1, count * n, count * n);
    };
    if (const int64_t together = kReduceColumns / shape.inner; together > 1) {
      const Worker::Range part = worker.slice(shape.outer);
      for (int64_t o = part.begin; o < part.end; o += together)
        fold_part(o, std::min(together, part.end - o), 0, shape.inner);
      return;
    }
    const Worker::Range part = worker.slice(shape.outer * chunks());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t c = i % chunks() * kReduceColumns;
      fold_part(i / chunks(), 1, c, std::min(kReduceColumns, shape.inner - c));
    }
  }
};

class ReduceKernel final : public LayerKernel {
 public:
  ReduceKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Reduce>(query.layer().op)),
        type_(tactic.inputs[0]),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedReduce>();
    const Extents& x = context.inputs[0];
    p->shape = reduce_shape(in_storage_order(reduced_axes(op_, x.size()), type_.format),
                            storage_walk(x, type_.format).extents);
    p->kind = op_.kind;
    if (op_.kind == ReduceKind::Mean) p->scale = 1.0f / static_cast<float>(p->shape.far * p->shape.reduced);
    p->type = type_.dtype;
    p->isa = isa_;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Reduce op_;
  TensorType type_;
  Isa isa_;
  Epilogue epilogue_;
};

// The result's format when the input has `format`.
Format result_format(const Reduce& op, const Shape& result, const Format& format) {
  if (format.is_linear() || op.keepdims || result.size() >= 3) return format;
  return kLinear;
}

Support supports_reduce(const Reduce& op, const Shape& input, const Shape& result, const TensorType& type) {
  if (!is_vector_float(type.dtype)) return no_vector_kernel(type.dtype);
  if (!fold_of(op.kind) && !folds_rows_only(op.kind))
    return Support::no("no vector kernel for " + std::string(enum_name(op.kind)));
  if (op.axes && op.axes->empty()) return Support::no("nothing is reduced");
  if (input.empty()) return Support::no("the input is a scalar");
  const std::vector<bool> reduced = reduced_axes(op, input.size());
  const std::vector<bool> stored = in_storage_order(reduced, type.format);
  const bool rows = stored.back(), far = rows && stored.front() && turns(stored) == 2;
  if (turns(stored) > 2) return Support::no("the reduced axes are not neighbours in memory");
  if (folds_rows_only(op.kind) && (!rows || (far && op.kind == ReduceKind::LogSumExp)))
    return Support::no("the vector kernel for " + std::string(enum_name(op.kind)) + " takes whole rows");
  if (type.format.is_linear()) return {};
  if (reduced[0] || reduced[1]) return Support::no("only spatial axes are reduced in this format");
  const bool whole = std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; });
  if (!op.keepdims && !whole) return Support::no("the result would change its number of spatial dims");
  const bool full = result[1].is_constant() && result[1].value() % type.format.block == 0;
  if (type.format.block > 1 && !op.keepdims && !full)
    return Support::no("the channels do not fill their blocks");
  return {};
}

std::vector<Tactic> list_reduce(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Reduce>(&node.op);
  if (!op) return {};
  const Shape &input = query.graph.value(node.inputs[0]).shape,
              &result = query.graph.value(node.outputs[0]).shape;
  std::vector<Format> formats = {kLinear};
  if (input.size() >= 3) {
    formats.push_back(kChannelsLast);
    formats.push_back({Format::Kind::ChannelBlocked, vector_block(machine)});
  }
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query))
    for (const Format& format : formats) {
      const TensorType in{type, format}, out{type, result_format(*op, result, format)};
      Tactic t = typed_tactic(query, kReduceRunner, "reduce_" + std::string(isa_suffix(machine)), in, out);
      if (node.has_op_input(1) && !op->axes)
        t.support = Support::no("the axes are known only at run time");
      else if (const Support s = supports_reduce(*op, input, result, in); !s.ok)
        t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_reduce(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext&) {
  return std::make_unique<ReduceKernel>(query, tactic, machine);
}

}  // namespace

bool has_vector_reduction(const LayerQuery& query) {
  const Node& node = query.layer();
  const auto& op = std::get<Reduce>(node.op);
  const Value &x = query.graph.value(node.inputs[0]), &y = query.graph.value(node.outputs[0]);
  const bool asks = node.has_op_input(1) && !op.axes;
  return !asks && supports_reduce(op, x.shape, y.shape, {y.dtype, kLinear}).ok;
}

TacticFamily reduce_tactics() {
  return {kReduceRunner, list_reduce, make_reduce};
}

}  // namespace lathe::cpu
