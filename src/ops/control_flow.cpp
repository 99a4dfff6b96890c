// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan. A dim of a carried value that changes from one iteration to the next is a symbol of its
// own in the body; outside it is known when the loop has run, with a bound where the growth of an iteration
// and the number of iterations say one.
#include "ops/control_flow.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "ops/interpreter.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// --- inference

const Value& body_input(const Graph& body, size_t i) {
  return body.value(body.inputs()[i]);
}
const Value& body_output(const Graph& body, size_t i) {
  return body.value(body.outputs()[i]);
}

// A dim that the body names itself, because it differs between iterations.
bool is_own(const Dim& expected, const Dim& given) {
  return expected.as_symbol().has_value() && !(expected == given);
}

void check_taken(const Value& expected, DType dtype, const Shape& given, const std::string& what) {
  bool fits = expected.dtype == dtype && expected.shape.size() == given.size();
  for (size_t d = 0; fits && d < given.size(); ++d)
    fits = expected.shape[d] == given[d] || is_own(expected.shape[d], given[d]);
  if (!fits)
    throw_input_error(what + " is " + type_text(dtype, given) + ", but the body takes " +
                      type_text(expected.dtype, expected.shape) + " as '" + expected.name + "'");
}

void check_counts(const Graph& body, size_t inputs, size_t outputs, std::string_view what) {
  if (body.inputs().size() != inputs || body.outputs().size() < outputs)
    throw_input_error(std::string(what) + " takes " + std::to_string(body.inputs().size()) +
                      " values and gives " + std::to_string(body.outputs().size()) + "; " +
                      std::to_string(inputs) + " and at least " + std::to_string(outputs) + " were expected");
}

void check_captured(const Graph& body, const InferContext& context, const Captured& captured) {
  for (size_t i = captured.first_operand; i < context.inputs.size(); ++i) {
    const Value& given = context.input(i);
    check_taken(body_input(body, captured.first_input + i - captured.first_operand), given.dtype, given.shape,
                "captured value '" + given.name + "'");
  }
}

void require_single(const InferContext& context, size_t i, DType dtype, std::string_view what) {
  const Value& value = context.input(i);
  const Dim count = element_count(value.shape);
  if (value.dtype != dtype || (count.is_constant() && count.value() != 1))
    throw_input_error(std::string(what) + " is " + type_text(value.dtype, value.shape) + "; it must be one " +
                      std::string(dtype_name(dtype)));
}

// The dim of a result that is known when the node has run.
Dim found_by_run(const InferContext& context, size_t output, size_t dim, const Dim& upper) {
  const std::string name = "output" + std::to_string(output) + ".dim" + std::to_string(dim);
  return Dim::data_dependent(context.dim_name(name), upper);
}

Dim upper_of(const Dim& dim) {
  return dim.data_dependent_names().empty() ? dim : Dim(kUnboundedUpper);
}

Dim joined(const Dim& a, const Dim& b, const InferContext& context, size_t output, size_t d) {
  if (a == b && a.data_dependent_names().empty()) return a;
  return found_by_run(context, output, d, max(upper_of(a), upper_of(b)));
}

std::vector<ResultInfo> infer_if(const If& op, const InferContext& context) {
  require_single(context, 0, DType::Bool, "the condition");
  const Graph &then_body = op.then_branch.graph(), &else_body = op.else_branch.graph();
  std::vector<ResultInfo> results;
  for (const Graph* body : {&then_body, &else_body}) {
    check_counts(*body, context.inputs.size() - 1, context.output_count, "a branch");
    check_captured(*body, context, captured_by(op));
  }
  if (then_body.outputs().size() != else_body.outputs().size())
    throw_input_error("the branches give " + std::to_string(then_body.outputs().size()) + " and " +
                      std::to_string(else_body.outputs().size()) + " values");
  for (size_t i = 0; i < then_body.outputs().size(); ++i) {
    const Value &a = body_output(then_body, i), &b = body_output(else_body, i);
    if (a.dtype != b.dtype || a.shape.size() != b.shape.size())
      throw_input_error("output " + std::to_string(i) + " is " + type_text(a.dtype, a.shape) +
                        " in one branch and " + type_text(b.dtype, b.shape) +
                        " in the other; element type and rank must be the same");
    ResultInfo result{a.dtype, {}};
    for (size_t d = 0; d < a.shape.size(); ++d)
      result.shape.push_back(joined(a.shape[d], b.shape[d], context, i, d));
    results.push_back(std::move(result));
  }
  return results;
}

