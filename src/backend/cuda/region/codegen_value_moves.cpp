// SPDX-License-Identifier: Apache-2.0
//
// Slice and Pad whose starts, steps, pads or axes only the run brings. How large the result is, the run knows
// before (backend/sizes_from_values.h); where elements come from, the kernel reads itself. A thread for each
// element of the result.
#include "backend/cuda/codegen/element_kernel.h"
#include "lathe_device_text/value_moves.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kValueMovesRunner = "ValueMoves";
enum SliceInput : size_t { kStarts = 1, kEnds, kSliceAxes, kSteps };
enum PadInput : size_t { kPads = 1, kPadValue, kPadAxes };

// Yes, if operand i is absent or a list of integers, `each` for each of as many axes as operand 1 has.
Support expect_list(const LayerQuery& query, const Tactic& t, size_t i, int64_t count, int64_t each) {
  if (!query.layer().has_op_input(i)) return {};
  const Shape& shape = input_shape(query, i);
  if (shape.size() == 1 && shape[0].is_constant(count * each) &&
      (t.inputs[i].dtype == DType::Int64 || t.inputs[i].dtype == DType::Int32))
    return {};
  return Support::no("parameters are not lists of integers for the same number of axes");
}

// For how many axes operand 1 has parameters; -1: that is not known.
int64_t axis_count(const LayerQuery& query, bool slices) {
  const Shape& shape = input_shape(query, 1);
  if (shape.size() != 1 || !shape[0].is_constant()) return -1;
  return slices ? shape[0].value() : shape[0].value() / 2;
}

// Pads that region/codegen_index.cpp cannot take: it has them from the model, for all dims.
bool has_operands(const LayerQuery& query) {
  const Op& op = query.layer().op;
  if (const auto* slice = std::get_if<Slice>(&op)) return !slice->starts;
  const auto* pad = std::get_if<Pad>(&op);
  return pad != nullptr && (!pad->pads || query.layer().has_op_input(kPadAxes));
}

std::vector<Tactic> list_value_moves(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!has_operands(query)) return {};
  const bool slices = std::holds_alternative<Slice>(node.op);
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kValueMovesRunner, slices ? "cuda_slice_by_values" : "cuda_pad_by_values",
                            {type, kLinear}, {type, kLinear});
    if (const Support s = stored(t); !s.ok) t.support = s;
    const int64_t count = axis_count(query, slices);
    for (const size_t i :
         slices ? std::vector<size_t>{kStarts, kSliceAxes, kSteps} : std::vector<size_t>{kPads, kPadAxes})
      if (const Support s = expect_list(query, t, i, count, !slices && i == kPads ? 2 : 1); !s.ok)
        t.support = s;
    if (!slices && query.layer().has_op_input(kPadValue)) {
      const Value& value = query.graph.value(node.inputs[kPadValue]);
      t.inputs[kPadValue] = {value.is_constant() || !is_float(value.dtype) ? value.dtype : type, kLinear};
      if (storage_name(t.inputs[kPadValue].dtype).empty())
        t.support = Support::no("no kernel for " + std::string(dtype_name(value.dtype)));
    }
    if (const auto* pad = std::get_if<Pad>(&node.op); pad != nullptr && pad->pads)
      t.support = Support::no("axes are data, and pads are not");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::string numbers(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, size_t i,
                    const std::string& otherwise) {
  if (!query.layer().has_op_input(i)) return otherwise;
  return "numbers(" + b.input(i, tactic.inputs[i].dtype) + ")";
}

LayerSource generate_value_moves(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Op& op = query.layer().op;
  const Shape& x = input_shape(query, 0);
  const std::vector<Dim> strides = storage_strides(x, kLinear);
  const auto* pad = std::get_if<Pad>(&op);
  KernelBuilder b = start_kernel(query, tactic, pad != nullptr ? "pad_by_values" : "slice_by_values",
                                 tactic.outputs[0].dtype);
  b.constants({{"RANK", static_cast<int64_t>(x.size())},
               {"MODE", pad != nullptr ? static_cast<int64_t>(pad->mode) : 0}});
  b.global(device_text::value_moves::kLists);
  b.global(pad != nullptr ? device_text::value_moves::kPad : device_text::value_moves::kSlice);
  begin_elements(b, query, tactic, 1);
  std::string lists;
  const std::string count = std::to_string(axis_count(query, pad == nullptr));
  if (pad != nullptr) {
    lists = numbers(b, query, tactic, kPads, "") + ", " + numbers(b, query, tactic, kPadAxes, "FirstAxes{}") +
            ", " + count;
  } else {
    lists = numbers(b, query, tactic, kStarts, "") + ", " +
            numbers(b, query, tactic, kSliceAxes, "FirstAxes{}") + ", " +
            numbers(b, query, tactic, kSteps, "Ones{}") + ", " + count;
  }
  b.line("long long from = 0;\nbool inside = true;");
  for (size_t d = 0; d < x.size(); ++d) {
    const std::string ds = std::to_string(d);
    b.line("{\nconst long long p = " + std::string(pad != nullptr ? "padded(" : "sliced(") + ds + ", c" + ds +
           ", " + b.number(x[d]) + ", " + lists + ");\ninside = inside && p >= 0;\nfrom += p * " +
           b.number(strides[d]) + ";\n}");
  }
  b.line("if (inside) load(" + b.input(0, tactic.inputs[0].dtype) + " + from, v);");
  if (pad != nullptr && pad->mode == PadMode::Constant && query.layer().has_op_input(kPadValue))
    b.line("else v[0] = widen(" + b.input(kPadValue, tactic.inputs[kPadValue].dtype) + "[0]);");
  return {{end_elements(b, 1)}};
}

}  // namespace

GeneratedFamily value_moves_family() {
  return {kValueMovesRunner, list_value_moves, generate_value_moves};
}

}  // namespace lathe::cuda
