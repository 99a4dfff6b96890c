// SPDX-License-Identifier: Apache-2.0
#include "run_engine.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "guarded_memory.h"
#include "ops/cost.h"

namespace fuzz {
namespace {

using namespace lathe;

// An extent: one of the profile's, or contradicting, or extreme.
int64_t extent(int64_t low, int64_t opt, int64_t high, Random& random) {
  if (random.chance(0.5)) return random.pick({low, opt, high});
  if (random.chance(0.5))
    return low + random.below(std::max<int64_t>(1, std::min<int64_t>(high - low, 1 << 20) + 1));
  return random.pick<int64_t>({0, 1, 2, 3, 7, 31, 1000, 65537, int64_t{1} << 31, -1});
}

Extents shape_of(const Engine& engine, const TensorInfo& input, int profile, Random& random) {
  if (is_static(input.shape)) return to_extents(input.shape);
  const auto& shapes = engine.profile(profile).shapes;
  const auto range = shapes.find(input.name);
  Extents extents;
  for (size_t d = 0; d < input.shape.size(); ++d) {
    if (input.shape[d].is_constant())
      extents.push_back(input.shape[d].value());
    else if (range == shapes.end() || d >= range->second.min.size())
      extents.push_back(random.below(5));
    else
      extents.push_back(extent(range->second.min[d], range->second.opt[d], range->second.max[d], random));
  }
  return extents;
}

Tensor values_for(const TensorInfo& input, const Extents& extents, const Engine& engine, int profile,
                  Random& random) {
  const auto& values = engine.profile(profile).values;
  if (const auto range = values.find(input.name); range != values.end()) {
    std::vector<double> elements;
    for (size_t i = 0; i < range->second.min.size(); ++i)
      elements.push_back(static_cast<double>(
          extent(range->second.min[i], range->second.opt[i], range->second.max[i], random)));
    elements.resize(static_cast<size_t>(element_count(extents)));
    return Tensor::from_doubles(input.dtype, extents, elements);
  }
  if (random.chance(0.2)) return Tensor::allocate(input.dtype, extents);
  // Drawing numbers took half of the time. A prime, so that rows differ.
  constexpr int64_t kDrawn = 4099;
  Value value;
  value.name = input.name;
  value.dtype = input.dtype;
  value.shape = {std::min(element_count(extents), kDrawn)};
  const std::vector<double> drawn = random_input(value, {}, random.seed()).to_doubles();
  std::vector<double> elements(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = drawn[i % drawn.size()];
  return Tensor::from_doubles(input.dtype, extents, elements);
}

bool is_small(const Engine& engine, Context& context, int64_t most_bytes) {
  int64_t sum = context.device_bytes();
  for (size_t i = 0; i < engine.inputs().size(); ++i) sum += context.input_bytes(i);
  for (size_t i = 0; i < engine.outputs().size(); ++i) {
    const int64_t bytes = context.output_bytes(i);
    if (bytes > most_bytes) return false;
    sum += bytes;
  }
  return sum <= most_bytes;
}

// Operations of the layers whose sizes the inputs say: attention over 65537 rows needs little memory.
double operations(const Engine& engine, int profile, const std::vector<Extents>& shapes) {
  SymbolValues symbols;
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < shapes[i].size(); ++d)
      if (const auto name = engine.inputs()[i].shape[d].as_symbol()) symbols[*name] = shapes[i][d];
  double sum = 0;
  for (const NodeId id : engine.graph(profile).order()) {
    try {
      sum += layer_cost(engine.graph(profile), id, symbols).flops;
    } catch (const Error&) {  // a dim that its inputs do not say
    }
  }
  return sum;
}

void enqueue(const Engine& engine, Context& context, const std::vector<Tensor>& inputs) {
  std::vector<GuardedMemory> memory;
  std::vector<void*> bindings;
  const auto add = [&](size_t bytes) { bindings.push_back(memory.emplace_back(bytes).data()); };
  for (const Tensor& input : inputs) {
    add(input.bytes().size());
    if (!input.bytes().empty()) std::memcpy(bindings.back(), input.bytes().data(), input.bytes().size());
  }
  for (size_t k = 0; k < engine.outputs().size(); ++k) add(static_cast<size_t>(context.output_bytes(k)));
  const auto stream = engine.backend()->create_stream();
  context.enqueue(bindings, *stream);
}

void run_once(const Engine& engine, Context& context, int profile, int64_t most_bytes, Random& random) {
  std::vector<Extents> shapes;
  int64_t elements = 0;
  for (const TensorInfo& input : engine.inputs()) {
    shapes.push_back(shape_of(engine, input, profile, random));
    int64_t count = 1;
    for (const int64_t e : shapes.back())
      if (e < 0 || __builtin_mul_overflow(count, e, &count)) count = most_bytes;
    elements += std::min(count, most_bytes);
  }
  if (elements >= most_bytes / 8) {  // only asked for
    for (size_t i = 0; i < shapes.size(); ++i) context.set_input_shape(engine.inputs()[i].name, shapes[i]);
    context.use_opt_shapes();
    context.resolve_shapes();
    return;
  }
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorInfo& info = engine.inputs()[i];
    inputs.push_back(values_for(info, shapes[i], engine, profile, random));
    context.set_input_shape(info.name, shapes[i]);
    if (info.contents) context.set_input_values(info.name, inputs.back().to_int64s());
  }
  context.use_opt_shapes();
  context.resolve_shapes();
  constexpr double kMostOperations = 2e9;  // a second or two on the reference
  if (engine.backend()->is_host() && is_small(engine, context, most_bytes) &&
      operations(engine, profile, shapes) <= kMostOperations)
    enqueue(engine, context, inputs);
}

}  // namespace

void run_engine(const Engine& engine, Random& random, int64_t most_bytes) {
  for (int profile = 0; profile < engine.profile_count(); ++profile) {
    if (engine.memory_info(profile).activation_bytes > most_bytes) continue;
    const auto context = engine.create_context(profile);
    for (int run = 0; run < 3; ++run) {
      try {
        run_once(engine, *context, profile, most_bytes, random);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::Internal) throw;
      }
    }
  }
}

}  // namespace fuzz
