// SPDX-License-Identifier: Apache-2.0
//
// Reductions over any set of axes. Float types and kinds with roots or logarithms are accumulated in double,
// sums and products of integers in their own wrapping arithmetic.
//
// Axes that arrive as a tensor known only at run time still give a shape: kept dims become data-dependent
// ones with the old extent as upper bound, and the rank follows from how many axes there are.

#include <cmath>
#include <limits>

#include "ir/elements.h"
#include "ops/families.h"

namespace lathe {

namespace {

// --- axes and shapes

// Which axes go, from attribute or input; `listed` is null when neither says.
std::vector<bool> reduced_axes(const Reduce& op, const Ints* listed, int64_t rank) {
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  const bool identity =
      (op.axes && op.axes->empty()) || ((!listed || listed->empty()) && op.noop_with_empty_axes);
  if (identity) return reduced;
  if (!listed || listed->empty()) return std::vector<bool>(static_cast<size_t>(rank), true);
  for (int64_t axis : *listed) {
    const size_t at = static_cast<size_t>(normalize_axis(axis, rank, "the axis of a reduction"));
    if (reduced[at]) throw_input_error("axis " + std::to_string(axis) + " is reduced twice");
    reduced[at] = true;
  }
  return reduced;
}

Shape known_result(const Reduce& op, const Shape& x, const std::vector<bool>& reduced) {
  Shape shape;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(x[i]);
    } else if (op.keepdims) {
      shape.push_back(Dim(1));
    }
  }
  return shape;
}

// Axes arrive at run time: as many dims as can be, each bounded by what it may be.
Shape unknown_result(const Reduce& op, const InferContext& context, const Shape& x) {
  const Shape& axes = context.input(1).shape;
  if (axes.size() != 1 || !axes[0].is_constant()) {
    throw_input_error("axes must be a vector of known length, has shape " + to_string(axes));
  }
  const int64_t count = axes[0].value();
  if (count == 0) return known_result(op, x, std::vector<bool>(x.size(), !op.noop_with_empty_axes));
  if (count > static_cast<int64_t>(x.size())) throw_input_error("more axes than dims");
  Shape shape;
  const size_t rank = op.keepdims ? x.size() : x.size() - static_cast<size_t>(count);
  for (size_t i = 0; i < rank; ++i) {
    // Without keepdims, result dim i is one of the input's dims i .. i + count.
    Dim upper = x[i];
    for (size_t j = i + 1; !op.keepdims && j <= i + static_cast<size_t>(count); ++j) upper = max(upper, x[j]);
    if (op.keepdims) upper = max(upper, Dim(1));
    shape.push_back(Dim::data_dependent(context.dim_name("dim" + std::to_string(i)), upper));
  }
  return shape;
}

std::vector<ResultInfo> infer_reduce(const Reduce& op, const InferContext& context) {
  const Value& x = context.input(0);
  const int64_t rank = context.rank(0);
  if (op.axes || !context.has(1)) {
    return {{x.dtype, known_result(op, x.shape, reduced_axes(op, op.axes ? &*op.axes : nullptr, rank))}};
  }
  if (context.input(1).dtype != DType::Int64)
    throw_input_error("the axes must be int64, they are " + std::string(dtype_name(context.input(1).dtype)));
  if (const std::optional<Shape> axes = context.contents(1)) {
    if (is_static(*axes)) {
      const Ints listed = to_extents(*axes);
      return {{x.dtype, known_result(op, x.shape, reduced_axes(op, &listed, rank))}};
    }
  }
  return {{x.dtype, unknown_result(op, context, x.shape)}};
}

// --- evaluation

