// SPDX-License-Identifier: Apache-2.0
//
// The table of pointwise codes and the text form of programs. The table is in the order of the codes (a test
// checks it), so that looking up is indexing.
#include "ir/pointwise.h"

#include <cctype>
#include <charconv>

#include "base/error.h"
#include "ir/op.h"

namespace lathe {
namespace {

using C = PointwiseCode;

constexpr int kMaxInputs = 10000;  // no program comes near it; keeps operand numbers small

std::string float_text(float value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Reads "Add(0,1) Relu(2)"; errors say where.
class ProgramReader {
 public:
  explicit ProgramReader(std::string_view text) : text_(text) {}

  bool at_end() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    return position_ == text_.size();
  }

  PointwiseStep step(int operand_limit) {
    PointwiseStep step;
    const std::string_view name = word();
    const auto code = enum_from_name<PointwiseCode>(name);
    if (!code) fail("unknown pointwise operation \"" + std::string(name) + "\"");
    step.code = *code;
    if (take('[')) {
      step.alpha = number<float>();
      if (take(',')) step.beta = number<float>();
      expect(']');
    }
    expect('(');
    if (!take(')')) {
      do {
        const int operand = number<int>();
        if (operand < 0 || operand >= operand_limit)
          fail("operand " + std::to_string(operand) + " is not defined yet");
        step.operands.push_back(operand);
      } while (take(','));
      expect(')');
    }
    if (static_cast<int>(step.operands.size()) != pointwise_info(step.code).arity) {
      fail(std::string(name) + " takes " + std::to_string(pointwise_info(step.code).arity) +
           " operands, not " + std::to_string(step.operands.size()));
    }
    return step;
  }

 private:
  std::string_view word() {
    const size_t begin = position_;
    while (position_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[position_])))
      ++position_;
    return text_.substr(begin, position_ - begin);
  }
  bool take(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  template <class T>
  T number() {
    at_end();
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected a number");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  [[noreturn]] void fail(const std::string& what) {
    throw_input_error("pointwise program, at character " + std::to_string(position_ + 1) + ": " + what);
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

const std::vector<PointwiseInfo>& all_pointwise() {
  static const std::vector<PointwiseInfo> table = {
      {C::Identity, "Identity", 1, 0, false},
      {C::Abs, "Abs", 1, 0, false},
      {C::Neg, "Neg", 1, 0, false},
      {C::Sign, "Sign", 1, 0, false},
      {C::Reciprocal, "Reciprocal", 1, 0, false},
      {C::Sqrt, "Sqrt", 1, 0, false},
      {C::Rsqrt, "Rsqrt", 1, 0, false},
      {C::Square, "Square", 1, 0, false},
      {C::Exp, "Exp", 1, 0, false},
      {C::Log, "Log", 1, 0, false},
      {C::Sin, "Sin", 1, 0, false},
      {C::Cos, "Cos", 1, 0, false},
      {C::Tan, "Tan", 1, 0, false},
      {C::Asin, "Asin", 1, 0, false},
      {C::Acos, "Acos", 1, 0, false},
      {C::Atan, "Atan", 1, 0, false},
      {C::Sinh, "Sinh", 1, 0, false},
      {C::Cosh, "Cosh", 1, 0, false},
      {C::Tanh, "Tanh", 1, 0, false},
      {C::Asinh, "Asinh", 1, 0, false},
      {C::Acosh, "Acosh", 1, 0, false},
      {C::Atanh, "Atanh", 1, 0, false},
      {C::Erf, "Erf", 1, 0, false},
      {C::Ceil, "Ceil", 1, 0, false},
      {C::Floor, "Floor", 1, 0, false},
      {C::Round, "Round", 1, 0, false},
      {C::Not, "Not", 1, 0, false},
      {C::BitwiseNot, "BitwiseNot", 1, 0, false},
      {C::IsNaN, "IsNaN", 1, 0, true},
      {C::Relu, "Relu", 1, 0, false},
      {C::Sigmoid, "Sigmoid", 1, 0, false},
      {C::Softplus, "Softplus", 1, 0, false},
      {C::Softsign, "Softsign", 1, 0, false},
      {C::HardSwish, "HardSwish", 1, 0, false},
      {C::Mish, "Mish", 1, 0, false},
      {C::Silu, "Silu", 1, 1, false},
      {C::GeluErf, "GeluErf", 1, 0, false},
      {C::GeluTanh, "GeluTanh", 1, 0, false},
      {C::LeakyRelu, "LeakyRelu", 1, 1, false},
      {C::Elu, "Elu", 1, 1, false},
      {C::Celu, "Celu", 1, 1, false},
      {C::Selu, "Selu", 1, 2, false},
      {C::ThresholdedRelu, "ThresholdedRelu", 1, 1, false},
      {C::HardSigmoid, "HardSigmoid", 1, 2, false},
      {C::Clip, "Clip", 1, 2, false},
      {C::Shrink, "Shrink", 1, 2, false},
      {C::IsInf, "IsInf", 1, 2, true},
      {C::Linear, "Linear", 1, 2, false},
      {C::RoundTo, "RoundTo", 1, 1, false},
      {C::RoundToE4M3, "RoundToE4M3", 1, 1, false},
      {C::Add, "Add", 2, 0, false},
      {C::Sub, "Sub", 2, 0, false},
      {C::Mul, "Mul", 2, 0, false},
      {C::Div, "Div", 2, 0, false},
      {C::Pow, "Pow", 2, 0, false},
      {C::Min, "Min", 2, 0, false},
      {C::Max, "Max", 2, 0, false},
      {C::Mod, "Mod", 2, 0, false},
      {C::FMod, "FMod", 2, 0, false},
      {C::PRelu, "PRelu", 2, 0, false},
      {C::And, "And", 2, 0, false},
      {C::Or, "Or", 2, 0, false},
      {C::Xor, "Xor", 2, 0, false},
      {C::BitwiseAnd, "BitwiseAnd", 2, 0, false},
      {C::BitwiseOr, "BitwiseOr", 2, 0, false},
      {C::BitwiseXor, "BitwiseXor", 2, 0, false},
      {C::ShiftLeft, "ShiftLeft", 2, 0, false},
      {C::ShiftRight, "ShiftRight", 2, 0, false},
      {C::Equal, "Equal", 2, 0, true},
      {C::Less, "Less", 2, 0, true},
      {C::LessOrEqual, "LessOrEqual", 2, 0, true},
      {C::Greater, "Greater", 2, 0, true},
      {C::GreaterOrEqual, "GreaterOrEqual", 2, 0, true},
      {C::Where, "Where", 3, 0, false},
  };
  return table;
}

const PointwiseInfo& pointwise_info(PointwiseCode code) {
  const auto index = static_cast<size_t>(code);
  check(index < all_pointwise().size(), "pointwise_info: no such code: " + std::to_string(index));
  return all_pointwise()[index];
}

std::string_view enum_name(PointwiseCode code) {
  return pointwise_info(code).name;
}

std::string PointwiseProgram::to_string() const {
  std::string text;
  for (const PointwiseStep& step : steps) {
    if (!text.empty()) text += ' ';
    text += pointwise_info(step.code).name;
    // Unused parameters are printed when set, so that parse() gives back the very same program.
    const int used = pointwise_info(step.code).parameters;
    if (used == 2 || step.beta != 0) {
      text += "[" + float_text(step.alpha) + "," + float_text(step.beta) + "]";
    } else if (used == 1 || step.alpha != 0) {
      text += "[" + float_text(step.alpha) + "]";
    }
    text += '(';
    for (size_t i = 0; i < step.operands.size(); ++i)
      text += (i ? "," : "") + std::to_string(step.operands[i]);
    text += ')';
  }
  return text;
}

PointwiseProgram PointwiseProgram::parse(std::string_view text, int input_count) {
  if (input_count < 0 || input_count > kMaxInputs) {
    throw_input_error("pointwise program: " + std::to_string(input_count) + " inputs");
  }
  PointwiseProgram program;
  program.input_count = input_count;
  ProgramReader reader(text);
  while (!reader.at_end()) {
    program.steps.push_back(reader.step(input_count + static_cast<int>(program.steps.size())));
  }
  return program;
}

}  // namespace lathe
