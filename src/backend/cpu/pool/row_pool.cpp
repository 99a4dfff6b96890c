// SPDX-License-Identifier: Apache-2.0
//
// Pooling in linear format, any kind, window and number of dims: maxima with and without their indices,
// averages, Lp norms. A row of results is folded from a run of each input row for each tap of the last axis.
// Where the step is 1, vectors of results stay in registers while all taps of the window pass over them.
//
// Operations: one for each tap and result, in vectors where the step is 1 or 2. Bytes: input rows once for
// each row of the window, from L1 or L2. Averages divide by the taps of each column, which are counted once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/pool/row_pool_table.h"
#include "backend/cpu/pool/window_span.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "ops/window_range.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRowPoolRunner = "RowPooling";
constexpr int64_t kMostWindowTaps = 1024;  // whose addresses are collected

class PreparedRowPool final : public PreparedLayer {
 public:
  PreparedRowPool(const Pool& pool, const std::vector<WindowAxis>& axes)
      : op(pool), last_(axes.back()), outer_(axes.begin(), axes.end() - 1) {
    for (const WindowAxis& axis : outer_) {
      rows_ *= axis.output;
      lines_ *= axis.input;
      spans_.emplace_back();
      for (int64_t o = 0; o < axis.output; ++o) spans_.back().push_back(span_of(axis, o));
    }
    for (int64_t o = 0; o < last_.output; ++o) {
      const Span span = span_of(last_, o);
      counts_.push_back(
          static_cast<float>(std::max<int64_t>(1, op.count_include_pad ? span.padded : span.count)));
    }
    for (int64_t k = 0; k < last_.kernel; ++k)
      if (const OutputRange range = outputs_inside(last_, k); range.begin < range.end)
        taps_.push_back({.from = range.begin * last_.stride + k * last_.dilation - last_.pad_begin,
                         .to = range.begin,
                         .count = range.end - range.begin});
    find_segments();
  }

