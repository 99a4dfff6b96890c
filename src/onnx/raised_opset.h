// SPDX-License-Identifier: Apache-2.0
//
// A model that is written in a later opset than its own, because that has a type or an operator that the new
// nodes want: which models may be, and what their nodes have differently there.
#pragma once

#include <string>

#include "onnx/message_copy.h"
#include "onnx/model.h"

namespace lathe::onnx {

struct RaisedOpset {
  int64_t from = 0, to = 0;
  bool is_raised() const { return to > from; }
};

// Why the model cannot be written so; empty: it can. What became an input (the axes of reductions) or is
// wanted (num_outputs of Split) is no obstacle: finish_raised writes it.
std::string why_not_raised(const ModelProto& model, const RaisedOpset& opset);

// The node's attribute "axes" is an input in the later opset.
bool moves_axes(const NodeProto& node, const RaisedOpset& opset);

// Appends to the bytes of a node what it has in the later opset alone, and to `initializers` what it reads.
void finish_raised(const NodeProto& node, const RaisedOpset& opset, TakenNames& names, std::string& out,
                   std::string& initializers);

}  // namespace lathe::onnx
