// SPDX-License-Identifier: Apache-2.0
//
// Optimization profiles: the shapes an engine accepts, per input as the user says them and per symbol as the
// stages need them; and the way from concrete extents to symbol values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/format.h"
#include "ir/graph.h"

namespace lathe {

// min <= opt <= max in every dimension.
struct ShapeRange {
  Extents min, opt, max;
  bool operator==(const ShapeRange&) const = default;
};

struct OptimizationProfile {
  std::map<std::string, ShapeRange, std::less<>> shapes;  // by input name; static inputs may be left out
  std::map<std::string, ShapeRange, std::less<>>
      values;  // elements of shape tensors (inputs whose contents are dims)
  bool operator==(const OptimizationProfile&) const = default;
};

// What the names of layers and bindings end in for a profile, as in TensorRT: " [profile 1]"; nothing for the
// first.
std::string profile_suffix(int profile);

// What a caller sees of an input or output.
struct TensorInfo {
  std::string name;
  DType dtype = DType::Undefined;
  Shape shape;                    // symbolic dims by name
  std::optional<Shape> contents;  // set for shape tensors: the dims that its elements are
  Format format = {};             // how its memory lies; shapes are logical in all formats
  bool is_string = false;         // bytes of strings, along the last dim (ir/strings.h)
};
std::vector<TensorInfo> input_infos(const Graph& graph);
std::vector<TensorInfo> output_infos(const Graph& graph);

// Finds the values of symbols from extents (and elements) of inputs, one call per input, then checks the dims
// that are expressions. Errors are Input errors that name the input, the dim and both numbers.
class SymbolBinder {
 public:
  void bind_shape(const TensorInfo& input, const Extents& extents);
  void bind_contents(const TensorInfo& input, const std::vector<int64_t>& elements);
  // All symbols of all bound inputs.
  SymbolValues finish();

 private:
  void bind(const std::string& input, const std::string& what, const Dim& dim, int64_t value);
  struct Check {
    std::string input, what;
    Dim dim;
    int64_t value;
  };
  SymbolValues values_;
  std::map<std::string, std::string, std::less<>> bound_by_;
  std::vector<Check> checks_;
};

// The profile with every dynamic input present and symbols consistent. Inputs without shapes take the opt of
// other inputs where a symbol is shared; a symbol that nothing names becomes 1 (`defaulted` receives the
// input's name). Strings that nothing is said of have 1 to 256 bytes, and 32 is what they are tuned for.
OptimizationProfile complete_profile(const std::vector<TensorInfo>& inputs,
                                     const OptimizationProfile& profile,
                                     std::vector<std::string>* defaulted = nullptr);
// A complete profile per symbol. Throws Input for unknown names, wrong ranks, min > opt and the like.
SymbolRanges symbol_ranges(const std::vector<TensorInfo>& inputs, const OptimizationProfile& profile);
// Throws Input naming input, dim, value and range when a value is outside.
void check_in_range(const std::vector<TensorInfo>& inputs, const SymbolValues& values,
                    const SymbolRanges& ranges);

}  // namespace lathe
