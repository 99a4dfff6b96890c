// SPDX-License-Identifier: Apache-2.0
//
// RNN, GRU and LSTM, one direction: ONNX's equations step by step, each sequence on its own, in double.
// Weights are transposed first, so that a product walks along rows of memory.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

enum RecurrentInput : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

template <class T>
constexpr int64_t kGates = 1;
template <>
constexpr int64_t kGates<GRU> = 3;
template <>
constexpr int64_t kGates<LSTM> = 4;

template <class T>
constexpr bool kHasCell = false;
template <>
constexpr bool kHasCell<LSTM> = true;

// --- activations
double activate(Activation kind, double x, double alpha, double beta) {
  switch (kind) {
    case Activation::Relu:
      return std::max(x, 0.0);
    case Activation::Tanh:
      return std::tanh(x);
    case Activation::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::Affine:
      return alpha * x + beta;
    case Activation::LeakyRelu:
      return x >= 0 ? x : alpha * x;
    case Activation::ThresholdedRelu:
      return x >= alpha ? x : 0;
    case Activation::ScaledTanh:
      return alpha * std::tanh(beta * x);
    case Activation::HardSigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Activation::Elu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case Activation::Softsign:
      return x / (1 + std::fabs(x));
    case Activation::Softplus:
      return x > 30 ? x : std::log1p(std::exp(x));
  }
  check(false, "no such activation");
  return 0;
}

struct Function {
  Activation kind;
  double alpha = 0, beta = 0, clip = 0;
  double operator()(double x) const {
    return activate(kind, clip > 0 ? std::clamp(x, -clip, clip) : x, alpha, beta);
  }
};

// The n-th activation of an operator.
template <class T>
Function function_of(const T& op, Activation kind, size_t n) {
  return {kind, op.alpha.empty() ? 0.0 : op.alpha[n], op.beta.empty() ? 0.0 : op.beta[n], op.clip};
}

size_t activation_count(const RNN&) {
  return 1;
}
size_t activation_count(const GRU&) {
  return 2;
}
size_t activation_count(const LSTM&) {
  return 3;
}

// --- inference
void check_parameters(const std::vector<float>& values, size_t activations, std::string_view name) {
  if (values.empty() || values.size() == activations) return;
  throw_input_error(std::string(name) + " has " + std::to_string(values.size()) +
                    " entries, expected none or one for each of the " + std::to_string(activations) +
                    " activations");
}

void check_lengths_type(const InferContext& context) {
  const DType dtype = context.input(kLengths).dtype;
  if (dtype != DType::Int32 && dtype != DType::Int64)
    throw_input_error("the type of the lengths is " + std::string(dtype_name(dtype)) + ", expected int32");
}

void check_cell_inputs(const InferContext& context, const Shape& state) {
  if (context.has(kInitialC)) expect_shape(context, kInitialC, "initial c", state);
  if (context.has(kPeepholes)) expect_shape(context, kPeepholes, "the peepholes", {state[1] * 3});
}

template <class T>
std::vector<ResultInfo> infer_recurrent(const T& op, const InferContext& context) {
  check_parameters(op.alpha, activation_count(op), "alpha");
  check_parameters(op.beta, activation_count(op), "beta");
  if (!(op.clip >= 0)) throw_input_error("clip is " + std::to_string(op.clip) + ", expected 0 or more");
  expect_real(context, kX, "x");
  expect_rank(context, kX, "x", 3);
  expect_rank(context, kR, "r", 2);
  const Value& x = context.input(kX);
  const Dim hidden = context.input(kR).shape[1], rows = hidden * kGates<T>;
  const Shape state = {x.shape[1], hidden};
  expect_shape(context, kW, "w", {rows, x.shape[2]});
  expect_shape(context, kR, "r", {rows, hidden});
  for (const size_t input : {kW, kR, kBias, kInitialH, kInitialC, kPeepholes})
    if (context.has(input)) expect_real(context, input, "input " + std::to_string(input));
  if (context.has(kBias)) expect_shape(context, kBias, "the bias", {rows * 2});
  if (context.has(kLengths)) {
    check_lengths_type(context);
    expect_shape(context, kLengths, "the lengths", {x.shape[1]});
  }
  if (context.has(kInitialH)) expect_shape(context, kInitialH, "initial h", state);
  if constexpr (kHasCell<T>) check_cell_inputs(context, state);
  std::vector<ResultInfo> results = {{x.dtype, {x.shape[0], x.shape[1], hidden}}, {x.dtype, state}};
  if constexpr (kHasCell<T>) results.push_back({x.dtype, state});
  return results;
}

