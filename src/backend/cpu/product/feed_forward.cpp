// SPDX-License-Identifier: Apache-2.0
//
// Two products with a function between them in AMX tiles, in BF16: a block of rows goes through both before
// the next one, so that what is between them stays in L2. It is written as the tiles that the second product
// reads (1 KB in one piece, [panel][row][32 columns]): apart, rows four times as wide go to L3 or memory and
// come back, and are copied into tiles there.
//
// Operations: 2 M H (K + N). Bytes: both weights once per block of rows, rows and results once. The floor is
// the tiles' arithmetic (tile/amx_product.inc), or the weights' way from L3 or memory below some 200 rows.
// Reached (one core of an Emerald Rapids, cold, of 2,850 GFLOP/s): 128 rows of 768, 3072 hidden ones with
// GELU, 1,020 GFLOP/s (36 %). Of its products by themselves in chunks: 197x768 by 768x3072 with GELU 1,010,
// 197x3072 by 3072x768 1,097; by whole panels 858 and 852. Members share rows, or, where there are few, the
// columns of each product in turn: then each weight is read by one of them.
#include <cstring>

#include "backend/cpu/tile/amx_matmul.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kFeedForwardRunner = "FeedForward";

class PreparedFeedForward final : public PreparedLayer {
 public:
  const AmxTable* table = nullptr;
  int64_t m = 1, k = 1, hidden = 1, n = 1;
  bool in_chunks = false;  // along k and along the hidden columns
  DType result = DType::BFloat16;
  const std::byte *first = nullptr, *second = nullptr;  // panels
  const float *first_bias = nullptr, *second_bias = nullptr;
  RegisterTail between;
  TailPlan after;
  int64_t l2_bytes = 1 << 20;
  int threads = 1;

