// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/exact/exact_loops.h"

#include <array>
#include <utility>

#include "ops/scalar.h"

namespace lathe::cpu {
namespace {

template <PointwiseCode kCode>
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

template <size_t... kCodes>
constexpr std::array<IntegerLoop, sizeof...(kCodes)> all_loops(std::index_sequence<kCodes...>) {
  return {integers<static_cast<PointwiseCode>(kCodes)>...};
}

}  // namespace

IntegerLoop integer_loop(PointwiseCode code) {
  static constexpr auto kLoops =
      all_loops(std::make_index_sequence<static_cast<size_t>(PointwiseCode::Where) + 1>());
  return kLoops[static_cast<size_t>(code)];
}

void real_loop(PointwiseCode code, const double* a, const double* b, double* out, int64_t n,
               const ExactParameters& p) {
  for (int64_t i = 0; i < n; ++i) out[i] = pointwise_float(code, a[i], b[i], p.alpha, p.beta);
}

void real_test_loop(PointwiseCode code, const double* a, const double* b, int64_t* out, int64_t n,
                    const ExactParameters& p) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = is_comparison(code) ? pointwise_compare(code, a[i], b[i])
                                 : pointwise_classify(code, a[i], p.alpha, p.beta);
}

}  // namespace lathe::cpu
