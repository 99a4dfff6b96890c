// SPDX-License-Identifier: Apache-2.0
//
// Pad in every mode and type of whole bytes: rows of the result are copies of rows of the input with what
// stands beside them.
//
// Bytes: input read once (reflected parts again, from the cache), output written once: a row's middle is one
// memcpy.
#include <array>
#include <cstring>

#include "backend/cpu/region/fill_copy.h"
#include "backend/cpu/vector/own_tactic.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kPadRunner = "Pad";
constexpr int64_t kValue = -1;  // shows the pad value

// Which input position each result position of a dim shows.
using Table = std::vector<int64_t>;

class PreparedPad final : public PreparedLayer {
 public:
  std::vector<Table> tables;  // per dim
  Extents strides;            // of the input, in elements
  int64_t rows = 1, bytes = 4;
  bool has_value = false;

  int64_t length() const { return static_cast<int64_t>(tables.back().size()); }
  // The longest run of neighbours, [run_begin, run_end) of the result's row.
  int64_t run_begin = 0, run_end = 0;
  int members(int available) const override {
    return members_for(static_cast<double>(rows) * (8 + 0.06 * static_cast<double>(length() * bytes)),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const std::array<std::byte, 8> zero{};
    const auto* value = has_value ? static_cast<const std::byte*>(args.inputs[2]) : zero.data();
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    const Worker::Range part = worker.slice(rows);
    for (int64_t r = part.begin; r < part.end; ++r) {
      std::byte* to = static_cast<std::byte*>(args.outputs[0]) + r * length() * bytes;
      const int64_t offset = source(r);
      if (offset == kValue)
        fill_elements(to, length(), value, bytes);
      else
        copy_row(x + offset * bytes, to, value);
    }
  }

 private:
  int64_t source(int64_t row) const {
    int64_t at = 0;
    for (size_t d = tables.size() - 1; d-- > 0;) {
      const auto extent = static_cast<int64_t>(tables[d].size());
      const int64_t shown = tables[d][static_cast<size_t>(row % extent)];
      if (shown == kValue) return kValue;
      at += shown * strides[d];
      row /= extent;
    }
    return at;
  }
  void copy_row(const std::byte* from, std::byte* to, const std::byte* value) const {
    copy_each(from, to, value, 0, run_begin);
    if (run_end > run_begin)
      std::memcpy(to + run_begin * bytes, from + tables.back()[static_cast<size_t>(run_begin)] * bytes,
                  static_cast<size_t>((run_end - run_begin) * bytes));
    copy_each(from, to, value, run_end, length());
  }
  void copy_each(const std::byte* from, std::byte* to, const std::byte* value, int64_t begin,
                 int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t shown = tables.back()[static_cast<size_t>(i)];
      std::memcpy(to + i * bytes, shown == kValue ? value : from + shown * bytes, static_cast<size_t>(bytes));
    }
  }
};

// What is known of a layer before it is prepared.
class PadLayout {
 public:
  PadLayout(const LayerQuery& query, const Tactic& tactic)
      : op_(std::get<Pad>(query.layer().op)),
        name_(query.layer().name),
        bytes_(dtype_bytes(tactic.inputs[0].dtype, 1)) {
    const Node& node = query.layer();
    rank_ = query.graph.value(node.inputs[0]).shape.size();
    has_value_ = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    if (node.inputs.size() > 3 && node.inputs[3] != kNoValue)
      axes_ = query.graph.value(node.inputs[3]).constant.to_int64s();
  }
  bool is_known() const { return op_.pads.has_value(); }
  // The pads where they are known.
  Ints known_pads(const SymbolValues& symbols) const { return evaluate(*op_.pads, symbols); }
  // The pads that a run brings.
  Ints read_pads(const void* pads) const {
    const auto* numbers = static_cast<const int64_t*>(pads);
    return {numbers, numbers + 2 * (axes_ ? axes_->size() : rank_)};
  }
  PreparedPad prepared(const Extents& x, const Extents& result, const Ints& pads) const {
    PreparedPad p;
    p.strides = row_major_strides(x);
    p.bytes = bytes_;
    p.has_value = has_value_;
    for (size_t d = 0; d < x.size(); ++d) {
      p.tables.push_back(table(d, x[d], result[d], pads));
      if (d + 1 < x.size()) p.rows *= result[d];
    }
    find_run(p);
    return p;
  }