// The symbols that a body names itself: those of its inputs that no operand has.
std::set<std::string> own_symbols(const Graph& body, const InferContext& context) {
  std::set<std::string> own;
  for (const ValueId input : body.inputs())
    for (const Dim& dim : body.value(input).shape)
      if (const auto name = dim.as_symbol()) own.insert(*name);
  for (const Value* value : context.inputs) {
    if (value == nullptr) continue;
    for (const Dim& dim : value->shape)
      for (const std::string& name : dim.symbols()) own.erase(name);
  }
  return own;
}

// Whether the dim has a value before the body runs.
bool is_known_outside(const Dim& dim, const std::set<std::string>& own) {
  const std::set<std::string> names = dim.symbols();
  return dim.data_dependent_names().empty() &&
         std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return own.contains(name); });
}

struct CarriedDim {
  Dim before, taken, given;  // before the loop, and before and after an iteration
};

// The same dim after the loop.
Dim carried_dim(const CarriedDim& dim, const std::optional<Dim>& trips, const std::set<std::string>& own,
                const std::function<Dim(const Dim&)>& found_below) {
  if (!is_own(dim.taken, dim.before)) {
    if (!(dim.given == dim.taken))
      throw_input_error("a dim of a carried value is " + dim.taken.to_string() + " before an iteration and " +
                        dim.given.to_string() + " after it");
    return dim.before;
  }
  const Dim growth = dim.given - dim.taken;
  if (is_known_outside(growth, own)) {
    if (growth.is_constant() && growth.value() <= 0) return found_below(dim.before);
    if (trips) return found_below(dim.before + max(*trips, Dim(0)) * max(growth, Dim(0)));
  }
  if (is_known_outside(dim.given, own)) return found_below(max(dim.before, dim.given));
  return found_below(Dim(kUnboundedUpper));
}

bool is_true_constant(const Value& value) {
  return value.is_constant() && value.constant.has_bytes() && value.constant.size() == 1 &&
         value.constant.to_int64s()[0] != 0;
}

// The axis of a scanned output: as many as there were iterations.
Dim iterations(const InferContext& context, size_t output, const std::optional<Dim>& trips, bool by_count) {
  if (trips && by_count) return max(*trips, Dim(0));
  return found_by_run(context, output, 0, trips ? upper_of(max(*trips, Dim(0))) : Dim(kUnboundedUpper));
}

// The dims of a scanned slice outside of the body: those that it names itself or finds are known when the
// loop has run.
Shape scanned_shape(const InferContext& context, size_t output, const Graph& body, const Shape& slice) {
  const std::set<std::string> own = own_symbols(body, context);
  Shape shape;
  for (size_t d = 0; d < slice.size(); ++d)
    shape.push_back(is_known_outside(slice[d], own)
                        ? slice[d]
                        : found_by_run(context, output, d + 1, Dim(kUnboundedUpper)));
  return shape;
}

