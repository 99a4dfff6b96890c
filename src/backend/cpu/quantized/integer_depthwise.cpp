// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolutions of bytes with constant weights on a grid, channels-last, any window. A line of
// results is one call of the kernel: for each pixel and tap it gets an address, that of a line of zero points
// where the tap lies beside the image.
//
// Operations: 2 C R S per result. Bytes: input and result once. The floor is the unpacking of bytes: six
// instructions of a vector for two taps, seven for four where bytes are multiplied (VNNI). With steps of one
// or two along a line these unpack a column of up to four taps once for all windows that have it.
#include <cstring>

#include "backend/cpu/quantized/integer_tail.h"
#include "backend/cpu/quantized/window_addresses.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kIntegerDepthwiseRunner = "IntegerDepthwise";

struct DepthwiseConstants {
  const std::byte* weights = nullptr;  // as DepthwiseRow has them
  const float *scale = nullptr, *bias = nullptr;
  const int32_t* zero_products = nullptr;
  const float* factor = nullptr;  // null: 1
  int64_t in_blocks = 0;
};

class PreparedIntegerDepthwise final : public PreparedLayer {
 public:
  // `windows`: of each pixel of a line, or, where columns are shared, the columns of a line.
  PreparedIntegerDepthwise(const IntegerTable& table, WindowAddresses windows, int64_t pixels,
                           DepthwiseStep shared, DepthwiseConstants constants,
                           std::optional<IntegerTailPlan> plan,
                           std::shared_ptr<const PreparedEpilogue> epilogue, int threads)
      : table_(table),
        windows_(std::move(windows)),
        pixels_(pixels),
        shared_(shared),
        constants_(constants),
        plan_(std::move(plan)),
        epilogue_(std::move(epilogue)),
        threads_(threads) {
    address_bytes_ = round_up(windows_.bytes(), 64);
    member_bytes_ = address_bytes_ + (plan_ ? 0 : round_up(pixels_ * windows_.channels() * 4, 64));
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads_); }
  int members(int available) const override {
    const auto products = static_cast<double>(windows_.lines() * pixels_ * windows_.taps() * shared_.kernel);
    return members_for(products * static_cast<double>(windows_.channels()) / 8, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range lines = worker.slice(windows_.lines());
    std::byte* const own = args.scratch + worker.index * member_bytes_;
    for (int64_t line = lines.begin; line < lines.end; ++line) run_line(args, line, own);
  }

 private:
  void run_line(const LayerArgs& args, int64_t line, std::byte* own) const {
    auto** const addresses = reinterpret_cast<const uint8_t**>(own);
    windows_.find(static_cast<const uint8_t*>(args.inputs[0]), line, addresses);
    const int64_t channels = windows_.channels(), first = line * pixels_ * channels;
    auto* const values = reinterpret_cast<float*>(own + address_bytes_);
    DepthwiseRow row{.tap_addresses = addresses,
                     .taps = windows_.taps(),
                     .shared = shared_,
                     .weights = constants_.weights,
                     .zero_products = constants_.zero_products,
                     .in_blocks = constants_.in_blocks};
    row.output = {.scale = constants_.scale,
                  .bias = constants_.bias,
                  .factor = constants_.factor,
                  .operand_stride = channels,
                  .out_stride = channels,
                  .rows = pixels_,
                  .columns = channels};
    set_tail(plan_, row.output);
    if (plan_ && plan_->operand >= 0)
      row.output.operand = static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan_->operand)]) +
                           first * row.output.operand_bytes;
    row.output.out =
        plan_ ? static_cast<void*>(static_cast<std::byte*>(args.outputs[0]) + first * row.output.out_bytes)
              : values;
    table_.depthwise(row);
    if (plan_)
      finish_stored(*plan_, row.output.out, pixels_ * channels);
    else
      epilogue_->apply(args, values, channels, first, pixels_, channels, channels);
  }

  const IntegerTable& table_;
  const WindowAddresses windows_;
  const int64_t pixels_;
  const DepthwiseStep shared_;
  const DepthwiseConstants constants_;
  const std::optional<IntegerTailPlan> plan_;
  const std::shared_ptr<const PreparedEpilogue> epilogue_;  // where there is no plan
  const int threads_;
  int64_t address_bytes_ = 0, member_bytes_ = 0;
};

