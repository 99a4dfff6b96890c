// SPDX-License-Identifier: Apache-2.0
//
// Pointwise operations, and the small SSA program that serves as the epilogue of a layer and as a layer of
// its own.
//
// One table of codes is used by the graph's Pointwise node, by programs, by the reference evaluator and by
// the code generators, so an operation is defined once (ops/pointwise.cpp evaluates it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace lathe {

enum class PointwiseCode : uint8_t {
  // unary
  Identity,
  Abs,
  Neg,
  Sign,
  Reciprocal,
  Sqrt,
  Rsqrt,
  Square,
  Exp,
  Log,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Ceil,
  Floor,
  Round /* half to even */,
  Not,
  BitwiseNot,
  IsNaN,
  Relu,
  Sigmoid,
  Softplus,
  Softsign,
  HardSwish,
  Mish,
  Silu /* x * sigmoid(alpha * x) */,
  GeluErf,
  GeluTanh,
  // unary with alpha, beta
  LeakyRelu /*alpha*/,
  Elu /*alpha*/,
  Celu /*alpha*/,
  Selu /*alpha, gamma = beta*/,
  ThresholdedRelu /*alpha*/,
  HardSigmoid /*max(0, min(1, alpha * x + beta))*/,
  Clip /*min(max(x, alpha), beta)*/,
  Shrink /*bias = alpha, lambd = beta*/,
  IsInf /*alpha: detect negative, beta: detect positive*/,
  Linear /*alpha * x + beta*/,
  RoundTo /*alpha * round(x / alpha) in FP32, half to even: what quantisation with that scale keeps*/,
  RoundToE4M3 /*alpha * e4m3(x / alpha) in FP32, half to even, saturated at 448 alpha: the same for FP8*/,
  // binary
  Add,
  Sub,
  Mul,
  Div,
  Pow,
  Min,
  Max,
  Mod /* sign of divisor */,
  FMod /* sign of dividend */,
  PRelu,
  And,
  Or,
  Xor,
  BitwiseAnd,
  BitwiseOr,
  BitwiseXor,
  ShiftLeft,
  ShiftRight,
  Equal,
  Less,
  LessOrEqual,
  Greater,
  GreaterOrEqual,
  // ternary
  Where /* condition, then, else */,
};

struct PointwiseInfo {
  PointwiseCode code;
  std::string_view name;  // in text form and logs: "Relu"
  int arity;
  int parameters;   // how many of alpha, beta are used: 0, 1, 2
  bool gives_bool;  // comparisons, IsNaN, IsInf
};
const PointwiseInfo& pointwise_info(PointwiseCode code);
const std::vector<PointwiseInfo>& all_pointwise();
std::string_view enum_name(PointwiseCode code);

// One step. Operands < input_count are the program's inputs; operand input_count + i is the result of step i.
struct PointwiseStep {
  PointwiseCode code = PointwiseCode::Identity;
  float alpha = 0, beta = 0;
  std::vector<int> operands;
  bool operator==(const PointwiseStep&) const = default;
};

// Inputs broadcast to the result's shape by numpy's rule. Arithmetic is FP32 inside for float types; the
// result is the last step, converted to the output's type. As an epilogue, input 0 is what the layer computed
// and inputs 1.. are the node's trailing inputs.
struct PointwiseProgram {
  int input_count = 0;
  std::vector<PointwiseStep> steps;
  bool operator==(const PointwiseProgram&) const = default;
  bool empty() const { return steps.empty(); }
  // "Add(0,1) Relu(2)": operand numbers as above; parameters as "Clip[0,6](0)".
  std::string to_string() const;
  static PointwiseProgram parse(std::string_view text, int input_count);
};

}  // namespace lathe
