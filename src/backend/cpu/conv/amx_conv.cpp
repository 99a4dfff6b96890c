// SPDX-License-Identifier: Apache-2.0
//
// Convolution in BF16, or FP32 in parts, by AMX tiles, channels-last, any window: a product whose rows are
// pixels and whose steps along k are the window's taps, with no matrix of windows in between (implicit GEMM).
//
// A member copies the input lines that a strip of output rows needs into its scratch, with zeros around them.
// Lines whose number is the same modulo the vertical stride follow one another, and a line is as long as an
// output row times the horizontal stride: so output pixels in a row, and from row to row, are the same
// distance apart in the strip, 16 of them are one tile whatever the width of the image, and a tap is a
// constant offset. Between rows a few results belong to no pixel (3x3: 1 in 57 to 1 in 8); they are not
// stored.
// Channels that no step of 16 to 32 divides are padded in the copy; of up to 4 channels the taps of a
// window's row are one after the other, and a step takes several.
//
// Operations: 2 K C R S per result. Bytes: input twice (the copy is read from L2), weights and result once;
// weights of 3x3 512-512 (4.7 MB) come from L3, at 7x7 pixels the larger part of the floor.
// Reached (one core of an Emerald Rapids, cold, of 2,850 GFLOP/s): 3x3 64@56 1,260 (44 %), 256@14 1,280 (45
// %), 512@7 660, where weights come at 13 GB/s; 7x7 stem from FP32 planes 640. oneDNN's: 1,260, 1,000, 440,
// 690 after a reformat. FP32 by three BF16 parts a value (amx_matmul.cpp), each in a strip of its own,
// reached there, in FP32: 3x3 64@56 278, 128@28 293, 256@14 220 (Winograd's of winograd.cpp 440, 389, 274).
#include <cstring>

#include "backend/cpu/tile/amx_matmul.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kAmxConvRunner = "AmxConvolution";
constexpr int64_t kStripBytes = 384 << 10,
                  kPartStripBytes = 224 << 10;  // of input, or of one of three parts, in L2

// How channels and taps become steps along k.
struct StepLayout {
  int64_t channels = 1;    // of a pixel in the strip, padded
  int64_t step = 32;       // elements
  bool whole_row = false;  // steps go over all taps of a window's row

  static constexpr int64_t kFew = 4;  // channels of which steps take all taps of a row

  static StepLayout of(int64_t channels, int64_t taps_x, bool dilated) {
    if (channels <= kFew && !dilated && amx_step(taps_x * kFew) > 0)
      return {kFew, amx_step(taps_x * kFew), true};
    if (amx_step(channels) >= 16) return {channels, amx_step(channels), false};
    return {round_up(channels, channels < 16 ? 16 : 32), channels < 16 ? 16 : 32, false};
  }
};

bool is_dilated(const Conv& op) {
  return !op.dilations.empty() && op.dilations.back() != 1;
}

class PreparedAmxConv final : public PreparedLayer {
 public:
  const AmxTable* table = nullptr;
  int64_t batch = 1, in_channels = 1, n = 1;
  WindowAxis y, x;
  StepLayout steps;
  bool rows_first = false;
  bool in_chunks = false;  // all rows of a strip meet a chunk along k of a panel before the next one
  bool planes = false;     // the data is FP32 and linear, of at most four channels
  bool in_parts = false;   // FP32 by three BF16 parts a value, each in a strip of its own
  DType result = DType::BFloat16;
  const std::byte* weights = nullptr;
  const float* bias = nullptr;
  std::optional<TailPlan> plan;
  std::shared_ptr<const PreparedEpilogue> epilogue;  // without a plan
  int threads = 1;

