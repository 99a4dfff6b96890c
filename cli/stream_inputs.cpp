// SPDX-License-Identifier: Apache-2.0
#include "stream_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "arguments/input_data.h"
#include "builder/shape_inputs.h"
#include "failure.h"
#include "padded_channels.h"

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

bool InputSource::decides_shapes(const std::string& name) {
  if (!deciding_) deciding_ = find_shape_inputs(engine_.graph(profile_));
  return std::find(deciding_->begin(), deciding_->end(), name) != deciding_->end();
}

Tensor InputSource::values(size_t index, const Extents& extents) {
  const auto& info = engine_.inputs()[index];
  if (const std::string* file = find_named(options_.inference.inputs, info.name)) {
    if (announce_) log_.info(fmt::format("Using values loaded from {} for input {}", *file, info.name));
    try {
      return load_input(*file, info.name, info.dtype, extents, options_.inference.preprocess);
    } catch (const Error& error) {
      fail({std::string("Uncaught exception detected: ") + error.what()});  // the original does not catch it
    }
  }
  if (info.contents) return shape_tensor_values(options_, engine_, profile_, info, extents);
  if (decides_shapes(info.name)) {
    if (announce_)
      log_.warning(
          fmt::format("Sizes follow from the elements of input {}, and none are given: each is 1. "
                      "(--shapes={}:2x3 gives 2 and 3, --loadInputs those of a file.)",
                      info.name, info.name));
    return Tensor::from_doubles(info.dtype, extents,
                                std::vector<double>(static_cast<size_t>(element_count(extents)), 1));
  }
  if (announce_) log_.info("Using random values for input " + info.name);
  const Graph& graph = engine_.graph(profile_);
  return random_tensor(info.dtype, extents, integer_range(graph, graph.inputs()[index]));
}

void fill_inputs(const Options& options, InferenceStream& stream, int profile, bool announce, Log& log) {
  Context& context = stream.context();
  const Engine& engine = context.engine();
  InputSource source(options, engine, profile, announce, log);
  for (const size_t i : context.own_inputs()) {
    const Tensor values = source.values(i, context.largest_input_extents(i));
    if (announce)
      log.info(fmt::format("Input binding for {} with dimensions {} is created.", engine.inputs()[i].name,
                           dims_text(context.input_extents(i))));
    if (pads_channels(engine.inputs()[i].format))
      pad_channels(values, engine.inputs()[i].format, static_cast<std::byte*>(stream.input_data(i)));
    else if (!values.bytes().empty())
      std::memcpy(stream.input_data(i), values.bytes().data(), values.bytes().size());
  }
  for (const size_t i : context.own_outputs()) {
    if (!announce) break;
    if (context.output_is_data_dependent(i)) {
      log.info(fmt::format(
          "Output binding for {} is dynamic and will be created during execution using OutputAllocator.",
          engine.outputs()[i].name));
    } else {
      log.info(fmt::format("Output binding for {} with dimensions {} is created.", engine.outputs()[i].name,
                           dims_text(context.output_extents(i))));
    }
  }
}

}  // namespace lathe::cli
