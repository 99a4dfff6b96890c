// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include "backend/nested_layers.h"
#include "base/out_of_memory.h"
#include "base/thread_pool.h"
#include "ops/make_constants.h"

namespace lathe {
namespace {

// A program packs its weights from constants, some of which the file says by their recipes. Their bytes live
// until they are packed.
std::shared_ptr<const Program> compile(const PlanVariant& variant, const Backend& backend) {
  ProgramSpec spec = variant.spec();
  if (!has_unmade_constants(*spec.graph)) return backend.compile(std::move(spec));
  const auto graph = std::make_shared<Graph>(*spec.graph);
  ThreadPool pool(backend.is_host() ? backend.target().threads : 0);
  make_constants(*graph, &pool);
  spec.graph = graph;
  std::shared_ptr<const Program> program = backend.compile(std::move(spec));
  forget_made_constants(*graph, [&](ValueId id) {
    return variant.memory.placements[static_cast<size_t>(id)].kind == Placement::Kind::Constant;
  });
  return program;
}

}  // namespace

std::shared_ptr<const Engine> Engine::load(std::shared_ptr<const Plan> plan,
                                           std::shared_ptr<const Backend> backend) {
  const auto what_for = [&] {
    return "loading engine '" + plan->source() + "' of " + std::to_string(plan->file_bytes()) +
           " bytes, whose weights are packed";
  };
  return with_memory_for(what_for, [&] { return load_section(plan, backend); });
}

std::shared_ptr<const Engine> Engine::load_section(std::shared_ptr<const Plan> plan,
                                                   std::shared_ptr<const Backend> backend) {
  if (plan->is_stripped)
    throw_input_error("the engine '" + plan->source() +
                          "' was stripped of its weights: give them back with --refitFromOnnx=model.onnx",
                      ErrorCode::InvalidState);
  const Plan::Fit fit = plan->find_section(backend->target());
  if (fit.section < 0)
    throw_input_error("no section of the engine fits this device: " + fit.reason,
                      ErrorCode::NotOnThisHardware);
  const auto index = static_cast<size_t>(fit.section);
  const auto section = plan->section(index);
  std::vector<std::shared_ptr<const Program>> programs;
  try {
    for (const PlanVariant& v : section->variants) programs.push_back(compile(v, *backend));
  } catch (const Error& error) {
    // What a file asks for and no backend can do is a fault of the file, not a bug here.
    if (plan->source().empty() || error.kind() == ErrorKind::System) throw;
    throw_input_error("engine file '" + plan->source() + "' is damaged: " + error.what());
  }
  return assemble(std::move(plan), std::move(backend), index, std::move(programs));
}

std::shared_ptr<const Engine> Engine::load(const std::filesystem::path& path,
                                           std::shared_ptr<const Backend> backend) {
  return load(Plan::read(path), std::move(backend));
}

std::shared_ptr<const Engine> Engine::assemble(std::shared_ptr<const Plan> plan,
                                               std::shared_ptr<const Backend> backend, size_t section,
                                               std::vector<std::shared_ptr<const Program>> programs) {
  std::shared_ptr<Engine> engine(new Engine());
  engine->section_ = plan->section(section);
  check(programs.size() == engine->section_->variants.size(),
        "one program per optimization profile expected");
  engine->plan_ = std::move(plan);
  engine->backend_ = std::move(backend);
  engine->programs_ = std::move(programs);
  return engine;
}

void Engine::check_profile(int index) const {
  if (index < 0 || index >= profile_count())
    throw_input_error("the engine has " + std::to_string(profile_count()) +
                      " optimization profiles (0 is the first); there is no profile " +
                      std::to_string(index));
}

const OptimizationProfile& Engine::profile(int index) const {
  check_profile(index);
  return plan_->profiles[static_cast<size_t>(index)];
}

const PlanVariant& Engine::variant(int profile) const {
  check_profile(profile);
  return section_->variants[static_cast<size_t>(profile)];
}

const Program& Engine::program(int profile) const {
  check_profile(profile);
  return *programs_[static_cast<size_t>(profile)];
}

std::vector<std::string> Engine::layer_names(int profile) const {
  std::vector<std::string> names;
  for (const NodeId id : graph(profile).order())
    names.push_back(graph(profile).node(id).name + profile_suffix(profile));
  return names;
}

std::vector<std::string> Engine::timed_names(int profile) const {
  std::vector<std::string> names;
  const std::vector<std::string> layers = layer_names(profile);
  for (size_t i = 0; i < layers.size(); ++i) {
    names.push_back(layers[i]);
    const Node& node = graph(profile).node(graph(profile).order()[i]);
    for (const NestedLayer& nested : nested_layers(node, choices(profile)[i].tactic))
      names.push_back(nested.name + profile_suffix(profile));
  }
  return names;
}

MemoryInfo Engine::memory_info(int profile) const {
  const MemoryPlan& memory = variant(profile).memory;
  return {.weight_bytes = program(profile).weight_bytes(),
          .activation_bytes = memory.arena_bytes,
          .unshared_bytes = memory.unshared_bytes,
          .file_bytes = static_cast<int64_t>(plan_->file_bytes())};
}

std::unique_ptr<Context> Engine::create_context(int profile) const {
  check_profile(profile);
  return std::make_unique<Context>(shared_from_this(), profile);
}

}  // namespace lathe
