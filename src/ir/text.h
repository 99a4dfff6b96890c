// SPDX-License-Identifier: Apache-2.0
//
// The text form of a graph. It parses back exactly, constants by reference or inline.
//
//   graph "resnet50" {
//     input %input: float32[batch, 3, 224, 224]
//     const %w: float32[64, 3, 7, 7] = ref 0                       # or = [1, 2, 3] for up to 16 elements
//     %y: float32[batch, 64, 112, 112]:channels_last = Conv "conv1 + relu1" (%input, %w, %b)
//         {kernel=[7, 7], strides=[2, 2], pads_begin=[3, 3], pads_end=[3, 3]} epilogue {Relu(0)} from
//         ["conv1" Conv, "relu1" Relu]
//     output %y
//   }
//
// Fields that have their default value are left out. Names that are not plain words are quoted: %"a/b:0". `_`
// is an absent operand. `epilogue 2 {Add(0,1)}` says how many inputs the program has (1 when left out),
// `allow [bfloat16]` lists the allowed types, `contents [batch, 3]` behind a type the known elements, and
// `quantized uint8 scale [0.02] zero [128]` (` axis 0` behind it for a scale per index of that axis) the grid
// on which the elements lie. Constants may also be written as `splat 0.5`
// (all elements the same) or `random 7` (small pseudo-random values from a seed; only read, for tests). `#`
// starts a comment. A field that is a body holds a graph: `If "choose" (%c, %x) {then_branch=graph "" { ...
// }, else_branch=graph "" { ... }}`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace lathe {

// Constants of up to so many elements are written out.
inline constexpr int64_t kMaxInlineElements = 16;

struct GraphTextOptions {
  // Index under which a big constant is kept elsewhere (plan file); null: big constants print as `ref
  // hash(...)`. A constant of a body is asked for with kNoValue.
  std::function<int64_t(ValueId, const Tensor&)> constant_index = nullptr;
  bool inline_constants = false;  // print all elements (tests)
};
std::string to_text(const Graph& graph, const GraphTextOptions& options = {});
std::string node_to_text(const Graph& graph, NodeId node, const GraphTextOptions& options = {});

// Throws Input with line and column. `constant` gives the tensor of `ref N`.
Graph parse_graph(std::string_view text, const std::function<Tensor(int64_t)>& constant = nullptr);

}  // namespace lathe