// Weights less a zero point may have nine bits.
const IntegerTable& table_of(const LayerQuery& query, const Machine& machine) {
  if (machine.integers->depthwise_taps == 2 || has_byte_weights(query)) return *machine.integers;
  return machine.has(CpuFeature::Avx512) ? integer_table_avx512() : integer_table_avx2();
}

// What windows share along a line; nothing where the table has no kernel for it.
DepthwiseStep shared_step(const IntegerTable& table, const Conv& op) {
  const DepthwiseStep step{op.kernel.back(), op.strides.empty() ? 1 : op.strides.back()};
  const bool dilated = !op.dilations.empty() && op.dilations.back() != 1;
  return table.shares_columns && !dilated && table.shares_columns(step) ? step : DepthwiseStep{};
}

class IntegerDepthwiseKernel final : public LayerKernel {
 public:
  IntegerDepthwiseKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                         const PackContext& pack)
      : node_(query.layer()),
        table_(table_of(query, machine)),
        channels_(query.graph.value(node_.inputs[1]).shape[0].value()),
        zero_(static_cast<uint8_t>(query.graph.value(node_.inputs[0]).quantization->zero())),
        plan_(plan_integer_tail(query, tactic, 1, machine)),
        epilogue_(query, tactic, machine) {
    const auto& op = std::get<Conv>(node_.op);
    int64_t all = 1;
    for (const int64_t kernel : op.kernel) all *= kernel;
    shared_ = shared_step(table_, op);
    const int64_t columns = shared_.kernel,
                  groups = (all / columns + table_.depthwise_taps - 1) / table_.depthwise_taps * columns,
                  padded = round_up(channels_, table_.depthwise_lanes);
    const int64_t weights = round_up(padded * groups * 4, 64), size = weights + padded * 16;
    if (shared_.kernel > 1 && plan_ && plan_->bytes && plan_->operand < 0 && table_.depthwise_block > 0)
      constants_.in_blocks = channels_ / table_.depthwise_block * table_.depthwise_block;
    const char* const layout = constants_.in_blocks > 0 ? "blocks"
                               : shared_.kernel > 1     ? "columns"
                                                        : "integers";
    block_ = pack.packed(layout, size, [&] {
      std::vector<std::byte> bytes(static_cast<size_t>(size));
      write(query, all, groups, padded, bytes.data(), bytes.data() + weights);
      return bytes;
    });
    constants_.weights = block_.data();
    constants_.scale = reinterpret_cast<const float*>(block_.data() + weights);
    constants_.bias = constants_.scale + padded;
    constants_.zero_products = reinterpret_cast<const int32_t*>(constants_.bias + padded);
    if (plan_ && plan_->factor >= 0) constants_.factor = constants_.bias + 2 * padded;
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const auto& op = std::get<Conv>(node_.op);
    const Extents& x = context.inputs[0];
    const WindowSpec spec{op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad};
    std::vector<WindowAxis> axes = resolve_window(spec, Extents(x.begin() + 2, x.end()));
    const int64_t pixels = axes.back().output;
    if (shared_.kernel > 1) {  // a column is a window of its own
      axes.back().output = shared_.columns(pixels);
      axes.back().kernel = axes.back().stride = 1;
    }
    WindowAddresses windows(x[0], channels_, std::move(axes), zero_, table_.depthwise_taps);
    return std::make_unique<PreparedIntegerDepthwise>(table_, std::move(windows), pixels, shared_, constants_,
                                                      plan_, plan_ ? nullptr : epilogue_.prepare(context),
                                                      context.threads);
  }

 private:
  void write(const LayerQuery& query, int64_t all, int64_t groups, int64_t padded, std::byte* weights,
             std::byte* rest) const {
    const std::vector<int16_t> integers = integer_weights(query.graph.value(query.layer().inputs[1]), 0);
    TailPlan added;
    if (plan_) added.added_to_bias = plan_->added_to_bias;
    const std::vector<float> scales = product_scales(query, channels_),
                             bias = bias_of(query, added, channels_, channels_);
    auto* const scale = reinterpret_cast<float*>(rest);
    auto* const zero_products = reinterpret_cast<int32_t*>(scale + 2 * padded);
    const std::vector<float> factors = plan_ ? factors_of(*plan_, query, channels_) : std::vector<float>();
    const int64_t lanes = table_.depthwise_lanes, at_once = table_.depthwise_taps, bytes = 4 / at_once,
                  columns = shared_.kernel;
    for (int64_t c = 0; c < channels_; ++c) {
      const int64_t at = c < constants_.in_blocks ? place_in_block(c) : c;
      int32_t sum = 0;
      for (int64_t t = 0; t < all; ++t) {
        const int16_t w = integers[static_cast<size_t>(c * all + t)];
        // Taps that meet in a lane are neighbours, or lie above each other in a column that is shared.
        const int64_t row = t / columns, group = at / lanes * groups + row / at_once * columns + t % columns;
        std::memcpy(weights + (group * lanes + at % lanes) * 4 + row % at_once * bytes, &w,
                    static_cast<size_t>(bytes));
        sum += w;
      }
      const double unit = plan_ ? plan_->unit : 1;
      scale[at] = static_cast<float>(static_cast<double>(scales[static_cast<size_t>(c)]) / unit);
      scale[padded + at] = static_cast<float>(static_cast<double>(bias[static_cast<size_t>(c)]) / unit);
      zero_products[at] = -sum * zero_;
      if (plan_) scale[3 * padded + at] = factors[static_cast<size_t>(c)];
    }
  }

  const Node node_;
  const IntegerTable& table_;
  const int64_t channels_;
  const uint8_t zero_;
  const std::optional<IntegerTailPlan> plan_;
  const Epilogue epilogue_;
  DepthwiseStep shared_;
  std::span<const std::byte> block_;
  DepthwiseConstants constants_;
};

