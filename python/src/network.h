// SPDX-License-Identifier: Apache-2.0
//
// What the files of the network API share.
#pragma once

#include <optional>

#include "module.h"

namespace lathe_python {

using Builder = api::NetworkBuilder;
using Tensor = api::NetworkTensor;
using api::Dims;

constexpr auto kName = "name";

// Element types by name, numpy's types and dtypes.
api::DataType type_from(nb::handle object);
// A tensor of the network, or what becomes a constant of it. `like`: the type of numbers that say none.
Tensor tensor_from(Builder& b, nb::handle object, std::optional<api::DataType> like = {});
api::NetworkTensors tensors_from(Builder& b, nb::handle list);

void bind_shapes(nb::class_<Builder>& c);
void bind_flow(nb::class_<Builder>& c);

}  // namespace lathe_python
