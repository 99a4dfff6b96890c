// SPDX-License-Identifier: Apache-2.0
//
// Which nodes of a graph Lathe takes: by what its import says of them.
#pragma once

#include <cstddef>
#include <vector>

#include "lathe/builder.h"
#include "ort_api.h"

namespace lathe::onnxruntime_ep {

using NodeGroup = std::vector<const OrtNode*>;

// The nodes of each engine (groups.h). Each group was imported as a model of its own; why a node is left out
// is told to the logger.
std::vector<NodeGroup> supported_groups(const OrtGraph& graph, v1::Builder& builder, v1::Logger& logger);

}  // namespace lathe::onnxruntime_ep