  void lay_out() {
    pixel_bytes_ = 2 * steps.channels;
    // From the first pixel of an output row to that of the next, in outputs: padding on the right may be the
    // next line's on the left.
    const int64_t needed = (x.output - 1) * x.stride + (x.kernel - 1) * x.dilation + 1;
    const int64_t right = std::max<int64_t>(0, needed - x.pad_begin - x.input);
    const int64_t pixels =
        std::max(x.pad_begin, right) + std::clamp<int64_t>(needed - x.pad_begin, 0, x.input);
    right_bytes_ = right * pixel_bytes_;
    row_outputs_ = std::max((pixels + x.stride - 1) / x.stride, x.output);
    line_bytes_ = row_outputs_ * x.stride * pixel_bytes_;
    strip_rows_ = 1;
    const int64_t most = in_parts ? kPartStripBytes : kStripBytes;
    while (strip_rows_ < y.output && strip_bytes(strip_rows_ + 1) <= most) ++strip_rows_;
    // Strips of equal height.
    const int64_t strips = (y.output + strip_rows_ - 1) / strip_rows_;
    strip_rows_ = (y.output + strips - 1) / strips;
    for (int64_t dy = 0; dy < y.kernel; ++dy)
      for (int64_t dx = 0; dx < (steps.whole_row ? 1 : x.kernel); ++dx)
        for (int64_t c = 0; c < (steps.whole_row ? x.kernel : 1) * steps.channels; c += steps.step)
          step_at_.push_back(
              static_cast<int32_t>(line_at(dy * y.dilation) + dx * x.dilation * pixel_bytes_ + 2 * c));
    for (int64_t row = 0; row < strip_rows_; ++row)
      for (int64_t i = 0; i < row_outputs_; ++i)
        row_at_.push_back(i < x.output ? static_cast<int32_t>(row * x.output + i) : -1);
    const int64_t groups = (strip_rows_ * row_outputs_ + AmxProduct::kGroup - 1) / AmxProduct::kGroup;
    strip_at_ = round_up(groups * static_cast<int64_t>(sizeof(std::byte*)), 64);
    sums_at_ = strip_at_ + parts() * strip_bytes(strip_rows_);
    partial_at_ = sums_at_ + (plan ? 0 : round_up(strip_rows_ * x.output * AmxProduct::kPanel * 4, 64));
    member_bytes_ = partial_at_ +
                    (in_chunks ? round_up(groups, 2) * AmxProduct::kGroup * AmxProduct::kPanel * 4 : 0) + 64;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override {
    return members_for(operations() / 1500 + weight_bytes() / 20 + input_bytes() / 30, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const bool rows = by_rows(worker.count);
    const Worker::Range own_rows =
        rows ? worker.slice(batch * y.output, 1, strip_rows_) : Worker::Range{0, batch * y.output};
    const Worker::Range panels = rows ? Worker::Range{0, panel_count()}
                                      : worker.slice(panel_count(), 1, Worker::kUncut);  // copies all rows
    if (own_rows.begin >= own_rows.end || panels.begin >= panels.end) return;
    std::byte* own = args.scratch + worker.index * member_bytes_;
    table->begin(steps.step);
    for (int64_t i = own_rows.begin, count = 0; i < own_rows.end; i += count) {
      const int64_t row = i % y.output;
      count = std::min({own_rows.end - i, y.output - row, strip_rows_});
      fill_strip(args, i / y.output, row, count, own + strip_at_);
      multiply(args, i / y.output, row, count, panels, own);
    }
    table->end();
  }

 private:
  int64_t panel_count() const { return (n + AmxProduct::kPanel - 1) / AmxProduct::kPanel; }
  int64_t parts() const { return in_parts ? kBf16Parts : 1; }
  double operations() const {  // of BF16
    return (in_parts ? 12.0 : 2.0) * static_cast<double>(batch * y.output * x.output * n) *
           static_cast<double>(steps.channels * y.kernel * x.kernel);
  }
  double weight_bytes() const {
    return 2.0 * static_cast<double>(parts()) * static_cast<double>(steps.channels * y.kernel * x.kernel * n);
  }
  double input_bytes() const { return 2.0 * static_cast<double>(batch * y.input * x.input * in_channels); }
  // As for products (amx_matmul.cpp); input is read and copied.
  bool by_rows(int members) const {
    const ProductShares shares{.arithmetic = operations() / 1500,
                               .weights = weight_bytes() / 30,
                               .rows = 2 * input_bytes() / 30,
                               .row_units = batch * y.output,
                               .column_units = panel_count()};
    return shares.by_rows(members);
  }

  // Lines of a strip that have the same number modulo the stride.
  int64_t plane_lines(int64_t rows) const { return rows + (y.kernel - 1) * y.dilation / y.stride; }
  int64_t line_at(int64_t line) const {
    return (line % y.stride * plane_lines(strip_rows_) + line / y.stride) * line_bytes_;
  }
  int64_t strip_bytes(int64_t rows) const {
    // The last tile reads 15 pixels too many, and their windows.
    const int64_t beyond = (AmxProduct::kGroup * x.stride + x.kernel * x.dilation) * pixel_bytes_;
    return round_up(y.stride * plane_lines(rows) * line_bytes_ + beyond + 64, 64);
  }

  // The lines that output rows [row, row + count) see, with zeros around them.
  void fill_strip(const LayerArgs& args, int64_t image, int64_t row, int64_t count, std::byte* strip) const {
    const int64_t lines = (count - 1) * y.stride + (y.kernel - 1) * y.dilation + 1;
    const int64_t left = x.pad_begin * pixel_bytes_;
    const int64_t pixels = std::min(x.input, line_bytes_ / pixel_bytes_ - x.pad_begin),
                  width = pixels * pixel_bytes_;
    for (int64_t i = 0; i < lines; ++i) {
      std::byte* to = strip + line_at(i);
      const int64_t line = row * y.stride - y.pad_begin + i;
      if (line < 0 || line >= y.input) {
        clear(to, line_bytes_);
        continue;
      }
      clear(to, left);
      clear(to + left + width, line_bytes_ - left - width);
      copy_line(args.inputs[0], image, line, pixels, to + left);
    }
    // The last line of each plane has its padding on the right in a line that nobody filled.
    for (int64_t plane = 0; plane < y.stride; ++plane) {
      const int64_t filled = (lines - plane + y.stride - 1) / y.stride;
      if (filled < plane_lines(strip_rows_) || plane + 1 == y.stride)
        clear(strip + (plane * plane_lines(strip_rows_) + filled) * line_bytes_, right_bytes_);
    }
  }
  void clear(std::byte* at, int64_t bytes) const {
    for (int64_t part = 0; part < parts(); ++part)
      std::memset(at + part * strip_bytes(strip_rows_), 0, static_cast<size_t>(bytes));
  }
  void copy_line(const void* data, int64_t image, int64_t line, int64_t pixels, std::byte* to) const {
    if (planes) {
      const float* rows[4] = {};
      for (int64_t c = 0; c < in_channels; ++c)
        rows[c] = static_cast<const float*>(data) + ((image * in_channels + c) * y.input + line) * x.input;
      return table->interleave(rows, in_channels, pixels, to);
    }
    const int64_t bytes = (in_parts ? 4 : 2) * in_channels;
    const auto* from = static_cast<const std::byte*>(data) + (image * y.input + line) * x.input * bytes;
    if (in_parts)
      table->split_rows(from, bytes, in_channels, pixels, to, pixel_bytes_, strip_bytes(strip_rows_),
                        steps.channels);
    else if (bytes == pixel_bytes_)
      std::memcpy(to, from, static_cast<size_t>(pixels * bytes));
    else
      table->copy_rows(from, bytes, bytes, pixels, to, pixel_bytes_, pixel_bytes_);
  }

  void multiply(const LayerArgs& args, int64_t image, int64_t row, int64_t count, const Worker::Range& panels,
                std::byte* own) const {
    const auto** starts = reinterpret_cast<const std::byte**>(own);
    const int64_t rows = (count - 1) * row_outputs_ + x.output,
                  groups = (rows + AmxProduct::kGroup - 1) / AmxProduct::kGroup;
    const int64_t pitch = x.stride * pixel_bytes_;
    for (int64_t g = 0; g < groups; ++g) starts[g] = own + strip_at_ + g * AmxProduct::kGroup * pitch;
    AmxProduct p{
        .groups = starts,
        .group_count = groups,
        .row_bytes = pitch,
        .step_at = step_at_.data(),
        .steps = static_cast<int64_t>(step_at_.size()),
        .step = steps.step,
        .part_bytes = in_parts ? strip_bytes(strip_rows_) : 0,
        .panel_bytes = static_cast<int64_t>(step_at_.size()) * steps.step * 2 * parts() * AmxProduct::kPanel,
        .rows_first = rows_first,
        .rows = rows,
        .row_at = row_at_.data()};
    if (in_chunks) {
      p.partial = reinterpret_cast<float*>(own + partial_at_);
      p.chunk_steps = amx_chunk_steps(p.steps * p.step, p.step, in_parts);
    }
    p.operand_stride = n;
    p.out_stride = plan ? n : AmxProduct::kPanel;
    if (plan) p.tail = plan->tail;
    if (plan) p.stored = stored_as(result);
    auto* sums = reinterpret_cast<float*>(own + sums_at_);
    const int64_t pixel = (image * y.output + row) * x.output;
    for (int64_t panel = panels.begin, end = 0; panel < panels.end; panel = end) {
      end = plan ? panels.end : panel + 1;
      const int64_t column = panel * AmxProduct::kPanel, at = pixel * n + column;
      p.columns = std::min(n, end * AmxProduct::kPanel) - column;
      p.b = weights + p.steps * steps.step * 2 * parts() * column;
      p.bias = bias + column;
      p.out = plan ? static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(result, at)
                   : reinterpret_cast<std::byte*>(sums);
      if (plan && plan->operand >= 0)
        p.operand = static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan->operand)]) +
                    dtype_bytes(result, at);
      table->run(p);
      if (!plan) epilogue->apply(args, sums, AmxProduct::kPanel, at, count * x.output, n, p.columns);
    }
  }

  std::vector<int32_t> step_at_, row_at_;
  int64_t pixel_bytes_ = 2, row_outputs_ = 1, line_bytes_ = 0, right_bytes_ = 0, strip_rows_ = 1;
  int64_t strip_at_ = 0, sums_at_ = 0, partial_at_ = 0, member_bytes_ = 0;  // in a member's scratch
};

