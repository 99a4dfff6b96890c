// SPDX-License-Identifier: Apache-2.0
//
// On which grid the elements of a result lie, from what made it.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace lathe {

// What DequantizeLinear with constant parameters gives; nullopt for types that are neither integers of four
// or eight bits nor E4M3.
std::optional<Quantization> grid_of_dequantize(const Graph& graph, const Node& node);

// What a program gives whose last step rounds to E4M3, or to a multiple between known bounds. The latter
// grid's type is UInt8: its zero point takes up what is below zero. nullopt: more than 256 multiples, or no
// rounding.
std::optional<Quantization> grid_of_program(const PointwiseProgram& program);

// What a node without an epilogue gives that only moves or picks elements of its first input (of all inputs,
// for Concat).
std::optional<Quantization> grid_of_moved(const Graph& graph, const Node& node);

}  // namespace lathe