Support supports_integer_depthwise(const LayerQuery& query, const Conv& op) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (x.shape.size() < 3 || x.shape.size() > 5) return Support::no("not one to three spatial dims");
  if (!w.shape[1].is_constant(1) || !w.shape[0].is_constant(op.groups))
    return Support::no("not one filter for each channel");
  int64_t taps = 1;
  for (const int64_t kernel : op.kernel) taps *= kernel;
  return multiplies_integers(query, 0, taps);
}

Tactic make_tactic(const LayerQuery& query, const Conv& op, const Machine& machine, DType result) {
  Tactic t =
      typed_tactic(query, kIntegerDepthwiseRunner, "int8_depthwise_" + std::string(isa_suffix(machine)),
                   {DType::UInt8, kChannelsLast}, {result, kChannelsLast});
  for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
  if (const Support s = supports_integer_depthwise(query, op); !s.ok) t.support = s;
  if (result == DType::UInt8) t.keeps_nan = false;
  if (!t.support.ok) return t;
  const auto plan = plan_integer_tail(query, t, 1, machine);
  if (plan && plan->operand >= 0 && t.inputs[static_cast<size_t>(plan->operand)] == t.outputs[0])
    t.in_place_inputs = {plan->operand};
  return t;
}

std::vector<Tactic> list_integer_depthwise(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || op->groups == 1 || !query.graph.value(query.layer().inputs[0]).quantization) return {};
  const Value& result = query.graph.value(query.layer().outputs[0]);
  if (result.number_type() != DType::Float32) return {};
  std::vector<Tactic> tactics;
  if (byte_grid(result, {DType::UInt8, {}}))
    tactics.push_back(make_tactic(query, *op, machine, DType::UInt8));
  tactics.push_back(make_tactic(query, *op, machine, DType::Float32));
  return tactics;
}

std::unique_ptr<LayerKernel> make_integer_depthwise(const LayerQuery& query, const Tactic& tactic,
                                                    const Machine& machine, const PackContext& pack) {
  return std::make_unique<IntegerDepthwiseKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily integer_depthwise_tactics() {
  return {kIntegerDepthwiseRunner, list_integer_depthwise, make_integer_depthwise};
}

}  // namespace lathe::cpu
