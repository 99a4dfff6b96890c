// SPDX-License-Identifier: Apache-2.0
//
// --layerPrecisions and --layerOutputTypes: which nodes of a model they name.
#pragma once

#include "base/observer.h"
#include "builder/options.h"
#include "ir/layer_types.h"

namespace lathe {

class Backend;

// What the options demand of the model's nodes, and a line for each node that it is demanded of. A demand by
// a name with '*' leaves out what computes no floats, and is none where the device has no tactic; one by a
// whole name counts before it. Throws Input for types in which no layer computes, and, with `Obey`, for those
// that the device does not have.
LayerTypes demanded_types(const Graph& model, const BuildOptions& options, const Backend& backend,
                          Observer& observer);

}  // namespace lathe
