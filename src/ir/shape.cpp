// SPDX-License-Identifier: Apache-2.0
#include "ir/shape.h"

#include <algorithm>

#include "base/error.h"
#include "ir/dim_clamps.h"

namespace lathe {
namespace {

// A constant says more than a symbol, and sums of symbols more than what is clamped: tokens[seq] +
// table[min(seq, 512)] is [seq].
int uncertainty(const Dim& dim) {
  if (dim.is_constant()) return 0;
  return is_polynomial(dim) ? 1 : 2;
}

// Both broadcasts in one: `one` and `same` ask about dims, `fail` throws.
template <class S>
S broadcast_dims(const S& a, const S& b) {
  const size_t rank = std::max(a.size(), b.size());
  S result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const bool in_a = i >= rank - a.size(), in_b = i >= rank - b.size();
    if (!in_a || !in_b) {
      result[i] = in_a ? a[i - (rank - a.size())] : b[i - (rank - b.size())];
      continue;
    }
    const Dim da = a[i - (rank - a.size())], db = b[i - (rank - b.size())];
    const auto& keep_a = a[i - (rank - a.size())];
    const auto& keep_b = b[i - (rank - b.size())];
    if (da == db || db.is_constant(1)) {
      result[i] = keep_a;
    } else if (da.is_constant(1)) {
      result[i] = keep_b;
    } else if (da.is_constant() && db.is_constant()) {
      throw_input_error("shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast: " +
                        da.to_string() + " and " + db.to_string() + " differ and neither is 1");
    } else {
      // The one that says more stays, of two that say as much the first. The run checks that they are equal.
      result[i] = uncertainty(db) < uncertainty(da) ? keep_b : keep_a;
    }
  }
  return result;
}

}  // namespace

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}

Extents evaluate(const Shape& shape, const SymbolValues& values) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) extents.push_back(dim.evaluate(values));
  return extents;
}

Extents to_extents(const Shape& shape) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) extents.push_back(dim.value());
  return extents;
}

Shape to_shape(const Extents& extents) {
  return Shape(extents.begin(), extents.end());
}

int64_t element_count(const Extents& extents) {
  int64_t count = 1;
  for (int64_t extent : extents) {
    if (extent < 0) throw_input_error("shape " + to_string(extents) + " has a negative extent");
    if (__builtin_mul_overflow(count, extent, &count)) {
      // 0 elements win over any size, as the product would without overflow.
      if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
      throw_input_error("shape " + to_string(extents) + " has more elements than 64 bits can count");
    }
  }
  return count;
}

Dim element_count(const Shape& shape) {
  Dim count = 1;
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

Extents row_major_strides(const Extents& extents) {
  Extents strides(extents.size(), 1);
  for (size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(extents[i], 1);
  return strides;
}

Shape broadcast(const Shape& a, const Shape& b) {
  return broadcast_dims(a, b);
}
Extents broadcast(const Extents& a, const Extents& b) {
  return broadcast_dims(a, b);
}

int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    throw_input_error(std::string(what) + ": axis " + std::to_string(axis) + " is outside [" +
                      std::to_string(-rank) + ", " + std::to_string(rank - 1) + "] for a tensor of rank " +
                      std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].to_string();
  return text + "]";
}

std::string to_string(const Extents& extents) {
  if (extents.empty()) return "scalar";
  std::string text;
  for (size_t i = 0; i < extents.size(); ++i) text += (i ? "x" : "") + std::to_string(extents[i]);
  return text;
}

}  // namespace lathe
