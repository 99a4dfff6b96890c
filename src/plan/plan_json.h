// SPDX-License-Identifier: Apache-2.0
//
// The text sections of an engine file: plan structures to JSON and back. Weights go to blocks of the
// container.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "plan/container.h"
#include "plan/plan.h"

namespace lathe {

// The target section's part of the manifest, so that a section can be picked without parsing it.
struct SectionInfo {
  Target target;
  std::string settings;
  bool timed = false;
};

std::string manifest_to_json(const Plan& plan, const std::vector<SectionInfo>& sections,
                             ContainerWriter& blocks);
std::vector<SectionInfo> manifest_from_json(std::string_view text, const ContainerReader& file, Plan& plan);

std::string graph_to_json(const Graph& graph, ContainerWriter& blocks);
std::shared_ptr<const Graph> graph_from_json(std::string_view text, const ContainerReader& file,
                                             const PluginCodeSource& plugins);

// `fast_load`: with packed weights, and without those that were packed; else each weight once.
std::string section_to_json(const PlanSection& section, ContainerWriter& blocks, bool fast_load);
// What the manifest says of all sections.
struct SectionForm {
  size_t profiles = 0;
  bool stripped = false;  // of its weights
  PluginCodeSource plugins;
};
// One variant for each profile, and each fits together (check_variant.h). Throws Input.
PlanSection section_from_json(std::string_view text, const SectionInfo& info, const SectionForm& form,
                              const ContainerReader& file);

}  // namespace lathe
