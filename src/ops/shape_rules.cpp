// SPDX-License-Identifier: Apache-2.0
//
// The rules hold for every value of the symbols (which are >= 0), so they keep min and max where a clamp may
// bite: a slice
// [:, :1024] of a symbolic dim has min(dim, 1024) elements. Dim's own normal form drops clamps that cannot
// bite.
#include "ops/shape_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace lathe {
namespace {

// Removes from both lists the dims that occur in both, so that the division for -1 stays exact with symbols.
void cancel_common(Shape& a, Shape& b) {
  for (auto at = a.begin(); at != a.end();) {
    const auto found = std::find(b.begin(), b.end(), *at);
    // A zero must stay: 0/0 says nothing about the rest.
    if (found == b.end() || at->is_constant(0)) {
      ++at;
    } else {
      b.erase(found);
      at = a.erase(at);
    }
  }
}

[[noreturn]] void cannot_reshape(const Shape& input, const Shape& requested, const std::string& reason) {
  throw_input_error("cannot reshape " + to_string(input) + " to " + to_string(requested) + ": " + reason);
}

Dim inferred_dim(const Shape& input, const Shape& known, const Shape& requested) {
  Shape total = input, rest = known;
  cancel_common(total, rest);
  const Dim elements = element_count(total), divisor = element_count(rest);
  if (const auto quotient = divisor.is_constant(0) ? std::nullopt : elements.exact_div(divisor))
    return *quotient;
  if (divisor.is_constant(0)) {
    // ONNX leaves the -1 of an empty tensor open; 0 is what keeps it empty.
    if (elements.is_constant(0)) return 0;
    cannot_reshape(input, requested, "the other dims have no elements");
  }
  if (elements.is_constant() && divisor.is_constant()) {
    cannot_reshape(input, requested,
                   elements.to_string() + " elements do not divide by " + divisor.to_string());
  }
  return floor_div(elements, divisor);
}

int64_t sign_of(int64_t value) {
  return value < 0 ? -1 : 1;
}

}  // namespace

std::string type_text(DType dtype, const Shape& shape) {
  return std::string(dtype_name(dtype)) + to_string(shape);
}

Shape resolve_reshape(const Shape& input, const Shape& requested, bool allow_zero) {
  Shape result = requested, known;
  std::optional<size_t> inferred;
  for (size_t i = 0; i < requested.size(); ++i) {
    if (requested[i].is_constant(-1)) {
      if (inferred) cannot_reshape(input, requested, "only one dim may be -1");
      inferred = i;
      continue;
    }
    if (requested[i].is_constant(0) && !allow_zero) {
      if (i >= input.size()) cannot_reshape(input, requested, "0 copies a dim that the input does not have");
      result[i] = input[i];
    } else if (requested[i].is_constant() && requested[i].value() < 0) {
      cannot_reshape(input, requested, "a dim is negative");
    }
    known.push_back(result[i]);
  }
  if (inferred) {
    if (allow_zero && std::find(known.begin(), known.end(), Dim(0)) != known.end()) {
      cannot_reshape(input, requested, "with allowzero, -1 and 0 exclude each other");
    }
    result[*inferred] = inferred_dim(input, known, requested);
  }
  const Dim before = element_count(input), after = element_count(result);
  if (before.is_constant() && after.is_constant() && before != after) {
    cannot_reshape(input, requested, before.to_string() + " elements do not become " + after.to_string());
  }
  return result;
}

Dim slice_length(const Dim& start, const Dim& end, int64_t step) {
  const Dim span = step > 0 ? end - start : start - end;
  const Dim length = step == 1 || step == -1 ? span : ceil_div(span, Dim(step > 0 ? step : -step));
  return max(length, Dim(0));
}

Dim count_from_front(const Dim& bound, const Dim& dim) {
  if (bound.is_constant()) return bound.value() < 0 ? bound + dim : bound;
  const Dim below_zero = max(Dim(0) - bound, Dim(0));
  return bound +
         dim * min(below_zero, Dim(1));  // Dim drops a max that cannot bite: no term is left for seq + 1
}

