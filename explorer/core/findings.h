// SPDX-License-Identifier: Apache-2.0
//
// The rules behind the findings. A rule looks at a finished analysis and returns what it found, each with
// evidence, an estimated gain where time is at stake, and something to try. The severity follows from the
// gain; a rule sets it only when there is none.
#pragma once

#include <functional>
#include <vector>

#include "explorer/core/model.h"

namespace lathe::explorer {

using FindingRule = std::vector<Finding> (*)(const EngineData&);

// All rules, in the order of the files below.
std::vector<FindingRule> finding_rules();

// --- rules_time.cpp: where time goes
std::vector<Finding> find_dominant_layers(const EngineData& engine);
std::vector<Finding> find_layers_below_roof(const EngineData& engine);
std::vector<Finding> find_small_layers(const EngineData& engine);
std::vector<Finding> find_unexplained_gap(const EngineData& engine);
std::vector<Finding> find_noisy_timing(const EngineData& engine);
std::vector<Finding> find_slower_than_tuned(const EngineData& engine);

// --- rules_types.cpp: precision and layout
std::vector<Finding> find_reformats(const EngineData& engine);
std::vector<Finding> find_reformat_ping_pong(const EngineData& engine);
std::vector<Finding> find_converting_slices(const EngineData& engine);
std::vector<Finding> find_dangling_quantisation(const EngineData& engine);
std::vector<Finding> find_float_after_int8(const EngineData& engine);
std::vector<Finding> find_slow_types(const EngineData& engine);
std::vector<Finding> find_no_matrix_unit(const EngineData& engine);
std::vector<Finding> find_channel_alignment(const EngineData& engine);
std::vector<Finding> find_gemm_alignment(const EngineData& engine);

// --- rules_fallback.cpp
std::vector<Finding> find_reference_layers(const EngineData& engine);
std::vector<Finding> find_higher_precision(const EngineData& engine);

// --- rules_fusion.cpp: structure
std::vector<Finding> find_unfused_pointwise(const EngineData& engine);
std::vector<Finding> find_split_projections(const EngineData& engine);
std::vector<Finding> find_shape_work(const EngineData& engine);
std::vector<Finding> find_opaque_blocks(const EngineData& engine);
std::vector<Finding> find_inaccurate_layers(const EngineData& engine);
std::vector<Finding> find_held_memory(const EngineData& engine);

}  // namespace lathe::explorer
