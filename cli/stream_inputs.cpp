// SPDX-License-Identifier: Apache-2.0
#include "stream_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "arguments/input_data.h"
#include "builder/shape_inputs.h"
#include "failure.h"

namespace lathe::cli {
namespace {

// The elements that --shapes gives, else those of the profile's opt shapes, else ones.
Tensor shape_tensor_values(const Options& options, const Engine& engine, int profile, const TensorInfo& info,
                           const Extents& extents) {
  std::vector<double> elements(static_cast<size_t>(element_count(extents)), 1);
  if (is_static(*info.contents)) {
    const Extents fixed = to_extents(*info.contents);
    return Tensor::from_doubles(info.dtype, extents, std::vector<double>(fixed.begin(), fixed.end()));
  }
  const auto& ranges = engine.profile(profile).values;
  const Extents* given = find_named(options.inference.shapes, info.name);
  if (const auto found = ranges.find(info.name); given == nullptr && found != ranges.end())
    given = &found->second.opt;
  if (given != nullptr && given->size() == elements.size()) elements.assign(given->begin(), given->end());
  return Tensor::from_doubles(info.dtype, extents, elements);
}

}  // namespace

void fill_inputs(const Options& options, InferenceStream& stream, int profile, bool announce, Log& log) {
  const Engine& engine = stream.context().engine();
  const Graph& graph = engine.graph(profile);
  std::optional<std::vector<std::string>> deciding;  // found when an input without a file asks
  const auto decides_shapes = [&](const std::string& name) {
    if (!deciding) deciding = find_shape_inputs(graph);
    return std::find(deciding->begin(), deciding->end(), name) != deciding->end();
  };
  for (size_t i = 0; i < engine.inputs().size(); ++i) {
    const auto& info = engine.inputs()[i];
    const Extents extents = stream.context().input_extents(i);
    const std::string* file = find_named(options.inference.inputs, info.name);
    Tensor values;
    if (file != nullptr) {
      if (announce) log.info(fmt::format("Using values loaded from {} for input {}", *file, info.name));
      try {
        values = load_input(*file, info.name, info.dtype, extents, options.inference.preprocess);
      } catch (const Error& error) {
        fail(
            {std::string("Uncaught exception detected: ") + error.what()});  // the original does not catch it
      }
    } else if (info.contents) {
      values = shape_tensor_values(options, engine, profile, info, extents);
    } else if (decides_shapes(info.name)) {
      if (announce)
        log.warning(
            fmt::format("Sizes follow from the elements of input {}, and none are given: each is 1. "
                        "(--shapes={}:2x3 gives 2 and 3, --loadInputs those of a file.)",
                        info.name, info.name));
      values = Tensor::from_doubles(info.dtype, extents,
                                    std::vector<double>(static_cast<size_t>(element_count(extents)), 1));
    } else {
      if (announce) log.info("Using random values for input " + info.name);
      values = random_tensor(info.dtype, extents, integer_range(graph, graph.inputs()[i]));
    }
    if (announce) {
      log.info(
          fmt::format("Input binding for {} with dimensions {} is created.", info.name, dims_text(extents)));
    }
    if (!values.bytes().empty())
      std::memcpy(stream.input_data(i), values.bytes().data(), values.bytes().size());
  }
  for (size_t i = 0; announce && i < engine.outputs().size(); ++i) {
    if (stream.context().output_is_data_dependent(i)) {
      log.info(fmt::format(
          "Output binding for {} is dynamic and will be created during execution using OutputAllocator.",
          engine.outputs()[i].name));
    } else {
      log.info(fmt::format("Output binding for {} with dimensions {} is created.", engine.outputs()[i].name,
                           dims_text(stream.context().output_extents(i))));
    }
  }
}

}  // namespace lathe::cli
