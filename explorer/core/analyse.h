// SPDX-License-Identifier: Apache-2.0
//
// From files to an engine's analysis. The steps, in the order in which they run:
//
//   assemble   files -> layers with names, times, metadata     (join by name, checked)
//   graph      no-ops folded, tensors, edges, lifetimes, memory
//   onnx       the model's nodes find their layers, or the reason why they have none
//   costs      flops and bytes of every layer
//   roofline   peaks, verdicts, recoverable time
//   statistics sums, series, the gap, groups
//   measurement can the times be used, what ran where and when
//   findings   what to do about it
#pragma once

#include <string>
#include <vector>

#include "explorer/core/model.h"
#include "explorer/core/readers.h"
#include "explorer/core/user_rules.h"

namespace lathe::explorer {

struct AnalysisOptions {
  std::string name;                  // of the engine; "" = from the layer file's name
  std::string engine_file;           // for commands to try; "" when only its reports are known
  std::optional<int> shape_profile;  // "" = the one that the profile's names carry, else 0
  Peaks peaks;                       // source "none": estimated from the profile
  std::vector<UserRule> rules;       // besides those of findings.h
};

// The files of one engine, exactly one of them layer information. Throws Input when there is none or more
// than one, or when profile and layers have no name in common.
EngineData analyse_engine(const std::vector<InputFile>& files, const AnalysisOptions& options);

// Splits a command line's files into engines: a layer file begins one, what stands before the first belongs
// to it.
std::vector<std::vector<InputFile>> group_by_engine(std::vector<InputFile> files);

// --- the steps
EngineData assemble_engine(const std::vector<InputFile>& files, const AnalysisOptions& options);
void build_graph(EngineData& engine);
void place_onnx_nodes(EngineData& engine);
void measure_memory(EngineData& engine);
void count_costs(EngineData& engine);
void apply_roofline(EngineData& engine, const Peaks& given);
void summarize(EngineData& engine);
// Whether the times can be used, and what ran where and when.
void judge_measurement(EngineData& engine);
void describe_run(EngineData& engine);
void find_problems(EngineData& engine, const std::vector<UserRule>& rules);

// trtexec's statistics of a series: percentiles are samples, the median of an even count is the mean of two.
Series summarize_series(std::vector<double> values);

}  // namespace lathe::explorer
