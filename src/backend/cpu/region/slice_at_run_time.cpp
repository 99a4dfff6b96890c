// SPDX-License-Identifier: Apache-2.0
//
// Slice whose starts and ends are computed while the model runs: rows of the experts of a mixture. How large
// the result is, is found before the layer is prepared (backend/sizes_from_values.h); where the copy begins,
// each run reads from the bounds.
//
// Bytes: each element of the result read once and written once.
#include <numeric>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/strided_copy.h"
#include "ops/shape_rules.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kSliceRunner = "RunTimeSlice";

int64_t number_at(const void* data, DType type, size_t i) {
  return type == DType::Int64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
}

// What is known before a run.
struct KnownSlice {
  std::string layer;  // "name (Slice)"
  int64_t bytes = 4;  // of an element
  DType start_type = DType::Int64, end_type = DType::Int64;
  std::vector<size_t> axes;
  Ints steps;
};

class PreparedSlice final : public PreparedLayer {
 public:
  PreparedSlice(const KnownSlice& slice, const Extents& x, const Extents& result)
      : slice_(slice),
        x_(x),
        result_(result),
        strides_(row_major_strides(x)),
        copy_(slice.bytes, result, stepped(slice, strides_), row_major_strides(result)) {}
  int members(int available) const override { return members_for(copy_.nanoseconds(), available); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const int64_t offset = first_element(args);
    if (element_count(result_) == 0) return;
    copy_.run(static_cast<const std::byte*>(args.inputs[0]) + offset * slice_.bytes, args.outputs[0], worker);
  }

 private:
  static Extents stepped(const KnownSlice& slice, Extents strides) {
    for (size_t i = 0; i < slice.axes.size(); ++i) strides[slice.axes[i]] *= slice.steps[i];
    return strides;
  }
  int64_t first_element(const LayerArgs& args) const {
    int64_t offset = 0;
    for (size_t i = 0; i < slice_.axes.size(); ++i) {
      const size_t axis = slice_.axes[i];
      const int64_t start = number_at(args.inputs[1], slice_.start_type, i),
                    end = number_at(args.inputs[2], slice_.end_type, i);
      const SliceBounds bounds = clamp_slice(start, end, slice_.steps[i], x_[axis]);
      // Bounds that a tuner makes up are not those that the result was planned for.
      if (!bounds.length.is_constant(result_[axis]))
        throw_input_error(slice_.layer + ": from " + std::to_string(start) + " to " + std::to_string(end) +
                          " there are " + bounds.length.to_string() + " elements of axis " +
                          std::to_string(axis) + ", and its result has " + std::to_string(result_[axis]));
      offset += bounds.start.value() * strides_[axis];
    }
    return offset;
  }

  KnownSlice slice_;
  Extents x_, result_, strides_;
  StridedCopy copy_;
};

class SliceKernel final : public LayerKernel {
 public:
  explicit SliceKernel(KnownSlice slice) : slice_(std::move(slice)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedSlice>(slice_, context.inputs[0], context.outputs[0]);
  }

 private:
  KnownSlice slice_;
};

// The operand's numbers, or as many of `otherwise` as there are starts when it is absent.
Ints constant_numbers(const LayerQuery& query, size_t input, Ints otherwise) {
  const Node& node = query.layer();
  return node.has_op_input(input) ? query.graph.value(node.inputs[input]).constant.to_int64s()
                                  : std::move(otherwise);
}

bool is_known(const LayerQuery& query, size_t input) {
  const Node& node = query.layer();
  return !node.has_op_input(input) || query.graph.value(node.inputs[input]).is_constant();
}

// Starts or ends that a run brings: as many as there are axes, which the shape rule has seen to.
bool is_list_of_integers(const LayerQuery& query, const Tactic& t, size_t input) {
  const Shape& shape = query.graph.value(query.layer().inputs[input]).shape;
  return shape.size() == 1 && shape[0].is_constant() &&
         (t.inputs[input].dtype == DType::Int64 || t.inputs[input].dtype == DType::Int32);
}

std::vector<Tactic> list_slice(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Slice>(&node.op);
  if (!op || op->starts) return {};
  Tactic t = linear_tactic(query, kSliceRunner, "slice_at_run_time");
  if (!node.epilogue.empty())
    t.support = Support::no("a copy applies no epilogue");
  else if (dtype_info(t.outputs[0].dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  else if (!is_list_of_integers(query, t, 1) || !is_list_of_integers(query, t, 2))
    t.support = Support::no("starts or ends are not a fixed number of int64 or int32");
  else if (!is_known(query, 3) || !is_known(query, 4))
    t.support = Support::no("axes or steps are known only at run time");
  return {t};
}

std::unique_ptr<LayerKernel> make_slice(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                        const PackContext&) {
  const Node& node = query.layer();
  KnownSlice slice{.layer = node.name + " (Slice)",
                   .bytes = dtype_bytes(tactic.outputs[0].dtype, 1),
                   .start_type = tactic.inputs[1].dtype,
                   .end_type = tactic.inputs[2].dtype};
  const auto count = static_cast<size_t>(query.graph.value(node.inputs[1]).shape.at(0).value());
  Ints first(count);
  std::iota(first.begin(), first.end(), 0);
  slice.steps = constant_numbers(query, 4, Ints(count, 1));
  for (const int64_t axis : constant_numbers(query, 3, first))
    slice.axes.push_back(static_cast<size_t>(
        normalize_axis(axis, static_cast<int64_t>(query.graph.value(node.inputs[0]).shape.size()), "axes")));
  return std::make_unique<SliceKernel>(std::move(slice));
}

}  // namespace

TacticFamily run_time_slice_tactics() {
  return {kSliceRunner, list_slice, make_slice};
}

}  // namespace lathe::cpu
