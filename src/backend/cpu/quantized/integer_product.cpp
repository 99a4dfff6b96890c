// SPDX-License-Identifier: Apache-2.0
//
// Products and convolutions of bytes with constant weights on a grid: any window, dilation and grouping,
// channels-last, and matrices. Sums are exact; scale, bias and epilogue follow in registers, or through the
// evaluator where the epilogue is longer.
//
// A block of rows (quantized/integer_rows.h) meets all panels of weights, so that each weight is read once
// per block from L3, and the rows come from L2.
//
// Operations: 2 K C R S per result. Bytes: input and result once, weights once per block. The floor is the
// rate of dot products (tile/integer_table.h), and below some 20 rows the way of the weights from L3 or
// memory.
#include <algorithm>
#include <cstring>
#include <span>

#include "backend/cpu/device/expected.h"
#include "backend/cpu/quantized/integer_rows.h"
#include "backend/cpu/quantized/integer_tail.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kIntegerProductRunner = "IntegerProduct";

// `groups` products beside one another (those of a grouped convolution), each of `columns` columns and
// `depth` products a sum, which lie in pieces of so many in each row.
struct GroupedShape {
  int64_t groups = 1, columns = 1, depth = 1;
  std::vector<int64_t> segments = {1};
};

// The weights of one group: panels, each [segment][group of k][column][integers]; the last one is as narrow
// as it can be.
class PackedShape {
 public:
  PackedShape(const IntegerTable& table, const GroupedShape& shape)
      : table_(table),
        shape_(shape),
        k_(padded_groups(table, shape.segments[0]) * static_cast<int64_t>(shape.segments.size())),
        columns_(round_up(shape.columns, table.lanes)) {}

  int64_t columns() const { return columns_; }  // padded
  int64_t panels() const { return (columns_ + table_.panel - 1) / table_.panel; }
  int64_t bytes() const { return shape_.groups * group_bytes(); }
  int64_t at(int64_t group, int64_t panel) const {
    return group * group_bytes() + panel * table_.panel * k_ * 4;
  }
  int64_t width(int64_t panel) const { return std::min(table_.panel, columns_ - panel * table_.panel); }

  // weight(group, column, k).
  template <class F>
  void pack(const F& weight, std::byte* to) const {
    std::memset(to, 0, static_cast<size_t>(bytes()));
    const int64_t length = shape_.segments[0], groups = padded_groups(table_, length);
    for (int64_t g = 0; g < shape_.groups; ++g)
      for (int64_t c = 0; c < shape_.columns; ++c) {
        const int64_t p = c / table_.panel, in_panel = c % table_.panel;
        std::byte* const column = to + at(g, p) + in_panel * 4;
        for (int64_t k = 0; k < shape_.depth; ++k) {
          const int64_t at = k % length;  // of the segment
          std::byte* const group = column + (k / length * groups + at / table_.per_group) * width(p) * 4;
          const int16_t w = weight(g, c, k);
          if (table_.per_group == 2)
            std::memcpy(group + at % 2 * 2, &w, 2);
          else
            group[at % 4] = static_cast<std::byte>(w);
        }
      }
  }

 private:
  int64_t group_bytes() const { return columns_ * k_ * 4; }

  const IntegerTable& table_;
  GroupedShape shape_;
  int64_t k_, columns_;
};

// The packed block: weights, then scale, bias, start and factor of each padded column of each group.
struct ProductConstants {
  const std::byte* weights = nullptr;
  const float *scale = nullptr, *bias = nullptr;
  const int32_t* start = nullptr;  // null: nothing
  const float* factor = nullptr;   // null: 1
};