  Pool op;
  bool wants_indices = false;
  int64_t planes = 1;
  TensorType type;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    double taps = static_cast<double>(planes * rows_ * last_.output);
    for (const WindowAxis& axis : outer_) taps *= static_cast<double>(axis.kernel);
    return members_for(0.15 * taps * static_cast<double>(last_.kernel), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const RowPoolTable& table = isa == Isa::Avx2 ? row_pool_table_avx2() : row_pool_table_avx512();
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const int64_t width = last_.output;
    Row row{.table = table,
            .results = own,
            .index = reinterpret_cast<int32_t*>(own + round_up(width, 16)),
            .line = own + 2 * round_up(width, 16)};
    row.taps = reinterpret_cast<const float**>(row.line + round_up(last_.input, 16));
    row.lines = reinterpret_cast<int64_t*>(row.taps + window_taps());
    const Worker::Range part = worker.slice(planes * rows_);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t plane = i / rows_;
      row.number = i % rows_;
      row.plane = static_cast<const std::byte*>(args.inputs[0]) +
                  dtype_bytes(type.dtype, plane * lines_ * last_.input);
      if (epilogue->is_identity()) row.results = static_cast<float*>(args.outputs[0]) + i * width;
      row.divisor = 1;
      if (!folds_windows() || !covers_) std::fill_n(row.results, width, start());
      if (wants_indices) std::fill_n(row.index, width, -1);
      row.line_count = 0;
      visit(row, 0, 0, rows_);
      if (folds_windows()) fold_windows(row);
      finish(row);
      epilogue->apply(args, row.results, width, i * width, 1, width, width);
      if (wants_indices)
        store_indices(row, plane * lines_ * last_.input, static_cast<int64_t*>(args.outputs[1]) + i * width);
    }
  }

 private:
  struct TapRun {
    int64_t from = 0, to = 0, count = 0;
  };
  // A row of results in the making.
  struct Row {
    const RowPoolTable& table;
    float* results;
    int32_t* index;
    float* line;  // of 16-bit elements, as FP32
    int64_t number = 0;
    const std::byte* plane = nullptr;
    float divisor = 1;  // taps of the outer axes that count
    // Of a window in registers: the lines that it meets, and its taps in a segment.
    const float** taps = nullptr;
    int64_t* lines = nullptr;
    int64_t line_count = 0;
  };
  // Columns that the same taps reach.
  struct Segment {
    int64_t begin = 0, count = 0;
    std::vector<TapRun> taps;
  };

  int64_t window_taps() const {
    int64_t taps = last_.kernel;
    for (const WindowAxis& axis : outer_) taps *= axis.kernel;
    return folds_windows() ? taps : 0;
  }
  int64_t member_floats() const {
    const int64_t pointers = 2 * window_taps() * static_cast<int64_t>(sizeof(int64_t));
    return 2 * round_up(last_.output, 16) + round_up(last_.input, 16) + round_up(pointers / 4, 16);
  }
  bool folds_windows() const {
    return !segments_.empty() && type.dtype == DType::Float32 && !wants_indices &&
           (op.kind != PoolKind::Lp || op.p <= 2);
  }
  // None where the step is another one, or where a tap's run alone would be the better part: columns near the
  // edges are segments of their own, which cost as much as a vector.
  void find_segments() {
    int64_t taps = last_.kernel, vectors = 0, columns = 0;
    for (const WindowAxis& axis : outer_) taps = std::min(taps, kMostWindowTaps) * axis.kernel;
    if (last_.stride != 1 || taps > kMostWindowTaps) return;
    std::vector<int64_t> edges;
    for (const TapRun& tap : taps_) edges.insert(edges.end(), {tap.to, tap.to + tap.count});
    std::sort(edges.begin(), edges.end());
    for (size_t e = 1; e < edges.size(); ++e) {
      Segment segment{edges[e - 1], edges[e] - edges[e - 1], {}};
      if (segment.count == 0) continue;
      for (const TapRun& tap : taps_)
        if (tap.to <= segment.begin && segment.begin < tap.to + tap.count)
          segment.taps.push_back({tap.from + segment.begin - tap.to, segment.begin, segment.count});
      vectors += (segment.count + 15) / 16;
      columns += segment.taps.empty() ? 0 : segment.count;
      if (!segment.taps.empty()) segments_.push_back(std::move(segment));
    }
    if (vectors > 3 * ((last_.output + 15) / 16)) segments_.clear();
    covers_ = columns == last_.output;
  }
  void fold_windows(const Row& row) const {
    const auto* x = reinterpret_cast<const float*>(row.plane);
    for (const Segment& segment : segments_) {
      int64_t taps = 0;
      for (int64_t i = 0; i < row.line_count; ++i)
        for (const TapRun& tap : segment.taps) row.taps[taps++] = x + row.lines[i] * last_.input + tap.from;
      row.table.fold_taps(how(), start(), row.taps, taps, segment.count, row.results + segment.begin);
    }
  }

  // Goes through the taps of axis `d` and those after it. `line`: the row of the input along the axes before;
  // `rows`: how many of the output's rows the axes from `d` on have.
  void visit(Row& row, size_t d, int64_t line, int64_t rows) const {
    if (d == outer_.size()) {
      if (!folds_windows()) return fold_line(row, line);
      row.lines[row.line_count++] = line;
      return;
    }
    const WindowAxis& axis = outer_[d];
    rows /= axis.output;
    const Span& span = spans_[d][static_cast<size_t>(row.number / rows % axis.output)];
    row.divisor *= static_cast<float>(op.count_include_pad ? span.padded : span.count);
    const float divisor = row.divisor;
    for (int64_t k = 0; k < span.count; ++k) {
      row.divisor = divisor;
      visit(row, d + 1, line * axis.input + span.first + k * axis.dilation, rows);
    }
  }
  void fold_line(const Row& row, int64_t line) const {
    const int64_t width = last_.input;
    const std::byte* from = row.plane + dtype_bytes(type.dtype, line * width);
    const auto* x = reinterpret_cast<const float*>(from);
    if (type.dtype != DType::Float32) {
      const PointwiseTable& convert = pointwise_table(isa);
      (type.dtype == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(
          reinterpret_cast<const uint16_t*>(from), row.line, width);
      x = row.line;
    }
    for (const TapRun& tap : taps_) {
      float* y = row.results + tap.to;
      if (wants_indices)
        row.table.max_index(x + tap.from, last_.stride, tap.count,
                            static_cast<int32_t>(line * width + tap.from), y, row.index + tap.to);
      else if (op.kind == PoolKind::Lp && op.p > 2)
        for (int64_t i = 0; i < tap.count; ++i)
          y[i] += std::pow(std::fabs(x[tap.from + i * last_.stride]), static_cast<float>(op.p));
      else
        row.table.fold(how(), x + tap.from, last_.stride, tap.count, y);
    }
  }
  float start() const { return op.kind == PoolKind::Max ? -std::numeric_limits<float>::infinity() : 0.0f; }
  RowFold how() const {
    if (op.kind == PoolKind::Max) return RowFold::Max;
    if (op.kind == PoolKind::Average) return RowFold::Sum;
    return op.p == 1 ? RowFold::Magnitudes : RowFold::Squares;
  }
  void finish(const Row& row) const {
    const int64_t n = last_.output;
    if (op.kind == PoolKind::Average) {
      row.table.divide(counts_.data(), n, row.results);
      const float factor = row.divisor;
      if (factor > 1)
        for (int64_t i = 0; i < n; ++i) row.results[i] /= factor;
    } else if (op.kind == PoolKind::Lp && op.p == 2) {
      row.table.square_roots(n, row.results);
    } else if (op.kind == PoolKind::Lp && op.p > 2) {
      for (int64_t i = 0; i < n; ++i)
        row.results[i] = std::pow(row.results[i], 1.0f / static_cast<float>(op.p));
    }
  }
  void store_indices(const Row& row, int64_t first, int64_t* to) const {
    for (int64_t i = 0; i < last_.output; ++i)
      to[i] = first + (op.column_major ? column_major(row.index[i]) : row.index[i]);
  }
  // The place of an element where the plane is stored with its first axis innermost.
  int64_t column_major(int64_t index) const {
    int64_t place = index % last_.input, rest = index / last_.input, stride = lines_;
    place *= stride;
    for (size_t d = outer_.size(); d-- > 0; rest /= outer_[d].input) {
      stride /= outer_[d].input;
      place += rest % outer_[d].input * stride;
    }
    return place;
  }

  WindowAxis last_;
  std::vector<WindowAxis> outer_;  // the axes before it
  std::vector<std::vector<Span>> spans_;
  std::vector<TapRun> taps_;       // of the last axis
  std::vector<Segment> segments_;  // of columns, where windows are folded in registers
  bool covers_ = false;            // each column is in one
  std::vector<float> counts_;
  int64_t rows_ = 1, lines_ = 1;  // of a plane: of the output, of the input
};

