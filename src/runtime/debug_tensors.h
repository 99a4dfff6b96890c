// SPDX-License-Identifier: Apache-2.0
//
// The tensors between the layers of an engine, as runs make them: what fusion and folding left of the
// network's, under the network's names.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace lathe {

// In order of execution.
std::vector<std::string> debug_tensors(const Engine& engine, int profile);

// What gives these tensors (all: no names) to `tell` right behind the layers that make them. `context`
// outlives it.
Execution::LayerHook debug_hook(Context& context, std::set<std::string, std::less<>> names,
                                std::function<void(const std::string& name, const Tensor& values)> tell);

}  // namespace lathe
