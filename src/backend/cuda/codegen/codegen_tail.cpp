// SPDX-License-Identifier: Apache-2.0
//
// Device code of pointwise programs; see codegen_tail.h.
#include "backend/cuda/codegen/own_tactic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/operand_dtype.h"
#include "backend/whole_program.h"
#include "base/error.h"
#include "ir/dim_clamps.h"
#include "ops/pointwise.h"

namespace lathe::cuda {
namespace {

// What a step computes with: floats of any width but float64 are FP32.
DType step_type(DType stored) {
  return is_float(stored) && stored != DType::Float64 ? DType::Float32 : stored;
}

std::vector<DType> step_types(const PointwiseProgram& program, std::vector<DType> types) {
  for (DType& t : types) t = step_type(t);
  for (const PointwiseStep& step : program.steps) {
    std::vector<DType> operands;
    for (const int o : step.operands) operands.push_back(types[static_cast<size_t>(o)]);
    types.push_back(pointwise_dtype(step.code, operands));
  }
  return types;
}

// An integer expression wrapped to its type.
std::string wrapped(DType type, const std::string& text) {
  if (type == DType::Int64 || type == DType::UInt64 || type == DType::Bool || is_float(type)) return text;
  return "(long long)(" + std::string(storage_name(type)) + ")(" + text + ")";
}

// An expression of one computing type as one of another.
std::string converted(const std::string& text, std::string_view from, std::string_view to) {
  if (from == to) return text;
  if (to == "float") return "to_float(" + text + ")";
  if (to == "long long") return "to_integer(" + text + ")";
  return "(" + std::string(to) + ")(" + text + ")";
}

// What the operands of a step are made before it: double where one is, float where one is real. A power of
// uint64 has its exponent in 64 bits with a sign, as that of all integers.
std::string_view computing_name(const PointwiseStep& step, const std::vector<DType>& types) {
  bool real = false, wide = false;
  for (const int o : step.operands) {
    real = real || is_float(types[static_cast<size_t>(o)]);
    wide = wide || types[static_cast<size_t>(o)] == DType::Float64;
  }
  if (real) return compute_name(wide ? DType::Float64 : DType::Float32);
  const DType first = types[static_cast<size_t>(step.operands[0])];
  return compute_name(step.code == PointwiseCode::Pow ? DType::Int64 : first);
}

std::string step_text(const PointwiseStep& step, const std::vector<std::string>& names,
                      const std::vector<DType>& types, DType result) {
  const auto operand = [&](size_t i, std::string_view type) {
    const auto o = static_cast<size_t>(step.operands[i]);
    return converted(names[o], compute_name(types[o]), type);
  };
  const std::string_view to = compute_name(result);
  if (step.code == PointwiseCode::Where)
    return "(" + names[static_cast<size_t>(step.operands[0])] + " != 0 ? " + operand(1, to) + " : " +
           operand(2, to) + ")";
  const PointwiseInfo& info = pointwise_info(step.code);
  const std::string_view type = computing_name(step, types);
  std::string text = "pw_" + std::string(info.name) + "(";
  for (size_t i = 0; i < step.operands.size(); ++i) text += (i ? ", " : "") + operand(i, type);
  if (info.parameters > 0) text += ", " + float_literal(step.alpha) + ", " + float_literal(step.beta);
  text += ")";
  return wrapped(result, converted(text, info.gives_bool ? compute_name(DType::Bool) : type, to));
}

}  // namespace

std::string unary_function(const PointwiseProgram& program, const std::string& name) {
  check(program.empty() || program.input_count == 1, "a function of one number has more operands");
  const std::vector<DType> types = step_types(program, {DType::Float32});
  std::vector<std::string> names = {"x"};
  std::string text = "DEV float " + name + "(float x) {\n";
  for (size_t i = 0; i < program.steps.size(); ++i) {
    names.push_back("s" + std::to_string(i));
    text += "const " + std::string(compute_name(types[i + 1])) + " " + names.back() + " = " +
            step_text(program.steps[i], names, types, types[i + 1]) + ";\n";
  }
  return text + "return to_float(" + names.back() + ");\n}\n";
}

std::vector<size_t> storage_order(size_t rank, const Format& format) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rank; ++i)
    if (i != 1 || format.is_linear()) order.push_back(i);
  if (order.size() < rank) order.push_back(1);
  return order;
}

