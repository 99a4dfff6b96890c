// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on shape contents, see contents.h. Constants follow integer arithmetic; symbolic operands only
// where the algebra of dims is exact.

#include "ops/contents.h"

#include "ops/scalar.h"

namespace lathe {

namespace {

bool all_constant(std::span<const Dim> dims) {
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return false;
  }
  return true;
}

std::optional<Dim> compare(PointwiseCode code, const Dim& a, const Dim& b) {
  // Decided when the sign of a - b is the same for all symbols.
  const Dim difference = a - b;
  int64_t sign = 0;
  if (difference.is_constant()) {
    sign = difference.value();
  } else if (is_never_negative(difference - Dim(1))) {
    sign = 1;
  } else if (is_never_negative(Dim(-1) - difference)) {
    sign = -1;
  } else {
    return std::nullopt;
  }
  return Dim(pointwise_compare<int64_t>(code, sign, 0));
}

// The quotient by a positive constant, rounded towards zero as integers are divided; dims divide downwards.
// One of the two parts of a is 0. Exporters write (frames - 3) / 4, whose sign only shapes tell; a profile
// that makes it positive drops the clamps.
Dim truncated_div(const Dim& a, const Dim& b) {
  if (is_never_negative(a)) return floor_div(a, b);
  return floor_div(max(a, Dim(0)), b) - floor_div(max(Dim(0) - a, Dim(0)), b);
}

std::optional<Dim> binary(PointwiseCode code, const Dim& a, const Dim& b) {
  switch (code) {
    case PointwiseCode::Add:
      return a + b;
    case PointwiseCode::Sub:
      return a - b;
    case PointwiseCode::Mul:
      return a * b;
    case PointwiseCode::Div:
      if (b.is_constant(0)) return std::nullopt;
      if (std::optional<Dim> quotient = a.exact_div(b)) return quotient;
      if (!b.is_constant() || b.value() < 0) return std::nullopt;
      return truncated_div(a, b);
    case PointwiseCode::Mod:  // has the divisor's sign, as the remainder of floor_div has
      if (!b.is_constant() || b.value() <= 0) return std::nullopt;
      return mod(a, b);
    case PointwiseCode::FMod:
      if (!b.is_constant() || b.value() <= 0 || !is_never_negative(a)) return std::nullopt;
      return mod(a, b);
    case PointwiseCode::Min:
      return min(a, b);
    case PointwiseCode::Max:
      return max(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_never_negative(const Dim& dim) {
  if (dim.is_constant()) return dim.value() >= 0;
  // Corners: all symbols zero, and each (and all) of them huge. For sums with constant coefficients this is a
  // proof; for products and divisions of symbols, which are sums of such corners in practice, it errs only in
  // contrived cases.
  constexpr int64_t kHuge = int64_t{1} << 20;
  SymbolValues values;
  const std::set<std::string> symbols = dim.symbols();
  for (const std::string& name : symbols) values[name] = 0;
  if (dim.evaluate(values) < 0) return false;
  for (const std::string& name : symbols) {
    values[name] = kHuge;
    if (dim.evaluate(values) < 0) return false;
    values[name] = 0;
  }
  for (const std::string& name : symbols) values[name] = kHuge;
  return dim.evaluate(values) >= 0;
}

std::optional<Dim> pointwise_dim(PointwiseCode code, std::span<const Dim> operands) {
  if (code == PointwiseCode::Where) {
    if (operands[1] == operands[2]) return operands[1];
    if (!operands[0].is_constant()) return std::nullopt;
    return operands[0].value() != 0 ? operands[1] : operands[2];
  }
  if (is_comparison(code)) return compare(code, operands[0], operands[1]);
  if (all_constant(operands)) {
    const int64_t b = operands.size() > 1 ? operands[1].value() : 0;
    if ((code == PointwiseCode::Div || code == PointwiseCode::Mod || code == PointwiseCode::FMod) && b == 0) {
      return std::nullopt;
    }
    return Dim(pointwise_integer(code, operands[0].value(), b, false, 0, 0));
  }
  if (operands.size() == 2) return binary(code, operands[0], operands[1]);
  switch (code) {
    case PointwiseCode::Identity:
      return operands[0];
    case PointwiseCode::Neg:
      return Dim(0) - operands[0];
    case PointwiseCode::Abs:
    case PointwiseCode::Relu:
      if (is_never_negative(operands[0])) return operands[0];
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace lathe
