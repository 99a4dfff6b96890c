// SPDX-License-Identifier: Apache-2.0
#include "ir/substitute.h"

#include <algorithm>
#include <optional>

#include "ir/edit.h"

namespace lathe {
namespace {

// Called for each field of an operator; only dims change.
struct MapFields {
  const DimMap& map;
  template <class Field>
  void operator()(const char*, Field&) const {}
  void operator()(const char*, Shape& shape) const {
    for (Dim& dim : shape) dim = map(dim);
  }
  void operator()(const char*, Body& body) const {
    if (!body) return;
    Graph mapped = body.graph();
    map_dims(mapped, map);
    body = Body(std::move(mapped));
  }
  void operator()(const char* name, std::optional<Shape>& shape) const {
    if (shape) (*this)(name, *shape);
  }
};

Op map_dims(Op op, const DimMap& map) {
  std::visit([&](auto& fields) { std::decay_t<decltype(fields)>::visit(fields, MapFields{map}); }, op);
  return op;
}

Shape map_dims(Shape shape, const DimMap& map) {
  MapFields{map}("", shape);
  return shape;
}

DimMap substitution(const DimReplacements& replacements) {
  return [&replacements](const Dim& dim) { return dim.substitute(replacements); };
}

}  // namespace

std::set<std::string> symbols_of(const Op& op) {
  std::set<std::string> names;
  const auto add = [&](const Dim& dim) { names.merge(dim.symbols()); };
  const auto visit = [&]<class F>(std::string_view, const F& field) {
    if constexpr (std::is_same_v<F, Dim>) add(field);
    if constexpr (std::is_same_v<F, Shape>) std::for_each(field.begin(), field.end(), add);
    if constexpr (std::is_same_v<F, std::optional<Shape>>)
      if (field) std::for_each(field->begin(), field->end(), add);
  };
  std::visit([&]<class T>(const T& fields) { T::visit(fields, visit); }, op);
  return names;
}

Shape substitute_dims(const Shape& shape, const DimReplacements& replacements) {
  return map_dims(shape, substitution(replacements));
}

Op substitute_dims(Op op, const DimReplacements& replacements) {
  return map_dims(std::move(op), substitution(replacements));
}

void substitute_dims(Graph& graph, const DimReplacements& replacements) {
  map_dims(graph, substitution(replacements));
}

void map_dims(Graph& graph, const DimMap& map) {
  GraphEditor editor(graph);
  for (const NodeId id : graph.order()) editor.set_op(id, map_dims(graph.node(id).op, map));
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    editor.set_shape(id, map_dims(graph.value(id).shape, map));
    if (graph.value(id).contents) editor.set_contents(id, map_dims(*graph.value(id).contents, map));
  }
}

}  // namespace lathe
