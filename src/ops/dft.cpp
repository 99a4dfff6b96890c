// SPDX-License-Identifier: Apache-2.0
//
// DFT, STFT and MelWeightMatrix. A transform of length n = p * m is p transforms of every p-th element,
// joined with the roots of unity; p is n's smallest factor, so that a prime length is the plain sum. All in
// double.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

using Complex = std::complex<double>;

int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// e^(-2 pi i k / n); conjugate for the inverse.
std::vector<Complex> roots_of_unity(int64_t n, bool inverse) {
  std::vector<Complex> roots(static_cast<size_t>(n));
  const double turn = (inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(n);
  for (size_t k = 0; k < roots.size(); ++k) roots[k] = std::polar(1.0, turn * static_cast<double>(k));
  return roots;
}

// out[k] = the sum over j < n of in[j * stride] * root^(j * k).
void transform(const Complex* in, int64_t stride, Complex* out, int64_t n,
               const std::vector<Complex>& roots) {
  if (n == 1) {
    *out = *in;
    return;
  }
  const int64_t p = smallest_factor(n), m = n / p, unit = static_cast<int64_t>(roots.size()) / n;
  for (int64_t q = 0; q < p; ++q) transform(in + q * stride, stride * p, out + q * m, m, roots);
  std::vector<Complex> joined(static_cast<size_t>(p));
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t j = 0; j < p; ++j) {
      Complex sum = 0;
      for (int64_t q = 0; q < p; ++q)
        sum += roots[static_cast<size_t>(q * (k + j * m) % n * unit)] * out[q * m + k];
      joined[static_cast<size_t>(j)] = sum;
    }
    for (int64_t j = 0; j < p; ++j) out[j * m + k] = joined[static_cast<size_t>(j)];
  }
}

std::vector<Complex> transformed(const std::vector<Complex>& in, const std::vector<Complex>& roots) {
  std::vector<Complex> out(in.size());
  if (!in.empty()) transform(in.data(), 1, out.data(), static_cast<int64_t>(in.size()), roots);
  return out;
}

Dim half_of(const Dim& length) {
  return floor_div(length, Dim(2)) + 1;
}

void check_positive(const Dim& value, std::string_view name) {
  if (value.is_constant() && value.value() < 1)
    throw_input_error(std::string(name) + " is " + value.to_string() + ", expected at least 1");
}

// Far more than anything that is worth the wait, and few enough for tables of that size.
void check_length(const Dim& length, std::string_view name) {
  constexpr int64_t kLongest = int64_t{1} << 26;
  check_positive(length, name);
  if (length.is_constant() && length.value() > kLongest)
    throw_input_error(std::string(name) + " is " + length.to_string() + ", at most " +
                      std::to_string(kLongest) + " is supported");
}

void check_parts(const InferContext& context, std::string_view name) {
  const Dim& parts = context.input(0).shape.back();
  if (parts.is_constant() && parts.value() != 1 && parts.value() != 2)
    throw_input_error("the last dim of " + std::string(name) + " is " + parts.to_string() +
                      ", expected 1 (real) or 2 (complex)");
}

// --- DFT
size_t checked_axis(int64_t axis, int64_t rank) {
  const int64_t at = normalize_axis(axis, rank, "the axis of DFT");
  if (at == rank - 1)
    throw_input_error("the axis of DFT is the last dim, which holds real and imaginary part");
  return static_cast<size_t>(at);
}

// The axis, when it is known.
std::optional<size_t> axis_of(const InferContext& context) {
  const int64_t rank = context.rank(0);
  if (!context.has(2)) return checked_axis(-2, rank);
  const auto axis = known_scalar(context, 2, "the axis");
  if (!axis || !axis->is_constant()) return std::nullopt;
  return checked_axis(axis->value(), rank);
}

// Points that the transform has along an axis of `extent`; nothing when only a run knows it.
std::optional<Dim> length_of(const DFT& op, const InferContext& context, const Dim& extent) {
  if (!context.has(1)) return op.inverse && op.onesided ? (extent - 1) * 2 : extent;
  return known_scalar(context, 1, "the length");
}

std::vector<ResultInfo> infer_dft(const DFT& op, const InferContext& context) {
  const Value& x = context.input(0);
  expect_real(context, 0, "x");
  if (context.rank(0) < 2)
    throw_input_error("x must have at least two dims, its shape is " + to_string(x.shape));
  check_parts(context, "x");
  Shape shape = x.shape;
  shape.back() = op.inverse && op.onesided ? 1 : 2;
  const auto axis = axis_of(context);
  if (!axis) {
    const bool keeps = !context.has(1) && !op.onesided;
    for (size_t d = 0; !keeps && d + 1 < shape.size(); ++d)
      shape[d] = Dim::data_dependent(context.dim_name("dim" + std::to_string(d)), kUnboundedUpper);
    return {{x.dtype, shape}};
  }
  if (const auto length = length_of(op, context, shape[*axis])) {
    check_length(*length, "the length");
    shape[*axis] = op.onesided && !op.inverse ? half_of(*length) : *length;
  } else {
    shape[*axis] = Dim::data_dependent(context.dim_name("length"), kUnboundedUpper);
  }
  return {{x.dtype, shape}};
}

