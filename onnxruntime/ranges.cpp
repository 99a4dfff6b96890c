// SPDX-License-Identifier: Apache-2.0
#include "ranges.h"

#include <algorithm>

namespace lathe::onnxruntime_ep {
namespace {

constexpr int64_t kStep = 64;  // keeps n and n + 1 apart by one, which twice as much does not

int64_t grown(int64_t seen, int how) {
  if (how == 2 || seen <= 0) return seen;
  return how == 0 ? 2 * seen : seen + kStep;
}

}  // namespace

bool InputRange::holds(const v1::Dims& seen) const {
  if (seen.size() != min.size()) return false;
  for (size_t d = 0; d < seen.size(); ++d)
    if (seen[d] < min[d] || seen[d] > max[d]) return false;
  return true;
}

InputRange widen(const std::optional<InputRange>& old, const v1::Dims& fixed, const v1::Dims& seen,
                 int attempt) {
  const bool from_one = attempt < kRangeAttempts / 2;
  const bool known = old && old->max.size() == seen.size();
  InputRange range{.min = seen, .opt = seen, .max = seen};
  for (size_t d = 0; d < seen.size(); ++d) {
    if (d < fixed.size() && fixed[d] >= 0) continue;
    if (known) range.min[d] = std::min(old->min[d], seen[d]);
    if (!fixed.empty() && from_one) range.min[d] = std::min<int64_t>(range.min[d], 1);
    if (known)
      range.max[d] = seen[d] > old->max[d] ? grown(seen[d], attempt % (kRangeAttempts / 2)) : old->max[d];
  }
  return range;
}

}  // namespace lathe::onnxruntime_ep
