// SPDX-License-Identifier: Apache-2.0
//
// A graph that ONNX Runtime hands out, as the bytes of an ONNX model.
#pragma once

#include <map>
#include <string>

#include "ort_api.h"

namespace lathe::onnxruntime_ep {

struct GraphModel {
  std::string bytes;
  // By the name that a node has in the model, which is its own there: the id of the graph's node that it is,
  // or lies in.
  std::map<std::string, size_t, std::less<>> node_ids;
};

// Constants go along, their values copied; everything else that the nodes read from outside is an input of
// the model. Throws StatusError (ORT_NOT_IMPLEMENTED) for an attribute or a constant that cannot be written.
GraphModel write_model(const OrtGraph& graph);

// Why the node cannot be written; empty when it can.
std::string why_not_writable(const OrtNode& node);

}  // namespace lathe::onnxruntime_ep
