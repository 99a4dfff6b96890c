// SPDX-License-Identifier: Apache-2.0
//
// The normal form behind Dim, for those who take it apart: dim.cpp (algebra), dim_text.cpp (text) and what
// writes dims as nodes.
//
// A sum of terms; a term is a coefficient times a sorted product of atoms. Terms are ordered by degree
// (highest first), then by their atoms, so the constant term comes last and equal values have equal forms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/dim.h"

namespace lathe {

struct DimAtom {
  enum class Kind { Symbol, DataDependent, FloorDiv, Mod, Min, Max };
  Kind kind = Kind::Symbol;
  std::string name;  // Symbol, DataDependent
  Dim a, b;          // operands; DataDependent: a is the upper bound
};

struct DimTerm {
  int64_t coefficient = 0;
  std::vector<DimAtom> atoms;
};

struct Dim::Expr {
  std::vector<DimTerm> terms;  // never empty, never just a constant
};

// Access for them: Dim's private parts as values.
struct DimAccess {
  static std::vector<DimTerm> terms(const Dim& dim);
  static Dim make(std::vector<DimTerm> terms);  // sorts, merges equal products, drops zeros
  static Dim make(DimAtom atom);
};

}  // namespace lathe