class PreparedInteger final : public PreparedLayer {
 public:
  PreparedInteger(const IntegerTable& table, const GroupedShape& shape, IntegerRows rows,
                  ProductConstants constants, std::optional<IntegerTailPlan> plan,
                  std::shared_ptr<const PreparedEpilogue> epilogue, const Machine& machine)
      : table_(table),
        shape_(shape),
        packed_(table, shape),
        rows_(std::move(rows)),
        constants_(constants),
        plan_(std::move(plan)),
        epilogue_(std::move(epilogue)),
        threads_(machine.threads) {
    block_ = std::clamp<int64_t>(machine.l2_bytes / 4 / std::max<int64_t>(1, rows_.input_bytes(1)), 1,
                                 std::max<int64_t>(1, rows_.units()));
    copy_bytes_ = round_up(rows_.copied_bytes(block_), 64);
    run_bytes_ = round_up(rows_.runs(block_) * static_cast<int64_t>(sizeof(RowRun)), 64);
    member_bytes_ = copy_bytes_ + run_bytes_ + (plan_ ? 0 : rows_.rows(block_) * table.panel * 4);
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads_); }
  int members(int available) const override { return members_for(operations() / rate(), available); }

  void run(const LayerArgs& args, const Worker& worker) const override {
    Worker::Range units{0, rows_.units()}, panels{0, shape_.groups * packed_.panels()};
    if (by_rows(worker.count))
      units = worker.slice(units.end, 1, block_);
    else
      panels = worker.slice(panels.end, 1, Worker::kUncut);  // collects all rows
    std::byte* const own = args.scratch + worker.index * member_bytes_;
    for (int64_t first = units.begin; first < units.end; first += block_)
      run_block(args, first, std::min(block_, units.end - first), panels, own);
  }

 private:
  struct Block {
    int64_t row = 0, rows = 0;
    std::span<RowRun> runs;
    float* values = nullptr;  // where there is no plan: [row][panel]
  };

  double operations() const {
    return 2.0 * static_cast<double>(rows_.count() * shape_.groups * shape_.columns) *
           static_cast<double>(shape_.depth);
  }
  double rate() const { return 60.0 * table_.rate; }  // operations a nanosecond
  // Rows: everybody reads all weights. Panels: everybody collects all rows (L3, some 15 GB/s).
  bool by_rows(int members) const {
    const ProductShares shares{.arithmetic = operations() / rate(),
                               .weights = static_cast<double>(packed_.bytes()) / 15,
                               .rows = 2.0 * static_cast<double>(rows_.input_bytes(rows_.units())) / 15,
                               .row_units = rows_.units(),
                               .column_units = shape_.groups * packed_.panels()};
    return shares.by_rows(members);
  }

  void run_block(const LayerArgs& args, int64_t first, int64_t units, const Worker::Range& panels,
                 std::byte* own) const {
    auto* const runs = reinterpret_cast<RowRun*>(own + copy_bytes_);
    const int64_t run_count =
        rows_.collect(static_cast<const uint8_t*>(args.inputs[0]), first, units, own, runs);
    const Block block{.row = rows_.first_row(first),
                      .rows = rows_.first_row(first + units) - rows_.first_row(first),
                      .runs = {runs, static_cast<size_t>(run_count)},
                      .values = reinterpret_cast<float*>(own + copy_bytes_ + run_bytes_)};
    int64_t at = 0;  // the group that the runs are of
    for (int64_t i = panels.begin; i < panels.end; ++i) {
      const int64_t group = i / packed_.panels();
      for (RowRun& run : block.runs) run.a += rows_.group_offset(group) - rows_.group_offset(at);
      at = group;
      run_panel(args, block, group, i % packed_.panels());
    }
    if (plan_ && plan_->table) look_up(args, block, panels);
  }

  // The columns of `panels` of a block: whole rows lie side by side.
  void look_up(const LayerArgs& args, const Block& block, const Worker::Range& panels) const {
    const int64_t all = shape_.groups * shape_.columns, begin = first_column(panels.begin),
                  count = first_column(panels.end) - begin;
    auto* const at = static_cast<std::byte*>(args.outputs[0]) + block.row * all + begin;
    if (count == all) return finish_stored(*plan_, at, block.rows * all);
    for (int64_t r = 0; r < block.rows; ++r) finish_stored(*plan_, at + r * all, count);
  }
  // In the result, of a panel among those of all groups.
  int64_t first_column(int64_t panel) const {
    return panel / packed_.panels() * shape_.columns + panel % packed_.panels() * table_.panel;
  }

  void run_panel(const LayerArgs& args, const Block& block, int64_t group, int64_t panel) const {
    const int64_t column = panel * table_.panel, all = shape_.groups * shape_.columns,
                  padded = group * packed_.columns() + column;
    IntegerPanel p{.runs = block.runs.data(),
                   .run_count = static_cast<int64_t>(block.runs.size()),
                   .stride = rows_.stride(),
                   .segments = rows_.segments().data(),
                   .segment_count = static_cast<int64_t>(rows_.segments().size()),
                   .b = constants_.weights + packed_.at(group, panel),
                   .start = constants_.start ? constants_.start + padded : nullptr};
    IntegerOutput& o = p.output;
    o = {.scale = constants_.scale + padded,
         .bias = constants_.bias + padded,
         .factor = constants_.factor ? constants_.factor + padded : nullptr};
    set_tail(plan_, o);
    o.columns = std::min(table_.panel, shape_.columns - column);
    o.out_stride = plan_ ? all : table_.panel;
    o.operand_stride = all;
    const int64_t at = block.row * all + group * shape_.columns + column;
    o.out = plan_ ? static_cast<void*>(static_cast<std::byte*>(args.outputs[0]) + at * o.out_bytes)
                  : block.values;
    if (plan_ && plan_->operand >= 0)
      o.operand = static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan_->operand)]) +
                  at * o.operand_bytes;
    table_.multiply(p);
    if (!plan_) epilogue_->apply(args, block.values, table_.panel, at, block.rows, all, o.columns);
  }

  const IntegerTable& table_;
  const GroupedShape shape_;
  const PackedShape packed_;
  const IntegerRows rows_;
  const ProductConstants constants_;
  const std::optional<IntegerTailPlan> plan_;
  const std::shared_ptr<const PreparedEpilogue> epilogue_;  // where there is no plan
  const int threads_;
  int64_t block_ = 1, copy_bytes_ = 0, run_bytes_ = 0, member_bytes_ = 0;  // block_: units
};

