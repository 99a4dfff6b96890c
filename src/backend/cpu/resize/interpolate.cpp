// SPDX-License-Identifier: Apache-2.0
//
// Linear and cubic Resize of images (antialiased or not) in every format, on FP32, BF16 and FP16.
//
// Interpolation is separable. An input row is resized along its width once, into a ring of as many rows as
// one result row reads; result rows are sums of those. With three spatial dims and more, rows are counted
// over all dims before the last one, and the weight of a row is the product of its weights along them; a row
// is resized again for each slice of the result that reads it. Which positions and weights is the operator's
// own definition (ops/resize_taps.h). Bytes: input read once, output written once: the floor. The ring stays
// in L1 or L2. Reached (a shared machine with AVX2, two threads): 21 planes of 40x40 to 320x320 in 0.55 ms,
// 15.6 GB/s written (reference: 30 ms).
#include "backend/cpu/resize/interpolate_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "ops/resize_taps.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kInterpolateRunner = "Interpolate";

// Taps of one dim, laid out for the kernels.
struct ResizeLine {
  int64_t in = 1, out = 1, taps = 1;
  std::vector<int32_t> index;  // [tap][position]
  std::vector<float> weights;
  std::vector<int32_t> places;  // in a ring of `taps`: what one position reads has different ones
};

// What has no weight reads what has some: an infinite element beside it must not make NaN.
ResizeLine line_of(const ResizeTaps& t) {
  ResizeLine line{t.in,
                  t.out,
                  t.taps,
                  std::vector<int32_t>(t.index.size()),
                  std::vector<float>(t.index.size()),
                  std::vector<int32_t>(t.index.size())};
  for (int64_t i = 0; i < t.out; ++i) {
    const float* weights = t.weights.data() + i * t.taps;
    const auto used = std::find_if(weights, weights + t.taps, [](float w) { return w != 0; }) - weights;
    for (int64_t k = 0; k < t.taps; ++k) {
      const int64_t from = weights[k] != 0 || used == t.taps ? k : used;
      line.index[static_cast<size_t>(k * t.out + i)] =
          static_cast<int32_t>(t.index[static_cast<size_t>(i * t.taps + from)]);
      line.weights[static_cast<size_t>(k * t.out + i)] = weights[k];
    }
  }
  // Inputs of a position are neighbours, or one that repeats at an edge.
  for (size_t i = 0; i < line.index.size(); ++i)
    line.places[i] = line.index[i] % static_cast<int32_t>(t.taps);
  return line;
}

// Two dims as one: each position of `outer` with all of `inner`.
ResizeLine product_of(const ResizeLine& outer, const ResizeLine& inner) {
  ResizeLine line{.in = outer.in * inner.in, .out = outer.out * inner.out, .taps = outer.taps * inner.taps};
  for (int64_t a = 0; a < outer.taps; ++a)
    for (int64_t b = 0; b < inner.taps; ++b)
      for (int64_t i = 0; i < line.out; ++i) {
        const auto o = static_cast<size_t>(a * outer.out + i / inner.out),
                   n = static_cast<size_t>(b * inner.out + i % inner.out);
        line.index.push_back(outer.index[o] * static_cast<int32_t>(inner.in) + inner.index[n]);
        line.weights.push_back(outer.weights[o] * inner.weights[n]);
        line.places.push_back(outer.places[o] * static_cast<int32_t>(inner.taps) + inner.places[n]);
      }
  return line;
}

ResizeLine unchanged(int64_t extent) {
  ResizeTaps taps{0, extent, extent, 1, {}, std::vector<float>(static_cast<size_t>(extent), 1.0f)};
  for (int64_t i = 0; i < extent; ++i) taps.index.push_back(i);
  return line_of(taps);
}

class PreparedInterpolation final : public PreparedLayer {
 public:
  int64_t images = 1, inner = 1;  // planes of pixels; elements that lie together at one position
  ResizeLine rows, cols;
  TensorType type;
  Isa isa = Isa::Avx2;
  int threads = 1;