// One line of the input, cut or filled with zeros to n points. Half a spectrum is completed by its mirror
// image.
std::vector<Complex> read_line(const double* x, int64_t count, int64_t stride, int64_t parts, int64_t n,
                               bool half) {
  std::vector<Complex> line(static_cast<size_t>(n));
  const int64_t used = std::min(count, half ? n / 2 + 1 : n);
  for (int64_t i = 0; i < used; ++i) {
    const double* at = x + i * stride * parts;
    line[static_cast<size_t>(i)] = {at[0], parts == 2 ? at[1] : 0};
  }
  if (!half) return line;
  line[0] = line[0].real();
  if (n % 2 == 0) line[static_cast<size_t>(n / 2)] = line[static_cast<size_t>(n / 2)].real();
  for (int64_t i = 1; i < (n + 1) / 2; ++i)
    line[static_cast<size_t>(n - i)] = std::conj(line[static_cast<size_t>(i)]);
  return line;
}

std::vector<Tensor> evaluate_dft(const DFT& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_dft);
  const Tensor& x = context.input(0);
  const size_t axis = checked_axis(context.has(2) ? context.input(2).to_int64s().at(0) : -2, x.rank());
  if (results[0].size() == 0) return results;
  const bool half = op.inverse && op.onesided;
  const Extents &in = x.extents(), &out = results[0].extents();
  const int64_t n = context.has(1) ? context.input(1).to_int64s().at(0) : half ? out[axis] : in[axis];
  const int64_t parts = in.back(), out_parts = out.back();
  int64_t stride = 1;  // in pairs
  for (size_t d = axis + 1; d + 1 < in.size(); ++d) stride *= in[d];
  const std::vector<double> data = x.to_doubles();
  const std::vector<Complex> roots = roots_of_unity(n, op.inverse);
  const double scale = op.inverse ? 1 / static_cast<double>(n) : 1;
  std::vector<double> y(static_cast<size_t>(results[0].size()));
  context.parallel_for(results[0].size() / out_parts / out[axis], 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t outer = line / stride, inner = line % stride;
      const double* from = data.data() + (outer * in[axis] * stride + inner) * parts;
      const std::vector<Complex> points =
          transformed(read_line(from, in[axis], stride, parts, n, half), roots);
      for (int64_t k = 0; k < out[axis]; ++k) {
        double* to = y.data() + ((outer * out[axis] + k) * stride + inner) * out_parts;
        to[0] = points[static_cast<size_t>(k)].real() * scale;
        if (out_parts == 2) to[1] = points[static_cast<size_t>(k)].imag() * scale;
      }
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), y.data());
  return results;
}

// --- STFT
std::optional<Dim> frame_length(const InferContext& context) {
  if (context.has(2)) {
    expect_rank(context, 2, "the window", 1);
    const Dim window = context.input(2).shape[0];
    const auto length = context.has(3) ? known_scalar(context, 3, "the frame length") : std::nullopt;
    if (length && length->is_constant() && window.is_constant() && !(*length == window))
      throw_input_error("the window has " + window.to_string() + " elements, a frame has " +
                        length->to_string());
    return window;
  }
  if (context.has(3)) return known_scalar(context, 3, "the frame length");
  return context.input(0).shape[1];
}

std::vector<ResultInfo> infer_stft(const STFT& op, const InferContext& context) {
  expect_real(context, 0, "the signal");
  expect_rank(context, 0, "the signal", 3);
  check_parts(context, "the signal");
  const Value& x = context.input(0);
  const Dim length = x.shape[1];
  const auto step = known_scalar(context, 1, "the step"), frame = frame_length(context);
  if (step) check_positive(*step, "the step");
  if (frame) check_length(*frame, "the frame length");
  if (frame && frame->is_constant() && length.is_constant() && frame->value() > length.value())
    throw_input_error("a frame of " + frame->to_string() + " is longer than the signal of " +
                      length.to_string());
  const Dim frames = step && frame ? floor_div(length - *frame, *step) + 1
                                   : Dim::data_dependent(context.dim_name("frames"), length);
  const auto bins_of = [&](const Dim& points) { return op.onesided ? half_of(points) : points; };
  const Dim bins = frame ? bins_of(*frame) : Dim::data_dependent(context.dim_name("bins"), bins_of(length));
  return {{x.dtype, {x.shape[0], frames, bins, 2}}};
}

