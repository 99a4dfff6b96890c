// SPDX-License-Identifier: Apache-2.0
#include "kept_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "arguments/values.h"
#include "stream_inputs.h"

namespace lathe::cli {
namespace {

// Of --shapes, else of the profile's opt, with the sizes that other shapes decide.
Extents first_extents(const Context& context, const InferenceFlags& flags, const TensorInfo& input) {
  if (const Extents* given = find_named(flags.shapes, input.name)) return *given;
  if (is_static(input.shape)) return to_extents(input.shape);
  Extents extents = context.engine().profile(context.profile()).shapes.at(input.name).opt;
  for (const TensorInfo& other : context.engine().inputs()) {
    const Extents* given = find_named(flags.shapes, other.name);
    if (given == nullptr || given->size() != other.shape.size()) continue;
    for (size_t d = 0; d < extents.size(); ++d)
      for (size_t k = 0; k < given->size(); ++k)
        if (input.shape[d] == other.shape[k]) extents[d] = (*given)[k];
  }
  return extents;
}

// Symbols in the shape of a state that steps change.
std::set<std::string> changing_symbols(const State& state, const TensorInfo& info) {
  std::set<std::string> found;
  for (const std::string& symbol : state.changing_symbols())
    for (const Dim& dim : info.shape)
      if (dim.symbols().contains(symbol)) found.insert(symbol);
  return found;
}

}  // namespace

void keep_state(Context& context, const Options& options, bool announce, Log& log) {
  const InferenceFlags& flags = options.inference;
  const Engine& engine = context.engine();
  context.keep_state(parse_state_pairs(flags.state_pairs, engine.inputs(), engine.outputs()));
  const auto is_named = [&](size_t input) {
    const std::string& name = engine.inputs()[input].name;
    return find_named(flags.shapes, name) != nullptr || find_named(flags.inputs, name) != nullptr;
  };
  const State& state = *context.state();
  // Caches have one length: with one of them, all begin with values.
  std::set<std::string> lengths;
  for (size_t pair = 0; pair < state.size(); ++pair)
    if (is_named(state.input(pair)))
      lengths.merge(changing_symbols(state, engine.inputs()[state.input(pair)]));
  InputSource source(options, engine, context.profile(), announce, log);
  for (size_t pair = 0; pair < state.size(); ++pair) {
    const size_t input = state.input(pair);
    const TensorInfo& info = engine.inputs()[input];
    const std::set<std::string> own = changing_symbols(state, info);
    const bool shares =
        std::any_of(own.begin(), own.end(), [&](const auto& s) { return lengths.contains(s); });
    if (is_named(input) || shares)
      context.set_state(info.name, source.values(input, first_extents(context, flags, info)));
  }
}

void print_state(const Context& context, Log& log) {
  const State& state = *context.state();
  log.info(fmt::format("{} tensors are state, with {} MiB of the context's memory: each query is a step.",
                       state.size(), format_number(static_cast<double>(state.bytes()) / kMebibyte)));
  for (size_t pair = 0; pair < state.size(); ++pair) log.info("State " + state.note(pair));
}

}  // namespace lathe::cli
