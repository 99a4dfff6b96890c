// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/pointwise_loops.h"

#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

using Code = PointwiseCode;

const PointwiseTable& pointwise_table(Isa isa) {
  return isa == Isa::Avx2 ? pointwise_table_avx2() : pointwise_table_avx512();
}

bool is_bitwise(Code code) {
  return code == Code::BitwiseNot || code == Code::BitwiseAnd || code == Code::BitwiseOr ||
         code == Code::BitwiseXor || code == Code::ShiftLeft || code == Code::ShiftRight;
}

UnaryLoop unary_loop(const PointwiseTable& t, Code code) {
  switch (code) {
    case Code::Identity:
      return t.copy;
    case Code::Abs:
      return t.abs;
    case Code::Neg:
      return t.neg;
    case Code::Sign:
      return t.sign;
    case Code::Reciprocal:
      return t.reciprocal;
    case Code::Sqrt:
      return t.sqrt;
    case Code::Rsqrt:
      return t.rsqrt;
    case Code::Square:
      return t.square;
    case Code::Exp:
      return t.exp;
    case Code::Log:
      return t.log;
    case Code::Sin:
      return t.sin;
    case Code::Cos:
      return t.cos;
    case Code::Tan:
      return t.tan;
    case Code::Asin:
      return t.asin;
    case Code::Acos:
      return t.acos;
    case Code::Atan:
      return t.atan;
    case Code::Sinh:
      return t.sinh;
    case Code::Cosh:
      return t.cosh;
    case Code::Tanh:
      return t.tanh;
    case Code::Asinh:
      return t.asinh;
    case Code::Acosh:
      return t.acosh;
    case Code::Atanh:
      return t.atanh;
    case Code::Erf:
      return t.erf;
    case Code::Ceil:
      return t.ceil;
    case Code::Floor:
      return t.floor;
    case Code::Round:
      return t.round;
    case Code::Not:
      return t.logical_not;
    case Code::IsNaN:
      return t.is_nan;
    case Code::Relu:
      return t.relu;
    case Code::Sigmoid:
      return t.sigmoid;
    case Code::Softplus:
      return t.softplus;
    case Code::Softsign:
      return t.softsign;
    case Code::HardSwish:
      return t.hard_swish;
    case Code::Mish:
      return t.mish;
    case Code::Silu:
      return t.silu;
    case Code::GeluErf:
      return t.gelu_erf;
    case Code::GeluTanh:
      return t.gelu_tanh;
    case Code::LeakyRelu:
      return t.leaky_relu;
    case Code::Elu:
      return t.elu;
    case Code::Celu:
      return t.celu;
    case Code::Selu:
      return t.selu;
    case Code::ThresholdedRelu:
      return t.thresholded_relu;
    case Code::HardSigmoid:
      return t.hard_sigmoid;
    case Code::Clip:
      return t.clip;
    case Code::Shrink:
      return t.shrink;
    case Code::IsInf:
      return t.is_inf;
    case Code::Linear:
      return t.linear;
    case Code::RoundTo:
      return t.round_to;
    case Code::RoundToE4M3:
      return t.round_to_e4m3;
    default:
      return nullptr;
  }
}

BinaryLoops binary_loops(const PointwiseTable& t, Code code) {
  switch (code) {
    case Code::Add:
      return t.add;
    case Code::Sub:
      return t.sub;
    case Code::Mul:
      return t.mul;
    case Code::Div:
      return t.div;
    case Code::Pow:
      return t.pow;
    case Code::Min:
      return t.min;
    case Code::Max:
      return t.max;
    case Code::Mod:
      return t.mod;
    case Code::FMod:
      return t.fmod;
    case Code::PRelu:
      return t.prelu;
    case Code::And:
      return t.logical_and;
    case Code::Or:
      return t.logical_or;
    case Code::Xor:
      return t.logical_xor;
    case Code::Equal:
      return t.equal;
    case Code::Less:
      return t.less;
    case Code::LessOrEqual:
      return t.less_or_equal;
    case Code::Greater:
      return t.greater;
    case Code::GreaterOrEqual:
      return t.greater_or_equal;
    default:
      return {};
  }
}

}  // namespace lathe::cpu