Shape storage_shape(const Shape& shape, const Format& format) {
  Shape out;
  for (const size_t d : storage_order(shape.size(), format)) out.push_back(shape[d]);
  return out;
}

std::vector<Dim> storage_strides(const Shape& shape, const Format& format) {
  const std::vector<size_t> order = storage_order(shape.size(), format);
  std::vector<Dim> strides(shape.size());
  Dim stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    const Dim block = order[i] == 1 && !format.is_linear() ? format.block : 1;
    stride = stride * ceil_div(shape[order[i]], block) * block;
  }
  return strides;
}

Walk merge_walk(const std::vector<Dim>& extents, const std::vector<std::vector<Dim>>& strides) {
  Walk walk;
  walk.strides.resize(strides.size());
  for (size_t d = extents.size(); d-- > 0;) {
    if (extents[d].is_constant(1)) continue;
    bool merge = !walk.extents.empty();
    for (size_t o = 0; o < strides.size() && merge; ++o)
      merge = strides[o].empty() || strides[o][d] == walk.strides[o].back() * walk.extents.back();
    if (merge) {
      walk.extents.back() = walk.extents.back() * extents[d];
      continue;
    }
    walk.extents.push_back(extents[d]);
    for (size_t o = 0; o < strides.size(); ++o)
      walk.strides[o].push_back(strides[o].empty() ? Dim(0) : strides[o][d]);
  }
  std::reverse(walk.extents.begin(), walk.extents.end());
  for (auto& s : walk.strides) std::reverse(s.begin(), s.end());
  return walk;
}

bool divides(int64_t divisor, const Dim& dim) {
  if (dim.is_constant()) return dim.value() % divisor == 0;
  return dim.exact_div(Dim(divisor)).has_value();
}

int vector_width(int limit, const std::vector<Dim>& dims) {
  int v = limit;
  for (const Dim& d : dims)
    while (v > 1 && !divides(v, d)) v /= 2;
  return v;
}

int dtype_size(DType dtype) {
  return static_cast<int>(dtype_bytes(dtype, 1));
}

int full_vector(DType dtype) {
  return std::min(8, 16 / dtype_size(dtype));
}

int64_t upper_bound(const Dim& dim, const SymbolRanges& ranges) {
  // Nothing bounds some sizes that a run finds; sums and products with this one still fit.
  constexpr int64_t kUnbounded = int64_t{1} << 40;
  return dim.is_constant() ? dim.value() : std::min(largest(dim, ranges), kUnbounded);
}

bool needs_wide_index(const LayerQuery& query) {
  const Node& node = query.layer();
  const auto large = [&](ValueId v) {
    return v != kNoValue &&
           upper_bound(element_count(query.graph.value(v).shape), query.ranges) >= (int64_t{1} << 30);
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), large) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), large);
}

DType number_beside(const LayerQuery& query, DType result) {
  return any_byte_grid(query.graph.value(query.layer().outputs[0]), {result, {}})
             ? allowed_types_first(query).front()
             : result;
}

TensorType tail_operand_type(const Value& value, const Shape& result_shape, const TensorType& result,
                             DType number) {
  bool one_element = true;
  for (const Dim& d : value.shape) one_element = one_element && d.is_constant(1);
  if (value.is_constant()) {
    if (one_element) return {};
    return {value.dtype, kLinear};
  }
  TensorType type{operand_dtype(value, result_shape, number), result.format};
  // Bytes go with bytes.
  if (any_byte_grid(value, {result.dtype, {}})) type.dtype = result.dtype;
  if (one_element || value.shape.size() != result_shape.size()) type.format = kLinear;
  return type;
}

Support tail_supports(const PointwiseProgram& program, const std::vector<DType>& inputs, DType output) {
  std::vector<DType> all = inputs;
  all.push_back(output);
  for (const DType t : all)
    if (storage_name(t).empty())
      return Support::no("no kernel for " + std::string(dtype_name(t)) +
                         "; computed are 16 and 32 bit floats, "
                         "8 to 64 bit integers and bool");
  if (program.steps.size() > 64) return Support::no("a program of more than 64 steps");
  return {};
}

Support Tail::list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  std::vector<DType> types = {output.dtype};
  for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i) {
    const Value& value = query.graph.value(node.inputs[i]);
    inputs.push_back(tail_operand_type(value, query.graph.value(node.outputs[0]).shape, output,
                                       number_beside(query, output.dtype)));
    types.push_back(inputs.back().dtype == DType::Undefined ? value.dtype : inputs.back().dtype);
  }
  Support support = tail_supports(node.epilogue, types, output.dtype);
  if (!support.ok && !node.epilogue.empty()) support.reason = "epilogue: " + support.reason;
  return support;
}