// --- the layer

// Of the result.
size_t channel_axis(const LayerQuery& query) {
  const Node& node = query.layer();
  return std::holds_alternative<Conv>(node.op) ? 1 : query.graph.value(node.outputs[0]).shape.size() - 1;
}

// Only where supports() says yes.
GroupedShape shape_of(const LayerQuery& query) {
  const Node& node = query.layer();
  const Shape& w = query.graph.value(node.inputs[1]).shape;
  int64_t all = 1;
  for (const Dim& d : w) all *= d.value();
  const int64_t columns = w[weight_axis(query)].value();
  const auto* conv = std::get_if<Conv>(&node.op);
  const int64_t groups = conv ? conv->groups : 1;
  GroupedShape shape{.groups = groups, .columns = columns / groups, .depth = all / columns};
  shape.segments = {shape.depth};
  if (conv && shape.depth > 0) {
    int64_t taps = 1;
    for (const int64_t k : conv->kernel) taps *= k;
    shape.segments = segment_lengths(conv->kernel, conv->dilations, shape.depth / taps, groups);
  }
  return shape;
}

const IntegerTable& table_of(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  if (tactic.params.get("tiles", 0) != 0) return *machine.integer_tiles;
  if (has_byte_weights(query)) return *machine.integers;
  return machine.has(CpuFeature::Avx512) ? integer_table_avx512() : integer_table_avx2();
}

