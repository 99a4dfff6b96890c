// SPDX-License-Identifier: Apache-2.0
//
// Pointwise programs as device code: the tail of every generated kernel, and layers of their own.
//
// A tail is a lambda `finishV(at, v)` in the kernel: it takes V values that the kernel computed for V
// consecutive elements of the result's storage from `at` on, loads the operands there, runs the program in
// FP32 and stores the result. How an operand lies (contiguous, broadcast, one value per channel) is decided
// when the source is made: the result's storage dims are merged as far as all operands agree, and coordinates
// are taken from `at` only when an operand needs them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/codegen/kernel_source.h"

namespace lathe::cuda {

// Logical dims in storage order (channels-last: the channel dim last), and where each stands: storage dim i
// is logical dim order[i].
std::vector<size_t> storage_order(size_t rank, const Format& format);
Shape storage_shape(const Shape& shape, const Format& format);
// Strides of the logical dims in elements; linear or channels-last.
std::vector<Dim> storage_strides(const Shape& shape, const Format& format);

// A loop nest over dims, outermost first, with the strides of several operands (0: broadcast). Dims of 1 are
// dropped, and neighbours are merged where every operand allows it.
struct Walk {
  std::vector<Dim> extents;
  std::vector<std::vector<Dim>> strides;  // [operand][dim]
};
Walk merge_walk(const std::vector<Dim>& extents, const std::vector<std::vector<Dim>>& strides);

bool divides(int64_t divisor, const Dim& dim);  // for every value of the symbols
// The largest power of two up to `limit` that divides all dims.
int vector_width(int limit, const std::vector<Dim>& dims);
int dtype_size(DType dtype);
// 16 bytes' worth of elements, at most 8.
int full_vector(DType dtype);
// The largest number that the dim can be.
int64_t upper_bound(const Dim& dim, const SymbolRanges& ranges);
// More elements than 32-bit indices can number safely.
bool needs_wide_index(const LayerQuery& query);

class Tail {
 public:
  struct Operand {
    enum class Kind : uint8_t { Value, Input, Literal };
    Kind kind = Kind::Value;
    size_t input = 0;
    TensorType type;
    Shape shape;
    double literal = 0;
    int64_t integer = 0;                // the literal of an integer type
    DType computed = DType::Undefined;  // when steps see another type than the stored one
    DType computed_type() const { return computed == DType::Undefined ? type.dtype : computed; }
  };

  // Types of the epilogue's operands for a result of this type are appended to `inputs`; a refusal says what
  // is in the way.
  static Support list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs);
  // The node's epilogue (or nothing) on the value that the layer computes.
  Tail(const LayerQuery& query, const Tactic& tactic);
  // A program over the node's inputs from input 0 on: a pointwise layer.
  Tail(const LayerQuery& query, const Tactic& tactic, const PointwiseProgram& program);

  // How many consecutive elements finish() can take with whole vector accesses, up to `limit`.
  int vector(int limit) const;
  bool identity() const { return program_.empty(); }
  // Defines finish<V>: `auto finish8 = [&](idx at, float (&v)[8]) {...};`. Result element type of v:
  // compute_type(). Where the result is bytes of a grid, nothing else can store it.
  void emit(KernelBuilder& b, int v) const;
  // What a kernel does to each vector before the program, from operands of its columns: their members, loads
  // from `column` on, and steps on v[j]. Operands of the program that have an element for each of `length`
  // columns, or for each column of each of `matrices`, are loaded with them, from `at` on.
  struct Columns {
    std::string members, loads, steps;
    std::string at;
    Dim length = 0, matrices = 1;
  };
  // Defines `tail`, a LayerTail (pointwise.cuh): fetch(at, column, o) loads the operands, and apply(o, v)
  // leaves the results in v, so that where several vectors are worked on together, all loads are under way
  // before the first is needed. Both halves stand alone, too: fetch_columns(column, c) and apply_columns(c,
  // v), and fetch_place(at, p) and apply_place(c, p, v). For results that are floats, or bytes of a grid.
  void emit_apply(KernelBuilder& b, int v, Columns columns) const;
  const TensorType& result() const { return result_; }

 private:
  struct Access;
  void set_grid(const LayerQuery& query);
  void plan();
  // What emit_loads() gives apart where loads and steps are apart: operands side by side stay as they are
  // stored, and `numbers` makes numbers of them; those of columns are members of `columns`, called c.
  struct Apart {
    Columns& columns;
    std::string numbers;
  };
  // Loads into `owner` + "x1", ..., which `members` declares.
  std::string emit_loads(KernelBuilder& b, int v, const std::string& owner, std::string& members,
                         std::vector<std::string>& names, Apart* apart) const;
  bool is_of_columns(size_t operand, const Columns& columns, int v) const;
  std::string emit_steps(const std::vector<std::string>& names) const;
  // The type of what is stored, when the last step gives `last`: a float that becomes an integer is converted
  // by the store.
  DType kept_type(DType last) const;

  PointwiseProgram program_;
  std::vector<Operand> operands_;  // per program input
  TensorType result_;
  DType number_ = DType::Undefined;  // what is stored as result_: FP32 for bytes of a grid
  std::optional<ByteGrid> grid_;
  bool is_rounded_ = false;  // the values that the layer computes
  Shape shape_;
  Walk walk_;  // strides per operand (empty for Value and Literal)
};

// A program of one operand as a device function on a float.
std::string unary_function(const PointwiseProgram& program, const std::string& name);
// The type in which a tactic wants a pointwise operand: Undefined for constants that are baked into the
// source. Where the result is bytes, operands of grids are, too, and others are of type `number`.
TensorType tail_operand_type(const Value& value, const Shape& result_shape, const TensorType& result,
                             DType number);
// Numbers beside a result of that type: of the type itself, or, where it is bytes of a grid, the first that
// the layer may use.
DType number_beside(const LayerQuery& query, DType result);
// No: an operation or type that no kernel computes.
Support tail_supports(const PointwiseProgram& program, const std::vector<DType>& inputs, DType output);

}  // namespace lathe::cuda
