// SPDX-License-Identifier: Apache-2.0
//
// What the rules share: words for layers and numbers, sums over layers, commands to try.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "explorer/core/model.h"

namespace lathe::explorer {

// "Convolution, FP32, tactic x"
std::string layer_facts(const Layer& layer);
// Its name in at most 60 characters.
std::string short_name(const Layer& layer);
// "12.3 ms"; where the times cannot be used "41 % of the layers' time".
std::string time_words(const EngineData& engine, double ms);
// Mean of the readings while the engine was measured: what other programs had of the processors.
std::optional<double> share_of_others(const EngineData& engine);
// "1 layer", "3 layers"
std::string count_text(size_t count, const std::string& word);
// Four significant digits: estimates deserve no more.
double round_ms(double value);
// Sum of average times.
double time_of(const EngineData& engine, const std::vector<int>& layers);
std::vector<int> layers_where(const EngineData& engine, const std::function<bool(const Layer&)>& holds);
// The slowest of `layers`, one line each with `say`.
std::vector<std::string> slowest_lines(const EngineData& engine, std::vector<int> layers,
                                       const std::function<std::string(const Layer&)>& say, size_t count = 3);
// "FP32", "BF16" ...: what the builder was allowed to use, {} when the files do not say.
std::set<std::string> allowed_types(const EngineData& engine);
// The level of the tuner, when the file says.
std::optional<int> optimization_level(const EngineData& engine);
// "trtexec --onnx=... SHAPES TYPES flags --saveEngine=...": builds the same engine anew, with `flags`
// besides. Files that are not known are called model.onnx and model.engine. Empty when the engine was built
// with all of `flags` already.
std::string build_command(const EngineData& engine, const std::string& flags);
// "trtexec --loadEngine=... SHAPES flags"
std::string run_command(const EngineData& engine, const std::string& flags);
// "lathe diff model engine SHAPES"
std::string diff_command(const EngineData& engine);
// "lathe retune engine -o new.engine"
std::string retune_command(const EngineData& engine);

bool is_convolution(const Layer& layer);
bool is_matmul(const Layer& layer);

}  // namespace lathe::explorer
