// SPDX-License-Identifier: Apache-2.0
//
// A profile is checked per input, then per symbol: an input's dim "batch" of another size than the other
// input's "batch" is found here and not as a wrong result.
#include "plan/optimization_profile.h"

#include <algorithm>
#include <array>

namespace lathe {
namespace {

constexpr std::array<std::string_view, 3> kBounds = {"min", "opt", "max"};

const Extents& bound(const ShapeRange& range, size_t which) {
  return which == 0 ? range.min : which == 1 ? range.opt : range.max;
}
Extents& bound(ShapeRange& range, size_t which) {
  return which == 0 ? range.min : which == 1 ? range.opt : range.max;
}

std::string list_names(const std::vector<TensorInfo>& inputs) {
  std::string text;
  for (const TensorInfo& t : inputs) text += (text.empty() ? "" : ", ") + t.name;
  return text;
}

const TensorInfo& find_input(const std::vector<TensorInfo>& inputs, const std::string& name) {
  for (const TensorInfo& t : inputs)
    if (t.name == name) return t;
  throw_input_error("the profile names the input '" + name +
                    "', but the model's inputs are: " + list_names(inputs));
}

std::vector<TensorInfo> infos(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TensorInfo> result;
  for (const ValueId id : ids) {
    const Value& v = graph.value(id);
    result.push_back({v.name, v.dtype, v.shape, v.producer == kNoNode ? v.contents : std::nullopt});
  }
  return result;
}

bool has_symbols(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return !d.is_constant(); });
}

void check_range(const std::string& name, const Shape& shape, const ShapeRange& range) {
  for (size_t b = 0; b < 3; ++b) {
    const Extents& e = bound(range, b);
    if (e.size() != shape.size())
      throw_input_error("input '" + name + "' has shape " + to_string(shape) + " of rank " +
                        std::to_string(shape.size()) + ", but its profile's " + std::string(kBounds[b]) +
                        " shape " + to_string(e) + " has rank " + std::to_string(e.size()));
    for (size_t d = 0; d < e.size(); ++d)
      if (shape[d].is_constant() && !shape[d].is_constant(e[d]))
        throw_input_error("input '" + name + "' has shape " + to_string(shape) + ": dim " +
                          std::to_string(d) + " is " + shape[d].to_string() + ", but its profile's " +
                          std::string(kBounds[b]) + " shape is " + to_string(e));
  }
  for (size_t d = 0; d < shape.size(); ++d)
    if (range.min[d] > range.opt[d] || range.opt[d] > range.max[d])
      throw_input_error("input '" + name + "': the profile needs min <= opt <= max in every dim, but dim " +
                        std::to_string(d) + " has " + std::to_string(range.min[d]) + ", " +
                        std::to_string(range.opt[d]) + ", " + std::to_string(range.max[d]));
}

// The least, usual and most bytes of strings that nothing is said of.
constexpr std::array<int64_t, 3> kStringBytes = {1, 32, 256};

// Symbols whose values follow from the given ranges, one bound at a time.
SymbolValues known_symbols(const std::vector<TensorInfo>& inputs, const OptimizationProfile& profile,
                           size_t which) {
  SymbolValues known;
  const auto collect = [&](const Shape& shape, const Extents& extents) {
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) known.emplace(*symbol, extents[d]);
  };
  for (const TensorInfo& input : inputs) {
    if (const auto it = profile.shapes.find(input.name); it != profile.shapes.end())
      collect(input.shape, bound(it->second, which));
    if (const auto it = profile.values.find(input.name); it != profile.values.end() && input.contents)
      collect(*input.contents, bound(it->second, which));
  }
  for (const TensorInfo& input : inputs)
    if (input.is_string)
      if (const auto bytes = input.shape.back().as_symbol()) known.emplace(*bytes, kStringBytes.at(which));
  return known;
}

// The shape with known symbols in place and every other symbol 1.
Extents fill_in(const Shape& shape, SymbolValues known, bool& guessed) {
  Extents extents;
  for (const Dim& dim : shape) {
    for (const std::string& symbol : dim.symbols()) guessed |= known.emplace(symbol, 1).second;
    extents.push_back(dim.evaluate(known));
  }
  return extents;
}

// A profile can ask for more than any machine has; said here it is one line about the user's shapes.
void check_sizes(const OptimizationProfile& profile) {
  constexpr int64_t kMostElements = int64_t{1} << 40;
  for (const auto& [input, range] : profile.shapes) {
    if (element_count(range.max) > kMostElements)
      throw_input_error("input '" + input + "': the profile's max shape " + to_string(range.max) +
                        " has more than 2^40 elements");
  }
}

}  // namespace

std::string profile_suffix(int profile) {
  return profile == 0 ? "" : " [profile " + std::to_string(profile) + "]";
}

std::vector<TensorInfo> input_infos(const Graph& graph) {
  return infos(graph, graph.inputs());
}
std::vector<TensorInfo> output_infos(const Graph& graph) {
  return infos(graph, graph.outputs());
}

void SymbolBinder::bind_shape(const TensorInfo& input, const Extents& extents) {
  if (extents.size() != input.shape.size())
    throw_input_error("input '" + input.name + "' has shape " + to_string(input.shape) + " of rank " +
                      std::to_string(input.shape.size()) + ", but was given " + to_string(extents));
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] < 0)
      throw_input_error("input '" + input.name + "': dim " + std::to_string(d) + " of " + to_string(extents) +
                        " is negative");
    bind(input.name, "dim " + std::to_string(d), input.shape[d], extents[d]);
  }
}