std::vector<ResultInfo> infer_loop(const Loop& op, const InferContext& context) {
  const Graph& body = op.body.graph();
  const auto carried = static_cast<size_t>(op.carried);
  const size_t operands =
      std::max(context.inputs.size(), kLoopOwnInputs);  // absent ones at the end are left out
  if (op.carried < 0 || operands < kLoopOwnInputs + carried)
    throw_input_error("the loop carries " + std::to_string(op.carried) + " values, but has " +
                      std::to_string(context.inputs.size()) + " operands");
  if (context.has(0)) require_single(context, 0, DType::Int64, "the trip count");
  if (context.has(1)) require_single(context, 1, DType::Bool, "the condition");
  check_counts(body, operands, 1 + carried, "the body");
  check_taken(body_input(body, 0), DType::Int64, {}, "the iteration");
  check_taken(body_input(body, 1), DType::Bool, {}, "the condition");
  if (body_output(body, 0).dtype != DType::Bool)
    throw_input_error("the body's first output is the condition; it must be bool");
  check_captured(body, context, captured_by(op));
  std::optional<Dim> trips;
  if (const auto count = context.contents(0); count && count->size() == 1) trips = (*count)[0];
  const std::set<std::string> own = own_symbols(body, context);
  std::vector<ResultInfo> results;
  for (size_t i = 0; i < carried; ++i) {
    const Value &before = context.input(kLoopOwnInputs + i), &taken = body_input(body, kLoopOwnInputs + i),
                &given = body_output(body, 1 + i);
    check_taken(taken, before.dtype, before.shape, "carried value " + std::to_string(i));
    if (given.dtype != taken.dtype || given.shape.size() != taken.shape.size())
      throw_input_error("carried value " + std::to_string(i) + " is " + type_text(taken.dtype, taken.shape) +
                        " before an iteration and " + type_text(given.dtype, given.shape) + " after it");
    ResultInfo result{before.dtype, {}};
    for (size_t d = 0; d < before.shape.size(); ++d)
      result.shape.push_back(
          carried_dim({before.shape[d], taken.shape[d], given.shape[d]}, trips, own,
                      [&](const Dim& upper) { return found_by_run(context, i, d, upper_of(upper)); }));
    results.push_back(std::move(result));
  }
  const bool starts_true = !context.has(1) || is_true_constant(context.input(1));
  const bool by_count = context.has(0) && always_continues(body, starts_true);
  for (size_t i = carried; 1 + i < body.outputs().size(); ++i) {
    const Value& slice = body_output(body, 1 + i);
    ResultInfo result{slice.dtype, {iterations(context, i, trips, by_count)}};
    const Shape rest = scanned_shape(context, i, body, slice.shape);
    result.shape.insert(result.shape.end(), rest.begin(), rest.end());
    results.push_back(std::move(result));
  }
  return results;
}

size_t axis_of(int64_t axis, size_t rank, std::string_view what) {
  return static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(rank), what));
}

bool is_reversed(const Ints& reversed, size_t i) {
  return i < reversed.size() && reversed[i] != 0;
}

std::vector<ResultInfo> infer_scan(const Scan& op, const InferContext& context) {
  const Graph& body = op.body.graph();
  const auto states = static_cast<size_t>(op.states);
  const size_t scanned = op.input_axes.size(), captured = states + scanned;
  if (op.states < 0 || scanned == 0 || context.inputs.size() < captured)
    throw_input_error("a Scan of " + std::to_string(op.states) + " states and " + std::to_string(scanned) +
                      " scanned values cannot have " + std::to_string(context.inputs.size()) + " operands");
  check_counts(body, context.inputs.size(), states, "the body");
  check_captured(body, context, captured_by(op));
  std::vector<ResultInfo> results;
  for (size_t i = 0; i < states; ++i) {
    const Value &before = context.input(i), &taken = body_input(body, i), &given = body_output(body, i);
    check_taken(taken, before.dtype, before.shape, "state " + std::to_string(i));
    if (given.dtype != taken.dtype || !(given.shape == taken.shape))
      throw_input_error("state " + std::to_string(i) + " is " + type_text(taken.dtype, taken.shape) +
                        " before an iteration and " + type_text(given.dtype, given.shape) + " after it");
    results.push_back({before.dtype, before.shape});
  }
  std::optional<Dim> length;
  for (size_t i = 0; i < scanned; ++i) {
    const Value& value = context.input(states + i);
    const size_t axis = axis_of(op.input_axes[i], value.shape.size(), "a scanned input");
    Shape slice = value.shape;
    slice.erase(slice.begin() + static_cast<std::ptrdiff_t>(axis));
    check_taken(body_input(body, states + i), value.dtype, slice, "a slice of '" + value.name + "'");
    if (length && length->is_constant() && value.shape[axis].is_constant() && !(*length == value.shape[axis]))
      throw_input_error("scanned values have " + length->to_string() + " and " +
                        value.shape[axis].to_string() + " slices");
    if (!length || value.shape[axis].is_constant()) length = value.shape[axis];
  }
  const size_t outputs = body.outputs().size() - states;
  if (op.output_axes.size() != outputs)
    throw_input_error(std::to_string(op.output_axes.size()) + " output axes for " + std::to_string(outputs) +
                      " scanned outputs");
  for (size_t i = 0; i < outputs; ++i) {
    const Value& slice = body_output(body, states + i);
    ResultInfo result{slice.dtype, scanned_shape(context, states + i, body, slice.shape)};
    const size_t axis = axis_of(op.output_axes[i], slice.shape.size() + 1, "a scanned output");
    result.shape.insert(result.shape.begin() + static_cast<std::ptrdiff_t>(axis), *length);
    results.push_back(std::move(result));
  }
  return results;
}

