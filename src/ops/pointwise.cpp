// SPDX-License-Identifier: Apache-2.0
//
// Pointwise and PointwiseChain, and the evaluation of programs that epilogues share. A program runs over
// pieces of the result that fit in the cache: operands are read as double (float types) or int64 (integers
// and bool), each step is computed in that domain, and a float32 step is rounded to float32, as it would be
// between two nodes.

#include "ops/pointwise.h"

#include "ir/elements.h"
#include "ops/broadcast.h"
#include "ops/contents.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/scalar.h"

namespace lathe {

namespace {

// --- types

enum class Takes { Any, Number, Float, Integer, Bool };

Takes operand_kind(PointwiseCode code) {
  using C = PointwiseCode;
  switch (code) {
    case C::Identity:
    case C::Equal:
    case C::Where:
      return Takes::Any;
    case C::Abs:
    case C::Neg:
    case C::Sign:
    case C::Square:
    case C::Relu:
    case C::Clip:
    case C::Add:
    case C::Sub:
    case C::Mul:
    case C::Div:
    case C::Pow:
    case C::Min:
    case C::Max:
    case C::Mod:
    case C::FMod:
    case C::PRelu:
    case C::Less:
    case C::LessOrEqual:
    case C::Greater:
    case C::GreaterOrEqual:
      return Takes::Number;
    case C::BitwiseNot:
    case C::BitwiseAnd:
    case C::BitwiseOr:
    case C::BitwiseXor:
    case C::ShiftLeft:
    case C::ShiftRight:
      return Takes::Integer;
    case C::Not:
    case C::And:
    case C::Or:
    case C::Xor:
      return Takes::Bool;
    default:
      return Takes::Float;
  }
}

bool takes(Takes kind, DType dtype) {
  switch (kind) {
    case Takes::Any:
      return true;
    case Takes::Number:
      return is_float(dtype) || is_integer(dtype);
    case Takes::Float:
      return is_float(dtype);
    case Takes::Integer:
      return is_integer(dtype);
    case Takes::Bool:
      return dtype == DType::Bool;
  }
  return false;
}

std::string_view kind_name(Takes kind) {
  switch (kind) {
    case Takes::Any:
      return "any type";
    case Takes::Number:
      return "numbers";
    case Takes::Float:
      return "floating point";
    case Takes::Integer:
      return "integers";
    case Takes::Bool:
      return "bool";
  }
  return "";
}

// --- evaluation of one piece

constexpr int64_t kPointwisePiece = 1024;

// A piece of an operand or of a step's result; `reals` for float types, else `integers`.
struct Slot {
  DType dtype = DType::Undefined;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  explicit Slot(DType type) : dtype(type) {
    if (is_float(type))
      reals.resize(kPointwisePiece);
    else
      integers.resize(kPointwisePiece);
  }
  bool real() const { return !reals.empty(); }
};

const double* as_reals(const Slot& slot, int64_t count, std::vector<double>& scratch) {
  if (slot.real()) return slot.reals.data();
  scratch.resize(kPointwisePiece);
  for (int64_t i = 0; i < count; ++i) {
    scratch[i] = slot.dtype == DType::UInt64 ? static_cast<double>(static_cast<uint64_t>(slot.integers[i]))
                                             : static_cast<double>(slot.integers[i]);
  }
  return scratch.data();
}

// Float operations, and comparisons and Pow with a float among the operands.
void run_real_step(const PointwiseStep& step, const Slot& a_slot, const Slot* b_slot, int64_t count,
                   Slot& result) {
  std::vector<double> a_scratch, b_scratch;
  const double* a = as_reals(a_slot, count, a_scratch);
  const double* b = b_slot ? as_reals(*b_slot, count, b_scratch) : a;
  const double alpha = step.alpha, beta = step.beta;
  if (result.dtype == DType::Bool) {
    for (int64_t i = 0; i < count; ++i) {
      result.integers[i] = is_comparison(step.code) ? pointwise_compare(step.code, a[i], b[i])
                                                    : pointwise_classify(step.code, a[i], alpha, beta);
    }
  } else if (!result.real()) {  // an integer raised to a float power
    for (int64_t i = 0; i < count; ++i) {
      result.integers[i] =
          wrap_integer(truncate_to_int64(pointwise_float(step.code, a[i], b[i], alpha, beta)), result.dtype);
    }
  } else if (result.dtype == DType::Float64) {
    for (int64_t i = 0; i < count; ++i) result.reals[i] = pointwise_float(step.code, a[i], b[i], alpha, beta);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      result.reals[i] = static_cast<float>(pointwise_float(step.code, a[i], b[i], alpha, beta));
    }
  }
}

void run_integer_step(const PointwiseStep& step, const Slot& a, const Slot* b_slot, int64_t count,
                      Slot& result) {
  const Slot& b = b_slot ? *b_slot : a;
  const bool is_uint64 = a.dtype == DType::UInt64;
  for (int64_t i = 0; i < count; ++i) {
    if (is_comparison(step.code)) {
      result.integers[i] = is_uint64
                               ? pointwise_compare<uint64_t>(step.code, static_cast<uint64_t>(a.integers[i]),
                                                             static_cast<uint64_t>(b.integers[i]))
                               : pointwise_compare<int64_t>(step.code, a.integers[i], b.integers[i]);
    } else {
      result.integers[i] = wrap_integer(
          pointwise_integer(step.code, a.integers[i], b.integers[i], is_uint64, step.alpha, step.beta),
          result.dtype);
    }
  }
}

void run_where(const Slot& condition, const Slot& yes, const Slot& no, int64_t count, Slot& result) {
  std::vector<double> yes_scratch, no_scratch;
  if (result.real()) {
    const double* a = as_reals(yes, count, yes_scratch);
    const double* b = as_reals(no, count, no_scratch);
    for (int64_t i = 0; i < count; ++i) result.reals[i] = condition.integers[i] ? a[i] : b[i];
  } else {
    for (int64_t i = 0; i < count; ++i) {
      result.integers[i] = condition.integers[i] ? yes.integers[i] : no.integers[i];
    }
  }
}

void run_step(const PointwiseStep& step, std::vector<Slot>& slots, int64_t count, Slot& result) {
  const auto operand = [&](size_t i) -> const Slot& { return slots[static_cast<size_t>(step.operands[i])]; };
  if (step.code == PointwiseCode::Where) return run_where(operand(0), operand(1), operand(2), count, result);
  const Slot* second = step.operands.size() > 1 ? &operand(1) : nullptr;
  if (operand(0).real() || (second && second->real())) {
    run_real_step(step, operand(0), second, count, result);
  } else {
    run_integer_step(step, operand(0), second, count, result);
  }
}

void load_piece(const Tensor& tensor, const BroadcastRuns& runs, int64_t begin, int64_t count, Slot& slot) {
  runs.for_each(begin, count, [&](int64_t offset, int64_t step, int64_t at, int64_t length) {
    const int64_t read = step == 0 ? 1 : length;
    if (slot.real()) {
      load_doubles(tensor, offset, read, &slot.reals[at]);
      if (step == 0) std::fill_n(&slot.reals[at], length, double(slot.reals[at]));
    } else {
      load_int64s(tensor, offset, read, &slot.integers[at]);
      if (step == 0) std::fill_n(&slot.integers[at], length, int64_t(slot.integers[at]));
    }
  });
}

void check_operands(const PointwiseStep& step, size_t available) {
  check(static_cast<int>(step.operands.size()) == pointwise_info(step.code).arity,
        "a pointwise step has the wrong number of operands");
  for (int operand : step.operands) {
    check(operand >= 0 && static_cast<size_t>(operand) < available, "a pointwise step reads a later result");
  }
}

std::vector<DType> step_dtypes(const PointwiseProgram& program, std::span<const DType> inputs) {
  check(static_cast<int>(inputs.size()) == program.input_count || program.empty(),
        "a pointwise program has another number of inputs");
  std::vector<DType> types(inputs.begin(), inputs.end());
  for (const PointwiseStep& step : program.steps) {
    check_operands(step, types.size());
    std::vector<DType> operands;
    for (int operand : step.operands) operands.push_back(types[static_cast<size_t>(operand)]);
    types.push_back(pointwise_dtype(step.code, operands));
  }
  return types;
}

// --- the operators

// Elements of the result as dims, when those of all operands are known.
std::optional<Shape> infer_contents(PointwiseCode code, const InferContext& context, const Shape& shape) {
  if (!is_static(shape)) return std::nullopt;
  const int64_t count = element_count(to_extents(shape));
  std::vector<Shape> operands;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    std::optional<Shape> contents = context.contents(i);
    if (!contents) return std::nullopt;
    const int64_t size = static_cast<int64_t>(contents->size());
    if (size != 1 && (size != count || context.rank(i) > 1)) return std::nullopt;
    operands.push_back(std::move(*contents));
  }
  Shape result;
  for (int64_t element = 0; element < count; ++element) {
    std::vector<Dim> dims;
    for (const Shape& operand : operands) {
      dims.push_back(operand[operand.size() == 1 ? 0 : static_cast<size_t>(element)]);
    }
    std::optional<Dim> dim = pointwise_dim(code, dims);
    if (!dim) return std::nullopt;
    result.push_back(*dim);
  }
  return result;
}

