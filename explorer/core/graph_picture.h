// SPDX-License-Identifier: Apache-2.0
//
// The engine's graph as a picture: DOT for Graphviz, and SVG laid out here, so that no other program is
// needed. And the metadata files that people's scripts expect beside an engine, made from its logs.
#pragma once

#include <string>

#include "explorer/core/readers.h"

namespace lathe::explorer {

// Names and labels are escaped: any character may stand in them.
std::string graph_dot(const EngineData& engine);
// Layers in rows by their longest path from the inputs, each placed below what it reads; long edges bend
// beside the rows.
std::string graph_svg(const EngineData& engine);

// {performance_summary, inference_options, device_information} or {model_options, build_options,
// device_information}.
Json profile_metadata(const LogFile& log);
Json build_metadata(const LogFile& log);

}  // namespace lathe::explorer
