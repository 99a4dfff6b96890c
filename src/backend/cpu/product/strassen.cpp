// SPDX-License-Identifier: Apache-2.0
//
// FP32 products with constant right operands by Strassen's algorithm in Winograd's form, one level: seven
// products of half the rows, columns and depth instead of eight. MatMul, and 1x1 convolution in channels-last
// (pixels are rows).
//
// Operations: 7/8 of 2 M N K, and the sums of what goes in: 5/4 additions for an element of the rows, 5/4 for
// one of the weights. Bytes: the weights once per block of rows; the sums of rows, 7/4 of them, written and
// read again. So it pays from about 60 rows and 100 columns; the floor is the arithmetic.
// The weights are packed as for the direct product. Their sums are formed, panel pair by panel pair, by the
// first tile that meets them, just before it multiplies (a pass of their own costs 5 % at 128 rows, and so
// does forming them beside the pair before, as L2 must then hold two pairs' sums); kept for all inferences
// they would be 7/4 of the bytes from memory. Where sums come out, most products go on with those in
// registers. Reached (operations of the direct algorithm): Zen 4, two threads, cold, beside other work, of
// 236 GFLOP/s, 1024x768 by 768x768 237, by 768x3072 239. Emerald Rapids, one thread, cold, of 179 GFLOP/s:
// 1576x768 by 768x3072 with GELU 173, 197 rows 174; 1576x3072 by 3072x768 with an operand 165.
// k goes in chunks, so that one chunk of two panels and of a tile of rows stay in L2. What comes next is
// fetched ahead. Members take ranges of rows, or pairs of panels. These they share out anew for each chunk of
// a block of rows: whoever has formed the block's left operands may then take any pair, so a portion costs
// nothing but the last meeting. The error is two to three times that of direct summation, and it is relative
// to the largest rows and columns of a tile, not to each element: halves of very different size would hurt
// the smaller one.
#include <algorithm>
#include <cstring>

#include "backend/cpu/device/expected.h"
#include "backend/cpu/product/strassen_table.h"
#include "backend/cpu/tile/pack_matrices.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kStrassenChunk = 768;  // of k, at most
constexpr int64_t kUnit = 32;            // of k: half of it fills whole vectors
constexpr int64_t kFewestRows = 32;      // below, the weights' way counts more than the arithmetic
// Of rows, whose left operands (150 KB at 384 steps) pass over all panels: as many as stay in a large L2
// beside the panels and their sums, or so many that the panels' way counts little.
constexpr int64_t kFewTiles = 6, kManyTiles = 16;
constexpr int64_t kFetchingTiles =
    3;  // that fetch what the next panels need, where L2 would not keep it for long
constexpr int64_t kLargeL2 = 2 << 20;  // keeps it
// Measured 1.8 to 3.2 on normal data, GELU's results and outliers, k = 256 .. 768.
constexpr double kErrorFactor = 3.3;

const StrassenTable& table_for(Isa isa) {
  return isa == Isa::Avx2 ? strassen_table_avx2() : strassen_table_avx512();
}

// How k is cut into chunks, and each of those into halves.
struct Depth {
  int64_t k = 1, count = 1;  // chunks
  explicit Depth(int64_t depth = kUnit) : k(depth), count((depth + kStrassenChunk - 1) / kStrassenChunk) {}
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
  const float* bias = nullptr;     // one value per column of all matrices
  std::optional<TailPlan> plan;
  std::shared_ptr<const PreparedEpilogue> epilogue;  // without a plan
  Isa isa = Isa::Avx2;
  bool keeps_ahead = false;  // what is fetched for the next panels stays in L2 until then
  int threads = 1;

