// SPDX-License-Identifier: Apache-2.0
//
// Operands and results of exact layers as pieces of int64 or double, whatever their types and however they
// broadcast: a piece of the result may hold many short rows.
#pragma once

#include <vector>

#include "backend/cpu/exact/exact_table.h"
#include "ir/dtype.h"
#include "ir/shape.h"

namespace lathe::cpu {

inline constexpr int64_t kExactPiece = 512;

// A piece of an operand or a result: doubles of a float type, else integers.
union ExactSlot {
  double* reals;
  int64_t* integers;
};

// The dims of a result, merged as far as all operands allow, and how each operand lies along them.
struct ExactWalk {
  struct Operand {
    DType type = DType::Undefined;
    Extents strides;                  // per dim, in elements; 0: broadcast
    bool single = false;              // one element for all
    bool dense = false;               // element i of the result meets element i
    ExactTable::Load load = nullptr;  // none for types whose codec is more than a conversion

    // Elements [at, at + n) of its own.
    void load_run(const void* data, int64_t at, int64_t n, ExactSlot out) const;
  };
  Extents extents = {1};
  std::vector<Operand> operands;

  // Elements [begin, begin + n) of the result as they meet operand `i`, which lies at `data`. `index` is
  // scratch for the position in all dims but the last.
  void load(const ExactTable& table, size_t i, const void* data, int64_t begin, int64_t n, Extents& index,
            ExactSlot out) const;
};

// `strides` of each operand: per dim of `extents`.
ExactWalk exact_walk(const ExactTable& table, const Extents& extents, const std::vector<Extents>& strides,
                     const std::vector<DType>& types);

// Stores what was computed in `from` as elements [begin, begin + n) of `to`.
void store_exact(const ExactTable& table, ExactSlot values, DType from, void* data, DType to, int64_t begin,
                 int64_t n, bool saturate);
// What arithmetic in an integer type of less than 64 bits keeps.
void wrap_exact(const ExactTable& table, DType type, int64_t* values, int64_t n);

}  // namespace lathe::cpu
