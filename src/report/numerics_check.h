// SPDX-License-Identifier: Apache-2.0
//
// Where NaN and infinity begin: one run of an engine, layer by layer, that names the first layer whose result
// has one although everything that it read was finite (--checkNumerics).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/engine.h"

namespace lathe {

struct NumericsFinding {
  std::string layer, type, tactic, output;
  std::vector<Origin> origins;
  int64_t nans = 0, infinities = 0, elements = 0;
  Extents first;  // index of the first of them
  std::string to_string() const;
};

struct NumericsReport {
  int layers = 0;
  std::optional<NumericsFinding> first;  // made out of finite operands
  std::vector<std::string> inputs;       // of the network, that are not finite
  std::vector<std::string> outputs;      // of the network, that are not finite
  std::vector<std::string>
      layers_without_nan;  // whose tactic may lose NaN: the engine was built without the flag
};

// `bindings`: addresses of all inputs, which are filled, then all outputs, in backend memory.
NumericsReport check_numerics(Context& context, std::span<void* const> bindings, Stream& stream);

}  // namespace lathe