  size_t scratch_bytes() const override {
    int64_t floats = 0;
    for (int count = 1; count <= threads; ++count)
      floats = std::max(floats, count * member_floats(count) + (by_rows(count) ? 0 : partial_floats()));
    return static_cast<size_t>(floats) * sizeof(float);
  }
  int members(int available) const override {
    const double operations = 2.0 * static_cast<double>(m * n * matrices) * static_cast<double>(depth.k);
    const int wanted = members_for(operations / 90, available);
    return meets(wanted) ? available : wanted;  // shared out to all
  }
  bool meets(int count) const override { return !by_rows(count); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const bool rows = by_rows(worker.count);
    Part part{args};
    float* const members = reinterpret_cast<float*>(args.scratch);
    part.left = members + worker.index * member_floats(worker.count);
    part.right = part.left + most_block_tiles() * left_floats_of_tile();
    part.results = part.right + right_floats();
    part.partial =
        rows ? part.results + result_floats() : members + worker.count * member_floats(worker.count);
    // Each block of rows forms the sums of all weights, so portions are whole blocks.
    part.rows = rows ? worker.slice(m, 2, most_block_tiles() * tile_rows()) : Worker::Range{0, m};
    part.groups = rows ? Worker::Range{0, group_count()} : worker.slice(group_count());
    if (part.rows.begin >= part.rows.end) return;
    const int64_t all = tiles(part.rows_count()), most = most_block_tiles();
    part.blocks = (all + most - 1) / most;
    part.block_tiles = (all + part.blocks - 1) / part.blocks;
    for (int64_t pass = 0; pass < passes(part); ++pass) {
      if (rows)
        run_groups(part, pass, part.groups);
      else  // each member forms all sums of the pass's rows, once, whatever portions of groups it takes
        worker.share(worker.count,
                     [&](const Worker& portion) { run_groups(part, pass, portion.slice(group_count())); });
    }
  }

 private:
  // What one member works on, and its memory.
  struct Part {
    const LayerArgs& args;
    Worker::Range rows, groups;  // its own; of groups it may take others'
    int64_t blocks = 1, block_tiles = 1;
    float *left = nullptr, *right = nullptr, *results = nullptr;
    float* partial = nullptr;  // by group
    int64_t left_pass = -1;    // whose left operands there are
    int64_t rows_count() const { return rows.end - rows.begin; }
  };
  // A pass takes a chunk of a block of tiles over pairs of panels.
  struct Place {
    int64_t pass = 0, group = 0;
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
  int64_t most_block_tiles() const { return std::min(keeps_ahead ? kFewTiles : kManyTiles, tiles(m)); }
  Rows tile(const Part& part, int64_t i) const {
    const int64_t rows = part.rows_count(), all = tiles(rows), pairs = (rows + 1) / 2;
    const int64_t first = pairs * i / all * 2, end = std::min(rows, pairs * (i + 1) / all * 2);
    return {part.rows.begin + first, end - first};
  }
  int64_t left_floats_of_tile() const {
    return kStrassenProducts * left_operand_floats(tile_rows(), depth.most_steps());
  }
  int64_t partial_floats_of_tile() const { return 4 * tile_rows() * panel(); }
  int64_t partial_floats() const {
    return depth.count > 1 ? most_block_tiles() * group_count() * partial_floats_of_tile() : 0;
  }
  int64_t result_floats() const { return plan ? 0 : partial_floats_of_tile(); }
  // Sums that are stored together would fall into one set of L1.
  int64_t formed_quarter(int64_t steps) const { return steps * panel() + panel() / 2; }
  int64_t right_floats() const { return kFormedRight * formed_quarter(depth.most_steps()); }
  int64_t member_floats(int count) const {
    return most_block_tiles() * left_floats_of_tile() + right_floats() + result_floats() +
           (by_rows(count) ? partial_floats() : 0) + 16;
  }
  // Rows: everybody reads all weights (30 GB/s). Groups: everybody forms all sums of rows (20 GB/s). The
  // smaller traffic counts even where it hides behind the arithmetic: neighbours on the machine want their
  // part of the memory's rate.
  bool by_rows(int members) const {
    const ProductShares shares{
        .arithmetic = 1.75 * static_cast<double>(m * n * matrices) * static_cast<double>(k()) / 110,
        .weights = 4.0 * static_cast<double>(k() * n * matrices) / 30,
        .rows = 7.0 * static_cast<double>(m * k()) / 20,
        .row_units = (m + 1) / 2,
        .column_units = group_count()};
    return shares.by_rows(members);
  }
  int64_t k() const { return depth.k; }

  int64_t passes(const Part& part) const { return part.blocks * depth.count; }
  int64_t chunk(int64_t pass) const { return pass % depth.count; }
  int64_t first_tile(const Part& part, int64_t pass) const { return pass / depth.count * part.block_tiles; }

