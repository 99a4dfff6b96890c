// SPDX-License-Identifier: Apache-2.0
//
// One layer as a string, in the manner of oneDNN's benchdnn:
//
//   conv:n1c64h56w56k64r3s3,f32,relu       k output channels, r x s window; u2v2: strides, p0q0: padding
//                                          (default: that which keeps the size), g64: groups
//   deconv:c512h28k256r2u2,f32,relu        transposed; letters as for conv, no groups, and no padding unless
//                                          p says so
//   matmul:m128n768k3072,bf16,gelu         with a constant right operand
//   feed_forward:m128k768h3072n768,bf16    two products with a bias and GELU between them, h columns wide (n:
//                                          default k)
//   depthwise_block:n1c24h56m144k24r3,bf16,relu6   a 1x1 expansion to m channels (c0: none), an r x r window
//                                          (u2: its stride) and a 1x1 projection to k channels (k0: none);
//                                          the activation follows the first two
//   attention:b1h12s128d64,f32             self-attention: batch, heads, tokens, width of a head
//   maxpool:n1c64h112r3u2,bf16             and avgpool: r x s window, u2v2: strides, p0q0: padding (default
//                                          as for conv)
//   squeeze_excite:n1c96h56m4,bf16         with m channels between the two products
//   softmax:m1536n128,f32                  and layer_norm: m rows of n
//   group_norm:n2c320h64g32                g groups of channels; mean:n1c2048h7: of each channel's image
//   resize:n8c256h40u2                     nearest neighbours, u times the size
//   heads:b32s128h12d64                    the transpose before and after attention
//   pointwise:m128n3072,add,gelu           the negated input, then the words, in one layer
//   graph:layer.ir,f16                     the only layer of a graph in a file (ir/text.h): for layers that
//                                          have no words here, such as those on grids
//
// Types: f32 (default), bf16 or f16 (FP32 is timed as well then). Epilogues, in the order given: relu, relu6,
// silu, gelu, add (of a tensor as large as the result, once).
#pragma once

#include <string>

#include "ir/graph.h"

namespace lathe::bench {

struct Problem {
  std::string text;
  Graph graph;  // of one layer
  NodeId node = kNoNode;
  bool bf16 = false, f16 = false;
  double operations = 0;  // multiplications and additions of the direct algorithm
};

// Throws Input: what is wrong, and where.
Problem parse_problem(const std::string& text);

}  // namespace lathe::bench
