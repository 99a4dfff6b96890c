// SPDX-License-Identifier: Apache-2.0
#include "plugin/shapes.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::plugin {
namespace {

Dim combine(int operation, const Dim& a, const Dim& b) {
  switch (operation) {
    case LATHE_PLUGIN_ADD:
      return a + b;
    case LATHE_PLUGIN_SUBTRACT:
      return a - b;
    case LATHE_PLUGIN_MULTIPLY:
      return a * b;
    case LATHE_PLUGIN_FLOOR_DIV:
      return floor_div(a, b);
    case LATHE_PLUGIN_CEIL_DIV:
      return ceil_div(a, b);
    case LATHE_PLUGIN_MODULO:
      return mod(a, b);
    case LATHE_PLUGIN_MIN:
      return min(a, b);
    case LATHE_PLUGIN_MAX:
      return max(a, b);
    default:
      throw_input_error("there is no operation " + std::to_string(operation) + " on dims");
  }
}

// C has no exceptions: a null dim is what an error gives, and what is made of one.
template <class F>
const lathe_plugin_dim* or_null(F&& make) {
  try {
    return make();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

ShapeExchange::ShapeExchange(std::string_view node) : node_(node) {
  functions_.struct_size = sizeof functions_;
  functions_.self = this;
  functions_.constant = [](void* self, int64_t value) {
    return or_null([&] { return of(self).keep(Dim(value)); });
  };
  functions_.operation = [](void* self, int operation, const lathe_plugin_dim* a, const lathe_plugin_dim* b) {
    return or_null([&] { return of(self).operate(operation, a, b); });
  };
  functions_.data_dependent = [](void* self, const lathe_plugin_dim* upper) {
    return or_null([&]() -> const lathe_plugin_dim* {
      ShapeExchange& s = of(self);
      const Dim* bound = s.find(upper);
      if (!bound) return nullptr;
      return s.keep(Dim::data_dependent(s.node_ + ".size" + std::to_string(s.data_dependent_++), *bound));
    });
  };
  functions_.is_constant = [](void* self, const lathe_plugin_dim* handle, int64_t* value) {
    const Dim* dim = of(self).find(handle);
    if (!dim || !dim->is_constant()) return 0;
    if (value) *value = dim->value();
    return 1;
  };
}

const lathe_plugin_dim* ShapeExchange::keep(const Dim& dim) {
  return reinterpret_cast<const lathe_plugin_dim*>(&dims_.emplace_back(dim));
}

const Dim* ShapeExchange::find(const lathe_plugin_dim* handle) const {
  const auto* wanted = reinterpret_cast<const Dim*>(handle);
  const auto it = std::ranges::find_if(dims_, [&](const Dim& dim) { return &dim == wanted; });
  return it == dims_.end() ? nullptr : &*it;
}

const lathe_plugin_dim* ShapeExchange::operate(int operation, const lathe_plugin_dim* a,
                                               const lathe_plugin_dim* b) {
  const Dim *left = find(a), *right = find(b);
  if (!left || !right) return nullptr;
  return keep(combine(operation, *left, *right));
}

lathe_plugin_shape ShapeExchange::to_abi(const PluginType& type) {
  lathe_plugin_shape shape{.struct_size = sizeof(lathe_plugin_shape),
                           .type = static_cast<int>(type.dtype),
                           .rank = type.shape.size()};
  if (type.shape.size() > LATHE_PLUGIN_MAX_RANK)
    throw_input_error("an input has rank " + std::to_string(type.shape.size()) + ", plugins take up to " +
                      std::to_string(LATHE_PLUGIN_MAX_RANK));
  for (size_t d = 0; d < shape.rank; ++d) shape.dims[d] = keep(type.shape[d]);
  if (type.contents) {
    std::vector<const lathe_plugin_dim*>& contents = contents_.emplace_back();
    for (const Dim& dim : *type.contents) contents.push_back(keep(dim));
    shape.content_count = contents.size();
    shape.contents = contents.data();
  }
  return shape;
}

PluginType ShapeExchange::from_abi(const lathe_plugin_shape& shape, const std::string& what) const {
  PluginType type;
  const auto known = std::ranges::find_if(
      all_dtypes(), [&](const DTypeInfo& info) { return static_cast<int>(info.dtype) == shape.type; });
  if (shape.type == 0 || known == all_dtypes().end())
    throw_input_error("it gives " + what + " the type " + std::to_string(shape.type) + ", which is none");
  type.dtype = known->dtype;
  if (shape.rank > LATHE_PLUGIN_MAX_RANK)
    throw_input_error("it gives " + what + " rank " + std::to_string(shape.rank) + "; at most " +
                      std::to_string(LATHE_PLUGIN_MAX_RANK) + " is possible");
  for (size_t d = 0; d < shape.rank; ++d) {
    const Dim* dim = find(shape.dims[d]);
    if (!dim)
      throw_input_error("dim " + std::to_string(d) + " of " + what +
                        " is none of those that it was given or made (a division by 0 makes none)");
    if (dim->is_constant() && dim->value() < 0)
      throw_input_error("dim " + std::to_string(d) + " of " + what + " is " + std::to_string(dim->value()));
    type.shape.push_back(*dim);
  }
  return type;
}

}  // namespace lathe::plugin
