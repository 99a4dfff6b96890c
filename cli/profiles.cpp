// SPDX-License-Identifier: Apache-2.0
#include "profiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "builder/shape_inputs.h"
#include "ir/text.h"

namespace lathe::cli {
namespace {

const std::vector<std::string> kNetworkFailed = {"Network And Config setup failed", "Building engine failed",
                                                 "Failed to create engine from model or file.",
                                                 "Engine set up failed"};

[[noreturn]] void fail_network(std::string first) {
  std::vector<std::string> lines{std::move(first)};
  lines.insert(lines.end(), kNetworkFailed.begin(), kNetworkFailed.end());
  fail(lines);
}

bool is_dynamic(const TensorInfo& info) {
  return !is_static(info.shape) || info.contents.has_value();
}

std::string known_names(const std::vector<TensorInfo>& inputs) {
  std::string names;
  for (const auto& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names;
}

// The command line's entry for an input: exact name first, else a pattern.
const ShapeRange* find_range(const std::vector<NamedRange>& ranges, const std::string& name) {
  for (const auto& entry : ranges) {
    if (entry.name == name) return &entry.range;
  }
  for (const auto& entry : ranges) {
    if (matches_pattern(entry.name, name)) return &entry.range;
  }
  return nullptr;
}

void check_build_names(const std::vector<NamedRange>& ranges, const std::vector<TensorInfo>& inputs) {
  for (const auto& entry : ranges) {
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&](const TensorInfo& input) {
      return matches_pattern(entry.name, input.name);
    });
    if (!known) {
      fail_network(fmt::format(
          "Cannot find input tensor with name \"{}\" in the network inputs! Please make sure the input "
          "tensor names are correct. (inputs: {})",
          entry.name, known_names(inputs)));
    }
  }
}

OptimizationProfile make_profile(const std::vector<NamedRange>& ranges, const std::vector<TensorInfo>& inputs,
                                 size_t index, Log& log) {
  OptimizationProfile given;
  for (const auto& input : inputs) {
    const ShapeRange* range = find_range(ranges, input.name);
    if (range == nullptr || !is_dynamic(input)) continue;
    (input.contents ? given.values : given.shapes)[input.name] = *range;
  }
  OptimizationProfile complete;
  std::vector<std::string> defaulted;
  try {
    complete = complete_profile(inputs, given, &defaulted);
    symbol_ranges(inputs, complete);
  } catch (const Error& error) {
    std::vector<FailureLine> lines{{error.what(), true}, {"Required optimization profile is invalid"}};
    for (const auto& line : kNetworkFailed) lines.push_back({line});
    throw Failure(std::move(lines));
  }
  for (const auto& input : inputs) {
    if (!is_dynamic(input)) continue;
    const bool is_values = input.contents.has_value();
    const auto& entries = is_values ? complete.values : complete.shapes;
    const auto found = entries.find(input.name);
    if (found == entries.end()) continue;
    const auto& range = found->second;
    if (std::find(defaulted.begin(), defaulted.end(), input.name) != defaulted.end()) {
      log.warning(
          fmt::format("Dynamic dimensions required for input: {}, but no shapes were provided. Automatically "
                      "overriding shape to: {}",
                      input.name, dims_text(range.opt)));
    }
    log.info(fmt::format("Set {} {} for optimization profile {} to: MIN={} OPT={} MAX={}",
                         is_values ? "input shape tensor" : "shape of input tensor", input.name, index,
                         dims_text(range.min), dims_text(range.opt), dims_text(range.max)));
  }
  return complete;
}

}  // namespace

std::vector<OptimizationProfile> shape_input_values(const Options& options, const Network& network) {
  std::vector<OptimizationProfile> profiles;
  if (options.build.profiles.empty()) return profiles;
  const auto candidates = find_shape_inputs(*network.graph);
  for (const auto& requested : options.build.profiles) {
    OptimizationProfile& profile = profiles.emplace_back();
    for (const TensorInfo& input : network.inputs()) {
      if (std::find(candidates.begin(), candidates.end(), input.name) == candidates.end()) continue;
      const ShapeRange* range = find_range(requested, input.name);
      if (range != nullptr &&
          static_cast<int64_t>(range->opt.size()) == element_count(to_extents(input.shape)))
        profile.values[input.name] = *range;
    }
  }
  return profiles;
}

std::vector<OptimizationProfile> make_profiles(const Options& options, const std::vector<TensorInfo>& inputs,
                                               const std::vector<TensorInfo>& outputs, Log& log) {
  const auto& requested = options.build.profiles;
  const bool dynamic =
      std::any_of(inputs.begin(), inputs.end(), is_dynamic) ||
      std::any_of(outputs.begin(), outputs.end(), [](const auto& o) { return !is_static(o.shape); });
  if (!dynamic) {
    if (!requested.empty() && !requested[0].empty()) {
      fail_network(
          "Static model does not take explicit shapes since the shape of inference tensors will be "
          "determined by the "
          "model itself");
    }
    return {};
  }
  std::vector<OptimizationProfile> profiles;
  for (size_t i = 0; i < requested.size(); ++i) {
    check_build_names(requested[i], inputs);
    profiles.push_back(make_profile(requested[i], inputs, i, log));
  }
  return profiles;
}