class IntegerKernel final : public LayerKernel {
 public:
  IntegerKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                const PackContext& pack)
      : node_(query.layer()),
        machine_(machine),
        table_(table_of(query, tactic, machine)),
        shape_(shape_of(query)),
        zero_(static_cast<uint8_t>(query.graph.value(node_.inputs[0]).quantization->zero())),
        plan_(plan_integer_tail(query, tactic, channel_axis(query), machine)),
        epilogue_(query, tactic, machine) {
    const PackedShape packed(table_, shape_);
    const int64_t columns = shape_.groups * packed.columns(), weights = round_up(packed.bytes(), 64);
    const int64_t size = weights + columns * 16;
    block_ = pack.packed("integers", size, [&] {
      std::vector<std::byte> bytes(static_cast<size_t>(size));
      write(query, packed, bytes.data(), bytes.data() + weights, columns);
      return bytes;
    });
    constants_.weights = block_.data();
    constants_.scale = reinterpret_cast<const float*>(block_.data() + weights);
    constants_.bias = constants_.scale + columns;
    if (table_.per_group == 4 && zero_ != 0)
      constants_.start = reinterpret_cast<const int32_t*>(constants_.bias + columns);
    if (plan_ && plan_->factor >= 0) constants_.factor = constants_.bias + 2 * columns;
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    Machine machine = machine_;
    machine.threads = context.threads;
    return std::make_unique<PreparedInteger>(table_, shape_, rows_of(context.inputs[0]), constants_, plan_,
                                             plan_ ? nullptr : epilogue_.prepare(context), machine);
  }

 private:
  IntegerRows rows_of(const Extents& x) const {
    const auto* conv = std::get_if<Conv>(&node_.op);
    if (!conv) return {table_, element_count(x) / std::max<int64_t>(1, x.back()), shape_.depth, zero_};
    const WindowSpec spec{conv->kernel,     conv->strides,  conv->dilations,
                          conv->pads_begin, conv->pads_end, conv->auto_pad};
    const std::vector<WindowAxis> axes = resolve_window(spec, Extents(x.begin() + 2, x.end()));
    const auto is_point = [](const WindowAxis& a) {
      return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
    };
    if (shape_.groups == 1 && std::all_of(axes.begin(), axes.end(), is_point))
      return {table_, element_count(x) / std::max<int64_t>(1, x[1]), shape_.depth, zero_};
    return {table_, x[0], axes, x[1], shape_.groups, zero_};
  }

  // k counts taps first, then the channels of each.
  void write(const LayerQuery& query, const PackedShape& packed, std::byte* weights, std::byte* rest,
             int64_t columns) const {
    const std::vector<int16_t> integers =
        integer_weights(query.graph.value(node_.inputs[1]), weight_axis(query));
    const auto* product = std::get_if<MatMul>(&node_.op);
    const bool by_k = product && !product->transpose_b;
    const auto* conv = std::get_if<Conv>(&node_.op);
    int64_t taps = 1;
    for (const int64_t kernel : conv ? conv->kernel : Ints()) taps *= kernel;
    const int64_t channels = shape_.depth / taps;
    const auto weight = [&](int64_t g, int64_t c, int64_t k) {
      const int64_t column = g * shape_.columns + c;
      const int64_t at =
          by_k ? k * shape_.columns + column : (column * channels + k % channels) * taps + k / channels;
      return integers[static_cast<size_t>(at)];
    };
    packed.pack(weight, weights);
    const int64_t all = shape_.groups * shape_.columns;
    const std::vector<float> scales = product_scales(query, all), bias = bias_values(query, all);
    auto* scale = reinterpret_cast<float*>(rest);
    auto* start = reinterpret_cast<int32_t*>(scale + 2 * columns);
    const std::vector<float> factors = plan_ ? factors_of(*plan_, query, all) : std::vector<float>();
    for (int64_t i = 0; i < all; ++i) {
      const int64_t g = i / shape_.columns, c = i % shape_.columns, to = g * packed.columns() + c;
      scale[to] = in_unit(scales[static_cast<size_t>(i)]);
      scale[columns + to] = in_unit(bias[static_cast<size_t>(i)]);
      int64_t sum = 0;
      for (int64_t k = 0; k < shape_.depth; ++k) sum += weight(g, c, k);
      start[to] = static_cast<int32_t>(-sum * zero_);
      if (plan_) scale[3 * columns + to] = factors[static_cast<size_t>(i)];
    }
  }

  float in_unit(float value) const {
    return plan_ ? static_cast<float>(static_cast<double>(value) / plan_->unit) : value;
  }

  std::vector<float> bias_values(const LayerQuery& query, int64_t channels) const {
    TailPlan added;
    if (plan_) added.added_to_bias = plan_->added_to_bias;
    return bias_of(query, added, channels, channels);
  }

  const Node node_;
  const Machine machine_;
  const IntegerTable& table_;
  const GroupedShape shape_;
  const uint8_t zero_;
  const std::optional<IntegerTailPlan> plan_;
  const Epilogue epilogue_;
  std::span<const std::byte> block_;
  ProductConstants constants_;
};

