// SPDX-License-Identifier: Apache-2.0
//
// Max and average pooling where channels are contiguous (channels-last and blocked), any window; and global
// pooling in linear format. One output row at a time: a row's windows share their input rows, which stay in
// L1 or L2. Maxima of BF16 are taken as they are stored (vector/reduce.inc).
#include <limits>

#include "backend/cpu/pool/window_span.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/reduce_table.h"

namespace lathe::cpu {

namespace {

constexpr std::string_view kPoolRunner = "Pooling";

class PreparedPool final : public PreparedLayer {
 public:
  bool max = true, include_pad = false;
  int64_t images = 1;    // N, times channel blocks
  int64_t channels = 1;  // contiguous ones
  WindowAxis y, x;
  std::vector<Span> rows, cols;
  TensorType type;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;
  bool direct = false;  // maxima of BF16 without an epilogue: they go to the output as they are

  int64_t row_floats() const { return direct ? 0 : (x.output * channels + 15) / 16 * 16; }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(row_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double taps = static_cast<double>(images * y.output * x.output * channels * y.kernel * x.kernel);
    return members_for(0.03 * taps, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const ReduceTable& table = reduce_table(isa);
    float* row = reinterpret_cast<float*>(args.scratch) + worker.index * row_floats();
    const int64_t element = dtype_bytes(type.dtype, 1), width = x.output * channels;
    const Worker::Range part = worker.slice(images * y.output);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const Span& r = rows[static_cast<size_t>(i % y.output)];
      const auto* image = static_cast<const std::byte*>(args.inputs[0]) +
                          i / y.output * y.input * x.input * channels * element;
      for (int64_t o = 0, n = 0; o < x.output; o += n) {
        const Span& c = cols[static_cast<size_t>(o)];
        n = equal_windows(o);
        float* out = row + o * channels;
        auto* halves = static_cast<uint16_t*>(args.outputs[0]) + i * width + o * channels;
        if (r.count <= 0 || c.count <= 0) {
          if (direct)
            std::fill_n(halves, n * channels, kLowestBf16);
          else
            empty_windows(out, n);
          continue;
        }
        const int64_t count = include_pad ? r.padded * c.padded : r.count * c.count;
        const WindowTaps taps{r.count, c.count, y.dilation * x.input * channels, x.dilation * channels};
        const auto* at = image + (r.first * x.input + c.first) * channels * element;
        if (direct) {
          table.max_windows_bf16(reinterpret_cast<const uint16_t*>(at), taps, channels, n,
                                 x.stride * channels, halves);
          continue;
        }
        table.windows(at, stored_as(type.dtype), taps, channels, n, x.stride * channels,
                      max ? Fold::Max : Fold::Sum, max ? 1.0f : 1.0f / static_cast<float>(count), out);
      }
      if (!direct) epilogue->apply(args, row, width, i * width, 1, width, width);
    }
  }

 private:
  static constexpr uint16_t kLowestBf16 = 0xff80;  // minus infinity
  // How many windows from column `o` on are alike: same taps inside the data, one stride apart.
  int64_t equal_windows(int64_t o) const {
    const Span& c = cols[static_cast<size_t>(o)];
    int64_t n = 1;
    for (; o + n < x.output; ++n) {
      const Span& next = cols[static_cast<size_t>(o + n)];
      if (next.count != c.count || next.padded != c.padded || next.first != c.first + n * x.stride) break;
    }
    return n;
  }
  void empty_windows(float* out, int64_t n) const {
    std::fill_n(out, n * channels, max ? -std::numeric_limits<float>::infinity() : 0.0f);
  }
};

// Linear format: a window that covers each whole channel plane.
class PreparedGlobalPool final : public PreparedLayer {
 public:
  bool max = true;
  int64_t planes = 1, size = 1;
  TensorType type;
  Isa isa = Isa::Avx2;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int members(int available) const override {
    return members_for(0.1 * static_cast<double>(planes * size), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const ReduceTable& table = reduce_table(isa);
    const Worker::Range part = worker.slice(planes);
    const float scale = max ? 1.0f : 1.0f / static_cast<float>(size);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const auto* plane = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, i * size);
      const float value = scale * table.row(plane, stored_as(type.dtype), size, max ? Fold::Max : Fold::Sum);
      epilogue->apply(args, &value, 1, i, 1, 1, 1);
    }
  }
};

WindowSpec window_spec(const Pool& op) {
  return {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad, op.ceil_mode};
}

bool covers_everything(const std::vector<WindowAxis>& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) {
    return a.output == 1 && a.kernel == a.input && a.dilation == 1 && a.pad_begin == 0;
  });
}

