// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/quantized/byte_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lathe::cpu {

ByteTable tabulate(const ByteGrid& from, const ByteGrid& to,
                   const std::function<std::vector<double>(const std::vector<double>&)>& function) {
  ByteTable table{};
  std::vector<double> numbers;
  for (size_t q = 0; q < table.size(); ++q)
    numbers.push_back(static_cast<double>((static_cast<float>(q) - from.zero) * from.scale));
  const std::vector<double> results = function(numbers);
  check(results.size() == table.size(), "a function of bytes has 256 results");
  for (size_t q = 0; q < table.size(); ++q) {
    const double step = std::nearbyint(results[q] / static_cast<double>(to.scale)) + to.zero;
    table[q] = static_cast<uint8_t>(std::isnan(step) ? to.zero : std::clamp(step, 0.0, 255.0));
  }
  return table;
}

}  // namespace lathe::cpu