// --- evaluation

// Node by node, in memory of the host.
class ReferenceBodies final : public BodyRunner {
 public:
  explicit ReferenceBodies(ThreadPool* pool) : pool_(pool) {}
  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                          const SymbolValues& symbols) const override {
    return interpret(body, inputs, {.pool = pool_, .symbols = symbols});
  }

 private:
  ThreadPool* pool_;
};

// The bodies of the node that is evaluated.
class Bodies {
 public:
  explicit Bodies(const EvaluateContext& context)
      : context_(context),
        reference_(context.pool),
        runner_(context.bodies != nullptr ? *context.bodies : reference_) {}

  const BodyRunner* operator->() const { return &runner_; }
  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs) const {
    return runner_.run(body, inputs, context_.symbols ? *context_.symbols : SymbolValues{});
  }
  // The one element of a condition or of a trip count.
  int64_t single(const Tensor& tensor, std::string_view what) const {
    if (tensor.size() != 1)
      throw_input_error(std::string(what) + " has " + std::to_string(tensor.size()) +
                        " elements; it must have one");
    return runner_.on_host(tensor).to_int64s()[0];
  }
  bool condition(const Tensor& tensor) const { return single(tensor, "the condition") != 0; }

 private:
  const EvaluateContext& context_;
  const ReferenceBodies reference_;
  const BodyRunner& runner_;
};

std::vector<Tensor> evaluate_if(const If& op, const EvaluateContext& context) {
  const Bodies bodies(context);
  const Body& branch = bodies.condition(context.input(0)) ? op.then_branch : op.else_branch;
  return bodies.run(branch.graph(), context.inputs.subspan(1));
}

// The extents of a slice that no iteration gave: nothing says dims that an iteration would have found, so
// they are 0.
Extents known_extents(const Shape& shape, const EvaluateContext& context) {
  Extents extents;
  for (const Dim& dim : shape) {
    bool known = true;
    for (const std::string& name : dim.symbols()) known &= context.symbols && context.symbols->contains(name);
    extents.push_back(known ? context.extents({dim})[0] : 0);
  }
  return extents;
}

// Slices of one result, in the order of iterations, joined along a new axis. `slice`: what the body says of
// one.
Tensor stacked(std::vector<Tensor> slices, size_t axis, bool reversed, const Value& slice,
               const EvaluateContext& context, const Bodies& bodies) {
  const auto with_axis = [&](Extents extents, int64_t count) {
    extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), count);
    return extents;
  };
  if (slices.empty()) return allocate_result(slice.dtype, with_axis(known_extents(slice.shape, context), 0));
  for (const Tensor& other : slices)
    if (other.extents() != slices[0].extents())
      throw_input_error("a scanned output is " + to_string(slices[0].extents()) + " in one iteration and " +
                        to_string(other.extents()) + " in another");
  if (reversed) std::reverse(slices.begin(), slices.end());
  for (Tensor& part : slices) part = part.reshaped(with_axis(part.extents(), 1));
  return bodies->join(slices, axis);
}

std::vector<Tensor> evaluate_loop(const Loop& op, const EvaluateContext& context) {
  const Graph& body = op.body.graph();
  const auto carried_end = kLoopOwnInputs + static_cast<size_t>(op.carried);
  std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  inputs.resize(std::max(inputs.size(), kLoopOwnInputs));
  std::vector<std::vector<Tensor>> slices(body.outputs().size() - 1 - static_cast<size_t>(op.carried));
  const Bodies bodies(context);
  const int64_t trips = context.has(0) ? bodies.single(context.input(0), "the trip count") : INT64_MAX;
  const Tensor true_scalar = Tensor::from_doubles(DType::Bool, {}, std::vector<double>{1});
  bool go_on = !context.has(1) || bodies.condition(context.input(1));
  for (int64_t i = 0; i < trips && go_on; ++i) {
    inputs[0] = Tensor::scalar_i64(i);
    inputs[1] = true_scalar;
    std::vector<Tensor> results = bodies.run(body, inputs);
    go_on = bodies.condition(results[0]);
    std::move(results.begin() + 1, results.begin() + 1 + op.carried, inputs.begin() + kLoopOwnInputs);
    for (size_t s = 0; s < slices.size(); ++s)
      slices[s].push_back(std::move(results[1 + static_cast<size_t>(op.carried) + s]));
  }
  std::vector<Tensor> outputs(inputs.begin() + kLoopOwnInputs,
                              inputs.begin() + static_cast<std::ptrdiff_t>(carried_end));
  for (size_t s = 0; s < slices.size(); ++s) {
    const Value& slice = body_output(body, 1 + static_cast<size_t>(op.carried) + s);
    outputs.push_back(stacked(std::move(slices[s]), 0, false, slice, context, bodies));
  }
  return outputs;
}