  void run_groups(Part& part, int64_t pass, const Worker::Range& groups) const {
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const bool more = group + 1 < std::max(groups.end, part.groups.end), last = pass + 1 == passes(part);
      const Place next =
          more ? Place{pass, group + 1} : Place{pass + 1, std::min(part.groups.begin, group_count() - 1)};
      run_group(part, {pass, group}, more || !last ? &next : nullptr);
      part.left_pass = pass;
    }
  }

  void form_left(const Part& part, const Rows& rows, int64_t c, float* to) const {
    const auto* a = static_cast<const float*>(part.args.inputs[0]) + rows.first * k() + depth.first(c);
    for (int64_t r = 0; r < rows.half(); ++r) {
      const int64_t lower = rows.half() + r;
      table_for(isa).form_left(a + r * k(), lower < rows.count ? a + lower * k() : nullptr, depth.steps(c), r,
                               rows.half(), to);
    }
  }

  const float* panel_at(int64_t index, int64_t c) const {
    return weights + (index * k() + depth.first(c)) * panel();
  }

  // A block of tiles over one pair of panels. The first one forms the sums of the panels; where `at` is the
  // pass's first pair, each tile's left operands are formed just before. `next`: null at the end.
  void run_group(const Part& part, const Place& at, const Place* next) const {
    const int64_t all = tiles(part.rows_count()), first = first_tile(part, at.pass), c = chunk(at.pass);
    const int64_t end = std::min(first + part.block_tiles, all);
    const bool forms_left = part.left_pass != at.pass;
    const int64_t column = at.group % matrix_groups() * group_columns(), matrix = at.group / matrix_groups();
    StrassenTile t;
    t.steps = depth.steps(c);
    t.left = panel_at(2 * at.group, c);
    t.right = panel_at(2 * at.group + 1, c);
    t.quarter = t.steps * panel();
    t.sums = part.right;
    t.sum_stride = formed_quarter(t.steps);
    t.bias = bias ? bias + at.group * group_columns() : nullptr;
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
      float* left = part.left + (i - first) * left_floats_of_tile();
      if (forms_left) form_left(part, rows, c, left);
      t.rows = rows.half();
      t.lower_rows = rows.count - rows.half();
      t.a = left;
      t.forms = i == first;
      if (depth.count > 1)
        t.partial = part.partial + (at.group * part.block_tiles + i - first) * partial_floats_of_tile();
      const int64_t place = (matrix * m + rows.first) * n + column;
      t.operand = operand ? operand + place : nullptr;
      t.out = plan ? static_cast<float*>(part.args.outputs[0]) + place : part.results;
      fetch_panels(next, i - first, end - first, t);
      fetch_left(part, at, next, forms_left, i, end, t);
      table_for(isa).run(t);
      if (!plan && t.last)
        epilogue->apply(part.args, part.results, group_columns(), place, rows.count, n, group_columns());
    }
  }

  // Tile `i` of `count` fetches its share of the next panels: all tiles do, or those just before they are
  // wanted.
  void fetch_panels(const Place* next, int64_t i, int64_t count, StrassenTile& t) const {
    const int64_t window = keeps_ahead ? count : std::min(count, kFetchingTiles), turn = i - count + window;
    const bool fetches = next && turn >= 0;
    t.ahead_bytes = fetches ? (panel() * 4 + window - 1) / window : 0;
    for (int p = 0; p < kStrassenProducts; ++p) {
      t.ahead[p] = t.a;
      if (fetches && p < 4)
        t.ahead[p] = panel_at(2 * next->group + p / 2, chunk(next->pass)) +
                     p % 2 * depth.steps(chunk(next->pass)) * panel() + turn * t.steps * t.ahead_bytes / 4;
    }
  }
  // The left operands of the tile after `i`, or the rows that they will be formed from.
  void fetch_left(const Part& part, const Place& at, const Place* next, bool forms_left, int64_t i,
                  int64_t end, StrassenTile& t) const {
    const bool more = i + 1 < end;
    t.left_ahead = t.a;
    t.left_ahead_bytes = 0;
    t.rows_ahead = {};
    if (!more && !next) return;
    if (more ? !forms_left : next->pass == at.pass) {
      t.left_ahead = more ? t.a + left_floats_of_tile() : part.left;
      t.left_ahead_bytes = t.rows * 4;
      return;
    }
    const int64_t pass = more ? at.pass : next->pass;
    const Rows rows = tile(part, more ? i + 1 : first_tile(part, pass));
    t.rows_ahead = {
        .first = static_cast<const float*>(part.args.inputs[0]) + rows.first * k() + depth.first(chunk(pass)),
        .rows = rows.count,
        .stride = k(),
        .line_count = depth.steps(chunk(pass)) / 8};
  }
};