namespace {

Tail::Operand input_operand(const LayerQuery& query, const Tactic& tactic, size_t input) {
  const Value& value = query.graph.value(query.layer().inputs[input]);
  Tail::Operand o{.kind = Tail::Operand::Kind::Input,
                  .input = input,
                  .type = tactic.inputs[input],
                  .shape = operand_shape(query.graph, query.layer(), input)};
  const Op& op = query.layer().op;
  // What follows a Cast computes with its result.
  if (const auto* cast = std::get_if<Cast>(&op); cast && input == 0 && !query.layer().epilogue.empty())
    o.computed = cast->to;
  if (is_plain_quantization(query.layer()) && (!is_float(value.dtype) || is_small_float(value.dtype)))
    o.computed = DType::Float32;
  if (any_byte_grid(value, o.type)) o.computed = DType::Float32;
  if (o.type.dtype != DType::Undefined) return o;
  o.kind = Tail::Operand::Kind::Literal;
  o.type.dtype = o.computed == DType::Float32 ? DType::Float32 : value.dtype;
  o.literal = value.constant.to_doubles()[0];
  if (!is_float(value.dtype)) o.integer = value.constant.to_int64s()[0];
  return o;
}

}  // namespace

Tail::Tail(const LayerQuery& query, const Tactic& tactic)
    : program_(query.layer().epilogue),
      result_(tactic.outputs[0]),
      number_(result_.dtype),
      shape_(query.graph.value(query.layer().outputs[0]).shape) {
  set_grid(query);
  Operand value;
  value.type = {step_type(number_), result_.format};
  operands_.push_back(value);
  const Node& node = query.layer();
  for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i)
    operands_.push_back(input_operand(query, tactic, i));
  plan();
}

Tail::Tail(const LayerQuery& query, const Tactic& tactic, const PointwiseProgram& program)
    : program_(program),
      result_(tactic.outputs[0]),
      number_(result_.dtype),
      shape_(query.graph.value(query.layer().outputs[0]).shape) {
  set_grid(query);
  for (size_t i = 0; i < static_cast<size_t>(program.input_count); ++i)
    operands_.push_back(input_operand(query, tactic, i));
  plan();
}

void Tail::set_grid(const LayerQuery& query) {
  grid_ = any_byte_grid(query.graph.value(query.layer().outputs[0]), result_);
  const Op& op = query.layer().op;
  is_rounded_ = std::holds_alternative<Conv>(op) || std::holds_alternative<ConvTranspose>(op) ||
                std::holds_alternative<MatMul>(op) || std::holds_alternative<Attention>(op) ||
                std::holds_alternative<LayerNorm>(op) || std::holds_alternative<Softmax>(op);
  if (grid_) number_ = DType::Float32;
}

void Tail::plan() {
  const std::vector<size_t> order = storage_order(shape_.size(), result_.format);
  std::vector<std::vector<Dim>> strides;
  for (const Operand& o : operands_) {
    strides.emplace_back();
    if (o.kind != Operand::Kind::Input) continue;
    check(o.shape.size() <= shape_.size(), "an operand has more dims than the result");
    const std::vector<Dim> logical = storage_strides(o.shape, o.type.format);
    const size_t missing = shape_.size() - o.shape.size();
    for (const size_t d : order) {
      const bool broadcast = d < missing || o.shape[d - missing].is_constant(1);
      strides.back().push_back(broadcast ? Dim(0) : logical[d - missing]);
    }
  }
  walk_ = merge_walk(storage_shape(shape_, result_.format), strides);
}

int Tail::vector(int limit) const {
  if (walk_.extents.size() <= 1) return limit;  // all contiguous or one value: no coordinates
  return vector_width(limit, {walk_.extents.back()});
}

