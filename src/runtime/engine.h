// SPDX-License-Identifier: Apache-2.0
//
// An engine: a plan's section made ready to run on a backend. Immutable; share it among threads, and give
// each thread its own context.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"
#include "runtime/context.h"

namespace lathe {

struct MemoryInfo {
  int64_t weight_bytes = 0;      // packed and plain weights that the program reads, shared by all contexts
  int64_t activation_bytes = 0;  // arena of one context, at the profile's largest shapes
  int64_t unshared_bytes = 0;    // what the arena would be without reuse
  int64_t file_bytes = 0;        // of the plan file; 0 when the plan is only in memory
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Throws Input with the reason when no section fits the backend; it never rebuilds (Builder::retarget
  // does).
  static std::shared_ptr<const Engine> load(std::shared_ptr<const Plan> plan,
                                            std::shared_ptr<const Backend> backend);
  static std::shared_ptr<const Engine> load(const std::filesystem::path& path,
                                            std::shared_ptr<const Backend> backend);
  // With programs that were compiled already (the builder): one per profile.
  static std::shared_ptr<const Engine> assemble(std::shared_ptr<const Plan> plan,
                                                std::shared_ptr<const Backend> backend, size_t section,
                                                std::vector<std::shared_ptr<const Program>> programs);

  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  const std::shared_ptr<const Backend>& backend() const { return backend_; }
  const PlanSection& section() const { return *section_; }

  const std::vector<TensorInfo>& inputs() const { return plan_->inputs; }
  const std::vector<TensorInfo>& outputs() const { return plan_->outputs; }
  int profile_count() const { return static_cast<int>(plan_->profiles.size()); }
  const OptimizationProfile& profile(int index) const;

  // What runs for a profile: the final graph, its layers' choices in graph order, and where values lie.
  const PlanVariant& variant(int profile = 0) const;
  const Graph& graph(int profile = 0) const { return *variant(profile).graph; }
  const std::vector<Choice>& choices(int profile = 0) const { return variant(profile).choices; }
  // In execution order; profiles but the first add profile_suffix().
  std::vector<std::string> layer_names(int profile = 0) const;
  // What a profiled run times: the same with the layers of bodies behind the layer that holds them
  // (backend/nested_layers.h).
  std::vector<std::string> timed_names(int profile = 0) const;
  const Program& program(int profile = 0) const;
  MemoryInfo memory_info(int profile = 0) const;

  std::unique_ptr<Context> create_context(int profile = 0) const;

  // Writes the plan file (atomically).
  void save(const std::filesystem::path& path) const { plan_->write(path); }

 private:
  Engine() = default;
  static std::shared_ptr<const Engine> load_section(std::shared_ptr<const Plan> plan,
                                                    std::shared_ptr<const Backend> backend);
  void check_profile(int index) const;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Backend> backend_;
  std::shared_ptr<const PlanSection> section_;
  std::vector<std::shared_ptr<const Program>> programs_;  // by profile
};

}  // namespace lathe
