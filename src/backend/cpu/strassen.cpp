// SPDX-License-Identifier: Apache-2.0
//
// FP32 products with constant right operands by Strassen's algorithm, one level: seven products of half the rows, columns and
// depth instead of eight. MatMul, and 1x1 convolution in channels-last (pixels are rows).
//
// Operations: 7/8 of 2 M N K, and one vector addition per 7/4 M K / 16 (AVX-512) for the sums of rows. Bytes: 7/4 of the weights once
// per block of rows, and 7/4 of the rows written and read again, which costs as much as some 10 columns. So it pays from about 60 rows
// and 100 columns; the floor is the arithmetic. The sums that come out stay in registers and L1 (kernels/strassen.inc).
// Reached (Zen 4, two threads, cold, of 236 GFLOP/s; operations of the direct algorithm): 128x768 by 768x768 254, by 768x3072 253,
// 128x3072 by 3072x768 250, 1024 rows 250, 246 and 236; the best direct tactics 217 to 228, 218, 217, 226, 224, 225.
// The engine file holds the weights packed as for the direct product. Their sums are formed when the kernel is made, into 5/4 as
// much memory: formed on the way they cost 5 % at 128 rows.
// k goes in chunks, so that one chunk of two panels and of a tile of rows stay in L2. What comes next is fetched ahead.
// The error is about twice that of direct summation, and it is relative to the largest rows and columns of a tile, not to each
// element: halves of very different size would hurt the smaller one.
#include <algorithm>
#include <cstring>

#include "backend/cpu/host_memory.h"
#include "backend/cpu/kernels/strassen_table.h"
#include "backend/cpu/own_tactic.h"
#include "backend/cpu/pack_matrices.h"
#include "backend/cpu/pointwise_eval.h"
#include "backend/cpu/register_tail.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kChunk = 768;      // of k, at most
constexpr int64_t kUnit = 32;        // of k: half of it fills whole vectors
constexpr int64_t kBlockTiles = 16;  // of rows, whose sums pass over all panels
constexpr int64_t kFewestRows = 32;  // below, the weights' way counts more than the arithmetic
constexpr double kErrorFactor =
    2.5;  // 0.8 to 2.2 on normal data, GELU's results and outliers, k = 256 .. 3072

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

const StrassenTable& table_for(Isa isa) {
  return isa == Isa::Avx2 ? strassen_table_avx2() : strassen_table_avx512();
}

// How k is cut into chunks, and each of those into halves.
struct Depth {
  int64_t k = 1, count = 1;  // chunks
  explicit Depth(int64_t depth = kUnit) : k(depth), count((depth + kChunk - 1) / kChunk) {}
  int64_t first(int64_t c) const { return k / kUnit * c / count * kUnit; }
  int64_t steps(int64_t c) const { return (first(c + 1) - first(c)) / 2; }
  int64_t most_steps() const { return round_up(k / kUnit, count) / count * kUnit / 2; }
};

class PreparedStrassen final : public PreparedLayer {
 public:
  int64_t m = 1, n = 1;
  Depth depth;
  int64_t matrices = 1;            // right operands that meet the same rows; their results follow one another
  const float* weights = nullptr;  // panels
  const float* sums = nullptr;     // of the weights
  const float* bias = nullptr;     // one value per column of all matrices
  std::optional<TailPlan> plan;
  std::shared_ptr<const PreparedEpilogue> epilogue;  // without a plan
  Isa isa = Isa::Avx2;
  int threads = 1;