class RowPoolKernel final : public LayerKernel {
 public:
  RowPoolKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<Pool>(query.layer().op)),
        type_(tactic.inputs[0]),
        wants_indices_(query.layer().has_output(1)),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& x = context.inputs[0];
    const Extents spatial(x.begin() + 2, x.end());
    if (element_count(spatial) > std::numeric_limits<int32_t>::max())
      throw_input_error(name_ + " (Pool): a plane of " + to_string(x) + " has more than 2^31 elements");
    const WindowSpec window{op_.kernel,   op_.strides,  op_.dilations, op_.pads_begin,
                            op_.pads_end, op_.auto_pad, op_.ceil_mode};
    auto p = std::make_unique<PreparedRowPool>(op_, resolve_window(window, spatial));
    p->wants_indices = wants_indices_;
    p->planes = x[0] * x[1];
    p->type = type_;
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  std::string name_;
  Pool op_;
  TensorType type_;
  bool wants_indices_;
  Isa isa_;
  Epilogue epilogue_;
};

std::vector<Tactic> list_row_pool(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Pool>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    Tactic t =
        typed_tactic(query, kRowPoolRunner, "pool_rows_" + std::string(isa_suffix(machine)), linear, linear);
    if (!is_vector_float(type)) t.support = no_vector_kernel(type);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_row_pool(const LayerQuery& query, const Tactic& tactic,
                                           const Machine& machine, const PackContext&) {
  return std::make_unique<RowPoolKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily row_pool_tactics() {
  return {kRowPoolRunner, list_row_pool, make_row_pool};
}

}  // namespace lathe::cpu
