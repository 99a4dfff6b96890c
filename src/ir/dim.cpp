// SPDX-License-Identifier: Apache-2.0
//
// The algebra of dims. Every operation builds the normal form at once, so comparing is comparing forms. Rules
// for the non-linear atoms (k: a positive constant, d: any divisor, which is taken to be positive):
//   floor_div(d*x + r, d)           = x + floor_div(r, d)
//   floor_div(g*x + c, g*k)         = floor_div(x + floor_div(c, g), k)
//   floor_div(floor_div(x, k) + c, m) = floor_div(x + k*c, k*m)        (a chain of strided layers stays one
//   division) mod(k*x + r, k)                 = mod(r, k) min, max                        : flat, sorted, and
//   without operands that another one bounds for all symbols >= 0
// All are exact over the integers, with floor division rounding down.
#include "ir/dim.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ir/dim_expr.h"

namespace lathe {
namespace {

using Kind = DimAtom::Kind;

// A product of sums grows fast; no real model comes near this.
constexpr size_t kMaxTerms = 1000;
// Factors of one product. Each is compared with the others by all that is inside of it, so the limit is what
// a hostile file can cost.
constexpr size_t kMaxFactors = 64;

[[noreturn]] void throw_overflow() {
  throw_input_error("a dimension does not fit into 64 bits");
}
int64_t add_checked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw_overflow();
  return r;
}
int64_t mul_checked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw_overflow();
  return r;
}
int64_t floor_div_ints(int64_t a, int64_t b) {
  if (b == 0) throw_input_error("a dimension is divided by zero");
  if (b == -1) return mul_checked(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t mod_ints(int64_t a, int64_t b) {
  return b == -1 ? 0 : a - floor_div_ints(a, b) * b;
}

std::strong_ordering compare(const Dim& a, const Dim& b);

std::strong_ordering compare(const DimAtom& a, const DimAtom& b) {
  if (const auto c = a.kind <=> b.kind; c != 0) return c;
  if (const auto c = a.name.compare(b.name); c != 0) return c <=> 0;
  if (const auto c = compare(a.a, b.a); c != 0) return c;
  return compare(a.b, b.b);
}

std::strong_ordering compare_products(const std::vector<DimAtom>& a, const std::vector<DimAtom>& b) {
  if (a.size() != b.size()) return b.size() <=> a.size();  // higher degree first
  for (size_t i = 0; i < a.size(); ++i) {
    if (const auto c = compare(a[i], b[i]); c != 0) return c;
  }
  return std::strong_ordering::equal;
}

std::strong_ordering compare(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.value() <=> b.value();
  if (a.is_constant() != b.is_constant()) return a.is_constant() <=> b.is_constant();  // constants last
  const auto ta = DimAccess::terms(a), tb = DimAccess::terms(b);
  for (size_t i = 0; i < std::min(ta.size(), tb.size()); ++i) {
    if (const auto c = compare_products(ta[i].atoms, tb[i].atoms); c != 0) return c;
    if (const auto c = ta[i].coefficient <=> tb[i].coefficient; c != 0) return c;
  }
  return ta.size() <=> tb.size();
}

bool less(const DimAtom& a, const DimAtom& b) {
  return compare(a, b) < 0;
}

bool never_negative(const Dim& dim);
bool never_negative(const DimAtom& atom) {
  switch (atom.kind) {
    case Kind::Symbol:
    case Kind::DataDependent:
      return true;
    case Kind::FloorDiv:
      return never_negative(atom.a) && never_negative(atom.b);
    case Kind::Mod:
      return never_negative(atom.b);
    case Kind::Min:
      return never_negative(atom.a) && never_negative(atom.b);
    case Kind::Max:
      return never_negative(atom.a) || never_negative(atom.b);
  }
  return false;
}
// Provably >= 0 for all symbols >= 0 (a "no" may just mean that the proof is too hard).
bool never_negative(const Dim& dim) {
  if (dim.is_constant()) return dim.value() >= 0;
  for (const DimTerm& term : DimAccess::terms(dim)) {
    if (term.coefficient < 0) return false;
    if (!std::all_of(term.atoms.begin(), term.atoms.end(),
                     [](const DimAtom& a) { return never_negative(a); })) {
      return false;
    }
  }
  return true;
}

// term / divisor when the divisor's atoms and coefficient go into it.
std::optional<DimTerm> divide_term(const DimTerm& term, const DimTerm& divisor) {
  if (divisor.coefficient == 0 || mod_ints(term.coefficient, divisor.coefficient) != 0) return std::nullopt;
  DimTerm quotient{floor_div_ints(term.coefficient, divisor.coefficient), term.atoms};
  for (const DimAtom& atom : divisor.atoms) {
    const auto found = std::find_if(quotient.atoms.begin(), quotient.atoms.end(),
                                    [&](const DimAtom& a) { return compare(a, atom) == 0; });
    if (found == quotient.atoms.end()) return std::nullopt;
    quotient.atoms.erase(found);
  }
  return quotient;
}

// floor_div(a, k) for a non-constant a whose coefficients are already in [0, k).
Dim floor_div_reduced(const Dim& a, int64_t k) {
  auto terms = DimAccess::terms(a);
  int64_t g = k, constant = 0;
  for (const DimTerm& term : terms) {
    if (term.atoms.empty()) {
      constant = term.coefficient;
    } else {
      g = std::gcd(g, term.coefficient);
    }
  }
  if (g > 1) {
    for (DimTerm& term : terms) term.coefficient = floor_div_ints(term.coefficient, g);
    return floor_div(DimAccess::make(std::move(terms)), Dim(k / g));
  }
  const bool one_atom = terms[0].atoms.size() == 1 && terms[0].coefficient == 1;
  if (one_atom && (terms.size() == 1 || (terms.size() == 2 && terms[1].atoms.empty()))) {
    const DimAtom& inner = terms[0].atoms[0];
    if (inner.kind == Kind::FloorDiv && inner.b.is_constant() && inner.b.value() > 0) {
      return floor_div(inner.a + inner.b * Dim(constant), Dim(mul_checked(k, inner.b.value())));
    }
  }
  return DimAccess::make(DimAtom{Kind::FloorDiv, {}, a, Dim(k)});
}

// All operands of nested atoms of one kind (min or max).
void flatten(const Dim& dim, Kind kind, std::vector<Dim>& out) {
  if (!dim.is_constant()) {
    const auto terms = DimAccess::terms(dim);
    if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1 &&
        terms[0].atoms[0].kind == kind) {
      flatten(terms[0].atoms[0].a, kind, out);
      flatten(terms[0].atoms[0].b, kind, out);
      return;
    }
  }
  out.push_back(dim);
}

Dim min_or_max(const Dim& a, const Dim& b, Kind kind) {
  std::vector<Dim> operands, kept;
  flatten(a, kind, operands);
  flatten(b, kind, operands);
  std::sort(operands.begin(), operands.end(), [](const Dim& x, const Dim& y) { return compare(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  // Drop an operand when another one wins against it whatever the symbols are.
  const auto loses = [&](const Dim& x, const Dim& y) {
    return never_negative(kind == Kind::Min ? x - y : y - x);
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    bool dominated = false;
    for (size_t j = 0; j < operands.size() && !dominated; ++j) {
      // Of two that are provably equal as values but not as forms, the later one goes.
      dominated = i != j && loses(operands[i], operands[j]) && (j < i || !loses(operands[j], operands[i]));
    }
    if (!dominated) kept.push_back(operands[i]);
  }
  Dim result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = DimAccess::make(DimAtom{kind, {}, result, kept[i]});
  return result;
}

int64_t evaluate_atom(const DimAtom& atom, const SymbolValues& values) {
  switch (atom.kind) {
    case Kind::Symbol:
    case Kind::DataDependent: {
      const auto found = values.find(atom.name);
      if (found == values.end()) throw_input_error("no value is known for dimension \"" + atom.name + "\"");
      return found->second;
    }
    case Kind::FloorDiv:
      return floor_div_ints(atom.a.evaluate(values), atom.b.evaluate(values));
    case Kind::Mod:
      return mod_ints(atom.a.evaluate(values), atom.b.evaluate(values));
    case Kind::Min:
      return std::min(atom.a.evaluate(values), atom.b.evaluate(values));
    case Kind::Max:
      return std::max(atom.a.evaluate(values), atom.b.evaluate(values));
  }
  return 0;
}

Interval multiply(const Interval& a, const Interval& b) {
  const int64_t p[] = {mul_checked(a.low, b.low), mul_checked(a.low, b.high), mul_checked(a.high, b.low),
                       mul_checked(a.high, b.high)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

Interval atom_bounds(const DimAtom& atom, const SymbolRanges& ranges) {
  switch (atom.kind) {
    case Kind::Symbol: {
      const auto found = ranges.find(atom.name);
      if (found == ranges.end()) throw_input_error("no range is known for dimension \"" + atom.name + "\"");
      return {found->second.min, found->second.max};
    }
    case Kind::DataDependent:
      return {0, std::max<int64_t>(0, atom.a.bounds(ranges).high)};
    case Kind::FloorDiv: {
      const Interval a = atom.a.bounds(ranges);
      Interval b = atom.b.bounds(ranges);
      b = {std::max<int64_t>(1, b.low), std::max<int64_t>(1, b.high)};  // divisors are positive
      const int64_t q[] = {floor_div_ints(a.low, b.low), floor_div_ints(a.low, b.high),
                           floor_div_ints(a.high, b.low), floor_div_ints(a.high, b.high)};
      return {*std::min_element(q, q + 4), *std::max_element(q, q + 4)};
    }
    case Kind::Mod: {
      const Interval a = atom.a.bounds(ranges), b = atom.b.bounds(ranges);
      if (b.low == b.high && b.low > 0 && floor_div_ints(a.low, b.low) == floor_div_ints(a.high, b.low)) {
        return {mod_ints(a.low, b.low), mod_ints(a.high, b.low)};
      }
      const int64_t high = std::max<int64_t>(0, b.high - 1);
      return {0, a.low >= 0 ? std::min(a.high, high) : high};
    }
    case Kind::Min:
    case Kind::Max: {
      const Interval a = atom.a.bounds(ranges), b = atom.b.bounds(ranges);
      if (atom.kind == Kind::Min) return {std::min(a.low, b.low), std::min(a.high, b.high)};
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
  }
  return {};
}

void collect_names(const Dim& dim, bool data_dependent_only, std::set<std::string>& out) {
  if (dim.is_constant()) return;
  for (const DimTerm& term : DimAccess::terms(dim)) {
    for (const DimAtom& atom : term.atoms) {
      if (atom.kind == Kind::Symbol || atom.kind == Kind::DataDependent) {
        if (!data_dependent_only || atom.kind == Kind::DataDependent) out.insert(atom.name);
      } else {
        collect_names(atom.a, data_dependent_only, out);
        collect_names(atom.b, data_dependent_only, out);
      }
    }
  }
}

Dim substitute_atom(const DimAtom& atom, const std::map<std::string, Dim, std::less<>>& replacements) {
  if (atom.kind == Kind::Symbol || atom.kind == Kind::DataDependent) {
    const auto found = replacements.find(atom.name);
    if (found != replacements.end()) return found->second;
    if (atom.kind == Kind::Symbol) return DimAccess::make(atom);
    return Dim::data_dependent(atom.name, atom.a.substitute(replacements));
  }
  const Dim a = atom.a.substitute(replacements), b = atom.b.substitute(replacements);
  switch (atom.kind) {
    case Kind::FloorDiv:
      return floor_div(a, b);
    case Kind::Mod:
      return mod(a, b);
    case Kind::Min:
      return min(a, b);
    default:
      return max(a, b);
  }
}

}  // namespace

std::vector<DimTerm> DimAccess::terms(const Dim& dim) {
  if (dim.expr_) return dim.expr_->terms;
  if (dim.value_ == 0) return {};
  return {DimTerm{dim.value_, {}}};
}

Dim DimAccess::make(std::vector<DimTerm> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const DimTerm& a, const DimTerm& b) { return compare_products(a.atoms, b.atoms) < 0; });
  std::vector<DimTerm> merged;
  for (DimTerm& term : terms) {
    if (!merged.empty() && compare_products(merged.back().atoms, term.atoms) == 0) {
      merged.back().coefficient = add_checked(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const DimTerm& t) { return t.coefficient == 0; });
  if (merged.empty()) return 0;
  if (merged[0].atoms.empty()) return merged[0].coefficient;
  if (merged.size() > kMaxTerms) throw_input_error("a dimension's expression has too many terms");
  Dim dim;
  dim.expr_ = std::make_shared<const Dim::Expr>(Dim::Expr{std::move(merged)});
  return dim;
}

Dim DimAccess::make(DimAtom atom) {
  return make(std::vector<DimTerm>{DimTerm{1, {std::move(atom)}}});
}

Dim Dim::symbol(std::string_view name) {
  if (name.empty()) throw_input_error("a symbolic dimension needs a name");
  return DimAccess::make(DimAtom{Kind::Symbol, std::string(name), {}, {}});
}

Dim Dim::data_dependent(std::string_view name, const Dim& upper) {
  if (name.empty()) throw_input_error("a data-dependent dimension needs a name");
  return DimAccess::make(DimAtom{Kind::DataDependent, std::string(name), upper, {}});
}

int64_t Dim::value() const {
  check(is_constant(), "Dim::value: not a constant");
  return value_;
}

std::optional<std::string> Dim::as_symbol() const {
  if (is_constant() || expr_->terms.size() != 1) return std::nullopt;
  const DimTerm& term = expr_->terms[0];
  if (term.coefficient != 1 || term.atoms.size() != 1) return std::nullopt;
  const DimAtom& atom = term.atoms[0];
  if (atom.kind != Kind::Symbol && atom.kind != Kind::DataDependent) return std::nullopt;
  return atom.name;
}

std::set<std::string> Dim::symbols() const {
  std::set<std::string> names;
  collect_names(*this, false, names);
  return names;
}

std::set<std::string> Dim::data_dependent_names() const {
  std::set<std::string> names;
  collect_names(*this, true, names);
  return names;
}

int64_t Dim::evaluate(const SymbolValues& values) const {
  if (is_constant()) return value_;
  int64_t sum = 0;
  for (const DimTerm& term : expr_->terms) {
    int64_t product = term.coefficient;
    for (const DimAtom& atom : term.atoms) product = mul_checked(product, evaluate_atom(atom, values));
    sum = add_checked(sum, product);
  }
  return sum;
}

Interval Dim::bounds(const SymbolRanges& ranges) const {
  if (is_constant()) return {value_, value_};
  Interval sum;
  for (const DimTerm& term : expr_->terms) {
    Interval product{term.coefficient, term.coefficient};
    for (const DimAtom& atom : term.atoms) product = multiply(product, atom_bounds(atom, ranges));
    sum = {add_checked(sum.low, product.low), add_checked(sum.high, product.high)};
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  if (is_constant()) return *this;
  Dim sum;
  for (const DimTerm& term : expr_->terms) {
    Dim product = term.coefficient;
    for (const DimAtom& atom : term.atoms) product = product * substitute_atom(atom, replacements);
    sum = sum + product;
  }
  return sum;
}

std::optional<Dim> Dim::exact_div(const Dim& divisor) const {
  if (divisor.is_constant(0)) return std::nullopt;
  // Long division by the leading term. It ends: each step removes the leading term of what is left.
  const auto divisor_terms = DimAccess::terms(divisor);
  Dim rest = *this, quotient;
  for (size_t step = 0; step <= kMaxTerms; ++step) {
    const auto terms = DimAccess::terms(rest);
    if (terms.empty()) return quotient;
    if (divisor_terms.size() == 1) {
      // Every term must divide; one pass instead of one step per term.
      std::vector<DimTerm> quotients;
      for (const DimTerm& term : terms) {
        auto q = divide_term(term, divisor_terms[0]);
        if (!q) return std::nullopt;
        quotients.push_back(std::move(*q));
      }
      return DimAccess::make(std::move(quotients));
    }
    const auto q = divide_term(terms[0], divisor_terms[0]);
    if (!q) return std::nullopt;
    const Dim part = DimAccess::make({*q});
    quotient = quotient + part;
    rest = rest - part * divisor;
  }
  return std::nullopt;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.expr_ == b.expr_) return a.value_ == b.value_;
  return a.expr_ && b.expr_ && compare(a, b) == 0;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add_checked(a.value_, b.value_);
  auto terms = DimAccess::terms(a);
  for (DimTerm& term : DimAccess::terms(b)) terms.push_back(std::move(term));
  return DimAccess::make(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + b * Dim(-1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return mul_checked(a.value_, b.value_);
  const auto ta = DimAccess::terms(a), tb = DimAccess::terms(b);
  if (ta.size() * tb.size() > kMaxTerms) throw_input_error("a dimension's expression has too many terms");
  std::vector<DimTerm> product;
  for (const DimTerm& x : ta) {
    for (const DimTerm& y : tb) {
      DimTerm term{mul_checked(x.coefficient, y.coefficient), x.atoms};
      term.atoms.insert(term.atoms.end(), y.atoms.begin(), y.atoms.end());
      if (term.atoms.size() > kMaxFactors) throw_input_error("a dimension's expression has too many factors");
      std::sort(term.atoms.begin(), term.atoms.end(), less);
      product.push_back(std::move(term));
    }
  }
  return DimAccess::make(std::move(product));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_div_ints(a.value(), b.value());
  if (b.is_constant(0)) throw_input_error("dimension " + a.to_string() + " is divided by zero");
  if (auto exact = a.exact_div(b)) return *exact;
  const auto divisor = DimAccess::terms(b);
  if (divisor.size() != 1 || divisor[0].coefficient < 0)
    return DimAccess::make(DimAtom{Kind::FloorDiv, {}, a, b});
  // Split off what divides; of a constant divisor also the whole part of each coefficient.
  std::vector<DimTerm> whole, rest;
  for (const DimTerm& term : DimAccess::terms(a)) {
    if (auto q = divide_term(term, divisor[0])) {
      whole.push_back(std::move(*q));
    } else if (b.is_constant()) {
      whole.push_back({floor_div_ints(term.coefficient, b.value()), term.atoms});
      rest.push_back({mod_ints(term.coefficient, b.value()), term.atoms});
    } else {
      rest.push_back(term);
    }
  }
  const Dim whole_part = DimAccess::make(std::move(whole)), rest_part = DimAccess::make(std::move(rest));
  if (b.is_constant()) {
    if (rest_part.is_constant()) return whole_part;  // in [0, b)
    return whole_part + floor_div_reduced(rest_part, b.value());
  }
  if (rest_part.is_constant(0)) return whole_part;
  return whole_part + DimAccess::make(DimAtom{Kind::FloorDiv, {}, rest_part, b});
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return floor_div(a + b - Dim(1), b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b.is_constant(0)) throw_input_error("dimension " + a.to_string() + " modulo zero");
  if (a.is_constant() && b.is_constant()) return mod_ints(a.value(), b.value());
  if (a.exact_div(b)) return 0;
  if (!b.is_constant() || b.value() < 0) return DimAccess::make(DimAtom{Kind::Mod, {}, a, b});
  auto terms = DimAccess::terms(a);
  for (DimTerm& term : terms) term.coefficient = mod_ints(term.coefficient, b.value());
  const Dim rest = DimAccess::make(std::move(terms));
  return rest.is_constant() ? rest : DimAccess::make(DimAtom{Kind::Mod, {}, rest, b});
}

Dim min(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.value(), b.value());
  return min_or_max(a, b, Kind::Min);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.value(), b.value());
  return min_or_max(a, b, Kind::Max);
}

}  // namespace lathe
