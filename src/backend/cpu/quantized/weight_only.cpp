// SPDX-License-Identifier: Apache-2.0
//
// Products of float rows with constant weights of four or eight bits on a grid: one scale for the weights,
// for each column, or for each block of k. What is read of memory are the packed bits; they meet the rows as
// floats in registers, or as bytes the rows' digits (tile/few_bits_table.h), so results are those of FP32
// weights but for the order of additions.
//
// Bytes: the packed weights once for every 64 rows. The floor of a few rows is the way of these bytes from
// memory; from some 16 rows on it is arithmetic, and products with FP32 weights win.
#include <algorithm>
#include <cstring>

#include "backend/cpu/device/expected.h"
#include "backend/cpu/tile/few_bits_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/few_bit_weights.h"
#include "backend/layer_work.h"
#include "backend/offered.h"
#include "base/floats.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kWeightOnlyRunner = "WeightOnlyProduct";
constexpr int64_t kWeightOnlyBlockRows = 64;

const FewBitTable& table_of(const Machine& machine) {
  const bool wide = machine.has(CpuFeature::Avx512);
  if (wide && machine.has(CpuFeature::Vnni)) return few_bit_table_avx512_vnni();
  if (!wide && machine.has(CpuFeature::AvxVnni)) return few_bit_table_avxvnni();
  return wide ? few_bit_table_avx512() : few_bit_table_avx2();
}

FewBitShape shape_of(const LayerQuery& query, const FewBitPacking& packing) {
  const int64_t depth = weight_extents(query).depth;
  return {.bits = packing.bits,
          .depth = depth,
          .block = packing.block > 0 ? packing.block : depth,
          .half_scales = packing.half_scales,
          .stores_zeros = packing.stores_zeros};
}

// --- packing

class Packer {
 public:
  Packer(const LayerQuery& query, const FewBitPacking& packing, const FewBitTable& table)
      : weights_(query.graph.value(query.layer().inputs[1]), is_by_k(query.layer()), packing),
        shape_(shape_of(query, packing)),
        table_(table) {}

  std::vector<std::byte> run() const {
    const int64_t panels = (weights_.columns() + table_.panel - 1) / table_.panel,
                  record = shape_.block_bytes(table_.panel);
    std::vector<std::byte> out(static_cast<size_t>(panels * shape_.blocks() * record));
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t b = 0; b < shape_.blocks(); ++b)
        pack_block(p, b, out.data() + (p * shape_.blocks() + b) * record);
    return out;
  }

 private:
  void pack_block(int64_t panel, int64_t block, std::byte* record) const {
    const int64_t columns = std::min(table_.panel, weights_.columns() - panel * table_.panel);
    std::byte* const zeros = record + table_.panel * (shape_.half_scales ? 2 : 4);
    std::byte* const words = zeros + (shape_.stores_zeros ? table_.panel : 0);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t column = panel * table_.panel + c;
      put_scale(weights_.scale(column, block), c, record);
      if (shape_.stores_zeros) zeros[c] = static_cast<std::byte>(weights_.zero(column, block));
      pack_column(column, block, words + c * 4);
    }
  }

  void put_scale(float scale, int64_t column, std::byte* record) const {
    const uint16_t half = float_to_fp16(scale);
    if (shape_.half_scales)
      std::memcpy(record + column * 2, &half, sizeof half);
    else
      std::memcpy(record + column * 4, &scale, sizeof scale);
  }

  void pack_column(int64_t column, int64_t block, std::byte* words) const {
    const int64_t first = block * shape_.block, end = std::min(first + shape_.block, shape_.depth);
    for (int64_t g = 0; g < shape_.groups(); ++g) {
      uint32_t word = 0;
      for (int64_t f = 0; f < shape_.fields(); ++f)
        if (const int64_t k = first + g * shape_.fields() + f; k < end)
          word |= static_cast<uint32_t>(weights_.quantum(column, k)) << (f * shape_.bits);
      std::memcpy(words + g * table_.panel * 4, &word, sizeof word);
    }
  }

  const FewBitWeights weights_;
  const FewBitShape shape_;
  const FewBitTable& table_;
};

// --- the layer