  // To be called once everything above is set.
  void lay_out() {
    step_ = amx_step(k);
    // Hidden rows take most of L2; weights pass through the rest.
    const int64_t most = std::max<int64_t>(2, l2_bytes * 5 / 8 / (AmxProduct::kGroup * 2 * hidden));
    const int64_t blocks = (groups() + most - 1) / most;
    block_groups_ = round_up((groups() + blocks - 1) / blocks, 2);
    rows_at_ = round_up(block_groups_ * static_cast<int64_t>(sizeof(std::byte*)), 64);
    sums_at_ = rows_at_ + block_groups_ * k / step_ * AmxProduct::kTileBytes;
    hidden_at_ = sums_at_ + (in_chunks ? block_groups_ * AmxProduct::kGroup * AmxProduct::kPanel * 4 : 0);
    member_bytes_ = hidden_at_ + block_groups_ * AmxProduct::kGroup * 2 * hidden;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override {
    const int wanted = members_for(arithmetic() + weight_bytes() / 20, available);
    return meets(wanted) ? available : wanted;  // shared out to all
  }
  bool meets(int count) const override { return !by_rows(count); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const bool rows = by_rows(worker.count);
    const Worker::Range own = rows ? worker.slice(groups(), 1, block_groups_) : Worker::Range{0, groups()};
    std::byte* const memory = args.scratch + worker.index * member_bytes_;
    for (int64_t g = own.begin; g < own.end; g += block_groups_) {
      const int64_t count = std::min(block_groups_, own.end - g);
      Block block{.first = g * AmxProduct::kGroup,
                  .groups = count,
                  .rows = std::min(count * AmxProduct::kGroup, m - g * AmxProduct::kGroup)};
      block.is_first = g == own.begin;
      block.memory = memory;
      block.hidden = (rows ? memory : args.scratch) + hidden_at_;
      if (rows) {
        run_first(args, block, {0, hidden_panels()});
        run_second(args, block, {0, result_panels()});
        continue;
      }
      worker.share(worker.count,
                   [&](const Worker& part) { run_first(args, block, part.slice(hidden_panels())); });
      worker.share(worker.count,
                   [&](const Worker& part) { run_second(args, block, part.slice(result_panels())); });
    }
  }

 private:
  struct Block {
    int64_t first = 0, groups = 0, rows = 0;
    std::byte* memory = nullptr;  // the member's own
    std::byte* hidden = nullptr;  // [panel][row][32 columns], the team's where members share columns
    bool is_first = false;        // what is hidden is not in L2 yet
    bool is_placed = false;       // its rows, in the member's memory
  };

  int64_t groups() const { return (m + AmxProduct::kGroup - 1) / AmxProduct::kGroup; }
  int64_t hidden_panels() const { return hidden / AmxProduct::kPanel; }
  int64_t result_panels() const { return (n + AmxProduct::kPanel - 1) / AmxProduct::kPanel; }
  double arithmetic() const {  // ns
    return 2.0 * static_cast<double>(m * hidden) * static_cast<double>(k + n) / 1500;
  }
  double weight_bytes() const { return 2.0 * static_cast<double>(hidden * (k + n)); }
  // As for products (amx_matmul.cpp). Where columns are shared, everybody also reads the hidden rows that
  // others wrote.
  bool by_rows(int members) const {
    const ProductShares shares{.arithmetic = arithmetic(),
                               .weights = weight_bytes() / 30,
                               .rows = 2.0 * static_cast<double>(m * (k + hidden)) / 30,
                               .row_units = groups(),
                               .column_units = std::min(hidden_panels(), result_panels())};
    return shares.by_rows(members);
  }

  void place_rows(const LayerArgs& args, Block& block) const {
    const int64_t pitch = 2 * k, steps = k / step_;
    const std::byte* from = static_cast<const std::byte*>(args.inputs[0]) + block.first * pitch;
    std::byte* to = block.memory + rows_at_;
    for (int64_t g = 0; g < block.groups; ++g, from += AmxProduct::kGroup * pitch)
      for (int64_t i = 0; i < steps; ++i, to += AmxProduct::kTileBytes)
        table->copy_rows(from + 2 * i * step_, pitch, 2 * step_,
                         std::min(AmxProduct::kGroup, block.rows - g * AmxProduct::kGroup), to, 64,
                         2 * step_);
    block.is_placed = true;
  }

  // A product of tiles that lie `group_bytes` apart from group to group.
  AmxProduct product(const Block& block, const std::byte* tiles, int64_t group_bytes, int64_t steps,
                     int64_t step) const {
    const auto** starts = reinterpret_cast<const std::byte**>(block.memory);
    for (int64_t g = 0; g < block.groups; ++g) starts[g] = tiles + g * group_bytes;
    AmxProduct p{.groups = starts,
                 .group_count = block.groups,
                 .row_bytes = 64,
                 .steps = steps,
                 .step = step,
                 .panel_bytes = 2 * steps * step * AmxProduct::kPanel,
                 .rows = block.rows};
    if (in_chunks) {
      p.partial = reinterpret_cast<float*>(block.memory + sums_at_);
      p.chunk_steps = amx_chunk_steps(steps * step, step, false);
    }
    return p;
  }

  void run_first(const LayerArgs& args, Block& block, const Worker::Range& panels) const {
    if (panels.begin >= panels.end) return;
    if (!block.is_placed) place_rows(args, block);
    AmxProduct p =
        product(block, block.memory + rows_at_, k / step_ * AmxProduct::kTileBytes, k / step_, step_);
    p.step_bytes = AmxProduct::kTileBytes;
    p.columns = (panels.end - panels.begin) * AmxProduct::kPanel;
    p.b = first + p.panel_bytes * panels.begin;
    p.bias = first_bias + panels.begin * AmxProduct::kPanel;
    p.out_stride = AmxProduct::kPanel;
    p.out_panel = block.groups * AmxProduct::kGroup * AmxProduct::kPanel;
    p.out = block.hidden + 2 * p.out_panel * panels.begin;
    p.stored = Stored::BF16;
    p.tail = between;
    p.near = !block.is_first;
    table->begin(p.step);
    table->run(p);
    table->end();
  }

  void run_second(const LayerArgs& args, const Block& block, const Worker::Range& panels) const {
    if (panels.begin >= panels.end) return;
    AmxProduct p = product(block, block.hidden, AmxProduct::kTileBytes, hidden_panels(), AmxProduct::kPanel);
    const int64_t column = panels.begin * AmxProduct::kPanel, at = block.first * n + column;
    p.step_bytes = block.groups * AmxProduct::kTileBytes;
    p.columns = std::min(n, panels.end * AmxProduct::kPanel) - column;
    p.b = second + p.panel_bytes * panels.begin;
    p.bias = second_bias + column;
    p.out_stride = p.operand_stride = n;
    p.out = static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(result, at);
    if (after.operand >= 0)
      p.operand = static_cast<const std::byte*>(args.inputs[static_cast<size_t>(after.operand)]) +
                  dtype_bytes(result, at);
    p.stored = stored_as(result);
    p.tail = after.tail;
    table->begin(p.step);
    table->run(p);
    table->end();
  }

  int64_t step_ = 32, block_groups_ = 2;
  int64_t rows_at_ = 0, sums_at_ = 0, hidden_at_ = 0,
          member_bytes_ = 0;  // in a member's scratch, after addresses
};

// What the tactics need to know of a layer.
struct Widths {
  int64_t k = 0, hidden = 0, n = 0;