std::vector<Tensor> evaluate_stft(const STFT& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_stft);
  if (results[0].size() == 0) return results;
  const Extents &x = context.input(0).extents(), &out = results[0].extents();
  const int64_t parts = x[2], step = context.input(1).to_int64s().at(0);
  std::vector<double> window;
  if (context.has(2)) window = context.input(2).to_doubles();
  const int64_t n = context.has(2)   ? static_cast<int64_t>(window.size())
                    : context.has(3) ? context.input(3).to_int64s().at(0)
                                     : x[1];
  window.resize(static_cast<size_t>(n), 1);
  const std::vector<double> data = context.input(0).to_doubles();
  const std::vector<Complex> roots = roots_of_unity(n, false);
  std::vector<double> y(static_cast<size_t>(results[0].size()));
  context.parallel_for(out[0] * out[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double* from = data.data() + (i / out[1] * x[1] + i % out[1] * step) * parts;
      std::vector<Complex> frame = read_line(from, n, 1, parts, n, false);
      for (size_t k = 0; k < frame.size(); ++k) frame[k] *= window[k];
      const std::vector<Complex> points = transformed(frame, roots);
      for (int64_t k = 0; k < out[2]; ++k) {
        y[static_cast<size_t>((i * out[2] + k) * 2)] = points[static_cast<size_t>(k)].real();
        y[static_cast<size_t>((i * out[2] + k) * 2 + 1)] = points[static_cast<size_t>(k)].imag();
      }
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), y.data());
  return results;
}

// --- MelWeightMatrix
std::vector<ResultInfo> infer_mel(const MelWeightMatrix& op, const InferContext& context) {
  const auto bins = known_scalar(context, 0, "the number of mel bins");
  const auto length = known_scalar(context, 1, "the DFT length");
  for (size_t i = 2; i < 5; ++i) expect_elements(context, i, "the sample rate or an edge", 1);
  if (bins) check_positive(*bins, "the number of mel bins");
  if (length) check_length(*length, "the DFT length");
  const auto unknown = [&](std::string_view name) {
    return Dim::data_dependent(context.dim_name(name), kUnboundedUpper);
  };
  return {{op.dtype, {length ? half_of(*length) : unknown("rows"), bins ? *bins : unknown("bins")}}};
}

// Rows of the spectrum where the triangles of the mel scale begin and end: bins + 2 numbers.
std::vector<int64_t> mel_edges(int64_t bins, double dft_length, double rate, double low, double high) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = to_mel(low), step = (to_mel(high) - first) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (first + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(truncate_to_int64(std::floor((dft_length + 1) * hertz / rate)));
  }
  return edges;
}

std::vector<Tensor> evaluate_mel(const MelWeightMatrix& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_mel);
  const auto scalar = [&](size_t i) { return context.input(i).to_doubles().at(0); };
  const double rate = scalar(2), low = scalar(3), high = scalar(4);
  if (!(rate > 0 && low >= 0 && high >= low && high <= rate / 2))
    throw_input_error("edges of " + std::to_string(low) + " and " + std::to_string(high) +
                      " hertz are not in order between 0 and half of the sample rate of " +
                      std::to_string(rate));
  const int64_t rows = results[0].extents()[0], bins = results[0].extents()[1];
  const std::vector<int64_t> edges = mel_edges(bins, scalar(1), rate, low, high);
  std::vector<double> y(static_cast<size_t>(rows * bins));
  for (int64_t i = 0; i < bins; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t left = edges[at], centre = edges[at + 1], right = edges[at + 2];
    const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
    for (int64_t row = left; row <= std::min(std::max(centre, right - 1), rows - 1); ++row) {
      double& value = y[static_cast<size_t>(row * bins + i)];
      if (row <= centre) value = centre == left ? 1 : ratio(row - left, centre - left);
      if (row >= centre && row < right) value = ratio(right - row, right - centre);
    }
  }
  ElementWriter(results[0]).store_doubles(0, results[0].size(), y.data());
  return results;
}

double dft_flops(const Op&, const CostContext& context) {
  const auto elements = static_cast<double>(element_count(context.outputs[0]));
  return 5 * elements * std::log2(std::max(2.0, elements));
}

}  // namespace

std::vector<OpDef> dft_ops() {
  return {op_def<DFT, infer_dft, evaluate_dft>(dft_flops), op_def<STFT, infer_stft, evaluate_stft>(dft_flops),
          op_def<MelWeightMatrix, infer_mel, evaluate_mel>()};
}

}  // namespace lathe