  size_t scratch_bytes() const override {
    int64_t floats = 0;
    for (int count = 1; count <= threads; ++count) floats = std::max(floats, count * member_floats(count));
    return static_cast<size_t>(floats) * sizeof(float);
  }
  int members(int available) const override {
    return members_for(2.0 * static_cast<double>(m * n * matrices) * static_cast<double>(depth.k) / 90,
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Worker::Range rows{0, m}, groups{0, group_count()};
    if (by_rows(worker.count))
      rows = worker.slice(m, 2);
    else
      groups = worker.slice(group_count());
    if (rows.begin >= rows.end || groups.begin >= groups.end) return;
    Part part{args, rows, groups};
    part.left = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats(worker.count);
    part.partial = part.left + block_tiles() * left_floats_of_tile();
    part.results = part.partial + partial_floats(groups.end - groups.begin);
    for (int64_t first = 0; first < tiles(part.rows_count()); first += block_tiles())
      for (int64_t c = 0; c < depth.count; ++c) run_block(part, first, c);
  }

 private:
  // What one member works on, and its memory.
  struct Part {
    const LayerArgs& args;
    Worker::Range rows, groups;
    float *left = nullptr, *partial = nullptr, *results = nullptr;
    int64_t rows_count() const { return rows.end - rows.begin; }
  };
  // Rows of a tile. The last tile's may be odd: then the upper half has one more.
  struct Rows {
    int64_t first = 0, count = 0;
    int64_t half() const { return (count + 1) / 2; }
  };

  int64_t panel() const { return table_for(isa).panel; }
  int64_t tile_rows() const { return table_for(isa).tile_rows; }
  int64_t group_columns() const { return 2 * panel(); }
  int64_t matrix_groups() const { return n / group_columns(); }
  int64_t group_count() const { return matrices * matrix_groups(); }
  int64_t tiles(int64_t rows) const { return (rows + 2 * tile_rows() - 1) / (2 * tile_rows()); }
  int64_t block_tiles() const { return std::min(kBlockTiles, tiles(m)); }
  Rows tile(const Part& part, int64_t i) const {
    const int64_t rows = part.rows_count(), all = tiles(rows), pairs = (rows + 1) / 2;
    const int64_t first = pairs * i / all * 2, end = std::min(rows, pairs * (i + 1) / all * 2);
    return {part.rows.begin + first, end - first};
  }
  // Rows that lie a multiple of 1 KB apart would fall into the same few cache sets.
  int64_t left_stride() const {
    const int64_t steps = depth.most_steps();
    return steps * 4 % 1024 == 0 ? steps + 16 : steps;
  }
  int64_t left_floats_of_tile() const { return kStrassenProducts * tile_rows() * left_stride(); }
  int64_t partial_floats_of_tile() const { return 4 * tile_rows() * panel(); }
  int64_t partial_floats(int64_t groups) const {
    return depth.count > 1 ? block_tiles() * groups * partial_floats_of_tile() : 0;
  }
  int64_t member_floats(int count) const {
    const int64_t groups = by_rows(count) ? group_count() : (group_count() + count - 1) / count;
    return block_tiles() * left_floats_of_tile() + partial_floats(groups) +
           (plan ? 0 : partial_floats_of_tile()) + 16;
  }
  // Rows: everybody reads all weights (at some 30 GB/s, beside the arithmetic). Groups: everybody forms all sums of rows (40 GB/s).
  bool by_rows(int members) const {
    if (members == 1) return true;
    const double flops = 1.75 * static_cast<double>(m * n * matrices) * static_cast<double>(k()) / 110;
    const auto share = [members](int64_t units) {
      return static_cast<double>((units + members - 1) / members) / static_cast<double>(units);
    };
    const double w = 7.0 * static_cast<double>(k() * n * matrices) / 30,
                 a = 7.0 * static_cast<double>(m * k()) / 40;
    return std::max(share((m + 1) / 2) * flops, w) + a / members <=
           std::max(share(group_count()) * flops, w / members) + a;
  }
  int64_t k() const { return depth.k; }

  // A block of tiles from `first` on over all panels of the part, in one chunk of k.
  void run_block(const Part& part, int64_t first, int64_t c) const {
    const int64_t end = std::min(first + block_tiles(), tiles(part.rows_count()));
    for (int64_t i = first; i < end; ++i)
      form_left(part, tile(part, i), c, part.left + (i - first) * left_floats_of_tile());
    for (int64_t g = part.groups.begin; g < part.groups.end; ++g) run_group(part, c, g, first, end);
  }

  void form_left(const Part& part, const Rows& rows, int64_t c, float* to) const {
    const auto* a = static_cast<const float*>(part.args.inputs[0]) + rows.first * k() + depth.first(c);
    for (int64_t r = 0; r < rows.half(); ++r) {
      const int64_t lower = rows.half() + r;
      table_for(isa).form_left(a + r * k(), lower < rows.count ? a + lower * k() : nullptr, depth.steps(c),
                               to + r * left_stride(), rows.half() * left_stride());
    }
  }

  void set_right(int64_t c, int64_t group, const float* (&to)[kStrassenProducts]) const {
    const int64_t quarter = depth.steps(c) * panel();
    const float* formed = sums + (group * k() + depth.first(c)) / 2 * panel() * kFormedRight;
    const float* b11 = weights + (2 * group * k() + depth.first(c)) * panel();
    const float* b22 = b11 + k() * panel() + quarter;
    for (int p = 0; p < kStrassenProducts; ++p) to[p] = formed + (p < 4 ? p : 4) * quarter;
    to[4] = b22;
    to[6] = b11;
  }

  // Tiles [first, end) of rows over one pair of panels.
  void run_group(const Part& part, int64_t c, int64_t group, int64_t first, int64_t end) const {
    const int64_t column = group % matrix_groups() * group_columns(), matrix = group / matrix_groups();
    StrassenTile t;
    t.steps = depth.steps(c);
    t.a_stride = left_stride();
    set_right(c, group, t.b);
    const float* ahead[kStrassenProducts];
    const bool more = group + 1 < part.groups.end;
    set_right(c, more ? group + 1 : part.groups.begin, ahead);
    t.bias = bias ? bias + group * group_columns() : nullptr;
    t.first = c == 0;
    t.last = c + 1 == depth.count;
    if (plan) t.tail = plan->tail;
    t.out_stride = plan ? n : group_columns();
    t.operand_stride = n;
    const float* operand =
        plan && plan->operand >= 0
            ? static_cast<const float*>(part.args.inputs[static_cast<size_t>(plan->operand)])
            : nullptr;
    for (int64_t i = first; i < end; ++i) {
      const Rows rows = tile(part, i);
      t.rows = rows.half();
      t.lower_rows = rows.count - rows.half();
      t.a = part.left + (i - first) * left_floats_of_tile();
      if (depth.count > 1)
        t.partial = part.partial +
                    ((group - part.groups.begin) * block_tiles() + i - first) * partial_floats_of_tile();
      const int64_t at = (matrix * m + rows.first) * n + column;
      t.operand = operand ? operand + at : nullptr;
      t.out = plan ? static_cast<float*>(part.args.outputs[0]) + at : part.results;
      // Each tile fetches its share of the next panels, and the left operands of the next tile.
      t.ahead_bytes = (panel() * 4 + end - first - 1) / (end - first);
      for (int p = 0; p < kStrassenProducts; ++p)
        t.ahead[p] = ahead[p] + (i - first) * t.steps * t.ahead_bytes / 4;
      t.left_ahead = i + 1 < end ? t.a + left_floats_of_tile() : part.left;
      t.left_ahead_bytes = t.rows * left_stride() * 4 / t.steps + 1;
      table_for(isa).run(t);
      if (!plan && t.last)
        epilogue->apply(part.args, part.results, group_columns(), at, rows.count, n, group_columns());
    }
  }
};

// The sums of the right operands: [pair of panels][chunk][sum].
HostBuffer form_right(const float* weights, int64_t groups, const Depth& depth, Isa isa) {
  const StrassenTable& table = table_for(isa);
  HostBuffer sums(static_cast<size_t>(groups * depth.k / 2 * table.panel * kFormedRight) * sizeof(float));
  auto* to = reinterpret_cast<float*>(sums.begin());
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t c = 0; c < depth.count; ++c) {
      const int64_t quarter = depth.steps(c) * table.panel;
      const float* left = weights + (2 * g * depth.k + depth.first(c)) * table.panel;
      const float* right = left + depth.k * table.panel;
      table.form_right(left, right, left + quarter, right + quarter, quarter, to);
      to += kFormedRight * quarter;
    }
  return sums;
}