class AmxConvKernel final : public LayerKernel {
 public:
  AmxConvKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                const PackContext& pack)
      : tactic_(tactic),
        variant_(AmxVariant::of(tactic.params)),
        table_(machine.amx),
        op_(std::get<Conv>(query.layer().op)),
        epilogue_(query, tactic, machine),
        plan_(plan_register_tail(query, 1)) {
    const Node& node = query.layer();
    const Value& w = query.graph.value(node.inputs[1]);
    n_ = w.shape[0].value();
    channels_ = w.shape[1].value();
    const int64_t rows = w.shape[2].value(), columns = w.shape[3].value();
    steps_ = StepLayout::of(channels_, columns, is_dilated(op_));
    const int64_t k = rows * columns * steps_.channels, padded = round_up(n_, AmxProduct::kPanel / 2);
    const bool in_parts = variant_.in_parts;
    bias_offset_ = packed_bytes(DType::BFloat16, in_parts, k * padded);
    packed_ = pack.packed("weights", bias_offset_ + dtype_bytes(DType::Float32, padded), [&] {
      const std::vector<float> bias = bias_of(query, plan_.value_or(TailPlan{}), n_, padded);
      const std::vector<double> values = w.constant.to_doubles();
      std::vector<std::byte> bytes(static_cast<size_t>(bias_offset_) + bias.size() * sizeof(float));
      const auto weight = [&](int64_t at, int64_t column) {
        const int64_t channel = at % steps_.channels, tap = at / steps_.channels;
        if (channel >= channels_) return 0.0f;
        return static_cast<float>(
            values[static_cast<size_t>((column * channels_ + channel) * rows * columns + tap)]);
      };
      if (in_parts)
        pack_column_parts(bytes.data(), steps_.step, k, n_, weight);
      else
        pack_columns(bytes.data(), DType::BFloat16, k, n_, weight);
      std::memcpy(bytes.data() + bias_offset_, bias.data(), bias.size() * sizeof(float));
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedAmxConv>();
    const Extents& e = context.inputs[0];
    const WindowSpec spec{op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end, op_.auto_pad};
    const auto axes = resolve_window(spec, Extents(e.begin() + 2, e.end()));
    p->table = table_;
    p->batch = e[0];
    p->in_channels = channels_;
    p->n = n_;
    p->y = axes[0];
    p->x = axes[1];
    p->steps = steps_;
    p->in_parts = variant_.in_parts;
    p->planes = tactic_.inputs[0].dtype == DType::Float32 && !p->in_parts;
    p->rows_first = variant_.order == AmxOrder::Rows;
    p->in_chunks = variant_.order == AmxOrder::Chunks;
    p->result = tactic_.outputs[0].dtype;
    p->weights = packed_.data();
    p->bias = reinterpret_cast<const float*>(packed_.data() + bias_offset_);
    p->plan = plan_;
    p->threads = context.threads;
    if (!plan_) p->epilogue = epilogue_.prepare(context);
    p->lay_out();
    return p;
  }

 private:
  Tactic tactic_;
  AmxVariant variant_;
  const AmxTable* table_;
  Conv op_;
  Epilogue epilogue_;
  std::optional<TailPlan> plan_;
  StepLayout steps_;
  int64_t n_ = 1, channels_ = 1, bias_offset_ = 0;
  std::span<const std::byte> packed_;
};

Support supports_amx_conv(const LayerQuery& query, const Conv& op, const AmxVariant& variant,
                          const Machine& machine) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (!machine.amx) return Support::no("needs AMX");
  if (op.groups != 1) return Support::no("a grouped convolution");
  if (x.shape.size() != 4) return Support::no("not two spatial dims");
  if (x.is_constant()) return Support::no("the data is constant");
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  const int64_t k = w.constant.size() / std::max<int64_t>(w.shape[0].value(), 1);
  if (variant.order == AmxOrder::Chunks && k < least_for_chunks(variant.in_parts))
    return Support::no("k = " + std::to_string(k) + " is short: panels stay in L1 without chunks");
  return {};
}

