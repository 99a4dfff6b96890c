// SPDX-License-Identifier: Apache-2.0
//
// An operand of min never wins when the difference to the other one is never negative inside the ranges. The
// bounds of a difference are computed on its normal form, where common terms have cancelled: seq + 1 - seq is
// 1 whatever seq is.
#include "ir/dim_clamps.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/dim_expr.h"

namespace lathe {
namespace {

using Kind = DimAtom::Kind;

bool never_negative(const Dim& dim, const SymbolRanges& ranges) {
  const auto bounds = find_bounds(dim, ranges);
  return bounds && bounds->low >= 0;
}

Dim clamp(Kind kind, const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  const bool a_is_larger = never_negative(a - b, ranges), b_is_larger = never_negative(b - a, ranges);
  if (kind == Kind::Min) return b_is_larger ? a : a_is_larger ? b : min(a, b);
  return a_is_larger ? a : b_is_larger ? b : max(a, b);
}

Dim simplified(const DimAtom& atom, const SymbolRanges& ranges) {
  if (atom.kind == Kind::Symbol) return DimAccess::make(atom);
  const Dim a = without_idle_clamps(atom.a, ranges);
  if (atom.kind == Kind::DataDependent) return Dim::data_dependent(atom.name, a);
  const Dim b = without_idle_clamps(atom.b, ranges);
  if (atom.kind == Kind::FloorDiv) return floor_div(a, b);
  if (atom.kind == Kind::Mod) return mod(a, b);
  return clamp(atom.kind, a, b, ranges);
}

void collect_uppers(const Dim& dim, std::map<std::string, Dim, std::less<>>& uppers) {
  if (dim.is_constant()) return;
  for (const DimTerm& term : DimAccess::terms(dim))
    for (const DimAtom& atom : term.atoms) {
      if (atom.kind == Kind::DataDependent) uppers.emplace(atom.name, atom.a);
      if (atom.kind == Kind::DataDependent || atom.kind == Kind::Symbol) continue;
      collect_uppers(atom.a, uppers);
      collect_uppers(atom.b, uppers);
    }
}

}  // namespace

int64_t largest(const Dim& dim, const SymbolRanges& ranges) {
  const auto bounds = find_bounds(dim, ranges);
  return bounds ? bounds->high : std::numeric_limits<int64_t>::max();
}

std::map<std::string, Dim, std::less<>> data_dependent_uppers(const Dim& dim) {
  std::map<std::string, Dim, std::less<>> uppers;
  collect_uppers(dim, uppers);
  return uppers;
}

std::optional<Interval> find_bounds(const Dim& dim, const SymbolRanges& ranges) {
  for (const std::string& name : dim.symbols())
    if (!ranges.contains(name) && !dim.data_dependent_names().contains(name)) return std::nullopt;
  try {
    return dim.bounds(ranges);
  } catch (const Error&) {  // the only one left: too large for 64 bits
    return std::nullopt;
  }
}

Dim without_idle_clamps(const Dim& dim, const SymbolRanges& ranges) {
  if (is_polynomial(dim)) return dim;
  Dim sum;
  for (const DimTerm& term : DimAccess::terms(dim)) {
    Dim product = term.coefficient;
    for (const DimAtom& atom : term.atoms) product = product * simplified(atom, ranges);
    sum = sum + product;
  }
  return sum;
}

bool is_polynomial(const Dim& dim) {
  const auto terms = DimAccess::terms(dim);
  return std::all_of(terms.begin(), terms.end(), [](const DimTerm& term) {
    return std::all_of(term.atoms.begin(), term.atoms.end(),
                       [](const DimAtom& atom) { return atom.kind == Kind::Symbol; });
  });
}

}  // namespace lathe
