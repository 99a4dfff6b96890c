// SPDX-License-Identifier: Apache-2.0
//
// Types and formats of an engine's inputs and outputs that differ from the model's: another type is a Cast
// behind the input or in front of the output; another format is how callers' memory lies, and the tuner's to
// make the most of.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "builder/network.h"

namespace lathe {

struct IoType {
  std::optional<DType> dtype;  // nullopt: the model's
  Format format;
};

// Throws Input for a tensor that there is not, types that no Cast makes, and formats that the tensor's shape
// has no memory for.
void set_io_types(Network& network, const std::map<std::string, IoType, std::less<>>& types);

// "chw", "hwc", "chw16" ... as TensorRT names them, for a tensor of this shape. Throws Input where engines
// have no such memory.
Format io_format(std::string_view name, const Shape& shape);

// Gives the inputs and outputs of a graph that the passes are done with their formats.
void apply_io_formats(Graph& graph, const std::map<std::string, Format, std::less<>>& formats);

}  // namespace lathe