void SymbolBinder::bind_contents(const TensorInfo& input, const std::vector<int64_t>& elements) {
  check(input.contents.has_value(), "not a shape tensor: " + input.name);
  if (elements.size() != input.contents->size())
    throw_input_error("shape tensor '" + input.name + "' has " + std::to_string(input.contents->size()) +
                      " elements, but was given " + std::to_string(elements.size()));
  for (size_t i = 0; i < elements.size(); ++i)
    bind(input.name, "element " + std::to_string(i), (*input.contents)[i], elements[i]);
}

void SymbolBinder::bind(const std::string& input, const std::string& what, const Dim& dim, int64_t value) {
  if (dim.is_constant()) {
    if (dim.value() != value)
      throw_input_error("input '" + input + "': " + what + " must be " + std::to_string(dim.value()) +
                        ", but is " + std::to_string(value));
    return;
  }
  const auto symbol = dim.as_symbol();
  if (!symbol) {
    checks_.push_back({input, what, dim, value});
    return;
  }
  const auto [it, is_new] = values_.emplace(*symbol, value);
  if (is_new) {
    bound_by_[*symbol] = "input '" + input + "' (" + what + ")";
  } else if (it->second != value) {
    throw_input_error("input '" + input + "': " + what + " is '" + *symbol + "' = " + std::to_string(value) +
                      ", but " + bound_by_[*symbol] + " gives '" + *symbol +
                      "' = " + std::to_string(it->second));
  }
}

SymbolValues SymbolBinder::finish() {
  for (const Check& c : checks_) {
    const int64_t expected = c.dim.evaluate(values_);
    if (expected != c.value)
      throw_input_error("input '" + c.input + "': " + c.what + " must be " + c.dim.to_string() + " = " +
                        std::to_string(expected) + ", but is " + std::to_string(c.value));
  }
  return values_;
}

OptimizationProfile complete_profile(const std::vector<TensorInfo>& inputs,
                                     const OptimizationProfile& profile,
                                     std::vector<std::string>* defaulted) {
  for (const auto& [name, range] : profile.shapes) check_range(name, find_input(inputs, name).shape, range);
  for (const auto& [name, range] : profile.values) {
    const TensorInfo& input = find_input(inputs, name);
    if (!input.contents)
      throw_input_error("the profile gives values for the input '" + name + "', which is not a shape tensor");
    check_range(name, *input.contents, range);
  }
  OptimizationProfile complete;
  for (const TensorInfo& input : inputs) {
    bool guessed = false;
    const auto add = [&](const Shape& shape, const auto& given, auto& result) {
      if (!has_symbols(shape)) return;
      ShapeRange range;
      for (size_t b = 0; b < 3; ++b) {
        const auto it = given.find(input.name);
        bound(range, b) = it != given.end() ? bound(it->second, b)
                                            : fill_in(shape, known_symbols(inputs, profile, b), guessed);
      }
      result[input.name] = std::move(range);
    };
    add(input.shape, profile.shapes, complete.shapes);
    if (input.contents) add(*input.contents, profile.values, complete.values);
    if (guessed && defaulted) defaulted->push_back(input.name);
  }
  return complete;
}

SymbolRanges symbol_ranges(const std::vector<TensorInfo>& inputs, const OptimizationProfile& profile) {
  check_sizes(profile);
  std::array<SymbolValues, 3> values;
  for (size_t b = 0; b < 3; ++b) {
    SymbolBinder binder;
    try {
      for (const TensorInfo& input : inputs) {
        if (const auto it = profile.shapes.find(input.name); it != profile.shapes.end())
          binder.bind_shape(input, bound(it->second, b));
        if (const auto it = profile.values.find(input.name); it != profile.values.end() && input.contents)
          binder.bind_contents(input, bound(it->second, b));
      }
      values[b] = binder.finish();
    } catch (Error& error) {
      error.add_context("in the " + std::string(kBounds[b]) + " shapes of the optimization profile");
      throw;
    }
  }
  SymbolRanges ranges;
  for (const auto& [symbol, low] : values[0])
    ranges[symbol] = {.min = low, .opt = values[1].at(symbol), .max = values[2].at(symbol)};
  for (const TensorInfo& input : inputs)
    for (const Dim& dim : input.shape)
      for (const std::string& symbol : dim.symbols())
        if (!ranges.contains(symbol))
          throw_input_error("input '" + input.name + "' is " + to_string(input.shape) +
                            ", and the optimization profile does not say what '" + symbol + "' is");
  return ranges;
}

void check_in_range(const std::vector<TensorInfo>& inputs, const SymbolValues& values,
                    const SymbolRanges& ranges) {
  const auto check_dim = [&](const TensorInfo& input, const std::string& what, const Dim& dim) {
    for (const std::string& symbol : dim.symbols()) {
      const auto range = ranges.find(symbol);
      const auto value = values.find(symbol);
      if (range == ranges.end() || value == values.end()) continue;
      if (value->second >= range->second.min && value->second <= range->second.max) continue;
      throw_input_error("input '" + input.name + "': " + what + " ('" + symbol + "') is " +
                        std::to_string(value->second) + ", outside the optimization profile's range " +
                        std::to_string(range->second.min) + ".." + std::to_string(range->second.max));
    }
  };
  for (const TensorInfo& input : inputs) {
    for (size_t d = 0; d < input.shape.size(); ++d)
      check_dim(input, "dim " + std::to_string(d), input.shape[d]);
    if (!input.contents) continue;
    for (size_t i = 0; i < input.contents->size(); ++i)
      check_dim(input, "element " + std::to_string(i), (*input.contents)[i]);
  }
}

}  // namespace lathe