std::vector<Tensor> evaluate_scan(const Scan& op, const EvaluateContext& context) {
  const Graph& body = op.body.graph();
  const auto states = static_cast<size_t>(op.states);
  std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  std::vector<std::vector<Tensor>> slices(body.outputs().size() - states);
  const Bodies bodies(context);
  std::vector<size_t> axes;
  int64_t count = -1;
  for (size_t i = 0; i < op.input_axes.size(); ++i) {
    const Tensor& value = context.input(states + i);
    axes.push_back(axis_of(op.input_axes[i], value.extents().size(), "a scanned input"));
    if (count >= 0 && count != value.extents()[axes[i]])
      throw_input_error("scanned values have " + std::to_string(count) + " and " +
                        std::to_string(value.extents()[axes[i]]) + " slices");
    count = value.extents()[axes[i]];
  }
  for (int64_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t at = is_reversed(op.input_reversed, i) ? count - 1 - k : k;
      inputs[states + i] = bodies->slice(context.input(states + i), axes[i], at);
    }
    std::vector<Tensor> results = bodies.run(body, inputs);
    std::move(results.begin(), results.begin() + op.states, inputs.begin());
    for (size_t s = 0; s < slices.size(); ++s) slices[s].push_back(std::move(results[states + s]));
  }
  std::vector<Tensor> outputs(inputs.begin(), inputs.begin() + op.states);
  for (size_t s = 0; s < slices.size(); ++s) {
    const Value& slice = body_output(body, states + s);
    const size_t axis = axis_of(op.output_axes[s], slice.shape.size() + 1, "a scanned output");
    outputs.push_back(
        stacked(std::move(slices[s]), axis, is_reversed(op.output_reversed, s), slice, context, bodies));
  }
  return outputs;
}

}  // namespace

Captured captured_by(const Op& op) {
  if (std::holds_alternative<If>(op)) return {.first_operand = 1, .first_input = 0};
  if (const auto* loop = std::get_if<Loop>(&op)) {
    const size_t first = kLoopOwnInputs + static_cast<size_t>(loop->carried);
    return {first, first};
  }
  const auto* scan = std::get_if<Scan>(&op);
  check(scan != nullptr, std::string(op_name(op)) + " has no bodies");
  const size_t first = static_cast<size_t>(scan->states) + scan->input_axes.size();
  return {first, first};
}

bool always_continues(const Graph& body, bool starts_true) {
  ValueId value = body.outputs()[0];
  const auto is_copy = [&](NodeId id) {
    const auto* op = id == kNoNode ? nullptr : std::get_if<Pointwise>(&body.node(id).op);
    return op && op->code == PointwiseCode::Identity && body.node(id).epilogue.empty();
  };
  while (is_copy(body.value(value).producer)) value = body.node(body.value(value).producer).inputs[0];
  return is_true_constant(body.value(value)) || (starts_true && value == body.inputs()[1]);
}

Tensor BodyRunner::on_host(const Tensor& tensor) const {
  return tensor;
}

Tensor BodyRunner::slice(const Tensor& tensor, size_t axis, int64_t index) const {
  const Op op = Gather{.axis = static_cast<int64_t>(axis)};
  const std::vector<Tensor> operands = {tensor, Tensor::scalar_i64(index)};
  return find_op_def(op).evaluate(op, {.inputs = operands})[0];
}

Tensor BodyRunner::join(const std::vector<Tensor>& parts, size_t axis) const {
  const Op op = Concat{.axis = static_cast<int64_t>(axis)};
  return find_op_def(op).evaluate(op, {.inputs = parts})[0];
}

std::vector<OpDef> control_flow_ops() {
  return {op_def<If, infer_if, evaluate_if>(), op_def<Loop, infer_loop, evaluate_loop>(),
          op_def<Scan, infer_scan, evaluate_scan>()};
}

}  // namespace lathe