class StrassenKernel final : public LayerKernel {
 public:
  StrassenKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                 const PackContext& pack)
      : isa_(machine.isa()), keeps_ahead_(machine.l2_bytes >= kLargeL2), epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    const auto* product = std::get_if<MatMul>(&node.op);
    plan_ = plan_register_tail(query, product ? query.graph.value(node.outputs[0]).shape.size() - 1 : 1,
                               product != nullptr);
    if (plan_) suit(plan_->tail, machine);
    const Value& w = query.graph.value(node.inputs[1]);
    const bool transposed = !product || product->transpose_b;
    n_ = w.shape[!product ? 0 : w.shape.size() - (transposed ? 2 : 1)].value();
    k_ = w.shape[!product ? 1 : w.shape.size() - (transposed ? 1 : 2)].value();
    for (size_t d = 0; product && d + 2 < w.shape.size(); ++d) matrices_ *= w.shape[d].value();
    // Constants above a size are gone when an engine is loaded: what the tail adds is in the packed bias.
    const int64_t packed_floats = matrices_ * (k_ * n_ + n_);
    packed_ = pack.packed("weights", dtype_bytes(DType::Float32, packed_floats), [&] {
      const std::vector<float> sums = bias_of(query, plan_.value_or(TailPlan{}), n_, n_, matrices_);
      std::vector<std::byte> bytes = pack_matrices(w.constant, transposed, matrices_, k_, n_,
                                                   table_for(isa_).panel, static_cast<int64_t>(sums.size()));
      std::memcpy(bytes.data() + matrices_ * k_ * n_ * 4, sums.data(), sums.size() * sizeof(float));
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedStrassen>();
    p->n = n_;
    p->depth = Depth(k_);
    p->matrices = matrices_;
    p->m = element_count(context.outputs[0]) / (n_ * matrices_);
    p->weights = reinterpret_cast<const float*>(packed_.data());
    p->bias = p->weights + matrices_ * k_ * n_;
    p->plan = plan_;
    p->isa = isa_;
    p->keeps_ahead = keeps_ahead_;
    p->threads = context.threads;
    if (!plan_) p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Isa isa_;
  bool keeps_ahead_;
  Epilogue epilogue_;
  std::optional<TailPlan> plan_;
  int64_t n_ = 1, k_ = 1, matrices_ = 1;
  std::span<const std::byte> packed_;
};

// Rows of the largest result; a batch of right operands counts as more of them.
int64_t most_rows(const LayerQuery& query, int64_t columns) {
  const Shape& shape = query.graph.value(query.layer().outputs[0]).shape;
  const int64_t elements = element_count(upper_extents(shape, query.max_values()));
  return elements / std::max<int64_t>(columns, 1);
}

Support supports_strassen(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (!b.is_constant()) return Support::no("the right operand is not constant");
  if (a.is_constant()) return Support::no("the left operand is constant");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
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
  const int64_t columns = 2 * table_for(machine.isa()).panel;
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
  if (const Support s = supports_strassen(query, machine); !s.ok) t.support = s;
  t.expected_us = expected_product_us(query, t, machine, 0.74, 0.80);
  return {t};
}

std::vector<Tactic> list_strassen(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<MatMul>(query.layer().op)) return {};
  return list_fp32(query, machine, "StrassenMatMul", "strassen_f32_", kLinear);
}

std::vector<Tactic> list_strassen_pixel_conv(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || !is_pixel_conv(*op) || !all_are(op->strides, 1)) return {};
  return list_fp32(query, machine, "StrassenConvolution", "strassen_conv_1x1_f32_", kChannelsLast);
}

std::unique_ptr<LayerKernel> make_strassen(const LayerQuery& query, const Tactic& tactic,
                                           const Machine& machine, const PackContext& pack) {
  return std::make_unique<StrassenKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily strassen_tactics() {
  return {"StrassenMatMul", list_strassen, make_strassen};
}
TacticFamily strassen_conv_tactics() {
  return {"StrassenConvolution", list_strassen_pixel_conv, make_strassen};
}

}  // namespace lathe::cpu