namespace {

std::string literal_text(const Tail::Operand& o) {
  if (o.type.dtype == DType::Float64) return double_literal(o.literal);
  if (is_float(o.type.dtype)) return float_literal(o.literal);
  if (o.type.dtype == DType::UInt64) return std::to_string(static_cast<uint64_t>(o.integer)) + "ull";
  if (o.integer == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  return "(" + std::to_string(o.integer) + "ll)";
}

}  // namespace

bool Tail::is_of_columns(size_t operand, const Columns& columns, int v) const {
  const std::vector<Dim>&s = walk_.strides[operand], &extents = walk_.extents;
  const size_t dims = extents.size();
  if (dims < 2 || !s.back().is_constant(1) || !(extents.back() == columns.length) ||
      !divides(v, columns.length))
    return false;
  const bool stack = !columns.matrices.is_constant(1) && extents[0] == columns.matrices;
  for (size_t d = 0; d + 1 < dims; ++d)
    if (!s[d].is_constant(0) && !(stack && d == 0 && s[0] == columns.length)) return false;
  // One row for all matrices lies elsewhere than at their columns.
  return columns.matrices.is_constant(1) || (stack && s[0] == columns.length);
}

std::string Tail::emit_loads(KernelBuilder& b, int v, const std::string& owner, std::string& members,
                             std::vector<std::string>& names, Apart* apart) const {
  const size_t dims = walk_.extents.size();
  std::string text, coordinates;
  bool decoded = false;
  const std::string vs = std::to_string(v);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& o = operands_[i];
    const std::string member = "x" + std::to_string(i), x = owner + member,
                      type(compute_name(o.computed_type()));
    if (o.kind == Operand::Kind::Value) {
      names.push_back("v[j]");
      continue;
    }
    if (o.kind == Operand::Kind::Literal) {
      names.push_back(literal_text(o));
      continue;
    }
    const std::string pointer = b.input(o.input, o.type.dtype);
    const std::vector<Dim>& s = walk_.strides[i];
    // Strides that are the result's own need no coordinates.
    bool contiguous = true, single = true, vectors = true;
    Dim stride = 1;
    for (size_t d = dims; d-- > 0;) {
      contiguous = contiguous && s[d] == stride;
      stride = stride * walk_.extents[d];
      single = single && s[d].is_constant(0);
      vectors = vectors && (d + 1 == dims ? s[d].is_constant(1) : divides(v, s[d]));
    }
    if (single) {
      members += type + " " + member + ";\n";
      text += x + " = widen(*" + pointer + ");\n";
      names.push_back(x);
      continue;
    }
    if (apart && is_of_columns(i, apart->columns, v)) {
      apart->columns.members += type + " " + member + "[" + vs + "];\n";
      apart->columns.loads += "load(" + pointer + " + (" + apart->columns.at + "), o." + member + ");\n";
      names.push_back("c." + member + "[j]");
      continue;
    }
    if (contiguous && apart) {
      members += "Raw<" + b.input_type(o.input, o.type.dtype) + ", " + vs + "> " + member + ";\n";
      text += "load_raw(" + pointer + " + at, " + x + ");\n";
      apart->numbers += type + " " + member + "[" + vs + "];\nwiden_raw(" + x + ", " + member + ");\n";
      names.push_back(member + "[j]");
      continue;
    }
    members += type + " " + member + "[" + vs + "];\n";
    names.push_back(x + "[j]");
    if (contiguous) {
      text += "load(" + pointer + " + at, " + x + ");\n";
      continue;
    }
    const auto offset = [&](const std::string& prefix, bool with_inner) {
      std::string sum = "0";
      for (size_t d = 0; d < dims; ++d)
        if (!s[d].is_constant(0) && (with_inner || d + 1 < dims))
          sum += " + " + prefix + std::to_string(d) + " * " + b.number(s[d]);
      return sum;
    };
    const auto decode = [&](const std::string& prefix, const std::string& from) {
      std::string code = "idx " + prefix + "r = " + from + ";\n";
      for (size_t d = dims; d-- > 1;) {
        const std::string e = b.number(walk_.extents[d]);
        code += "const idx " + prefix + std::to_string(d) + " = " + prefix + "r % " + e + "; " + prefix +
                "r /= " + e + ";\n";
      }
      return code + "const idx " + prefix + "0 = " + prefix + "r;\n";
    };
    if (v > 1 && !divides(v, walk_.extents.back())) {  // the vector may cross rows: every element on its own
      text += "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) {\n" + decode("e", "at + j") + x +
              "[j] = widen(" + pointer + "[" + offset("e", true) + "]);\n}\n";
      continue;
    }
    if (!decoded) coordinates = decode("c", "at");
    decoded = true;
    if (s.back().is_constant(0)) {
      text += "{ const " + type + " one = widen(" + pointer + "[" + offset("c", true) +
              "]);\n#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) " + x + "[j] = one; }\n";
    } else if (vectors) {
      text += "load(" + pointer + " + (" + offset("c", true) + "), " + x + ");\n";
    } else {
      text += "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) " + x + "[j] = widen(" + pointer + "[" +
              offset("c", true) + " + j * " + b.number(s.back()) + "]);\n";
    }
  }
  return coordinates + text;
}