Shape broadcast_inputs(const InferContext& context) {
  Shape shape;
  for (size_t i = 0; i < context.inputs.size(); ++i) shape = broadcast(shape, context.input(i).shape);
  return shape;
}

std::vector<DType> input_dtypes(const InferContext& context) {
  std::vector<DType> types;
  for (size_t i = 0; i < context.inputs.size(); ++i) types.push_back(context.input(i).dtype);
  return types;
}

std::vector<ResultInfo> infer_pointwise(const Pointwise& op, const InferContext& context) {
  const PointwiseInfo& info = pointwise_info(op.code);
  if (static_cast<int>(context.inputs.size()) != info.arity) {
    throw_input_error("takes " + std::to_string(info.arity) + " inputs, has " +
                      std::to_string(context.inputs.size()));
  }
  ResultInfo result{pointwise_dtype(op.code, input_dtypes(context)), broadcast_inputs(context)};
  if (!is_float(result.dtype)) result.contents = infer_contents(op.code, context, result.shape);
  return {result};
}

std::vector<Tensor> evaluate_pointwise(const Pointwise& op, const EvaluateContext& context) {
  PointwiseStep step{op.code, op.alpha, op.beta, {}};
  std::vector<DType> types;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    step.operands.push_back(static_cast<int>(i));
    types.push_back(context.input(i).dtype());
  }
  const PointwiseProgram program{static_cast<int>(types.size()), {step}};
  return {evaluate_program(program, context.inputs, pointwise_dtype(op.code, types), context)};
}

