// SPDX-License-Identifier: Apache-2.0
//
// Walking an operand that broadcasts to a result, in runs of result elements. Dims that lie one after the
// other in both are merged first, so that a bias over channels gives runs of a whole plane and equal shapes
// give one run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "ir/shape.h"
#include "ir/tensor.h"

namespace lathe {

class BroadcastRuns {
 public:
  // `from` must broadcast to `to`.
  BroadcastRuns(const Extents& from, const Extents& to) {
    check(from.size() <= to.size(), "an operand has more dims than the result");
    const Extents strides = row_major_strides(from);
    for (size_t i = 0; i < to.size(); ++i) {  // innermost first
      const int64_t extent = to[to.size() - 1 - i];
      if (extent == 1) continue;
      const bool inside = i < from.size() && from[from.size() - 1 - i] != 1;
      check(!inside || from[from.size() - 1 - i] == extent, "an operand does not broadcast to the result");
      const int64_t stride = inside ? strides[from.size() - 1 - i] : 0;
      if (!dims_.empty() && stride == dims_.back().stride * dims_.back().extent) {
        dims_.back().extent *= extent;
      } else {
        dims_.push_back({extent, stride});
      }
    }
    if (dims_.empty()) dims_.push_back({1, 0});
  }

  // Calls run(offset in the operand, step (0 or 1), position after `begin`, length) for result elements
  // [begin, begin + count).
  template <class F>
  void for_each(int64_t begin, int64_t count, F&& run) const {
    for (int64_t done = 0; done < count;) {
      int64_t rest = begin + done;
      const int64_t inner = rest % dims_[0].extent;
      int64_t offset = inner * dims_[0].stride;
      rest /= dims_[0].extent;
      for (size_t d = 1; d < dims_.size(); ++d) {
        offset += rest % dims_[d].extent * dims_[d].stride;
        rest /= dims_[d].extent;
      }
      const int64_t length = std::min(count - done, dims_[0].extent - inner);
      run(offset, dims_[0].stride, done, length);
      done += length;
    }
  }

 private:
  struct MergedDim {
    int64_t extent, stride;
  };
  std::vector<MergedDim> dims_;
};

// The values of a tensor that broadcasts, one for each element of `extents`.
inline std::vector<double> spread(const Tensor& tensor, const Extents& extents) {
  const std::vector<double> values = tensor.to_doubles();
  const int64_t count = element_count(extents);
  std::vector<double> result(static_cast<size_t>(count));
  BroadcastRuns(tensor.extents(), extents)
      .for_each(0, count, [&](int64_t offset, int64_t step, int64_t at, int64_t length) {
        for (int64_t i = 0; i < length; ++i) {
          result[static_cast<size_t>(at + i)] = values[static_cast<size_t>(offset + i * step)];
        }
      });
  return result;
}

}  // namespace lathe
