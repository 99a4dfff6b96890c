// SPDX-License-Identifier: Apache-2.0
//
// Gather along one axis as copies of rows: embeddings, and selections from small tensors.
//
// Bytes: every gathered row read once and written once. A table that is a constant is read where the engine
// keeps it, and widened or narrowed on the way when the layer's type is another float type.
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
  Isa isa = Isa::Avx2;

  int members(int available) const override {
    return members_for(static_cast<double>(outer * count) * (5 + 0.2 * static_cast<double>(inner)),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* in = static_cast<const std::byte*>(args.inputs[0]);
    auto* out = static_cast<std::byte*>(args.outputs[0]);
    const int64_t in_bytes = dtype_bytes(in_type, 1), out_bytes = dtype_bytes(out_type, 1);
    const Worker::Range part = worker.slice(outer * count);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t o = i / count, row = index(args.inputs[1], i % count);
      copy(in + (o * axis_extent + row) * inner * in_bytes, out + i * inner * out_bytes);
    }
  }

 private:
  int64_t index(const void* indices, int64_t i) const {
    const int64_t given = index_type == DType::Int64 ? static_cast<const int64_t*>(indices)[i]
                                                     : int64_t{static_cast<const int32_t*>(indices)[i]};
    const int64_t wrapped = given < 0 ? given + axis_extent : given;
    if (wrapped < 0 || wrapped >= axis_extent)
      throw_input_error(name + " (Gather): index " + std::to_string(given) + " is outside [" +
                        std::to_string(-axis_extent) + ", " + std::to_string(axis_extent - 1) + "]");
    return wrapped;
  }
  void copy(const std::byte* from, std::byte* to) const {
    if (in_type == out_type) {
      const int64_t bytes = inner * dtype_bytes(in_type, 1);
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
    (out_type == DType::BFloat16 ? table.store_bf16 : table.store_f16)(floats, halves, inner);
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