// --- evaluation
struct Layer {
  int64_t steps, batch, width, hidden, gates;
  std::vector<double> w, r;  // transposed: (width, gates * hidden), (hidden, gates * hidden)
  std::vector<double> bias_w, bias_r, peepholes;  // zeros when absent
  std::vector<int64_t> lengths;

  int64_t rows() const { return gates * hidden; }
};

std::vector<double> transposed(const Tensor& m) {
  const std::vector<double> values = m.to_doubles();
  const auto rows = static_cast<size_t>(m.extents()[0]), columns = static_cast<size_t>(m.extents()[1]);
  std::vector<double> out(values.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = values[i * columns + j];
  return out;
}

std::vector<double> doubles_or_zeros(const EvaluateContext& context, size_t input, int64_t count) {
  return context.has(input) ? context.input(input).to_doubles()
                            : std::vector<double>(static_cast<size_t>(count), 0.0);
}

std::vector<int64_t> checked_lengths(const EvaluateContext& context, int64_t batch, int64_t steps) {
  if (!context.has(kLengths)) return std::vector<int64_t>(static_cast<size_t>(batch), steps);
  std::vector<int64_t> lengths = context.input(kLengths).to_int64s();
  for (const int64_t length : lengths)
    if (length < 0 || length > steps)
      throw_input_error("a length of " + std::to_string(length) + " is not between 0 and the " +
                        std::to_string(steps) + " steps");
  return lengths;
}

Layer read_layer(const EvaluateContext& context, int64_t gates) {
  const Extents& x = context.input(kX).extents();
  Layer layer{.steps = x[0],
              .batch = x[1],
              .width = x[2],
              .hidden = context.input(kR).extents()[1],
              .gates = gates,
              .w = transposed(context.input(kW)),
              .r = transposed(context.input(kR))};
  std::vector<double> bias = doubles_or_zeros(context, kBias, 2 * layer.rows());
  layer.bias_w.assign(bias.begin(), bias.begin() + layer.rows());
  layer.bias_r.assign(bias.begin() + layer.rows(), bias.end());
  layer.peepholes = doubles_or_zeros(context, kPeepholes, 3 * layer.hidden);
  layer.lengths = checked_lengths(context, layer.batch, layer.steps);
  return layer;
}

// out[0, count) += v times columns [first, first + count) of m, whose rows have `columns` entries.
void add_product(const std::vector<double>& v, const std::vector<double>& m, int64_t columns, int64_t first,
                 int64_t count, double* out) {
  for (size_t i = 0; i < v.size(); ++i) {
    const double factor = v[i];
    const double* row = m.data() + static_cast<int64_t>(i) * columns + first;
    for (int64_t j = 0; j < count; ++j) out[j] += factor * row[j];
  }
}

struct State {
  std::vector<double> h, c;
};

// A step: `in` is what x and its bias give to each gate.
void step(const RNN& op, const Layer& layer, std::vector<double>& in, State& state) {
  const Function f = function_of(op, op.f, 0);
  add_product(state.h, layer.r, layer.rows(), 0, layer.rows(), in.data());
  for (size_t j = 0; j < state.h.size(); ++j) state.h[j] = f(in[j] + layer.bias_r[j]);
}

void step(const GRU& op, const Layer& layer, std::vector<double>& in, State& state) {
  const Function f = function_of(op, op.f, 0), g = function_of(op, op.g, 1);
  const auto hidden = static_cast<size_t>(layer.hidden);
  const int64_t columns = layer.rows();
  add_product(state.h, layer.r, columns, 0, 2 * layer.hidden, in.data());
  std::vector<double> update(hidden), reset(hidden), read = state.h, product(hidden, 0.0);
  for (size_t j = 0; j < hidden; ++j) {
    update[j] = f(in[j] + layer.bias_r[j]);
    reset[j] = f(in[hidden + j] + layer.bias_r[hidden + j]);
    if (!op.linear_before_reset) read[j] *= reset[j];
  }
  add_product(read, layer.r, columns, 2 * layer.hidden, layer.hidden, product.data());
  for (size_t j = 0; j < hidden; ++j) {
    const double recurrent = product[j] + layer.bias_r[2 * hidden + j];
    const double fresh = g(in[2 * hidden + j] + (op.linear_before_reset ? reset[j] : 1.0) * recurrent);
    state.h[j] = (1 - update[j]) * fresh + update[j] * state.h[j];
  }
}

void step(const LSTM& op, const Layer& layer, std::vector<double>& in, State& state) {
  const Function f = function_of(op, op.f, 0), g = function_of(op, op.g, 1), h = function_of(op, op.h, 2);
  const auto hidden = static_cast<size_t>(layer.hidden);
  add_product(state.h, layer.r, layer.rows(), 0, layer.rows(), in.data());
  for (size_t i = 0; i < in.size(); ++i) in[i] += layer.bias_r[i];
  for (size_t j = 0; j < hidden; ++j) {
    const double* p = layer.peepholes.data() + j;
    const double input = f(in[j] + p[0] * state.c[j]);
    const double forget = op.input_forget ? 1 - input : f(in[2 * hidden + j] + p[2 * hidden] * state.c[j]);
    state.c[j] = forget * state.c[j] + input * g(in[3 * hidden + j]);
    const double output = f(in[hidden + j] + p[hidden] * state.c[j]);
    state.h[j] = output * h(state.c[j]);
  }
}

template <class T>
void run_sequence(const T& op, const Layer& layer, const Tensor& x, int64_t item, State& state,
                  const ElementWriter& y) {
  const int64_t length = layer.lengths[static_cast<size_t>(item)];
  std::vector<double> row(static_cast<size_t>(layer.width));
  for (int64_t s = 0; s < length; ++s) {
    const int64_t at = (op.reverse ? length - 1 - s : s) * layer.batch + item;
    load_doubles(x, at * layer.width, layer.width, row.data());
    std::vector<double> in = layer.bias_w;
    add_product(row, layer.w, layer.rows(), 0, layer.rows(), in.data());
    step(op, layer, in, state);
    y.store_doubles(at * layer.hidden, layer.hidden, state.h.data());
  }
}

template <class T>
std::vector<Tensor> evaluate_recurrent(const T& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_recurrent<T>);
  const Layer layer = read_layer(context, kGates<T>);
  const std::vector<double> h = doubles_or_zeros(context, kInitialH, layer.batch * layer.hidden);
  const std::vector<double> c = doubles_or_zeros(context, kInitialC, layer.batch * layer.hidden);
  std::vector<ElementWriter> writers;
  for (Tensor& result : results) writers.emplace_back(result);
  context.parallel_for(layer.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item * layer.hidden, last = first + layer.hidden;
      State state{{h.begin() + first, h.begin() + last}, {c.begin() + first, c.begin() + last}};
      run_sequence(op, layer, context.input(kX), item, state, writers[0]);
      writers[1].store_doubles(first, layer.hidden, state.h.data());
      if (kHasCell<T>) writers[2].store_doubles(first, layer.hidden, state.c.data());
    }
  });
  return results;
}

double recurrent_flops(const Op&, const CostContext& context) {
  const Extents &x = context.inputs[kX], &w = context.inputs[kW], &r = context.inputs[kR];
  return 2.0 * static_cast<double>(x[0] * x[1]) * static_cast<double>(element_count(w) + element_count(r));
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  return {op_def<RNN, infer_recurrent<RNN>, evaluate_recurrent<RNN>>(recurrent_flops),
          op_def<GRU, infer_recurrent<GRU>, evaluate_recurrent<GRU>>(recurrent_flops),
          op_def<LSTM, infer_recurrent<LSTM>, evaluate_recurrent<LSTM>>(recurrent_flops)};
}

}  // namespace lathe