// Offsets of all combinations of the chosen axes, row-major.
std::vector<int64_t> offsets_over(const Extents& extents, const std::vector<bool>& chosen, bool value) {
  const Extents strides = row_major_strides(extents);
  std::vector<int64_t> offsets = {0};
  for (size_t i = 0; i < extents.size(); ++i)
    if (chosen[i] == value && extents[i] == 0) return {};  // before others of its dims have been listed
  for (size_t i = 0; i < extents.size(); ++i) {
    if (chosen[i] != value) continue;
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(extents[i]));
    for (int64_t offset : offsets) {
      for (int64_t j = 0; j < extents[i]; ++j) next.push_back(offset + j * strides[i]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

double log_sum_exp(const double* x, const std::vector<int64_t>& offsets) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t offset : offsets) top = x[offset] > top || std::isnan(x[offset]) ? x[offset] : top;
  if (!std::isfinite(top)) return top;
  double sum = 0;
  for (int64_t offset : offsets) sum += std::exp(x[offset] - top);
  return top + std::log(sum);
}

double reduce_reals(ReduceKind kind, const double* x, const std::vector<int64_t>& offsets) {
  const double infinity = std::numeric_limits<double>::infinity();
  double result = kind == ReduceKind::Prod  ? 1
                  : kind == ReduceKind::Max ? -infinity
                  : kind == ReduceKind::Min ? infinity
                                            : 0;
  switch (kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
    case ReduceKind::LogSum:
      for (int64_t offset : offsets) result += x[offset];
      if (kind == ReduceKind::Mean) return result / static_cast<double>(offsets.size());
      return kind == ReduceKind::LogSum ? std::log(result) : result;
    case ReduceKind::Max:
      for (int64_t offset : offsets)
        result = x[offset] > result || std::isnan(x[offset]) ? x[offset] : result;
      return result;
    case ReduceKind::Min:
      for (int64_t offset : offsets)
        result = x[offset] < result || std::isnan(x[offset]) ? x[offset] : result;
      return result;
    case ReduceKind::Prod:
      for (int64_t offset : offsets) result *= x[offset];
      return result;
    case ReduceKind::L1:
      for (int64_t offset : offsets) result += std::abs(x[offset]);
      return result;
    case ReduceKind::L2:
    case ReduceKind::SumSquare:
      for (int64_t offset : offsets) result += x[offset] * x[offset];
      return kind == ReduceKind::L2 ? std::sqrt(result) : result;
    case ReduceKind::LogSumExp:
      return log_sum_exp(x, offsets);
  }
  return result;
}

bool in_integers(ReduceKind kind) {
  return kind == ReduceKind::Sum || kind == ReduceKind::Max || kind == ReduceKind::Min ||
         kind == ReduceKind::Prod || kind == ReduceKind::L1 || kind == ReduceKind::SumSquare;
}

// The value that an empty maximum (minimum) has: the smallest (largest) of the type.
int64_t extreme(DType dtype, bool lowest) {
  return with_codec(dtype, [&]<class Codec>() -> int64_t {
    if constexpr (Codec::kFloat) {
      return 0;  // never asked
    } else if constexpr (std::is_same_v<typename Codec::Wide, uint64_t>) {
      return lowest ? 0 : -1;
    } else if (Codec::kHigh >= 0x1p63) {
      return lowest ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    } else {
      return static_cast<int64_t>(lowest ? Codec::kLow : Codec::kHigh);
    }
  });
}

int64_t reduce_integers(ReduceKind kind, DType dtype, const int64_t* x, const std::vector<int64_t>& offsets) {
  const bool wide_unsigned = dtype == DType::UInt64;
  const auto less = [&](int64_t a, int64_t b) {
    return wide_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  };
  if (kind == ReduceKind::Max || kind == ReduceKind::Min) {
    const bool is_max = kind == ReduceKind::Max;
    int64_t result = extreme(dtype, is_max);
    for (int64_t offset : offsets) {
      if (is_max ? less(result, x[offset]) : less(x[offset], result)) result = x[offset];
    }
    return result;
  }
  uint64_t result = kind == ReduceKind::Prod ? 1 : 0;
  for (int64_t offset : offsets) {
    const uint64_t value = static_cast<uint64_t>(x[offset]);
    switch (kind) {
      case ReduceKind::Prod:
        result *= value;
        break;
      case ReduceKind::SumSquare:
        result += value * value;
        break;
      case ReduceKind::L1:
        result += !wide_unsigned && x[offset] < 0 ? 0 - value : value;
        break;
      default:
        result += value;
    }
  }
  return static_cast<int64_t>(result);
}

std::vector<Tensor> evaluate_reduce(const Reduce& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Ints from_input;
  if (!op.axes && context.has(1)) from_input = context.input(1).to_int64s();
  const Ints* listed = op.axes ? &*op.axes : context.has(1) ? &from_input : nullptr;
  const std::vector<bool> reduced = reduced_axes(op, listed, x.rank());
  Tensor result = Tensor::allocate(x.dtype(), to_extents(known_result(op, to_shape(x.extents()), reduced)));
  if (result.size() == 0) return {std::move(result)};  // whatever the extents beside the zero are
  const std::vector<int64_t> inside = offsets_over(x.extents(), reduced, true);
  const std::vector<int64_t> starts = offsets_over(x.extents(), reduced, false);
  check(static_cast<int64_t>(starts.size()) == result.size(), "a reduction lost elements");
  const ElementWriter writer(result);
  const int64_t grain =
      std::max<int64_t>(1, 4096 / std::max<int64_t>(1, static_cast<int64_t>(inside.size())));
  const bool integers = !is_float(x.dtype()) && in_integers(op.kind);
  std::vector<int64_t> integer_data(integers ? static_cast<size_t>(x.size()) : 0);
  if (integers) load_int64s(x, 0, x.size(), integer_data.data());
  const std::vector<double> real_data = integers ? std::vector<double>{} : x.to_doubles();
  // Several results share a byte in packed types.
  const int64_t pack = std::max(1, 8 / dtype_info(x.dtype()).bits);
  const int64_t total = result.size();
  context.parallel_for((total + pack - 1) / pack, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first * pack; i < std::min(last * pack, total); ++i) {
      const int64_t start = inside.empty() ? 0 : starts[static_cast<size_t>(i)];  // no data: no place in it
      if (integers) {
        const int64_t value = reduce_integers(op.kind, x.dtype(), integer_data.data() + start, inside);
        writer.store_int64s(i, 1, &value);
      } else {
        const double value = reduce_reals(op.kind, real_data.data() + start, inside);
        writer.store_doubles(i, 1, &value);
      }
    }
  });
  return {std::move(result)};
}

double reduce_flops(const Op&, const CostContext& context) {
  return static_cast<double>(element_count(context.inputs[0]));
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  return {op_def<Reduce, infer_reduce, evaluate_reduce>(reduce_flops)};
}

}  // namespace lathe