  int64_t row_floats() const { return round_up(cols.out * inner, 16); }
  int64_t input_floats() const { return round_up(cols.in * inner, 16); }
  // Per member: the ring, an input row as FP32, a result row as FP32.
  int64_t member_floats() const { return (rows.taps + 1) * row_floats() + input_floats(); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats()) * 4 * static_cast<size_t>(threads);
  }
  int members(int available) const override {
    const double elements = static_cast<double>(images * rows.out * cols.out * inner);
    return members_for(0.12 * elements * static_cast<double>(rows.taps), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Ring ring{.floats = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats(),
              .holds = std::vector<int64_t>(static_cast<size_t>(rows.taps), -1)};
    const InterpolateTable& table = isa == Isa::Avx2 ? interpolate_table_avx2() : interpolate_table_avx512();
    const PointwiseTable& convert = pointwise_table(isa);
    const int64_t n = cols.out * inner;
    std::vector<const float*> sources(static_cast<size_t>(rows.taps));
    std::vector<float> weights(static_cast<size_t>(rows.taps));
    float* result = ring.floats + rows.taps * row_floats();
    const Worker::Range part = worker.slice(images * rows.out);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t image = i / rows.out, row = i % rows.out;
      for (int64_t k = 0; k < rows.taps; ++k) {
        const auto at = static_cast<size_t>(k * rows.out + row);
        weights[static_cast<size_t>(k)] = rows.weights[at];
        sources[static_cast<size_t>(k)] =
            resized(args, ring, table, image * rows.in + rows.index[at], rows.places[at]);
      }
      const bool wide = type.dtype == DType::Float32;
      float* to = wide ? static_cast<float*>(args.outputs[0]) + i * n : result;
      table.blend(sources.data(), weights.data(), rows.taps, to, n);
      if (!wide)
        (type.dtype == DType::BFloat16 ? convert.store_bf16 : convert.store_f16)(
            to, static_cast<uint16_t*>(args.outputs[0]) + i * n, n);
    }
  }

 private:
  struct Ring {
    float* floats;
    std::vector<int64_t> holds;  // input rows
  };
  // Input row `row` (counted over all images), resized along its width.
  const float* resized(const LayerArgs& args, Ring& ring, const InterpolateTable& table, int64_t row,
                       int64_t place) const {
    float* to = ring.floats + place * row_floats();
    if (ring.holds[static_cast<size_t>(place)] == row) return to;
    ring.holds[static_cast<size_t>(place)] = row;
    const int64_t n = cols.in * inner;
    const auto* from = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, row * n);
    const float* x = reinterpret_cast<const float*>(from);
    if (type.dtype != DType::Float32) {
      const PointwiseTable& convert = pointwise_table(isa);
      float* wide = ring.floats + (rows.taps + 1) * row_floats();
      const auto* halves = reinterpret_cast<const uint16_t*>(from);
      (type.dtype == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(halves, wide, n);
      x = wide;
    }
    table.row(x, to, {cols.out, cols.taps, cols.index.data(), cols.weights.data()}, inner);
    return to;
  }
};

class InterpolationKernel final : public LayerKernel {
 public:
  InterpolationKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Resize>(query.layer().op)), type_(tactic.inputs[0]), isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedInterpolation>();
    const Extents& x = context.inputs[0];
    const size_t last = x.size() - 1;
    std::vector<ResizeLine> lines;
    for (const int64_t extent : x) lines.push_back(unchanged(extent));
    for (const ResizeTaps& taps : resize_taps(op_, {.symbols = &context.symbols}, x))
      lines[taps.axis] = line_of(taps);
    p->cols = lines[last];
    p->rows = last > 2 ? lines[2] : unchanged(1);
    for (size_t axis = 3; axis < last; ++axis) p->rows = product_of(p->rows, lines[axis]);
    p->inner = type_.format.is_linear() ? 1 : x[1];
    p->images = type_.format.is_linear() ? x[0] * x[1] : x[0];
    if (type_.format.kind == Format::Kind::ChannelBlocked) {
      p->inner = type_.format.block;
      p->images = x[0] * ((x[1] + p->inner - 1) / p->inner);
    }
    p->type = type_;
    p->isa = isa_;
    p->threads = context.threads;
    return p;
  }

 private:
  Resize op_;
  TensorType type_;
  Isa isa_;
};

Support supports_interpolate(const LayerQuery& query, const Resize& op, DType type) {
  const Node& node = query.layer();
  const Shape &in = query.graph.value(node.inputs[0]).shape, &out = query.graph.value(node.outputs[0]).shape;
  if (!node.epilogue.empty()) return Support::no("interpolation applies no epilogue");
  if (!is_vector_float(type)) return no_vector_kernel(type);
  if (op.coordinates == CoordinateMode::TfCropAndResize) return Support::no("crops are not supported");
  if (op.scales.empty() && !op.sizes) return Support::no("the size is known only at run time");
  if (in.size() < 3) return Support::no("not an image");
  if (in[0] != out[0] || in[1] != out[1]) return Support::no("batch or channels are resized too");
  return {};
}

std::vector<Tactic> list_interpolate(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Resize>(&query.layer().op);
  if (!op || op->mode == ResizeMode::Nearest) return {};
  std::vector<Format> formats = {kLinear};
  if (query.graph.value(query.layer().outputs[0]).shape.size() >= 3)
    formats = {kChannelsLast, {Format::Kind::ChannelBlocked, vector_block(machine)}, kLinear};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query))
    for (const Format& format : formats) {
      Tactic t = linear_tactic(query, kInterpolateRunner, "interpolate_" + std::string(isa_suffix(machine)));
      t.inputs[0] = t.outputs[0] = {type, format};
      t.support = supports_interpolate(query, *op, type);
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_interpolate(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext&) {
  return std::make_unique<InterpolationKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily interpolate_tactics() {
  return {kInterpolateRunner, list_interpolate, make_interpolate};
}

}  // namespace lathe::cpu
