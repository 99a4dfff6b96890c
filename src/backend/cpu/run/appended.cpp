// SPDX-License-Identifier: Apache-2.0
//
// Two forms of `present = Concat(past, new)` are known:
//
//   a layer that copies both      past -> Concat -> present      it copies `new` only
//   a view                        past -> copy inside present    the copy has nothing to do; the layer that
//                                                                makes `new` writes it
//                                 new  -> inside present         where the past ends
//
// The second one exists only where all dims in front of the axis are 1, so its past begins where the present
// does. In both the past must be the first part: another one would have to move when the present grows.
#include "backend/cpu/run/appended.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace lathe::cpu {
namespace {

class Finder {
 public:
  Finder(const CpuProgram& program, size_t input, size_t output)
      : program_(program),
        graph_(program.graph()),
        past_(graph_.inputs().at(input)),
        present_(graph_.outputs().at(output)) {}

  AppendForm form() const {
    AppendForm form;
    const Value &past = graph_.value(past_), &present = graph_.value(present_);
    const Concat* concat =
        present.producer == kNoNode ? nullptr : std::get_if<Concat>(&graph_.node(present.producer).op);
    if (concat == nullptr) {
      form.reason = present.producer == kNoNode
                        ? "no layer writes it"
                        : fmt::format("layer '{}' ({}) is no Concat", name(present.producer),
                                      op_name(graph_.node(present.producer).op));
      return form;
    }
    const auto rank = static_cast<int64_t>(present.shape.size());
    form.axis = static_cast<size_t>(normalize_axis(concat->axis, rank, "Concat axis"));
    if (!past.format.is_linear() || !present.format.is_linear() || past.dtype != present.dtype)
      form.reason = "they lie in memory in different ways";
    else if (dtype_info(past.dtype).bits < 8)
      form.reason = "elements are smaller than a byte";
    else if (placement(present_).kind != Placement::Kind::Binding)
      form.reason = fmt::format("layer '{}' writes it elsewhere first", name(present.producer));
    else if (!copies_past_first())
      form.reason =
          fmt::format("the first part of layer '{}' is not the input as it is", name(present.producer));
    else
      form.dense_reader = dense_reader();
    return form;
  }

  // The layer that copies the past into the present and nothing else; none where Concat itself does.
  std::optional<size_t> copying_layer() const {
    if (kernel_of(graph_.value(present_).producer) != nullptr) return std::nullopt;
    const ValueId first = graph_.node(graph_.value(present_).producer).inputs[0];
    return layer_of(graph_.value(first).producer);
  }

 private:
  const std::string& name(NodeId node) const { return graph_.node(node).name; }
  const Placement& placement(ValueId v) const {
    return program_.spec().memory.placements[static_cast<size_t>(v)];
  }
  size_t layer_of(NodeId node) const {
    const auto& layers = program_.layers();
    const auto found =
        std::find_if(layers.begin(), layers.end(), [&](const ProgramLayer& l) { return l.node == node; });
    check(found != layers.end(), "a value is written by a layer that is not in the program");
    return static_cast<size_t>(found - layers.begin());
  }
  const LayerKernel* kernel_of(NodeId node) const { return program_.layers()[layer_of(node)].kernel.get(); }

  bool copies_past_first() const {
    const NodeId writer = graph_.value(present_).producer;
    const ValueId first = graph_.node(writer).inputs[0];
    if (const LayerKernel* kernel = kernel_of(writer)) return first == past_ && kernel->appends();
    const Value& copy = graph_.value(first);
    if (copy.producer == kNoNode || !std::holds_alternative<Reformat>(graph_.node(copy.producer).op))
      return false;
    const Placement& place = placement(first);
    const bool in_place =
        place.kind == Placement::Kind::View && place.base == present_ && place.view_offset == Dim(0);
    return in_place && graph_.node(copy.producer).inputs[0] == past_ && copy.format.is_linear() &&
           copy.dtype == graph_.value(past_).dtype && graph_.node(copy.producer).epilogue.empty();
  }

  // A layer that reads the past, the present or a view of them, and does not know that rows may be apart.
  std::string dense_reader() const {
    const NodeId writer = graph_.value(present_).producer;
    for (const ProgramLayer& layer : program_.layers()) {
      const Node& node = graph_.node(layer.node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId v = node.inputs[i];
        if (v == kNoValue || !lies_in_state(v) || (layer.node == writer && i == 0)) continue;
        const bool heeds = (v == past_ || v == present_) && layer.kernel && layer.kernel->reads_with_room(i);
        if (!heeds) return fmt::format("layer '{}' ({})", node.name, op_name(node.op));
      }
    }
    return {};
  }
  bool lies_in_state(ValueId v) const {
    if (v == past_ || v == present_) return true;
    const Placement& place = placement(v);
    return place.kind == Placement::Kind::View && (place.base == past_ || place.base == present_);
  }

  const CpuProgram& program_;
  const Graph& graph_;
  ValueId past_, present_;
};

}  // namespace

std::vector<Room> Appended::rooms_of(std::span<const ValueId> values) const {
  std::vector<Room> found;
  for (size_t i = 0; i < values.size() && !empty(); ++i) {
    const Room one = room(values[i]);
    if (one.rows == 0) continue;
    found.resize(values.size());
    found[i] = one;
  }
  return found;
}

AppendForm append_form(const CpuProgram& program, size_t input, size_t output) {
  if (program.segments().ranges.size() > 1) return {.reason = "shapes inside the model depend on data"};
  return Finder(program, input, output).form();
}

Appended find_appended(const CpuProgram& program, std::span<const Append> appends) {
  Appended result;
  if (appends.empty()) return result;
  const Graph& graph = program.graph();
  result.rooms.resize(graph.value_count());
  result.needless_layers.assign(program.layers().size(), false);
  for (const Append& append : appends) {
    result.rooms[static_cast<size_t>(graph.inputs().at(append.input))] = append.room;
    result.rooms[static_cast<size_t>(graph.outputs().at(append.output))] = append.room;
    if (const auto layer = Finder(program, append.input, append.output).copying_layer())
      result.needless_layers[*layer] = true;
  }
  return result;
}

Tensor gather_rows(DType dtype, const Extents& extents, const Room& room, const std::byte* data) {
  Tensor tensor = Tensor::allocate(dtype, extents);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < extents.size(); ++d) (d < room.axis ? outer : inner) *= extents[d];
  const int64_t bytes = dtype_bytes(dtype, inner);
  const int64_t stride = extents[room.axis] == 0 ? 0 : bytes / extents[room.axis] * room.rows;
  for (int64_t i = 0; i < outer && bytes > 0; ++i)
    std::memcpy(tensor.mutable_bytes().data() + i * bytes, data + i * stride, static_cast<size_t>(bytes));
  return tensor;
}

}  // namespace lathe::cpu
