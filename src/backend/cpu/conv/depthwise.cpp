// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution (one filter per channel) where channels are contiguous, any window; 3, 5 and 7
// columns with stride 1 or 2 have their own loops (conv/depthwise.inc). Activations are applied to a few
// columns at a time (vector/activation.inc), any other epilogue to an output row while it is in L1 or L2.
#include <cstring>
#include <optional>

#include "backend/cpu/conv/depthwise.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

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

void set_columns(DepthwiseRows& d, const WindowAxis& x) {
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

void run_depthwise(const DepthwiseTable& table, DepthwiseRows& d, const InputRows& in, const WindowAxis& y,
                   const std::vector<WindowRows>& window_rows, const void* weights, int64_t begin,
                   int64_t end) {
  auto* out = static_cast<std::byte*>(d.out);
  const int64_t out_row_bytes = d.out_row_stride * (d.out_stored == Stored::F32 ? 4 : 2);
  d.tap_row = y.dilation * in.pitch;
  d.window_row = y.stride * in.pitch;
  if (in.ring > 0) d.ring = in.ring * in.pitch;
  for (int64_t o = begin; o < end; o += d.out_rows) {
    const WindowRows& window = window_rows[static_cast<size_t>(o)];
    const auto is_alike = [&](int64_t row) {
      const WindowRows& other = window_rows[static_cast<size_t>(row)];
      return other.first_tap == window.first_tap && other.count == window.count;
    };
    d.out_rows = 1;
    while (o + d.out_rows < end && is_alike(o + d.out_rows)) ++d.out_rows;
    d.first = (in.ring > 0 ? window.first_row % in.ring : window.first_row) * in.pitch;
    d.rows = window.count;
    d.weights =
        static_cast<const std::byte*>(weights) + window.first_tap * d.cols * table.vector * table.lane_bytes;
    d.out = out + (o - begin) * out_row_bytes;
    table.rows(d);
  }
}

namespace {
int64_t reach(const WindowAxis& axis) {
  return (axis.kernel - 1) * axis.dilation + 1;
}
int64_t window_columns(const WindowAxis& x) {
  return (x.output - 1) * x.stride + reach(x);
}
// The rows under a window are not more than memory is there for (a dilation may be of any size).
bool rows_fit(const WindowAxis& y, const WindowAxis& x, int64_t lanes) {
  constexpr double kMostBytes = 64 << 20;
  return 4.0 * static_cast<double>(reach(y)) * static_cast<double>(window_columns(x)) *
             static_cast<double>(lanes) <=
         kMostBytes;
}
}  // namespace

bool DenseRows::suit_whole(DType type, const WindowAxis& y, const WindowAxis& x, int64_t pixel,
                           int64_t lanes) {
  if (!rows_fit(y, x, lanes)) return false;
  const bool fast = (x.kernel == 3 || x.kernel == 5 || x.kernel == 7) && x.dilation == 1 && x.stride <= 2;
  if (!fast) return y.kernel * x.kernel > 1;
  if (type == DType::BFloat16) return y.dilation == 1 && 2 * y.stride <= y.kernel;
  return pixel != lanes;
}
bool DenseRows::suit_some(DType type, const WindowAxis& y, const WindowAxis& x, int64_t pixel,
                          int64_t lanes) {
  return (pixel % lanes != 0 && rows_fit(y, x, lanes)) || suit_whole(type, y, x, pixel, lanes);
}
// A third of L1, or one row.
int64_t DenseRows::rows_ahead(const WindowAxis& y, const WindowAxis& x, int64_t lanes) {
  constexpr int64_t kBytes = 16 << 10;
  const int64_t rows = kBytes / (window_columns(x) * lanes * 4);
  return std::clamp<int64_t>((rows - reach(y)) / y.stride + 1, 1, std::max<int64_t>(1, y.output));
}
int64_t DenseRows::ring_rows(const WindowAxis& y, const WindowAxis& x, int64_t lanes) {
  return (rows_ahead(y, x, lanes) - 1) * y.stride + reach(y);
}
int64_t DenseRows::floats(const WindowAxis& y, const WindowAxis& x, int64_t lanes) {
  return ring_rows(y, x, lanes) * window_columns(x) * lanes;
}

DenseRows::DenseRows(const DepthwiseTable& table, const WindowAxis& y, const WindowAxis& x, float* memory)
    : table_(table), y_(y), x_(x), memory_(memory), columns_(window_columns(x)) {
  // With a long stride the windows may end before the data begins.
  const int64_t data = std::min(columns_, x.pad_begin), data_end = std::min(columns_, x.pad_begin + x.input);
  for (int64_t row = 0; row < ring_rows(y, x, table.vector); ++row) {
    float* at = memory + row * columns_ * table.vector;
    std::fill_n(at, data * table.vector, 0.0f);
    std::fill(at + data_end * table.vector, at + columns_ * table.vector, 0.0f);
  }
}

void DenseRows::run(DepthwiseRows& plain, const std::vector<WindowRows>& window_rows, const void* weights,
                    int64_t begin, int64_t end) const {
  const int64_t lanes = table_.vector, pixel = plain.pixel_stride, ahead = rows_ahead(y_, x_, lanes);
  const InputRows ring{.pitch = columns_ * lanes, .ring = ring_rows(y_, x_, lanes)};
  const int64_t row_bytes = x_.input * pixel * (plain.stored == Stored::BF16 ? 2 : 4);
  const auto* in = static_cast<const std::byte*>(plain.in);
  auto* out = static_cast<std::byte*>(plain.out);
  const int64_t out_row_bytes = plain.out_row_stride * (plain.out_stored == Stored::F32 ? 4 : 2);
  const int64_t columns = std::clamp<int64_t>(columns_ - x_.pad_begin, 0, x_.input);
  DepthwiseRows d = plain;
  d.in = memory_;
  d.stored = Stored::F32;
  d.pixel_stride = lanes;
  d.in_width = columns_;
  d.pad = d.inside_begin = 0;
  d.inside_end = d.out_width;
  // With a dilation windows near the border may want higher rows than the one in front of them.
  int64_t ready = y_.input;
  for (int64_t o = begin; o < end; ++o)
    if (const WindowRows& window = window_rows[static_cast<size_t>(o)]; window.count > 0)
      ready = std::min(ready, window.first_row);
  int64_t slot = ready % ring.ring;
  for (int64_t o = begin, n = 0; o < end; o += n) {
    n = std::min(ahead, end - o);
    int64_t last = -1;  // for the same reason not always the last window's
    for (int64_t row = o; row < o + n; ++row) {
      const WindowRows& window = window_rows[static_cast<size_t>(row)];
      if (window.count > 0) last = std::max(last, window.first_row + (window.count - 1) * y_.dilation);
    }
    for (; ready <= last; ++ready) {
      table_.gather(in + ready * row_bytes, plain.stored, pixel, columns, plain.channels,
                    memory_ + slot * ring.pitch + x_.pad_begin * lanes);
      if (++slot == ring.ring) slot = 0;
    }
    d.out = out + (o - begin) * out_row_bytes;
    run_depthwise(table_, d, ring, y_, window_rows, weights, o, o + n);
  }
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

constexpr std::string_view kDepthwiseRunner = "DepthwiseConvolution";

WindowSpec window_spec(const Conv& op) {
  return {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad};
}

class PreparedDepthwise final : public PreparedLayer {
 public:
  int64_t batch = 1, channels = 1;
  WindowAxis y, x;
  std::vector<WindowRows> window_rows;  // per output row
  TensorType type;
  RegisterTail tail;
  bool direct = false;  // results go straight to the output
  Isa isa = Isa::Avx2;
  int threads = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  std::span<const std::byte> weights;  // [vector of channels][row][col][vector], then [bias]
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int64_t vector() const { return depthwise_table(isa).vector; }
  int64_t vectors() const { return (channels + vector() - 1) / vector(); }
  // Blocked: output rows that are computed before the epilogue is applied to them; at most about 16 KB.
  int64_t group_rows() const { return std::max<int64_t>(1, 4096 / (x.output * vector() + 1)); }
  bool is_blocked() const { return type.format.kind == Format::Kind::ChannelBlocked; }
  int64_t pixel() const { return is_blocked() ? vector() : channels; }
  bool gathers_whole() const {
    return DenseRows::suit_whole(type.dtype, y, x, pixel(), vector()) && (is_blocked() || direct);
  }
  bool gathers_some() const {
    return DenseRows::suit_some(type.dtype, y, x, pixel(), vector()) && (is_blocked() || direct);
  }
  // Of a member: results on their way through the epilogue, and dense rows.
  int64_t result_floats() const {
    return direct ? 0 : x.output * vector() * (is_blocked() ? group_rows() : vectors());
  }
  int64_t member_floats() const {
    return result_floats() + (gathers_some() ? DenseRows::floats(y, x, vector()) : 0);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double taps = static_cast<double>(batch * channels * y.output * x.output * y.kernel * x.kernel);
    return members_for(0.025 * taps, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (is_blocked())
      run_blocked(args, worker);
    else if (direct)
      run_by_vectors(args, worker);
    else
      run_by_rows(args, worker);
  }

 private:
  // All but the addresses and the window's rows.
  DepthwiseRows row_problem(int64_t pixel) const {
    DepthwiseRows d;
    d.stored = stored_as(type.dtype);
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

  // Blocked: rows of a plane (image, vector of channels) in groups, so that the epilogue is called once per
  // group.
  void run_blocked(const LayerArgs& args, const Worker& worker) const {
    const int64_t lanes = vector(), width = x.output * lanes;
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const Worker::Range part = worker.slice(batch * vectors() * y.output);
    if (part.begin == part.end) return;
    DepthwiseRows d = row_problem(lanes);  // a whole vector: the padding is there, and stays zero
    d.out_row_stride = width;
    const Window window(*this, buffer + result_floats());
    int64_t plane = part.begin / y.output, o = part.begin % y.output;
    for (int64_t i = part.begin, n = 0; i < part.end; i += n) {
      n = std::min({part.end - i, y.output - o, direct ? y.output : group_rows()});
      d.in = input(args, plane * y.input * x.input * lanes);
      d.out = direct ? output(args, i * width) : reinterpret_cast<std::byte*>(buffer);
      window.run(d, plane % vectors(), o, o + n);
      if (!direct) epilogue->apply(args, buffer, n * width, i * width, 1, n * width, n * width);
      o += n;
      if (o == y.output) {
        o = 0;
        ++plane;
      }
    }
  }

  // Groups of an image's output rows; those of one vector of channels are computed one after the other. One
  // group where the lines that two vectors share stay in L1, or where much is saved by gathering once; else
  // groups that L2 holds beside much else, since the next vector reads the same pages.
  int64_t row_groups(int members) const {
    const int64_t line_bytes = 64 * (y.input * x.input + y.output * x.output);
    const int64_t row_bytes = dtype_bytes(type.dtype, (x.input * y.stride + x.output) * channels);
    const bool all = line_bytes <= l1_bytes || (gathers_whole() && y.kernel >= 5);
    const int64_t most =
        all ? y.output : std::clamp<int64_t>(l2_bytes / (gathers_whole() ? 4 : 8) / row_bytes, 1, y.output);
    const int64_t groups = (y.output + most - 1) / most;
    // Members have as many of them each, unless most rows would be gathered twice.
    const int64_t even = round_up(groups, members);
    return batch % members == 0 || y.output <= even * y.kernel ? groups : even;
  }
  // Channels-last, vector by vector.
  void run_by_vectors(const LayerArgs& args, const Worker& worker) const {
    const int64_t lanes = vector(), groups = row_groups(worker.count);
    const Worker::Range part = worker.slice(batch * groups * vectors(), 1, 2);
    if (part.begin == part.end) return;
    const Window window(*this, reinterpret_cast<float*>(args.scratch) + worker.index * member_floats());
    DepthwiseRows d = row_problem(channels);
    d.out_row_stride = x.output * channels;
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t v = i % vectors(), group = i / vectors() % groups, image = i / vectors() / groups;
      const int64_t begin = y.output * group / groups, end = y.output * (group + 1) / groups;
      d.channels = std::min(lanes, channels - v * lanes);
      d.in = input(args, image * y.input * x.input * channels + v * lanes);
      d.out = output(args, (image * y.output + begin) * x.output * channels + v * lanes);
      window.run(d, v, begin, end);
    }
  }

  // Channels-last, row by row for the epilogue, which wants all channels of a pixel.
  void run_by_rows(const LayerArgs& args, const Worker& worker) const {
    const int64_t lanes = vector(), rows = batch * y.output;
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    // Few rows: the channels of a row are shared out as well.
    int64_t pieces = 1;
    while (rows * pieces < 8 * worker.count && pieces * 8 <= vectors()) pieces *= 2;
    const Worker::Range part = worker.slice(rows * pieces);
    DepthwiseRows d = row_problem(channels);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t row = i / pieces, piece = i % pieces, o = row % y.output;
      const int64_t v0 = vectors() * piece / pieces, v1 = vectors() * (piece + 1) / pieces;
      const int64_t c0 = v0 * lanes, count = std::min(channels, v1 * lanes) - c0;
      d.out_stride = count;
      for (int64_t v = v0; v < v1; ++v) {
        d.bias = bias_at(v);
        d.channels = std::min(lanes, channels - v * lanes);
        d.in = input(args, row / y.output * y.input * x.input * channels + v * lanes);
        d.out = buffer + (v - v0) * lanes;
        run_depthwise(depthwise_table(isa), d, {.pitch = x.input * channels}, y, window_rows, weights_of(v),
                      o, o + 1);
      }
      if (!direct)
        epilogue->apply(args, buffer, count, row * x.output * channels + c0, x.output, channels, count);
    }
  }

  // The rows of a vector of channels, gathered first where that pays.
  class Window {
   public:
    Window(const PreparedDepthwise& layer, float* memory) : layer_(layer) {
      if (layer.gathers_some()) dense_.emplace(depthwise_table(layer.isa), layer.y, layer.x, memory);
    }
    void run(DepthwiseRows& d, int64_t v, int64_t begin, int64_t end) const {
      const DepthwiseTable& table = depthwise_table(layer_.isa);
      d.bias = layer_.bias_at(v);
      if (dense_ && (d.channels < table.vector || layer_.gathers_whole()))
        dense_->run(d, layer_.window_rows, layer_.weights_of(v), begin, end);
      else
        run_depthwise(table, d, {.pitch = layer_.x.input * d.pixel_stride}, layer_.y, layer_.window_rows,
                      layer_.weights_of(v), begin, end);
    }

   private:
    const PreparedDepthwise& layer_;
    std::optional<DenseRows> dense_;
  };
};

class DepthwiseKernel final : public LayerKernel {
 public:
  DepthwiseKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                  const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        type_(tactic.inputs[0]),
        isa_(machine.isa()),
        l1_bytes_(machine.l1_bytes),
        l2_bytes_(machine.l2_bytes),
        plan_(plan_register_tail(query, 1)),
        epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    if (plan_ && plan_->operand >= 0) plan_.reset();
    if (plan_) suit(plan_->tail, machine);
    const Extents extents = to_extents(query.graph.value(node.inputs[1]).shape);
    const int64_t channels = extents[0], lanes = depthwise_table(isa_).vector,
                  padded = (channels + lanes - 1) / lanes * lanes;
    const int64_t taps = element_count(Extents(extents.begin() + 1, extents.end()));
    weights_ = pack.packed("weights", dtype_bytes(DType::Float32, padded * (taps + 1)), [&] {
      const std::vector<float> packed =
          pack_depthwise(query.graph.value(node.inputs[1]).constant, lanes,
                         bias_of(query, plan_.value_or(TailPlan{}), channels, padded));
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
    p->type = type_;
    p->direct = plan_.has_value();
    if (plan_) p->tail = plan_->tail;
    p->isa = isa_;
    p->l1_bytes = l1_bytes_;
    p->l2_bytes = l2_bytes_;
    p->threads = context.threads;
    p->weights = weights_;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Conv op_;
  TensorType type_;
  Isa isa_;
  int64_t l1_bytes_, l2_bytes_;
  std::optional<TailPlan> plan_;
  Epilogue epilogue_;
  std::span<const std::byte> weights_;
};

Support supports_depthwise(const LayerQuery& query, const Conv& op, DType type) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (type != DType::Float32 && type != DType::BFloat16) return no_vector_kernel(type);
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  if (!x.shape[1].is_constant(op.groups) || !w.shape[0].is_constant(op.groups))
    return Support::no("not one filter per channel");
  if (x.shape.size() > 4) return Support::no("three or more spatial dims");
  return {};
}

std::vector<Tactic> list_depthwise(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || op->groups == 1) return {};
  std::vector<Tactic> tactics;
  const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
  for (const DType type : layer_types(query))
    for (const Format& format : {blocked, kChannelsLast}) {
      Tactic t = typed_tactic(query, kDepthwiseRunner, "depthwise_" + std::string(isa_suffix(machine)),
                              {type, format}, {type, format});
      for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
      if (const Support s = supports_depthwise(query, *op, type); !s.ok) t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_depthwise(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext& pack) {
  return std::make_unique<DepthwiseKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily depthwise_tactics() {
  return {kDepthwiseRunner, list_depthwise, make_depthwise};
}

}  // namespace lathe::cpu
