// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/exact/exact_loops.h"

#include <array>
#include <utility>

#include "ops/scalar.h"

namespace lathe::cpu {
namespace {

using Code = PointwiseCode;

template <Code kCode>
[[gnu::flatten]] void integers(const int64_t* a, const int64_t* b, int64_t* out, int64_t n,
                               const ExactParameters& p) {
  if constexpr (is_comparison(kCode)) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = p.is_uint64
                   ? pointwise_compare(kCode, static_cast<uint64_t>(a[i]), static_cast<uint64_t>(b[i]))
                   : pointwise_compare(kCode, a[i], b[i]);
  } else {
    const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    for (int64_t i = 0; i < n; ++i) out[i] = pointwise_integer(kCode, a[i], b[i], p.is_uint64, alpha, beta);
  }
}

template <Code kCode>
void reals(const double* a, const double* b, double* out, int64_t n, const ExactParameters& p) {
  for (int64_t i = 0; i < n; ++i) out[i] = pointwise_float(kCode, a[i], b[i], p.alpha, p.beta);
}

template <Code kCode>
void tests_of_reals(const double* a, const double* b, int64_t* out, int64_t n, const ExactParameters& p) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = is_comparison(kCode) ? pointwise_compare(kCode, a[i], b[i])
                                  : pointwise_classify(kCode, a[i], p.alpha, p.beta);
}

constexpr auto kAllCodes = std::make_index_sequence<static_cast<size_t>(Code::Where) + 1>();

template <size_t... kCodes>
constexpr std::array<IntegerLoop, sizeof...(kCodes)> loops_of_integers(std::index_sequence<kCodes...>) {
  return {integers<static_cast<Code>(kCodes)>...};
}
template <size_t... kCodes>
constexpr std::array<RealLoop, sizeof...(kCodes)> loops_of_reals(std::index_sequence<kCodes...>) {
  return {reals<static_cast<Code>(kCodes)>...};
}
template <size_t... kCodes>
constexpr std::array<RealTestLoop, sizeof...(kCodes)> loops_of_tests(std::index_sequence<kCodes...>) {
  return {tests_of_reals<static_cast<Code>(kCodes)>...};
}

IntegerLoop vector_loop(const ExactTable::Integers& t, Code code) {
  switch (code) {
    case Code::Identity:
      return t.identity;
    case Code::Abs:
      return t.abs;
    case Code::Neg:
      return t.neg;
    case Code::Sign:
      return t.sign;
    case Code::Square:
      return t.square;
    case Code::Relu:
      return t.relu;
    case Code::Not:
      return t.logical_not;
    case Code::BitwiseNot:
      return t.bitwise_not;
    case Code::Add:
      return t.add;
    case Code::Sub:
      return t.sub;
    case Code::Mul:
      return t.mul;
    case Code::Min:
      return t.min;
    case Code::Max:
      return t.max;
    case Code::And:
      return t.logical_and;
    case Code::Or:
      return t.logical_or;
    case Code::Xor:
      return t.logical_xor;
    case Code::BitwiseAnd:
      return t.bitwise_and;
    case Code::BitwiseOr:
      return t.bitwise_or;
    case Code::BitwiseXor:
      return t.bitwise_xor;
    case Code::Equal:
      return t.equal;
    case Code::Less:
      return t.less;
    case Code::LessOrEqual:
      return t.less_or_equal;
    case Code::Greater:
      return t.greater;
    case Code::GreaterOrEqual:
      return t.greater_or_equal;
    default:
      return nullptr;
  }
}

RealLoop vector_loop(const ExactTable::Reals& t, Code code) {
  switch (code) {
    case Code::Identity:
      return t.identity;
    case Code::Abs:
      return t.abs;
    case Code::Neg:
      return t.neg;
    case Code::Square:
      return t.square;
    case Code::Reciprocal:
      return t.reciprocal;
    case Code::Relu:
      return t.relu;
    case Code::Clip:
      return t.clip;
    case Code::Add:
      return t.add;
    case Code::Sub:
      return t.sub;
    case Code::Mul:
      return t.mul;
    case Code::Div:
      return t.div;
    case Code::Min:
      return t.min;
    case Code::Max:
      return t.max;
    default:
      return nullptr;
  }
}

RealTestLoop vector_loop(const ExactTable::Tests& t, Code code) {
  switch (code) {
    case Code::Equal:
      return t.equal;
    case Code::Less:
      return t.less;
    case Code::LessOrEqual:
      return t.less_or_equal;
    case Code::Greater:
      return t.greater;
    case Code::GreaterOrEqual:
      return t.greater_or_equal;
    case Code::IsNaN:
      return t.is_nan;
    default:
      return nullptr;
  }
}

// Does the operation give the same bits whether its operands have a sign or not?
bool ignores_signs(Code code) {
  switch (code) {
    case Code::Identity:
    case Code::Neg:
    case Code::Square:
    case Code::Add:
    case Code::Sub:
    case Code::Mul:
    case Code::Equal:
    case Code::BitwiseNot:
    case Code::BitwiseAnd:
    case Code::BitwiseOr:
    case Code::BitwiseXor:
      return true;
    default:
      return false;
  }
}

}  // namespace

const ExactTable& exact_table(Isa isa) {
  return isa == Isa::Avx2 ? exact_table_avx2() : exact_table_avx512();
}

IntegerLoop integer_loop(const ExactTable& table, Code code, bool is_uint64) {
  static constexpr auto kLoops = loops_of_integers(kAllCodes);
  const IntegerLoop loop = is_uint64 && !ignores_signs(code) ? nullptr : vector_loop(table.integers, code);
  return loop ? loop : kLoops[static_cast<size_t>(code)];
}

RealLoop real_loop(const ExactTable& table, Code code) {
  static constexpr auto kLoops = loops_of_reals(kAllCodes);
  const RealLoop loop = vector_loop(table.reals, code);
  return loop ? loop : kLoops[static_cast<size_t>(code)];
}

RealTestLoop real_test_loop(const ExactTable& table, Code code) {
  static constexpr auto kLoops = loops_of_tests(kAllCodes);
  const RealTestLoop loop = vector_loop(table.tests, code);
  return loop ? loop : kLoops[static_cast<size_t>(code)];
}

}  // namespace lathe::cpu