std::vector<ResultInfo> infer_chain(const PointwiseChain& op, const InferContext& context) {
  if (static_cast<int>(context.inputs.size()) != op.program.input_count) {
    throw_input_error("the program takes " + std::to_string(op.program.input_count) +
                      " inputs, the node has " + std::to_string(context.inputs.size()));
  }
  return {{program_dtype(op.program, input_dtypes(context)), broadcast_inputs(context)}};
}

std::vector<Tensor> evaluate_chain(const PointwiseChain& op, const EvaluateContext& context) {
  std::vector<DType> types;
  for (const Tensor& input : context.inputs) types.push_back(input.dtype());
  return {evaluate_program(op.program, context.inputs, program_dtype(op.program, types), context)};
}

double chain_flops(const Op& op, const CostContext& context) {
  return static_cast<double>(element_count(context.outputs[0])) *
         static_cast<double>(std::get<PointwiseChain>(op).program.steps.size());
}

}  // namespace

DType pointwise_dtype(PointwiseCode code, std::span<const DType> operands) {
  const PointwiseInfo& info = pointwise_info(code);
  check(static_cast<int>(operands.size()) == info.arity, "wrong number of pointwise operands");
  const bool is_where = code == PointwiseCode::Where;
  if (is_where && operands[0] != DType::Bool) {
    throw_input_error("Where needs a bool condition, not " + std::string(dtype_name(operands[0])));
  }
  const std::span<const DType> same = is_where ? operands.subspan(1) : operands;
  for (DType dtype : same) {
    if (!takes(operand_kind(code), dtype)) {
      throw_input_error(std::string(info.name) + " takes " + std::string(kind_name(operand_kind(code))) +
                        ", not " + std::string(dtype_name(dtype)));
    }
    // Float types may meet (the tuner stores layers in different ones); Pow's exponent may have any type.
    const bool both_float = is_float(dtype) && is_float(same[0]);
    if (dtype != same[0] && !both_float && code != PointwiseCode::Pow) {
      throw_input_error(std::string(info.name) + " needs operands of one type, has " +
                        std::string(dtype_name(same[0])) + " and " + std::string(dtype_name(dtype)) +
                        "; insert a Cast");
    }
  }
  return info.gives_bool ? DType::Bool : same[0];
}

DType program_dtype(const PointwiseProgram& program, std::span<const DType> inputs) {
  const std::vector<DType> types = step_dtypes(program, inputs);
  return program.empty() ? types.at(0) : types.back();
}

Tensor evaluate_program(const PointwiseProgram& program, std::span<const Tensor> inputs, DType output_dtype,
                        const EvaluateContext& context) {
  if (program.empty()) inputs = inputs.first(1);
  std::vector<DType> types;
  Extents extents;
  for (const Tensor& input : inputs) {
    check(static_cast<bool>(input), "a pointwise program has an absent operand");
    types.push_back(input.dtype());
    extents = broadcast(extents, input.extents());
  }
  types = step_dtypes(program, types);
  std::vector<BroadcastRuns> runs;
  for (const Tensor& input : inputs) runs.emplace_back(input.extents(), extents);

  Tensor result = allocate_result(output_dtype, extents);
  const ElementWriter writer(result);
  const int64_t total = result.size();
  const int64_t pieces = (total + kPointwisePiece - 1) / kPointwisePiece;
  context.parallel_for(pieces, 16, [&](int64_t first, int64_t last) {
    std::vector<Slot> slots;
    for (DType type : types) slots.emplace_back(type);
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kPointwisePiece, count = std::min(kPointwisePiece, total - begin);
      for (size_t i = 0; i < inputs.size(); ++i) load_piece(inputs[i], runs[i], begin, count, slots[i]);
      for (size_t i = 0; i < program.steps.size(); ++i) {
        run_step(program.steps[i], slots, count, slots[inputs.size() + i]);
      }
      const Slot& last_slot = slots.back();
      if (last_slot.real()) {
        writer.store_doubles(begin, count, last_slot.reals.data());
      } else {
        writer.store_int64s(begin, count, last_slot.integers.data(), last_slot.dtype == DType::UInt64);
      }
    }
  });
  return result;
}

std::vector<OpDef> pointwise_ops() {
  return {op_def<Pointwise, infer_pointwise, evaluate_pointwise>(),
          op_def<PointwiseChain, infer_chain, evaluate_chain>(chain_flops)};
}

}  // namespace lathe