namespace {

// Whether step `i` rounds a quotient below 2^22: a clamp in front of it says so.
bool rounds_near(const PointwiseProgram& program, size_t i) {
  const PointwiseStep& step = program.steps[i];
  if (step.code != PointwiseCode::RoundTo) return false;
  const int from = step.operands[0] - program.input_count;
  if (from < 0) return false;
  const PointwiseStep& clip = program.steps[static_cast<size_t>(from)];
  const double most =
      std::max(std::abs(static_cast<double>(clip.alpha)), std::abs(static_cast<double>(clip.beta)));
  return clip.code == PointwiseCode::Clip && most / std::abs(static_cast<double>(step.alpha)) < 1 << 20;
}

// The step that alone reads the result of step `i`, if it is the next one.
bool feeds_only_the_next(const PointwiseProgram& program, size_t i) {
  const int own = program.input_count + static_cast<int>(i);
  int readers = 0;
  for (const PointwiseStep& step : program.steps)
    readers += static_cast<int>(std::count(step.operands.begin(), step.operands.end(), own));
  return readers == 1 && i + 1 < program.steps.size() &&
         program.steps[i + 1].operands == std::vector<int>{own};
}

// Clip[low,high] RoundTo[step] of x in two multiply-adds: x becomes its place between the bounds, which
// saturates for nothing, and that the number of steps from the lower one. NaN becomes the lower bound.
struct Rounding {
  double low = 0, steps = 1, step = 1;

  std::string count(const std::string& x, double offset) const {
    const double width = steps * step;
    return "fmaf(saturate(fmaf(" + x + ", " + float_literal(1 / width) + ", " + float_literal(-low / width) +
           ")), " + float_literal(steps) + ", " + float_literal(12582912 + offset) + ")";
  }
  double low_count() const { return std::nearbyint(low / step); }
  std::string number(const std::string& x) const {
    return "(" + count(x, 0) + " - " + float_literal(12582912 - low_count()) + ") * " + float_literal(step);
  }
};

// Step `i` as one, and the step in front of it.
std::optional<Rounding> rounding_at(const PointwiseProgram& program, size_t i) {
  if (i + 1 >= program.steps.size() || program.steps[i].code != PointwiseCode::Clip ||
      program.steps[i + 1].code != PointwiseCode::RoundTo || !feeds_only_the_next(program, i))
    return std::nullopt;
  const PointwiseStep& clip = program.steps[i];
  Rounding r{.low = clip.alpha, .step = program.steps[i + 1].alpha};
  r.steps = std::nearbyint((static_cast<double>(clip.beta) - r.low) / r.step);
  const auto is_whole = [&](double x) { return std::abs(x - std::nearbyint(x)) < 1e-3; };
  if (r.step <= 0 || r.steps < 1 || r.steps > 255 || !is_whole(r.low / r.step) ||
      !is_whole((static_cast<double>(clip.beta) - r.low) / r.step) || std::abs(r.low / r.step) > 1 << 16)
    return std::nullopt;
  return r;
}

}  // namespace