SliceBounds clamp_slice(const Dim& start, const Dim& end, int64_t step, const Dim& dim) {
  if (step == 0 || step == INT64_MIN) throw_input_error("the step of a slice is 0 or too large");
  // "To the end" is often a huge number; with a symbolic dim it must not stay as min(dim, 2147483647).
  const auto is_huge = [&](const Dim& bound) {
    return !dim.is_constant() && bound.is_constant() &&
           (bound.value() >= INT32_MAX || bound.value() <= INT32_MIN);
  };
  const auto clamp = [&](const Dim& bound, const Dim& low, const Dim& high) {
    if (is_huge(bound)) return bound.value() < 0 ? low : high;
    return max(min(count_from_front(bound, dim), high), low);
  };
  SliceBounds bounds;
  if (step > 0) {
    bounds.start = clamp(start, 0, dim);
    bounds.end = clamp(end, 0, dim);
  } else {
    // ONNX clamps to [0, dim - 1], where Python would say "nothing" for a start before the first element; an
    // empty dim has nothing in any case, so the upper end wins.
    const Dim last = dim - 1;
    if (start.is_constant(-1) || (is_huge(start) && start.value() > 0)) {
      bounds.start = last;
    } else {
      bounds.start =
          is_huge(start) ? min(Dim(0), last) : min(max(count_from_front(start, dim), Dim(0)), last);
    }
    bounds.end = clamp(end, -1, dim - 1);
  }
  bounds.length = slice_length(bounds.start, bounds.end, step);
  return bounds;
}

Shape split_evenly(const Dim& dim, int64_t parts) {
  if (parts < 1)
    throw_input_error("a split into " + std::to_string(parts) + " parts: there must be at least one");
  if (const auto each = dim.exact_div(Dim(parts))) return Shape(static_cast<size_t>(parts), *each);
  const Dim piece = ceil_div(dim, Dim(parts));
  Shape sizes(static_cast<size_t>(parts), piece);
  Dim last = dim - piece * Dim(parts - 1);
  if (last.is_constant() && last.value() < 0) {
    throw_input_error("a dim of " + dim.to_string() + " cannot be split into " + std::to_string(parts) +
                      " parts of " + piece.to_string());
  }
  sizes.back() = std::move(last);
  return sizes;
}

Shape expand_shape(const Shape& input, const Shape& requested) {
  for (const Dim& dim : requested) {
    if (dim.is_constant() && dim.value() < 0) {
      throw_input_error("cannot expand " + to_string(input) + " to " + to_string(requested) +
                        ": a dim is negative");
    }
  }
  return broadcast(input, requested);
}

Shape data_dependent_shape(const InferContext& context, int64_t rank, const Dim& upper) {
  Shape shape;
  for (int64_t i = 0; i < rank; ++i) {
    shape.push_back(Dim::data_dependent(context.dim_name("dim" + std::to_string(i)), upper));
  }
  return shape;
}

int64_t shape_input_length(const InferContext& context, size_t input) {
  const Value& value = context.input(input);
  if (value.shape.size() != 1 || !value.shape[0].is_constant()) {
    throw_input_error(
        "input " + std::to_string(input) + " ('" + value.name + "') has shape " + to_string(value.shape) +
        "; it must be one-dimensional with a fixed length, because that length is the result's rank");
  }
  constexpr int64_t kMaxRank = 64;
  if (value.shape[0].value() > kMaxRank) {
    throw_input_error("input " + std::to_string(input) + " ('" + value.name +
                      "') asks for a tensor of rank " + value.shape[0].to_string() +
                      "; the largest rank is " + std::to_string(kMaxRank));
  }
  return value.shape[0].value();
}

Shape pads_of_all_dims(const Shape& pads, const std::optional<Ints>& axes, int64_t rank) {
  const int64_t count = axes ? static_cast<int64_t>(axes->size()) : rank;
  if (static_cast<int64_t>(pads.size()) != 2 * count) {
    throw_input_error("pads has " + std::to_string(pads.size()) + " entries, expected " +
                      std::to_string(2 * count) + ": a begin and an end for each of " +
                      std::to_string(count) + " dims");
  }
  Shape all(static_cast<size_t>(2 * rank), Dim(0));
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t axis = axes ? normalize_axis((*axes)[static_cast<size_t>(i)], rank, "Pad's axes") : i;
    if (seen[static_cast<size_t>(axis)])
      throw_input_error("axis " + std::to_string(axis) + " is padded twice");
    seen[static_cast<size_t>(axis)] = true;
    all[static_cast<size_t>(axis)] = pads[static_cast<size_t>(i)];
    all[static_cast<size_t>(axis + rank)] = pads[static_cast<size_t>(i + count)];
  }
  return all;
}

Dim range_length(const Dim& start, const Dim& limit, int64_t delta) {
  if (delta == 0) throw_input_error("the step of a range is 0");
  if (delta == INT64_MIN) throw_input_error("the step of a range is too large");  // it has no negative
  const Dim span = sign_of(delta) > 0 ? limit - start : start - limit;
  return max(ceil_div(span, Dim(delta > 0 ? delta : -delta)), Dim(0));
}

}  // namespace lathe
