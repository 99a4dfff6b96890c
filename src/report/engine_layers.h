// SPDX-License-Identifier: Apache-2.0
//
// All layers of an engine, as the command line and the public inspector show them.
#pragma once

#include <functional>
#include <optional>

#include "report/layer_info.h"
#include "runtime/engine.h"

namespace lathe {

// The shapes that a profile was tuned for.
SymbolValues opt_symbols(const Engine& engine, int profile);

// Every profile's layers, with the shapes that `symbols` gives for it; without them dims that are not
// constant are -1.
LayerReport describe_engine(const Engine& engine,
                            const std::function<std::optional<SymbolValues>(int profile)>& symbols);

}  // namespace lathe