// Where the layer's results are rounded sums, a step between two bytes is taken in multiply-adds, which do
// not know an exact tie; what is picked or added from a few values meets ties often, and is divided as ONNX
// has it.
std::string Tail::emit_steps(const std::vector<std::string>& operand_names) const {
  std::vector<DType> types;
  for (const Operand& o : operands_) types.push_back(o.computed_type());
  types = step_types(program_, types);
  std::vector<std::string> names = operand_names;
  std::string text;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const PointwiseStep& step = program_.steps[i];
    const std::string x = names[static_cast<size_t>(step.operands[0])], own = "s" + std::to_string(i);
    const DType type = types[operands_.size() + i];
    const auto rounding = grid_ && is_rounded_ ? rounding_at(program_, i) : std::nullopt;
    const auto next = grid_ && is_rounded_ ? rounding_at(program_, i + 1) : std::nullopt;
    if (step.code == PointwiseCode::Relu && next && next->low >= 0 && feeds_only_the_next(program_, i)) {
      names.push_back(x);  // the clamp behind it does that
      continue;
    }
    if (rounding) {
      // Rounded to the grid that it is stored on: the count is what its byte is made of.
      if (i + 2 == program_.steps.size() && !grid_->has_floats() &&
          static_cast<float>(rounding->step) == grid_->scale)
        return text +
               "result[j] = " + rounding->count(x, rounding->low_count() + static_cast<double>(grid_->zero)) +
               ";\n";
      names.push_back("");
      names.push_back(own);
      text += "const float " + own + " = " + rounding->number(x) + ";\n";
      ++i;
      continue;
    }
    // The store rounds and saturates.
    if (step.code == PointwiseCode::RoundToE4M3 && i + 1 == program_.steps.size() && grid_ &&
        grid_->has_floats() && step.alpha == grid_->scale)
      return text + "result[j] = " +
             (is_rounded_ ? number_as_quantum(x, *grid_)
                          : "quotient(" + x + ", " + float_literal(step.alpha) + ")") +
             ";\n";
    names.push_back(own);
    text += "const " + std::string(compute_name(type)) + " " + own + " = " +
            (rounds_near(program_, i) ? "round_near(" + x + ", " + float_literal(step.alpha) + ")"
                                      : step_text(step, names, types, type)) +
            ";\n";
  }
  const DType last = program_.empty() ? types[0] : types.back();
  if (grid_)
    return text + "result[j] = " + number_as_quantum("to_float(" + names.back() + ")", *grid_) + ";\n";
  return text + "result[j] = " + converted(names.back(), compute_name(last), compute_name(kept_type(last))) +
         ";\n";
}

DType Tail::kept_type(DType last) const {
  return is_float(number_) && !is_float(last) ? step_type(number_) : last;
}

void Tail::emit(KernelBuilder& b, int v) const {
  const std::string vs = std::to_string(v), out = b.output(0, result_.dtype);
  const std::string in_type(compute_name(operands_.empty() ? number_ : operands_[0].type.dtype));
  const bool value = !operands_.empty() && operands_[0].kind == Operand::Kind::Value;
  b.line("const auto finish" + vs + " = [&](idx at" +
         (value ? ", const " + in_type + " (&v)[" + vs + "]" : "") + ") {");
  if (program_.empty() && value && !grid_) {
    b.line("store(" + out + " + at, v);\n};");
    return;
  }
  std::vector<DType> types;
  for (const Operand& o : operands_) types.push_back(o.computed_type());
  const DType last = step_types(program_, types).back();
  std::vector<std::string> names;
  std::string declared;
  const std::string loads = emit_loads(b, v, "", declared, names, nullptr);
  b.line(declared + loads);
  b.line(std::string(compute_name(kept_type(last))) + " result[" + vs +
         "];\n#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) {");
  b.line(emit_steps(names) + "}\nstore(" + out + " + at, result);\n};");
}

void Tail::emit_apply(KernelBuilder& b, int v, Columns columns) const {
  const std::string vs = std::to_string(v);
  check(is_float(number_), "apply is for floats");
  std::string members, loads, steps;
  if (!program_.empty() || grid_) {
    std::vector<std::string> names;
    Apart apart{columns, {}};
    loads = emit_loads(b, v, "o.", members, names, &apart);
    steps = apart.numbers + "float result[" + vs + "];\n#pragma unroll\nfor (int j = 0; j < " + vs +
            "; ++j) {\n" + emit_steps(names) + "}\n#pragma unroll\nfor (int j = 0; j < " + vs +
            "; ++j) v[j] = result[j];\n";
  }
  const std::string each = columns.steps.empty() ? ""
                                                 : "#pragma unroll\nfor (int j = 0; j < " + vs +
                                                       "; ++j) {\n" + columns.steps + "}\n";
  b.line("struct Columns {\n" + columns.members +
         "};\nconst auto fetch_columns = [&](idx column, Columns& o) {\n" + columns.loads +
         "};\nconst auto apply_columns = [&](const Columns& o, float (&v)[" + vs + "]) {\n" + each + "};");
  b.line("struct Places {\n" + members + "};\nconst auto fetch_place = [&](idx at, Places& o) {\n" + loads +
         "};\nconst auto apply_place = [&](const Columns& c, const Places& o, float (&v)[" + vs + "]) {\n" +
         steps + "};");
  b.line(
      "const auto tail = tail_of<Columns, Places>(fetch_columns, apply_columns, fetch_place, apply_place);");
}

}  // namespace lathe::cuda
