// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution (one filter per channel) where channels are contiguous, any window; 3, 5 and 7 columns with stride
// 1 or 2 have their own loops (kernels/depthwise.inc). Activations are applied to a few columns at a time (kernels/activation.inc), any
// other epilogue to an output row while it is in L1 or L2.
#include <cstring>
#include <optional>

#include "backend/cpu/depthwise.h"
#include "backend/cpu/own_tactic.h"
#include "backend/cpu/pointwise_eval.h"
#include "backend/cpu/register_tail.h"

namespace lathe::cpu {

const DepthwiseTable& depthwise_table(Isa isa) {
  if (isa >= Isa::Avx512Bf16) return depthwise_table_avx512_bf16();
  return isa == Isa::Avx2 ? depthwise_table_avx2() : depthwise_table_avx512();
}

WindowRows rows_inside(const WindowAxis& y, int64_t o) {
  WindowRows w;
  const int64_t start = o * y.stride - y.pad_begin;
  w.first_tap = start < 0 ? (-start + y.dilation - 1) / y.dilation : 0;
  w.first_row = start + w.first_tap * y.dilation;
  while (w.first_tap + w.count < y.kernel && w.first_row + w.count * y.dilation < y.input) ++w.count;
  return w;
}

void set_columns(DepthwiseRow& d, const WindowAxis& x) {
  d.in_width = x.input;
  d.cols = x.kernel;
  d.stride = x.stride;
  d.dilation = x.dilation;
  d.pad = x.pad_begin;
  d.out_width = x.output;
  const int64_t last_start = x.input + x.pad_begin - (x.kernel - 1) * x.dilation - 1;
  d.inside_begin = (x.pad_begin + x.stride - 1) / x.stride;
  d.inside_end = last_start >= 0 ? last_start / x.stride + 1 : 0;
}

std::vector<float> pack_depthwise(const Tensor& weights, int64_t lanes, const std::vector<float>& bias) {
  const std::vector<double> w = weights.to_doubles();
  const int64_t channels = weights.extents()[0];
  const int64_t taps = weights.size() / std::max<int64_t>(channels, 1),
                vectors = (channels + lanes - 1) / lanes;
  std::vector<float> packed(static_cast<size_t>(vectors * (taps + 1) * lanes), 0.0f);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t)
      packed[static_cast<size_t>((c / lanes * taps + t) * lanes + c % lanes)] =
          static_cast<float>(w[static_cast<size_t>(c * taps + t)]);
  }
  std::copy(bias.begin(), bias.end(), packed.begin() + vectors * taps * lanes);
  return packed;
}