void check_input_names(const std::vector<std::string>& names, const std::vector<TensorInfo>& inputs,
                       const std::string& flag) {
  for (const auto& name : names) {
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&](const TensorInfo& input) {
      return matches_pattern(name, input.name);
    });
    if (known) continue;
    fail({fmt::format("Cannot find input tensor with name \"{}\" in the engine bindings! Please make sure "
                      "the input tensor "
                      "names are correct. (inputs: {})",
                      name, known_names(inputs)),
          fmt::format("Invalid tensor names found in {} flag.", flag), "Inference set up failed"});
  }
}

namespace {

// Sets what --shapes says of an input; the sizes that its symbols get are added to `known`.
void set_given_shape(Context& context, const TensorInfo& input, const Extents& extents, SymbolValues& known) {
  if (!is_dynamic(input)) {
    if (extents == to_extents(input.shape)) return;
    fail({fmt::format("The engine was built with static shapes for input tensor {} but the provided shapes "
                      "do not match the "
                      "static shapes! (built: {}, given: {})",
                      input.name, dims_text(to_extents(input.shape)), dims_text(extents)),
          "Inference set up failed"});
  }
  if (input.contents) return context.set_input_values(input.name, extents);
  context.set_input_shape(input.name, extents);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (const auto symbol = input.shape[d].as_symbol()) known[*symbol] = extents[d];
  }
}

// The profile's opt shape, with the sizes that other inputs' shapes decide.
void set_missing_shape(Context& context, const TensorInfo& input, const SymbolValues& known) {
  const auto& shapes = context.engine().profile(context.profile()).shapes;
  const auto found = shapes.find(input.name);
  if (input.contents || found == shapes.end()) return;
  Extents extents = found->second.opt;
  for (size_t d = 0; d < extents.size(); ++d) {
    const auto symbol = input.shape[d].as_symbol();
    if (const auto value = symbol ? known.find(*symbol) : known.end(); value != known.end())
      extents[d] = value->second;
  }
  context.set_input_shape(input.name, extents);
}

}  // namespace

void set_run_shapes(Context& context, const InferenceFlags& flags, Log& log) {
  const auto& inputs = context.engine().inputs();
  SymbolValues known;
  std::vector<bool> is_own(inputs.size(), true);  // not decided by state
  for (const size_t i : context.inputs_that_follow()) is_own[i] = false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (context.state() && context.state()->has_input(i)) is_own[i] = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Extents* given = find_named(flags.shapes, inputs[i].name);
    if (given && is_own[i]) set_given_shape(context, inputs[i], *given, known);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_own[i] && find_named(flags.shapes, inputs[i].name) == nullptr && is_dynamic(inputs[i]))
      set_missing_shape(context, inputs[i], known);
  }
  context.follow_state();
  context.use_opt_shapes();
  context.resolve_shapes();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_dynamic(inputs[i])) continue;
    log.info(fmt::format("Set shape of input tensor {} to: {}", inputs[i].name,
                         dims_text(context.input_extents(i))));
  }
}

namespace {

// The first of the formats that engines have; the reason of the last where there is none.
Format first_format(const std::vector<std::string>& names, const Shape& shape) {
  for (size_t i = 0;; ++i) {
    try {
      return io_format(names[i], shape);
    } catch (const Error&) {
      if (i + 1 == names.size()) throw;
    }
  }
}

DType io_dtype(std::string_view token) {
  if (const auto type = dtype_of_token(token)) return *type;
  throw_input_error(fmt::format("no tensor of an engine has type {}", token));
}

}  // namespace

std::map<std::string, IoType, std::less<>> io_types(std::string_view flag,
                                                    const std::vector<IoFormat>& formats,
                                                    const std::vector<TensorInfo>& tensors) {
  std::map<std::string, IoType, std::less<>> types;
  if (formats.empty()) return types;
  const std::string_view side = flag == "--inputIOFormats" ? "input" : "output";
  if (formats.size() != 1 && formats.size() != tensors.size()) {
    throw_input_error(fmt::format(
        "The number of {}IOFormats must match network's {}s or be one for broadcasting.", side, side));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& format = formats[formats.size() == 1 ? 0 : i];
    try {
      IoType& type = types[tensors[i].name];
      if (!format.type.empty()) type.dtype = io_dtype(format.type);
      // One item for all: what has no channels stays linear.
      type.format = formats.size() == 1 && tensors.size() > 1 && tensors[i].shape.size() < 3
                        ? kLinear
                        : first_format(format.formats, tensors[i].shape);
    } catch (Error& error) {
      error.add_context(fmt::format("{}: {} {}", flag, side, tensors[i].name));
      throw;
    }
  }
  return types;
}

std::function<void(std::string_view, const Graph&)> dump_graph(Log& log) {
  return [&log](std::string_view pass, const Graph& graph) {
    log.plain(fmt::format("# after pass {}\n{}", pass, to_text(graph)));
  };
}

}  // namespace lathe::cli