class PreparedWeightOnly final : public PreparedLayer {
 public:
  PreparedWeightOnly(const FewBitTable& table, const FewBitShape& shape, int64_t columns, int64_t rows,
                     const std::byte* weights, std::shared_ptr<const PreparedEpilogue> epilogue, int threads)
      : table_(table),
        shape_(shape),
        columns_(columns),
        rows_(rows),
        weights_(weights),
        epilogue_(std::move(epilogue)),
        threads_(threads) {
    const int64_t rows_at_once = std::min(rows, kWeightOnlyBlockRows);
    x_stride_ = round_up(shape.padded_depth(), 16);
    sums_stride_ = round_up(table.sum_count(shape), 16);
    sums_at_ = rows_at_once * x_stride_;
    values_at_ = sums_at_ + rows_at_once * sums_stride_;
    member_floats_ = values_at_ + table.tile_rows * table.panel;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats_ * 4 * threads_); }
  int members(int available) const override {
    const double bytes =
        static_cast<double>(panels() * panel_bytes());  // some 10 a nanosecond, or 30 operations
    return members_for(bytes * std::max(0.1, static_cast<double>(rows_ * 8 / shape_.bits) / 15), available);
  }

  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto [begin, end] = worker.slice(panels(), 1, Worker::kUncut);  // everybody prepares all rows
    if (begin >= end) return;
    auto* const own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats_;
    for (int64_t first = 0; first < rows_; first += kWeightOnlyBlockRows) {
      const int64_t count = std::min(kWeightOnlyBlockRows, rows_ - first);
      prepare(args, first, count, own);
      for (int64_t p = begin; p < end; ++p) run_panel(args, first, count, p, own);
    }
  }

 private:
  int64_t panels() const { return (columns_ + table_.panel - 1) / table_.panel; }
  int64_t panel_bytes() const { return shape_.blocks() * shape_.block_bytes(table_.panel); }

  void prepare(const LayerArgs& args, int64_t first, int64_t count, float* own) const {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    for (int64_t r = 0; r < count; ++r)
      table_.prepare(shape_, x + (first + r) * shape_.depth, own + r * x_stride_,
                     own + sums_at_ + r * sums_stride_);
  }

  void run_panel(const LayerArgs& args, int64_t first, int64_t count, int64_t panel, float* own) const {
    const int64_t column = panel * table_.panel, columns = std::min(table_.panel, columns_ - column);
    float* const values = own + values_at_;
    for (int64_t r = 0; r < count; r += table_.tile_rows) {
      const FewBitRows rows{.x = own + r * x_stride_,
                            .sums = own + sums_at_ + r * sums_stride_,
                            .x_stride = x_stride_,
                            .sums_stride = sums_stride_,
                            .rows = std::min(table_.tile_rows, count - r)};
      table_.multiply(shape_, rows, weights_ + panel * panel_bytes(), values, table_.panel);
      epilogue_->apply(args, values, table_.panel, (first + r) * columns_ + column, rows.rows, columns_,
                       columns);
    }
  }

  const FewBitTable& table_;
  const FewBitShape shape_;
  const int64_t columns_, rows_;
  const std::byte* const weights_;
  const std::shared_ptr<const PreparedEpilogue> epilogue_;
  const int threads_;
  // In floats: of a row, and where the sums and the results of a tile begin in a member's scratch.
  int64_t x_stride_ = 0, sums_stride_ = 0, sums_at_ = 0, values_at_ = 0, member_floats_ = 0;
};

class WeightOnlyKernel final : public LayerKernel {
 public:
  WeightOnlyKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                   const PackContext& pack)
      : table_(table_of(machine)),
        shape_(shape_of(query, few_bit_packing(query, tactic.params))),
        columns_(weight_extents(query).columns),
        epilogue_(query, tactic, machine) {
    const int64_t panels = (columns_ + table_.panel - 1) / table_.panel;
    weights_ = pack.packed("few_bits", panels * shape_.blocks() * shape_.block_bytes(table_.panel), [&] {
      return Packer(query, few_bit_packing(query, tactic.params), table_).run();
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const int64_t rows = element_count(context.inputs[0]) / shape_.depth;
    return std::make_unique<PreparedWeightOnly>(table_, shape_, columns_, rows, weights_.data(),
                                                epilogue_.prepare(context), context.threads);
  }

 private:
  const FewBitTable& table_;
  const FewBitShape shape_;
  const int64_t columns_;
  const Epilogue epilogue_;
  std::span<const std::byte> weights_;
};

// --- what is offered

double expected_us(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  const double floats = expected_product_us(query, tactic, machine, 0.6, 0.85);
  if (floats == 0) return 0;
  const DeviceModel model = model_of(machine);
  const FewBitShape shape = shape_of(query, few_bit_packing(query, tactic.params));
  const double packed =
      static_cast<double>(weight_extents(query).columns * shape.blocks() * shape.block_bytes(8)) / 8;
  const double moving = packed / (model.bytes_per_ns(packed) * 0.85),
               computing = work_of(query, tactic).ops / (model.ops_per_ns(DType::Float32) * 0.6);
  return model.start_us + std::max(moving, computing) / 1e3;
}

bool is_listed(const LayerQuery& query) {
  return std::holds_alternative<MatMul>(query.layer().op) &&
         query.graph.value(query.layer().inputs[1]).quantization &&
         query.graph.value(query.layer().outputs[0]).number_type() == DType::Float32;
}

Tactic tactic_with(const LayerQuery& query, const Machine& machine, const FewBitPacking& packing) {
  Tactic t = typed_tactic(query, kWeightOnlyRunner, "", {DType::Float32, kLinear}, {DType::Float32, kLinear});
  t.inputs[1] = {};
  if (const Support s = multiplies_few_bits(query); !s.ok) t.support = s;
  t = with_variant(std::move(t), "weight_only_" + packing.name() + "_" + table_of(machine).name,
                   packing.params());
  // A sum of products of the integers, less what the zero point adds, instead of a sum of products of their
  // difference.
  t.error_factor = 4;
  if (t.support.ok) t.expected_us = expected_us(query, t, machine);
  return t;
}

std::vector<Tactic> list_weight_only(const LayerQuery& query, const Machine& machine) {
  if (!is_listed(query)) return {};
  return {tactic_with(query, machine, few_bit_packing(query))};
}

// The numbers of a block's grid are not in an engine file: they are packed already.
Support accepts(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  if (!is_listed(query)) return Support::no("no product with weights on a grid");
  if (const Support s = multiplies_few_bits(query); !s.ok) return s;
  const std::vector<Tactic> tactics = {tactic_with(query, machine, few_bit_packing(query, tactic.params))};
  return is_offered(tactics, tactic);
}

std::unique_ptr<LayerKernel> make_weight_only(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext& pack) {
  return std::make_unique<WeightOnlyKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily weight_only_tactics() {
  return {kWeightOnlyRunner, list_weight_only, make_weight_only, accepts};
}

}  // namespace lathe::cpu