namespace {

constexpr std::string_view kRunner = "DepthwiseConvolution";

WindowSpec window_spec(const Conv& op) {
  return {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad};
}

class PreparedDepthwise final : public PreparedLayer {
 public:
  int64_t batch = 1, channels = 1;
  WindowAxis y, x;
  std::vector<WindowRows> window_rows;  // per output row
  std::vector<int64_t> row_offsets;     // per window row, in elements
  TensorType type;
  RegisterTail tail;
  bool direct = false;  // results go straight to the output
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::span<const std::byte> weights;  // [vector of channels][row][col][vector], then [bias]
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int64_t vector() const { return depthwise_table(isa).vector; }
  int64_t vectors() const { return (channels + vector() - 1) / vector(); }
  // Blocked: output rows that are computed before the epilogue is applied to them; at most about 16 KB.
  int64_t group_rows() const { return std::max<int64_t>(1, 4096 / (x.output * vector() + 1)); }
  int64_t member_floats() const {
    const bool blocked = type.format.kind == Format::Kind::ChannelBlocked;
    return x.output * vector() * (blocked ? group_rows() : vectors());
  }
  size_t scratch_bytes() const override {
    return direct ? 0 : static_cast<size_t>(member_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double taps = static_cast<double>(batch * channels * y.output * x.output * y.kernel * x.kernel);
    return members_for(0.025 * taps, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (type.format.kind == Format::Kind::ChannelBlocked)
      run_blocked(args, worker);
    else
      run_channels_last(args, worker);
  }

 private:
  // All but the addresses and the window's rows.
  DepthwiseRow row_problem(int64_t pixel) const {
    DepthwiseRow d;
    d.stored = stored_as(type.dtype);
    d.row_offsets = row_offsets.data();
    d.pixel_stride = pixel;
    set_columns(d, x);
    d.out_stride = pixel;
    d.channels = vector();
    d.tail = tail;
    d.out_stored = direct ? stored_as(type.dtype) : Stored::F32;
    return d;
  }
  const float* weights_of(int64_t v) const {
    return reinterpret_cast<const float*>(weights.data()) + v * y.kernel * x.kernel * vector();
  }
  const float* bias_at(int64_t v) const {
    return reinterpret_cast<const float*>(weights.data()) + (vectors() * y.kernel * x.kernel + v) * vector();
  }
  std::byte* output(const LayerArgs& args, int64_t element) const {
    return static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(type.dtype, element);
  }
  const std::byte* input(const LayerArgs& args, int64_t element) const {
    return static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, element);
  }

  // Blocked: rows of a plane (image, vector of channels) in groups, so that the epilogue is called once per group.
  void run_blocked(const LayerArgs& args, const Worker& worker) const {
    const DepthwiseTable& table = depthwise_table(isa);
    const int64_t lanes = vector(), width = x.output * lanes, tap_row = x.kernel * lanes;
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const Worker::Range part = worker.slice(batch * vectors() * y.output);
    DepthwiseRow d = row_problem(lanes);  // a whole vector: the padding is there, and stays zero
    int64_t plane = part.begin / y.output, o = part.begin % y.output;
    for (int64_t i = part.begin, n = 0; i < part.end; i += n) {
      n = std::min({part.end - i, y.output - o, group_rows()});
      const int64_t v = plane % vectors();
      d.bias = bias_at(v);
      for (int64_t r = o; r < o + n; ++r) {
        d.out = direct ? output(args, (i + r - o) * width)
                       : reinterpret_cast<std::byte*>(buffer + (r - o) * width);
        const WindowRows& window = window_rows[static_cast<size_t>(r)];
        d.rows = window.count;
        d.weights = weights_of(v) + window.first_tap * tap_row;
        d.in = input(args, (plane * y.input + window.first_row) * x.input * lanes);
        table.row(d);
      }
      if (!direct) epilogue->apply(args, buffer, n * width, i * width, 1, n * width, n * width);
      o += n;
      if (o == y.output) {
        o = 0;
        ++plane;
      }
    }
  }

  void run_channels_last(const LayerArgs& args, const Worker& worker) const {
    const int64_t lanes = vector(), rows = batch * y.output;
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    // Few rows: the channels of a row are shared out as well.
    int64_t pieces = 1;
    while (rows * pieces < 8 * worker.count && pieces * 8 <= vectors()) pieces *= 2;
    const Worker::Range part = worker.slice(rows * pieces);
    DepthwiseRow d = row_problem(channels);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t row = i / pieces, piece = i % pieces;
      const int64_t v0 = vectors() * piece / pieces, v1 = vectors() * (piece + 1) / pieces;
      const int64_t c0 = v0 * lanes, count = std::min(channels, v1 * lanes) - c0;
      const WindowRows& window = window_rows[static_cast<size_t>(row % y.output)];
      const int64_t from = (row / y.output * y.input + window.first_row) * x.input * channels;
      const int64_t to = row * x.output * channels + c0;
      d.rows = window.count;
      if (!direct) d.out_stride = count;
      for (int64_t v = v0; v < v1; ++v) {
        d.weights = weights_of(v) + window.first_tap * x.kernel * lanes;
        d.bias = bias_at(v);
        d.channels = std::min(lanes, channels - v * lanes);
        d.in = input(args, from + v * lanes);
        d.out = direct ? output(args, to + (v - v0) * lanes)
                       : reinterpret_cast<std::byte*>(buffer + (v - v0) * lanes);
        depthwise_table(isa).row(d);
      }
      if (!direct) epilogue->apply(args, buffer, count, to, x.output, channels, count);
    }
  }
};

class DepthwiseKernel final : public LayerKernel {
 public:
  DepthwiseKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                  const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        type_(tactic.inputs[0]),
        isa_(machine.isa),
        plan_(plan_register_tail(query, 1)),
        epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    if (plan_ && plan_->operand >= 0) plan_.reset();
    weights_ = pack.packed("weights", [&] {
      const bool has_bias = node.op_input_count() > 2 && node.inputs[2] != kNoValue;
      const Tensor bias = has_bias ? query.graph.value(node.inputs[2]).constant : Tensor();
      const int64_t channels = query.graph.value(node.inputs[1]).constant.extents()[0];
      const int64_t lanes = depthwise_table(isa_).vector, padded = (channels + lanes - 1) / lanes * lanes;
      const std::vector<float> packed =
          pack_depthwise(query.graph.value(node.inputs[1]).constant, lanes,
                         bias_of(query, bias, plan_.value_or(TailPlan{}), channels, padded));
      std::vector<std::byte> bytes(packed.size() * sizeof(float));
      std::memcpy(bytes.data(), packed.data(), bytes.size());
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedDepthwise>();
    const Extents& e = context.inputs[0];
    const std::vector<WindowAxis> axes = resolve_window(window_spec(op_), Extents(e.begin() + 2, e.end()));
    p->batch = e[0];
    p->channels = e[1];
    p->y = axes.size() == 2 ? axes[0] : WindowAxis{.input = 1, .output = 1};
    p->x = axes.back();
    for (int64_t o = 0; o < p->y.output; ++o) p->window_rows.push_back(rows_inside(p->y, o));
    const int64_t pixel =
        type_.format.kind == Format::Kind::ChannelBlocked ? depthwise_table(isa_).vector : e[1];
    for (int64_t r = 0; r < p->y.kernel; ++r)
      p->row_offsets.push_back(r * p->y.dilation * p->x.input * pixel);
    p->type = type_;
    p->direct = plan_.has_value();
    if (plan_) p->tail = plan_->tail;
    p->isa = isa_;
    p->threads = context.threads;
    p->weights = weights_;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Conv op_;
  TensorType type_;
  Isa isa_;
  std::optional<TailPlan> plan_;
  Epilogue epilogue_;
  std::span<const std::byte> weights_;
};

Support supports(const LayerQuery& query, const Conv& op, DType type) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (type != DType::Float32 && type != DType::BFloat16)
    return Support::no("no vector kernel for " + std::string(dtype_name(type)));
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (node.op_input_count() > 2 && node.inputs[2] != kNoValue &&
      !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  if (!x.shape[1].is_constant(op.groups) || !w.shape[0].is_constant(op.groups))
    return Support::no("not one filter per channel");
  if (x.shape.size() > 4) return Support::no("three or more spatial dims");
  return {};
}

std::vector<Tactic> list(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || op->groups == 1) return {};
  std::vector<Tactic> tactics;
  const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
  for (const DType type : layer_types(query))
    for (const Format& format : {blocked, kChannelsLast}) {
      Tactic t = typed_tactic(query, kRunner, "depthwise_" + std::string(isa_suffix(machine)), {type, format},
                              {type, format});
      for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
      if (const Support s = supports(query, *op, type); !s.ok) t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                  const PackContext& pack) {
  return std::make_unique<DepthwiseKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily depthwise_tactics() {
  return {kRunner, list, make};
}

}  // namespace lathe::cpu