  static Widths of(const LayerQuery& query) {
    const auto& op = std::get<FeedForward>(query.layer().op);
    const auto extent = [&](size_t input, size_t dim) {
      return query.graph.value(query.layer().inputs[input]).shape[dim].value();
    };
    return {extent(FeedForward::kFirst, op.transpose_first ? 1 : 0),
            extent(FeedForward::kSecond, op.transpose_second ? 1 : 0),
            extent(FeedForward::kSecond, op.transpose_second ? 0 : 1)};
  }
};

std::optional<TailPlan> plan_between(const LayerQuery& query) {
  Shape shape = query.graph.value(query.layer().outputs[0]).shape;
  shape.back() = Dim(Widths::of(query).hidden);
  return plan_tail_of(query, std::get<FeedForward>(query.layer().op).hidden, FeedForward::kOperands, shape,
                      shape.size() - 1);
}
std::optional<TailPlan> plan_after(const LayerQuery& query) {
  return plan_register_tail(query, query.graph.value(query.layer().outputs[0]).shape.size() - 1);
}

class FeedForwardKernel final : public LayerKernel {
 public:
  FeedForwardKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                    const PackContext& pack)
      : tactic_(tactic),
        machine_(machine),
        widths_(Widths::of(query)),
        between_(*plan_between(query)),
        after_(*plan_after(query)) {
    packed_ = pack.packed("weights", bytes(), [&] { return pack_weights(query); });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedFeedForward>();
    p->table = machine_.amx;
    p->k = widths_.k;
    p->hidden = widths_.hidden;
    p->n = widths_.n;
    p->m = element_count(context.outputs[0]) / std::max<int64_t>(widths_.n, 1);
    p->in_chunks = AmxVariant::of(tactic_.params).order == AmxOrder::Chunks;
    p->result = tactic_.outputs[0].dtype;
    p->first = packed_.data();
    p->second = packed_.data() + first_bytes();
    p->first_bias = reinterpret_cast<const float*>(p->second + second_bytes());
    p->second_bias = p->first_bias + widths_.hidden;
    p->between = between_.tail;
    p->after = after_;
    p->l2_bytes = machine_.l2_bytes;
    p->threads = context.threads;
    p->lay_out();
    return p;
  }

 private:
  int64_t padded() const { return round_up(widths_.n, AmxProduct::kPanel / 2); }
  int64_t first_bytes() const { return 2 * widths_.k * widths_.hidden; }
  int64_t second_bytes() const { return 2 * widths_.hidden * padded(); }
  int64_t bytes() const {
    return first_bytes() + second_bytes() + dtype_bytes(DType::Float32, widths_.hidden + padded());
  }