class PoolKernel final : public LayerKernel {
 public:
  PoolKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<Pool>(query.layer().op)),
        type_(tactic.inputs[0]),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine),
        has_epilogue_(!query.layer().epilogue.empty()) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& e = context.inputs[0];
    const std::vector<WindowAxis> axes = resolve_window(window_spec(op_), Extents(e.begin() + 2, e.end()));
    return type_.format.is_linear() ? prepare_global(context, axes) : prepare_windows(context, axes);
  }

 private:
  std::unique_ptr<PreparedLayer> prepare_global(const ShapeContext& context,
                                                const std::vector<WindowAxis>& axes) const {
    if (!covers_everything(axes))
      throw_input_error(name_ +
                        " (Pool): the engine was built for windows that cover the whole input, not for " +
                        to_string(context.inputs[0]));
    auto p = std::make_unique<PreparedGlobalPool>();
    p->max = op_.kind == PoolKind::Max;
    p->planes = context.inputs[0][0] * context.inputs[0][1];
    for (const WindowAxis& a : axes) p->size *= a.input;
    p->type = type_;
    p->isa = isa_;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }
  std::unique_ptr<PreparedLayer> prepare_windows(const ShapeContext& context,
                                                 const std::vector<WindowAxis>& axes) const {
    auto p = std::make_unique<PreparedPool>();
    const Extents& e = context.inputs[0];
    const int block = type_.format.block;
    const bool blocked = type_.format.kind == Format::Kind::ChannelBlocked;
    p->max = op_.kind == PoolKind::Max;
    p->include_pad = op_.count_include_pad;
    p->images = blocked ? e[0] * ((e[1] + block - 1) / block) : e[0];
    p->channels = blocked ? block : e[1];
    p->y = axes.size() == 2 ? axes[0] : WindowAxis{.input = 1, .output = 1};
    p->x = axes.back();
    for (int64_t o = 0; o < p->y.output; ++o) p->rows.push_back(span_of(p->y, o));
    for (int64_t o = 0; o < p->x.output; ++o) p->cols.push_back(span_of(p->x, o));
    p->type = type_;
    p->isa = isa_;
    p->threads = context.threads;
    p->direct = p->max && type_.dtype == DType::BFloat16 && !has_epilogue_;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

  std::string name_;
  Pool op_;
  TensorType type_;
  Isa isa_;
  Epilogue epilogue_;
  bool has_epilogue_;
};

// Whether every shape in the profile is pooled globally: spatial dims are fixed and equal the window.
bool always_global(const Pool& op, const Shape& input) {
  if (op.ceil_mode || op.auto_pad != AutoPad::NotSet) return false;
  for (size_t d = 2; d < input.size(); ++d) {
    const size_t i = d - 2;
    const auto none = [i](const Ints& v, int64_t neutral) { return v.empty() || v[i] == neutral; };
    if (!input[d].is_constant(op.kernel[i]) || !none(op.pads_begin, 0) || !none(op.pads_end, 0) ||
        !none(op.dilations, 1))
      return false;
  }
  return true;
}

Support supports_pool(const Pool& op, const Node& node, const Shape& input, const TensorType& type) {
  if (!is_vector_float(type.dtype)) return no_vector_kernel(type.dtype);
  if (op.kind == PoolKind::Lp) return Support::no("no vector kernel for Lp pooling");
  if (node.has_output(1)) return Support::no("indices are not produced");
  if (type.format.is_linear())
    return always_global(op, input) ? Support{}
                                    : Support::no("in linear format only global pooling is vectorised");
  if (input.size() > 4) return Support::no("three or more spatial dims");
  return {};
}

std::vector<Tactic> list_pool(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Pool>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
  for (const DType type : layer_types(query))
    for (const Format& format : {blocked, kChannelsLast, kLinear}) {
      Tactic t = typed_tactic(query, kPoolRunner, "pool_" + std::string(isa_suffix(machine)), {type, format},
                              {type, format});
      if (const Support s = supports_pool(*op, node, query.graph.value(node.inputs[0]).shape, {type, format});
          !s.ok)
        t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_pool(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext&) {
  return std::make_unique<PoolKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily pool_tactics() {
  return {kPoolRunner, list_pool, make_pool};
}

}  // namespace lathe::cpu