std::vector<Tactic> list_amx_conv(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || is_pixel_conv(*op)) return {};
  const std::vector<DType> types = layer_types(query);
  const auto allowed = [&](DType type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  std::vector<Tactic> tactics;
  const auto add = [&](const AmxVariant& variant, const TensorType& from, DType to) {
    if (!allowed(from.dtype) || !allowed(to)) return;
    Tactic t = with_variant(typed_tactic(query, kAmxConvRunner, "tile_conv", from, {to, kChannelsLast}),
                            "tile_conv_" + variant.name(), variant.params());
    for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
    if (const Support s = supports_amx_conv(query, *op, variant, machine); !s.ok) t.support = s;
    write_over_operand(plan_register_tail(query, 1), t);
    tactics.push_back(std::move(t));
  };
  for (const AmxOrder order : {AmxOrder::Panels, AmxOrder::Chunks, AmxOrder::Rows}) {
    for (const DType to : {DType::BFloat16, DType::Float32})
      if (allowed(DType::BFloat16)) add({false, order}, {DType::BFloat16, kChannelsLast}, to);
    if (machine.amx) add({true, order}, {DType::Float32, kChannelsLast}, DType::Float32);
  }
  // An image as it comes: neither a reformat nor a cast in front.
  const Value& weights = query.graph.value(query.layer().inputs[1]);
  if (weights.shape.size() == 4 && weights.shape[1].is_constant() && weights.shape[3].is_constant() &&
      StepLayout::of(weights.shape[1].value(), weights.shape[3].value(), is_dilated(*op)).whole_row)
    for (const AmxOrder order : {AmxOrder::Panels, AmxOrder::Rows})
      add({false, order}, {DType::Float32, kLinear}, DType::BFloat16);
  return tactics;
}

std::unique_ptr<LayerKernel> make_amx_conv(const LayerQuery& query, const Tactic& tactic,
                                           const Machine& machine, const PackContext& pack) {
  return std::make_unique<AmxConvKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily amx_conv_tactics() {
  return {kAmxConvRunner, list_amx_conv, make_amx_conv};
}

}  // namespace lathe::cpu
