// SPDX-License-Identifier: Apache-2.0
//
// What convolutions and pools share: strides, dilations, pads and auto_pad, with ONNX's defaults and checks.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

struct Window {
  Ints strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::NotSet;
};

// The attributes of a node with `dims` spatial dimensions. Throws Input when a list has another length.
Window read_window(const NodeImport& node, size_t dims);
// attribute `name`, or `otherwise` repeated; checked to have `dims` entries.
Ints read_spatial(const NodeImport& node, std::string_view name, size_t dims, int64_t otherwise);
// Spatial dims of input 0: its rank less two. Throws Input when there are none.
size_t spatial_dims(const NodeImport& node);

}  // namespace lathe::onnx