  std::vector<std::byte> pack_weights(const LayerQuery& query) const {
    const auto& op = std::get<FeedForward>(query.layer().op);
    const std::vector<float> biases[] = {bias_of(query, Tensor(), between_, widths_.hidden, widths_.hidden),
                                         bias_of(query, Tensor(), after_, widths_.n, padded())};
    std::vector<std::byte> packed(static_cast<size_t>(bytes()));
    std::byte* to = packed.data();
    const auto pack = [&](size_t input, bool transposed, int64_t rows, int64_t columns) {
      const std::vector<double> w = query.graph.value(query.layer().inputs[input]).constant.to_doubles();
      pack_columns(to, DType::BFloat16, rows, columns, [&](int64_t r, int64_t c) {
        return static_cast<float>(w[static_cast<size_t>(transposed ? c * rows + r : r * columns + c)]);
      });
      to += 2 * rows * round_up(columns, AmxProduct::kPanel / 2);
    };
    pack(FeedForward::kFirst, op.transpose_first, widths_.k, widths_.hidden);
    pack(FeedForward::kSecond, op.transpose_second, widths_.hidden, widths_.n);
    for (const std::vector<float>& bias : biases) {
      std::memcpy(to, bias.data(), bias.size() * sizeof(float));
      to += bias.size() * sizeof(float);
    }
    return packed;
  }

  Tactic tactic_;
  Machine machine_;
  Widths widths_;
  TailPlan between_, after_;
  std::span<const std::byte> packed_;
};

Support supports_feed_forward(const LayerQuery& query, const Machine& machine, bool in_chunks) {
  const Node& node = query.layer();
  if (!machine.amx) return Support::no("needs AMX");
  if (query.graph.value(node.inputs[0]).is_constant()) return Support::no("the rows are constant");
  for (const size_t weights : {FeedForward::kFirst, FeedForward::kSecond})
    if (!query.graph.value(node.inputs[weights]).is_constant())
      return Support::no("weights are not constant");
  const Widths widths = Widths::of(query);
  if (amx_step(widths.k) == 0)
    return Support::no("k = " + std::to_string(widths.k) +
                       " is no multiple of 16 to 32 elements, as tiles want");
  if (widths.hidden % AmxProduct::kPanel != 0)
    return Support::no(std::to_string(widths.hidden) +
                       " hidden columns are no multiple of 32, as tiles want");
  if (in_chunks && widths.k < least_for_chunks(false))
    return Support::no("k = " + std::to_string(widths.k) + " is short: panels stay in L1 without chunks");
  const auto between = plan_between(query);
  if (!between || between->operand >= 0)
    return Support::no("what is between the products is more than a bias and an activation");
  if (!plan_after(query)) return Support::no("the epilogue is more than a sum and an activation");
  return {};
}

std::vector<Tactic> list_feed_forward(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<FeedForward>(node.op)) return {};
  std::vector<Tactic> tactics;
  const std::vector<DType> types = layer_types(query);
  if (std::find(types.begin(), types.end(), DType::BFloat16) == types.end()) return {};
  for (const AmxVariant variant :
       {AmxVariant{.order = AmxOrder::Panels}, AmxVariant{.order = AmxOrder::Chunks}})
    for (const DType to : types) {
      if (to != DType::BFloat16 && to != DType::Float32) continue;
      Tactic t = with_variant(
          typed_tactic(query, kFeedForwardRunner, "feed_forward", {DType::BFloat16, kLinear}, {to, kLinear}),
          "feed_forward_" + variant.name(), variant.params());
      for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
      if (const Support s = supports_feed_forward(query, machine, variant.order == AmxOrder::Chunks); !s.ok)
        t.support = s;
      if (t.support.ok) write_over_operand(plan_after(query), t);
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_feed_forward(const LayerQuery& query, const Tactic& tactic,
                                               const Machine& machine, const PackContext& pack) {
  return std::make_unique<FeedForwardKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily feed_forward_tactics() {
  return {kFeedForwardRunner, list_feed_forward, make_feed_forward};
}

}  // namespace lathe::cpu