// --- what is offered

Support supports_integer_product(const LayerQuery& query) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (const auto* product = std::get_if<MatMul>(&node.op)) {
    if (product->transpose_a) return Support::no("the left operand is transposed");
    if (x.shape.size() < 2 || w.shape.size() != 2)
      return Support::no("not rows of a matrix with one matrix of weights");
  } else if (x.shape.size() < 3 || x.shape.size() > 5) {
    return Support::no("not one to three spatial dims");
  }
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (w.constant.size() == 0) return Support::no("the weights are empty");
  const GroupedShape shape = shape_of(query);
  if (shape.columns == 1 && shape.groups > 1) return Support::no("a depthwise convolution");
  return multiplies_integers(query, weight_axis(query), shape.depth);
}

void add_tactic(const LayerQuery& query, const Machine& machine, const Format& format, DType result,
                bool tiles, std::vector<Tactic>& tactics) {
  const Node& node = query.layer();
  Tactic t = typed_tactic(query, kIntegerProductRunner, "", {DType::UInt8, format}, {result, format});
  for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
  if (const Support s = supports_integer_product(query); !s.ok) t.support = s;
  TacticParams params;
  if (tiles) params.set("tiles", 1);
  const std::string kind = std::holds_alternative<Conv>(node.op) ? "int8_conv_" : "int8_matmul_";
  t.params = params;
  const IntegerTable* table = tiles ? machine.integer_tiles : machine.integers;
  if (t.support.ok) table = &table_of(query, t, machine);
  if (tiles && t.support.ok && !has_byte_weights(query))
    t.support = Support::no("the weights have zero points, so that they do not fit signed bytes");
  t = with_variant(std::move(t), kind + table->name, params);
  if (result == DType::UInt8) t.keeps_nan = false;
  t.expected_us = expected_product_us(query, t, machine, 0.7 * table->rate, 0.85);
  if (!t.support.ok) return tactics.push_back(std::move(t));
  const auto plan = plan_integer_tail(query, t, channel_axis(query), machine);
  if (plan && plan->operand >= 0 && t.inputs[static_cast<size_t>(plan->operand)] == t.outputs[0])
    t.in_place_inputs = {plan->operand};
  tactics.push_back(std::move(t));
}

std::vector<Tactic> list_integer_product(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const bool conv = std::holds_alternative<Conv>(node.op);
  if (!conv && !std::holds_alternative<MatMul>(node.op)) return {};
  const Value &x = query.graph.value(node.inputs[0]), &result = query.graph.value(node.outputs[0]);
  if (!x.quantization) return {};  // a network of floats
  if (!is_float(result.number_type()) || result.number_type() != DType::Float32) return {};
  std::vector<Tactic> tactics;
  for (const bool tiles : {true, false}) {
    if (tiles && !machine.integer_tiles) continue;
    const Format format = conv ? kChannelsLast : kLinear;
    if (byte_grid(result, {DType::UInt8, {}}))
      add_tactic(query, machine, format, DType::UInt8, tiles, tactics);
    add_tactic(query, machine, format, DType::Float32, tiles, tactics);
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_integer_product(const LayerQuery& query, const Tactic& tactic,
                                                  const Machine& machine, const PackContext& pack) {
  return std::make_unique<IntegerKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily integer_product_tactics() {
  return {kIntegerProductRunner, list_integer_product, make_integer_product};
}

}  // namespace lathe::cpu
