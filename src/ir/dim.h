// SPDX-License-Identifier: Apache-2.0
//
// A dimension: a constant, an integer expression over named symbols ("batch", "2*seq + 1"), or a number known
// only at run time with an upper bound (the output of NonZero).
//
// Expressions are kept in a normal form: a sum of products of atoms with integer coefficients, where an atom
// is a symbol or a non-linear operation (floor_div, mod, min, max) of normal forms. Equal normal forms are
// equal dims, so `batch*12*64/64 == batch*12` holds wherever the algebra is exact. Symbols stand for integers
// >= 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

// The range that an optimization profile gives a symbol, and the value it is tuned for.
struct SymbolRange {
  int64_t min = 1, opt = 1, max = 1;
  bool operator==(const SymbolRange&) const = default;
};
using SymbolRanges = std::map<std::string, SymbolRange, std::less<>>;

struct Interval {
  int64_t low = 0, high = 0;
};

class Dim {
 public:
  Dim() = default;  // 0
  Dim(int64_t value) : value_(value) {}
  static Dim symbol(std::string_view name);
  // Known when the producing layer has run; `upper` bounds it. `name` must be unique in the graph.
  static Dim data_dependent(std::string_view name, const Dim& upper);

  bool is_constant() const { return expr_ == nullptr; }
  // Only for constants (internal error otherwise).
  int64_t value() const;
  bool is_constant(int64_t v) const { return is_constant() && value_ == v; }
  // The name when this is exactly one symbol (or data-dependent name).
  std::optional<std::string> as_symbol() const;
  // All symbols that the value depends on; data-dependent names included.
  std::set<std::string> symbols() const;
  // The data-dependent names among them.
  std::set<std::string> data_dependent_names() const;

  // Throws an Input error that names a symbol without a value.
  int64_t evaluate(const SymbolValues& values) const;
  // Bounds over the ranges; a data-dependent atom counts from 0 to its upper bound.
  Interval bounds(const SymbolRanges& ranges) const;
  // This dim with symbols replaced; symbols without an entry stay.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  // The quotient when it is exact for all values of the symbols (used by Reshape's -1 and by views).
  std::optional<Dim> exact_div(const Dim& divisor) const;

  // "batch", "2*seq + 1", "floor_div(h + 1, 2)", "nonzero_3<=8*n"; parse() reads it back. parse throws Input.
  std::string to_string() const;
  static Dim parse(std::string_view text);

  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim ceil_div(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

  struct Expr;  // the normal form, in dim_expr.h

 private:
  friend struct DimAccess;
  int64_t value_ = 0;
  std::shared_ptr<const Expr> expr_;  // null for a constant
};

// Friends declared in the class are found by argument-dependent lookup only; these make them visible by name.
Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

}  // namespace lathe
