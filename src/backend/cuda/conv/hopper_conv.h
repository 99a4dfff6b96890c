// SPDX-License-Identifier: Apache-2.0
//
// What the convolutions of images for Hopper share: which layers they take, how K is cut into steps, and how
// weights are packed. codegen_conv.cpp reads the pixels under each tap anew, codegen_halo.cpp keeps them.
#pragma once

#include <string_view>

#include "backend/cuda/codegen/implicit_gemm.h"

namespace lathe::cuda {

// Elements of K in a step: 128 bytes of channels under a tap, or half of that where a pixel has no more.
int conv_step(const ImplicitGemm& p);
int conv_row_bytes(const ImplicitGemm& p);
// Steps of K that the channels under one tap are.
int64_t conv_pieces(const ImplicitGemm& p);

// Of a supported tactic: the layer as a problem of pixels, or why it is none.
Support describe_hopper_conv(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& p);
// A tactic without a variant, and the problem where it is supported.
Tactic hopper_conv_tactic(const LayerQuery& query, const StoredTypes& types, std::string_view runner,
                          std::string_view name, ImplicitGemm& p);
// The map of the packed weights, `columns` output channels of a step at a time; K runs over taps and, inside,
// channels.
std::string hopper_conv_weights_map(KernelBuilder& b, const ImplicitGemm& p, int columns);
void add_hopper_conv_blocks(const LayerQuery& query, const ImplicitGemm& p, LayerSource& source);

}  // namespace lathe::cuda