class StrassenKernel final : public LayerKernel {
 public:
  StrassenKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                 const PackContext& pack)
      : isa_(machine.isa), epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    const auto* product = std::get_if<MatMul>(&node.op);
    plan_ = plan_register_tail(query, product ? query.graph.value(node.outputs[0]).shape.size() - 1 : 1,
                               product != nullptr);
    const Value& w = query.graph.value(node.inputs[1]);
    const bool transposed = !product || product->transpose_b;
    n_ = w.shape[!product ? 0 : w.shape.size() - (transposed ? 2 : 1)].value();
    k_ = w.shape[!product ? 1 : w.shape.size() - (transposed ? 1 : 2)].value();
    for (size_t d = 0; product && d + 2 < w.shape.size(); ++d) matrices_ *= w.shape[d].value();
    // Constants above a size are gone when an engine is loaded: what the tail adds is in the packed bias.
    packed_ = pack.packed("weights", [&] {
      const bool has_bias = node.op_input_count() > 2 && node.inputs[2] != kNoValue;
      const Tensor bias = has_bias ? query.graph.value(node.inputs[2]).constant : Tensor();
      const std::vector<float> sums = bias_of(query, bias, plan_.value_or(TailPlan{}), n_, n_, matrices_);
      std::vector<std::byte> bytes = pack_matrices(w.constant, transposed, matrices_, k_, n_,
                                                   table_for(isa_).panel, static_cast<int64_t>(sums.size()));
      std::memcpy(bytes.data() + matrices_ * k_ * n_ * 4, sums.data(), sums.size() * sizeof(float));
      return bytes;
    });
    sums_ = form_right(reinterpret_cast<const float*>(packed_.data()),
                       matrices_ * n_ / (2 * table_for(isa_).panel), Depth(k_), isa_);
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedStrassen>();
    p->n = n_;
    p->depth = Depth(k_);
    p->sums = reinterpret_cast<const float*>(sums_.begin());
    p->matrices = matrices_;
    p->m = element_count(context.outputs[0]) / (n_ * matrices_);
    p->weights = reinterpret_cast<const float*>(packed_.data());
    p->bias = p->weights + matrices_ * k_ * n_;
    p->plan = plan_;
    p->isa = isa_;
    p->threads = context.threads;
    if (!plan_) p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Isa isa_;
  Epilogue epilogue_;
  std::optional<TailPlan> plan_;
  int64_t n_ = 1, k_ = 1, matrices_ = 1;
  std::span<const std::byte> packed_;
  HostBuffer sums_;
};

