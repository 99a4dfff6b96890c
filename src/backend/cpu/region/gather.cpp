// SPDX-License-Identifier: Apache-2.0
//
// Gather along one axis as copies of rows: embeddings, and selections from small tensors.
//
// Bytes: every gathered row read once and written once. Rows that follow one another in the table, too, are
// copied together: windows of a sequence are often written as a Gather of all their positions. Where many
// tables are read by the same indices, these runs are found once. A table that is a constant is read where
// the engine keeps it, and widened or narrowed on the way when the layer has another float type.
#include <algorithm>
#include <cstring>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/view.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kGatherRunner = "Gather";

class PreparedGather final : public PreparedLayer {
 public:
  std::string name;
  DType in_type = DType::Float32, out_type = DType::Float32, index_type = DType::Int64;
  int64_t outer = 1, axis_extent = 1, inner = 1, count = 0;
  int threads = 1;
  Isa isa = Isa::Avx2;

  size_t scratch_bytes() const override {
    return keeps_runs() ? static_cast<size_t>(count * threads) * sizeof(Run) : 0;
  }

  int members(int available) const override {
    return members_for(static_cast<double>(outer * count) * (5 + 0.2 * static_cast<double>(inner)),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* in = static_cast<const std::byte*>(args.inputs[0]);
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    const int64_t row_in = dtype_bytes(in_type, inner), row_out = dtype_bytes(out_type, inner);
    const auto copy_run = [&](int64_t o, const Run& run) {
      copy(in + (o * axis_extent + run.row) * row_in, out + (o * count + run.position) * row_out,
           run.rows * inner);
    };
    if (keeps_runs()) {
      const Worker::Range part = worker.slice(outer);
      if (part.begin == part.end) return;
      Run* const runs = reinterpret_cast<Run*>(args.scratch) + worker.index * count;
      int64_t found = 0;
      each_run(args.inputs[1], 0, count, [&](const Run& run) { runs[found++] = run; });
      for (int64_t o = part.begin; o < part.end; ++o)
        for (int64_t r = 0; r < found; ++r) copy_run(o, runs[r]);
      return;
    }
    const Worker::Range part = worker.slice(outer * count);
    for (int64_t i = part.begin, n = 0; i < part.end; i += n) {
      const int64_t o = i / count, first = i % count;
      n = std::min(part.end - i, count - first);
      each_run(args.inputs[1], first, first + n, [&](const Run& run) { copy_run(o, run); });
    }
  }

 private:
  static constexpr int64_t kTablesOfMember = 4;  // that make it pay to keep the runs

  // Rows of the result from `position` on, which are those of the table from `row` on.
  struct Run {
    int64_t position = 0, row = 0, rows = 0;
  };
  bool keeps_runs() const { return outer >= kTablesOfMember * threads; }
  template <class F>
  void each_run(const void* indices, int64_t begin, int64_t end, const F& f) const {
    for (int64_t i = begin; i < end;) {
      Run run{.position = i, .row = index(indices, i), .rows = 1};
      while (i + run.rows < end && index(indices, i + run.rows) == run.row + run.rows) ++run.rows;
      f(run);
      i += run.rows;
    }
  }
  int64_t index(const void* indices, int64_t i) const {
    const int64_t given = index_type == DType::Int64 ? static_cast<const int64_t*>(indices)[i]
                                                     : int64_t{static_cast<const int32_t*>(indices)[i]};
    const int64_t wrapped = given < 0 ? given + axis_extent : given;
    if (wrapped < 0 || wrapped >= axis_extent)
      throw_input_error(name + " (Gather): index " + std::to_string(given) + " is outside [" +
                        std::to_string(-axis_extent) + ", " + std::to_string(axis_extent - 1) + "]");
    return wrapped;
  }
  void copy(const std::byte* from, std::byte* to, int64_t elements) const {
    if (in_type == out_type) {
      const int64_t bytes = dtype_bytes(in_type, elements);
      if (bytes == 8)
        std::memcpy(to, from, 8);
      else if (bytes == 4)
        std::memcpy(to, from, 4);
      else
        std::memcpy(to, from, static_cast<size_t>(bytes));
      return;
    }
    const PointwiseTable& table = pointwise_table(isa);
    const auto* floats = reinterpret_cast<const float*>(from);
    auto* halves = reinterpret_cast<uint16_t*>(to);
    (out_type == DType::BFloat16 ? table.store_bf16 : table.store_f16)(floats, halves, elements);
  }
};

class GatherKernel final : public LayerKernel {
 public:
  GatherKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        axis_(std::get<Gather>(query.layer().op).axis),
        tactic_(tactic),
        isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedGather>();
    const Extents& x = context.inputs[0];
    const auto axis =
        static_cast<size_t>(normalize_axis(axis_, static_cast<int64_t>(x.size()), "Gather axis"));
    p->name = name_;
    p->in_type = tactic_.inputs[0].dtype;
    p->out_type = tactic_.outputs[0].dtype;
    p->index_type = tactic_.inputs[1].dtype;
    for (size_t d = 0; d < axis; ++d) p->outer *= x[d];
    p->axis_extent = x[axis];
    for (size_t d = axis + 1; d < x.size(); ++d) p->inner *= x[d];
    p->count = element_count(context.inputs[1]);
    p->threads = context.threads;
    p->isa = isa_;
    return p;
  }

 private:
  std::string name_;
  int64_t axis_;
  Tactic tactic_;
  Isa isa_;
};

std::vector<Tactic> list_gather(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Gather>(node.op)) return {};
  const Value& table = query.graph.value(node.inputs[0]);
  std::vector<Tactic> tactics;
  for (const DType type : moved_types(query)) {
    Tactic t = linear_tactic(query, kGatherRunner, "gather_rows_" + std::string(isa_suffix(machine)));
    t.outputs[0].dtype = type;
    if (!table.is_constant()) t.inputs[0].dtype = type;
    const DType from = t.inputs[0].dtype, index = t.inputs[1].dtype;
    const bool narrows = from == DType::Float32 && (type == DType::BFloat16 || type == DType::Float16);
    if (!node.epilogue.empty())
      t.support = Support::no("a copy applies no epilogue");
    else if (dtype_info(from).bits < 8)
      t.support = Support::no("elements are smaller than a byte");
    else if (from != type && !narrows)
      t.support = Support::no("no conversion from " + std::string(dtype_name(from)) + " on the way");
    else if (index != DType::Int64 && index != DType::Int32)
      t.support = Support::no("indices must be int32 or int64");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_gather(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext&) {
  return std::make_unique<GatherKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily gather_tactics() {
  return {kGatherRunner, list_gather, make_gather};
}

}  // namespace lathe::cpu