 private:
  // What the operator makes of the positions 0, 1, 2, ... of this dim alone.
  Table table(size_t axis, int64_t in, int64_t out, const Ints& pads) const {
    Pad along{.mode = op_.mode, .pads = Shape{Dim(0), Dim(0)}};
    const size_t count = pads.size() / 2;
    for (size_t i = 0; i < count; ++i) {
      const int64_t named = axes_ ? (*axes_)[i] : static_cast<int64_t>(i);
      if (normalize(named) == axis) along.pads = Shape{Dim(pads[i]), Dim(pads[i + count])};
    }
    // Pads that a tuner makes up are not those that the result was planned for.
    const int64_t made = (Dim(in) + (*along.pads)[0] + (*along.pads)[1]).value();
    if (made != out)
      throw_input_error(name_ + " (Pad): its pads make " + std::to_string(made) + " elements of the " +
                        std::to_string(in) + " of axis " + std::to_string(axis) + ", and its result has " +
                        std::to_string(out));
    Table ramp(static_cast<size_t>(in));
    for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<int64_t>(i);
    const Tensor inputs[] = {Tensor::from<int64_t>({in}, ramp), Tensor(),
                             Tensor::from<int64_t>({}, Ints{kValue})};
    const SymbolValues no_symbols;
    const EvaluateContext context{.inputs = inputs, .output_count = 1, .symbols = &no_symbols};
    return find_op_def(along).evaluate(along, context)[0].to_int64s();
  }
  size_t normalize(int64_t axis) const {
    return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank_) : axis);
  }
  static void find_run(PreparedPad& p) {
    const Table& t = p.tables.back();
    for (size_t begin = 0, end = 0; begin < t.size(); begin = end) {
      end = begin + 1;
      while (end < t.size() && t[begin] != kValue && t[end] == t[end - 1] + 1) ++end;
      if (t[begin] != kValue && static_cast<int64_t>(end - begin) > p.run_end - p.run_begin)
        p.run_begin = static_cast<int64_t>(begin), p.run_end = static_cast<int64_t>(end);
    }
  }

  Pad op_;
  std::string name_;
  int64_t bytes_;
  size_t rank_ = 0;
  bool has_value_ = false;
  std::optional<Ints> axes_;
};

// How large the result is, is found before the layer is prepared (backend/sizes_from_values.h); how much of
// it lies in front of the input, each thread reads from the pads.
class PadOfRunTime final : public PreparedLayer {
 public:
  PadOfRunTime(PadLayout layout, Extents x, Extents result)
      : layout_(std::move(layout)), x_(std::move(x)), result_(std::move(result)) {}
  int members(int available) const override {
    const int64_t rows = element_count(result_) / std::max<int64_t>(1, result_.back());
    return members_for(static_cast<double>(8 * rows + element_count(result_) / 4), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    layout_.prepared(x_, result_, layout_.read_pads(args.inputs[1])).run(args, worker);
  }

 private:
  PadLayout layout_;
  Extents x_, result_;
};

class PadKernel final : public LayerKernel {
 public:
  PadKernel(const LayerQuery& query, const Tactic& tactic) : layout_(query, tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &result = context.outputs[0];
    if (!layout_.is_known()) return std::make_unique<PadOfRunTime>(layout_, x, result);
    return std::make_unique<PreparedPad>(layout_.prepared(x, result, layout_.known_pads(context.symbols)));
  }

 private:
  PadLayout layout_;
};

std::vector<Tactic> list_pad(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Pad>(&node.op);
  if (!op) return {};
  const auto given = [&](size_t i) { return node.inputs.size() > i && node.inputs[i] != kNoValue; };
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = linear_tactic(query, kPadRunner, "pad_rows");
    const bool same = type == t.outputs[0].dtype;
    t.inputs[0].dtype = t.outputs[0].dtype = type;
    if (!node.epilogue.empty())
      t.support = Support::no("a copy applies no epilogue");
    else if (dtype_info(type).bits < 8)
      t.support = Support::no("elements are smaller than a byte");
    else if (!op->pads && t.inputs[1].dtype != DType::Int64)
      t.support = Support::no("the pads are not int64");
    else if (query.graph.value(node.inputs[0]).shape.empty())
      t.support = Support::no("a scalar has nothing to pad");
    else if (given(3) && !query.graph.value(node.inputs[3]).is_constant())
      t.support = Support::no("the axes are known only at run time");
    else if (!same && (given(2) || query.graph.value(node.inputs[0]).is_constant()))
      t.support = Support::no("a constant operand is read as it is stored");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_pad(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                      const PackContext&) {
  return std::make_unique<PadKernel>(query, tactic);
}

}  // namespace

TacticFamily pad_tactics() {
  return {kPadRunner, list_pad, make_pad};
}

}  // namespace lathe::cpu