bool all_are(const Ints& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](int64_t v) { return v == wanted; });
}

// Rows of the largest result; a batch of right operands counts as more of them.
int64_t most_rows(const LayerQuery& query, int64_t columns) {
  int64_t elements = 1;
  for (const Dim& dim : query.graph.value(query.layer().outputs[0]).shape)
    elements *= dim.bounds(query.ranges).high;
  return elements / std::max<int64_t>(columns, 1);
}

Support supports(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (!b.is_constant()) return Support::no("the right operand is not constant");
  if (a.is_constant()) return Support::no("the left operand is constant");
  if (node.op_input_count() > 2 && node.inputs[2] != kNoValue &&
      !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  int64_t n = b.shape[0].value(), k = b.shape.size() > 1 ? b.shape[1].value() : 1;
  if (const auto* product = std::get_if<MatMul>(&node.op)) {
    if (product->transpose_a) return Support::no("the left operand is transposed");
    if (a.shape.size() < 2 || b.shape.size() < 2) return Support::no("an operand is a vector");
    // Many right operands may meet one left operand, and one right operand many left ones.
    const auto one_matrix = [](const Shape& shape) {
      return std::all_of(shape.begin(), shape.end() - 2, [](const Dim& dim) { return dim.is_constant(1); });
    };
    if (!one_matrix(b.shape) && !one_matrix(a.shape))
      return Support::no("both operands are batches of matrices");
    if (one_matrix(b.shape) && a.shape.size() < b.shape.size())
      return Support::no("the right operand has more batch dims");
    n = b.shape[b.shape.size() - (product->transpose_b ? 2 : 1)].value();
    k = b.shape[b.shape.size() - (product->transpose_b ? 1 : 2)].value();
  }
  if (most_rows(query, n) < kFewestRows)
    return Support::no("fewer than " + std::to_string(kFewestRows) + " rows");
  const int64_t columns = 2 * table_for(machine.isa).panel;
  if (n == 0 || n % columns != 0)
    return Support::no("columns are not a multiple of " + std::to_string(columns));
  if (k == 0 || k % kUnit != 0) return Support::no("the depth is not a multiple of " + std::to_string(kUnit));
  return {};
}

// The tactic of a layer in FP32, if that is one of its types.
std::vector<Tactic> list_fp32(const LayerQuery& query, const Machine& machine, std::string_view runner,
                              std::string_view stem, const Format& format) {
  const std::vector<DType> types = layer_types(query);
  if (std::find(types.begin(), types.end(), DType::Float32) == types.end()) return {};
  Tactic t = typed_tactic(query, runner, std::string(stem) + std::string(isa_suffix(machine)),
                          {DType::Float32, format}, {DType::Float32, format});
  for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
  t.error_factor = kErrorFactor;
  if (const Support s = supports(query, machine); !s.ok) t.support = s;
  return {t};
}

std::vector<Tactic> list_matmul(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<MatMul>(query.layer().op)) return {};
  return list_fp32(query, machine, "StrassenMatMul", "strassen_f32_", kLinear);
}

std::vector<Tactic> list_pixel_conv(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || op->groups != 1 || !all_are(op->kernel, 1) || !all_are(op->strides, 1) ||
      !all_are(op->pads_begin, 0) || !all_are(op->pads_end, 0))
    return {};
  return list_fp32(query, machine, "StrassenConvolution", "strassen_conv_1x1_f32_", kChannelsLast);
}

std::unique_ptr<LayerKernel> make(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                  const PackContext& pack) {
  return std::make_unique<StrassenKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily strassen_tactics() {
  return {"StrassenMatMul", list_matmul, make};
}
TacticFamily strassen_conv_tactics() {
  return {"StrassenConvolution", list_pixel_conv, make};
}

}  // namespace lathe::cpu
