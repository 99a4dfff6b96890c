// SPDX-License-Identifier: Apache-2.0
//
// The check of a program's layers before they are prepared for shapes that it has not seen: what operators
// say of the extents, that every view lies inside of the memory that it is a view of, and that no operand is
// spread over a result (numpy's broadcasting) where the kernel was not made for that.
//
// A kernel knows at build time which dims are 1 and are spread. Of x[n] + z[m] it takes n and m to be equal;
// with m = 1 it would read z[1], z[2] and so on. Where strides are computed from the extents of the run
// (pointwise layers on the CPU) that works.
#pragma once

#include "backend/program.h"
#include "ops/concrete_shapes.h"

namespace lathe {

// Where a kernel may find out at the run that an operand is spread.
enum class LateSpread { PointwiseLayers, Nowhere };

class ShapeCheck {
 public:
  // The program and the values must outlive this object.
  ShapeCheck(const ProgramSpec& spec, const SymbolValues& symbols, LateSpread late)
      : spec_(spec), symbols_(symbols), late_(late), shapes_(*spec.graph, symbols) {}
  // Layers [first, last) of the program's order. Throws Input. Costs some microseconds a layer, once per
  // shapes.
  void check(size_t first, size_t last);

 private:
  const ProgramSpec& spec_;
  const SymbolValues& symbols_;
  LateSpread late_;
  ConcreteShapes shapes_;
};

// False for a layer whose operands fit each other only at sizes that a run finds, and not at those that stand
// for them when the layer is timed: upper bounds (five of at most eight elements, plus a tensor of five), and
// what is assumed of the dims of a body.
bool fits_at_upper_bounds(const LayerQuery& query);

}  // namespace lathe
