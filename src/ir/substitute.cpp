// SPDX-License-Identifier: Apache-2.0
#include "ir/substitute.h"

#include <optional>

#include "ir/edit.h"

namespace lathe {
namespace {

// Called for each field of an operator; only dims change.
struct Substitute {
  const DimReplacements& replacements;
  template <class Field>
  void operator()(const char*, Field&) const {}
  void operator()(const char*, Shape& shape) const { shape = substitute_dims(shape, replacements); }
  void operator()(const char*, std::optional<Shape>& shape) const {
    if (shape) shape = substitute_dims(*shape, replacements);
  }
};

}  // namespace

Shape substitute_dims(const Shape& shape, const DimReplacements& replacements) {
  Shape result;
  for (const Dim& dim : shape) result.push_back(dim.substitute(replacements));
  return result;
}

Op substitute_dims(Op op, const DimReplacements& replacements) {
  std::visit([&](auto& fields) { std::decay_t<decltype(fields)>::visit(fields, Substitute{replacements}); },
             op);
  return op;
}

void substitute_dims(Graph& graph, const DimReplacements& replacements) {
  GraphEditor editor(graph);
  for (const NodeId id : graph.order()) editor.set_op(id, substitute_dims(graph.node(id).op, replacements));
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    editor.set_shape(id, substitute_dims(graph.value(id).shape, replacements));
    if (graph.value(id).contents)
      editor.set_contents(id, substitute_dims(*graph.value(id).contents, replacements));
  }
}

}  // namespace lathe
