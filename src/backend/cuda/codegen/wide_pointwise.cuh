// SPDX-License-Identifier: Apache-2.0
//
// The pointwise operations of pointwise.cuh on float64 and on uint64, as ops/scalar.h has them; behind it in
// kernels that have such operands. What is not here is the same for all integers, or a template.

//# kDoubles
DEV double pw_Identity(double a) { return a; }
DEV double pw_Abs(double a) { return fabs(a); }
DEV double pw_Neg(double a) { return -a; }
DEV double pw_Sign(double a) { return a > 0 ? 1. : a < 0 ? -1. : a == 0 ? 0. : a; }
DEV double pw_Reciprocal(double a) { return 1. / a; }
DEV double pw_Sqrt(double a) { return sqrt(a); }
DEV double pw_Rsqrt(double a) { return 1. / sqrt(a); }
DEV double pw_Square(double a) { return a * a; }
DEV double pw_Exp(double a) { return exp(a); }
DEV double pw_Log(double a) { return log(a); }
DEV double pw_Sin(double a) { return sin(a); }
DEV double pw_Cos(double a) { return cos(a); }
DEV double pw_Tan(double a) { return tan(a); }
DEV double pw_Asin(double a) { return asin(a); }
DEV double pw_Acos(double a) { return acos(a); }
DEV double pw_Atan(double a) { return atan(a); }
DEV double pw_Sinh(double a) { return sinh(a); }
DEV double pw_Cosh(double a) { return cosh(a); }
DEV double pw_Tanh(double a) { return tanh(a); }
DEV double pw_Asinh(double a) { return asinh(a); }
DEV double pw_Acosh(double a) { return acosh(a); }
DEV double pw_Atanh(double a) { return atanh(a); }
DEV double pw_Erf(double a) { return erf(a); }
DEV double pw_Ceil(double a) { return ceil(a); }
DEV double pw_Floor(double a) { return floor(a); }
DEV double pw_Round(double a) { return rint(a); }
DEV long long pw_IsNaN(double a) { return a != a; }
DEV double pw_Relu(double a) { return a < 0 ? 0. : a; }
DEV double pw_Sigmoid(double a) { return 1. / (1. + exp(-a)); }
DEV double pw_Softplus(double a) { return log1p(exp(-fabs(a))) + (a > 0 ? a : 0.); }
DEV double pw_Softsign(double a) { return a / (1. + fabs(a)); }
DEV double pw_HardSwish(double a) {
  const double gate = a / 6. + 0.5;
  return a * (gate < 0 ? 0. : gate > 1 ? 1. : gate);
}
DEV double pw_Mish(double a) { return a * tanh(pw_Softplus(a)); }
DEV double pw_Silu(double a, float alpha, float) { return a * pw_Sigmoid((double)alpha * a); }
DEV double pw_GeluErf(double a) { return 0.5 * a * (1. + erf(a * 0.70710678118654752440)); }
DEV double pw_GeluTanh(double a) {
  return 0.5 * a * (1. + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a)));
}
DEV double pw_LeakyRelu(double a, float alpha, float) { return a < 0 ? (double)alpha * a : a; }
DEV double pw_Elu(double a, float alpha, float) { return a < 0 ? (double)alpha * expm1(a) : a; }
DEV double pw_Celu(double a, float alpha, float) {
  return a < 0 ? (double)alpha * expm1(a / (double)alpha) : a;
}
DEV double pw_Selu(double a, float alpha, float beta) {
  return (double)beta * (a > 0 ? a : (double)alpha * expm1(a));
}
DEV double pw_ThresholdedRelu(double a, float alpha, float) { return a > (double)alpha ? a : 0.; }
DEV double pw_HardSigmoid(double a, float alpha, float beta) {
  const double line = (double)alpha * a + (double)beta;
  return line < 0 ? 0. : line > 1 ? 1. : line;
}
DEV double pw_Clip(double a, float alpha, float beta) {
  const double raised = a < (double)alpha ? (double)alpha : a;
  return raised > (double)beta ? (double)beta : raised;
}
DEV double pw_Shrink(double a, float alpha, float beta) {
  return a < -(double)beta ? a + (double)alpha : a > (double)beta ? a - (double)alpha : a == a ? 0. : a;
}
DEV long long pw_IsInf(double a, float alpha, float beta) {
  return fabs(a) == (double)infinity() && (a < 0 ? alpha != 0 : beta != 0);
}
DEV double pw_Linear(double a, float alpha, float beta) { return (double)alpha * a + (double)beta; }
DEV double pw_RoundTo(double a, float alpha, float) { return rintf((float)a / alpha) * alpha; }
DEV double pw_RoundToE4M3(double a, float alpha, float) { return nearest_e4m3((float)a / alpha) * alpha; }
DEV double pw_Add(double a, double b) { return a + b; }
DEV double pw_Sub(double a, double b) { return a - b; }
DEV double pw_Mul(double a, double b) { return a * b; }
DEV double pw_Div(double a, double b) { return a / b; }
DEV double pw_Pow(double a, double b) { return pow(a, b); }
DEV double pw_Min(double a, double b) { return a < b || a != a ? a : b; }
DEV double pw_Max(double a, double b) { return a > b || a != a ? a : b; }
DEV double pw_FMod(double a, double b) { return fmod(a, b); }
DEV double pw_Mod(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
DEV double pw_PRelu(double a, double b) { return a < 0 ? a * b : a; }

//# kUnsigned
typedef unsigned long long uint64;
DEV uint64 pw_Identity(uint64 a) { return a; }
DEV uint64 pw_Abs(uint64 a) { return a; }
DEV uint64 pw_Neg(uint64 a) { return 0 - a; }
DEV uint64 pw_Sign(uint64 a) { return a != 0; }
DEV uint64 pw_Square(uint64 a) { return a * a; }
DEV uint64 pw_Relu(uint64 a) { return a; }
DEV uint64 pw_BitwiseNot(uint64 a) { return ~a; }
DEV uint64 pw_Clip(uint64 a, float alpha, float beta) {
  if ((double)a > (double)beta) return (uint64)(long long)beta;
  return (double)a < (double)alpha ? (uint64)(long long)alpha : a;
}
DEV uint64 pw_Add(uint64 a, uint64 b) { return a + b; }
DEV uint64 pw_Sub(uint64 a, uint64 b) { return a - b; }
DEV uint64 pw_Mul(uint64 a, uint64 b) { return a * b; }
DEV uint64 pw_Div(uint64 a, uint64 b) { return b == 0 ? 0 : a / b; }
DEV uint64 pw_FMod(uint64 a, uint64 b) { return b == 0 ? 0 : a % b; }
DEV uint64 pw_Mod(uint64 a, uint64 b) { return pw_FMod(a, b); }
DEV uint64 pw_Min(uint64 a, uint64 b) { return b < a ? b : a; }
DEV uint64 pw_Max(uint64 a, uint64 b) { return a < b ? b : a; }
DEV uint64 pw_PRelu(uint64 a, uint64) { return a; }
DEV uint64 pw_BitwiseAnd(uint64 a, uint64 b) { return a & b; }
DEV uint64 pw_BitwiseOr(uint64 a, uint64 b) { return a | b; }
DEV uint64 pw_BitwiseXor(uint64 a, uint64 b) { return a ^ b; }
DEV uint64 pw_ShiftLeft(uint64 a, uint64 b) { return b < 64 ? a << b : 0; }
DEV uint64 pw_ShiftRight(uint64 a, uint64 b) { return b < 64 ? a >> b : 0; }
