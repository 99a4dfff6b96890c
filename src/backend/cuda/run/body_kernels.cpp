// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/body_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "backend/body_nodes.h"
#include "backend/cuda/run/program.h"
#include "backend/layer_symbols.h"
#include "backend/offered.h"
#include "backend/reference_layer.h"
#include "backend/sizes_from_values.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "ir/edit.h"
#include "ir/new_names.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {
namespace {

ChosenTactic choose(const LayerQuery& query, const Device& device) {
  // cuDNN makes a plan for every new shape.
  return choose_for_body(query, list_all(all_families(), query, device),
                         [](const Tactic& tactic) { return tactic.runner.starts_with("Cudnn"); });
}

bool has_bytes_for_elements(const Value& value) {
  return dtype_info(value.dtype).bits >= 8 && !value.is_stored_quantized();
}

// Operands and results are linear, so the host can evaluate it as well.
bool is_linear(const std::vector<TensorType>& types) {
  return std::all_of(types.begin(), types.end(), [](const TensorType& type) {
    return type.dtype == DType::Undefined || type.format.is_linear();
  });
}

BodyReformat make_reformat(const Value& value, const Format& from, const Format& to,
                           const SymbolRanges& ranges, const Device& device, const PackContext& pack) {
  BodyReformat reformat{std::make_unique<Graph>(), nullptr};
  GraphEditor editor(*reformat.graph);
  const ValueId x = editor.add_input("x", value.dtype, value.shape);
  editor.set_type(x, value.dtype, from);
  const NodeId node =
      editor.add_node("reformat", Reformat{}, {x},
                      {{.name = "y", .dtype = value.dtype, .shape = value.shape, .format = to}}, {});
  editor.mark_output(reformat.graph->node(node).outputs[0]);
  const LayerQuery query{*reformat.graph, node, ranges};
  std::string reasons;
  for (const Tactic& tactic : list_all(all_families(), query, device)) {
    if (tactic.support.ok && !tactic.is_view) {
      reformat.kernel = make_kernel(query, tactic, device, pack);
      return reformat;
    }
    reasons += " " + tactic.name + ": " + tactic.support.reason + ".";
  }
  throw_input_error("no kernel arranges '" + value.name + "' from " +
                    to_string(TensorType{value.dtype, from}) + " to " +
                    to_string(TensorType{value.dtype, to}) + "." + reasons);
}

// Their kernels leave the number that they count on the device; before they run only a bound is known.
bool counts_on_device(const Op& op) {
  return std::holds_alternative<NonZero>(op) || std::holds_alternative<NonMaxSuppression>(op) ||
         std::holds_alternative<Unique>(op);
}

}  // namespace

std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Device& device) {
  return lathe::without_kernel(body, ranges, [&](const LayerQuery& query) { return choose(query, device); });
}

// --- what a program has

BodyKernels::BodyKernels(Body body, std::span<const Tactic> chosen, const SymbolRanges& ranges,
                         const Device& device, const PackContext& pack)
    : body_(std::move(body)), device_(device), layers_(graph().node_count()) {
  const SymbolRanges inside = ranges_inside(graph(), ranges);
  LockedBlobStore blobs(pack.blobs);
  const std::vector<NodeId>& order = graph().order();
  check(chosen.empty() || chosen.size() == order.size(), "one tactic for each node of a body expected");
  const std::vector<Graph> asked = chosen.empty() ? std::vector<Graph>() : graphs_to_ask(graph(), chosen);
  for_each_parallel(order.size(), [&](size_t i) {
    if (device_.is_present()) device_.make_current();
    const std::string key = pack.key + "/" + std::to_string(i) + "/" + graph().node(order[i]).name;
    if (!chosen.empty()) check_choice(asked, order[i], inside, chosen[i], device_);
    make_layer(order[i], chosen.empty() ? nullptr : &chosen[i], inside, {blobs, key});
  });
}

// What an untimed build takes for a node; none: the host evaluates it.
std::optional<Tactic> BodyKernels::untimed(NodeId id, const SymbolRanges& inside) const {
  const Node& node = graph().node(id);
  const auto is_whole = [&](ValueId value) {
    return value == kNoValue || has_bytes_for_elements(graph().value(value));
  };
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_whole) ||
      !std::all_of(node.outputs.begin(), node.outputs.end(), is_whole))
    return std::nullopt;
  return choose({graph(), id, inside}, device_).tactic;
}

void BodyKernels::make_layer(NodeId id, const Tactic* chosen, const SymbolRanges& inside,
                             const PackContext& pack) {
  const Node& node = graph().node(id);
  Layer& layer = layers_[static_cast<size_t>(id)];
  if (chosen != nullptr) layer.tactic = *chosen;
  layer.bodies = make_body_kernels<BodyKernels>(node.op, layer.tactic.bodies, inside, device_, pack);
  const bool counts = counts_on_device(node.op);
  if ((!wants_kernel(graph(), node) && !counts) || layer.tactic.is_view ||
      layer.tactic.runner == kReferenceRunner)
    return;
  if (chosen == nullptr) {
    std::optional<Tactic> tactic = untimed(id, inside);
    if (!tactic) return;
    layer.tactic = std::move(*tactic);
  }
  const LayerQuery query{graph(), id, inside};
  layer.is_linear = is_linear(layer.tactic.inputs) && is_linear(layer.tactic.outputs);
  layer.symbols = symbols_of(graph(), node);
  if (counts) {
    const std::set<std::string> fresh = new_names(graph(), node);
    layer.found.assign(fresh.begin(), fresh.end());
    std::erase_if(layer.symbols, [&](const std::string& name) { return fresh.contains(name); });
  }
  layer.kernel = make_kernel(query, layer.tactic, device_, {pack.blobs, pack.key + "/" + layer.tactic.name});
  const auto make = [&](const Value& value, const TensorType& type, bool restores, const std::string& name) {
    if (type.dtype == DType::Undefined || type.format == value.format) return BodyReformat{};
    return make_reformat(value, restores ? type.format : value.format, restores ? value.format : type.format,
                         inside, device_, {pack.blobs, pack.key + "/" + name});
  };
  layer.constants.resize(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    layer.arrange.emplace_back();
    if (node.inputs[i] == kNoValue) continue;
    const Value& value = graph().value(node.inputs[i]);
    layer.arrange.back() = make(value, layer.tactic.inputs[i], false, "arrange" + std::to_string(i));
    if (value.is_constant() && value.constant.has_bytes() && layer.tactic.inputs[i].dtype != DType::Undefined)
      layer.constants[i] = DeviceMemory(device_, value.constant.bytes());
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    layer.restore.emplace_back();
    if (node.outputs[i] == kNoValue) continue;
    layer.restore.back() =
        make(graph().value(node.outputs[i]), layer.tactic.outputs[i], true, "restore" + std::to_string(i));
  }
}

// --- a run

CudaBodyRuns::CudaBodyRuns(const std::vector<BodyKernels>& kernels, BodyWorld& world)
    : BodyRuns(make_body_runs<CudaBodyRun>(kernels, world)), world_(world) {}

Tensor CudaBodyRuns::slice(const Tensor& tensor, size_t axis, int64_t index) const {
  const bool is_there = world_.values.is_on_device(tensor) && dtype_info(tensor.dtype()).bits >= 8;
  return is_there ? world_.values.slice(tensor, axis, index)
                  : BodyRunner::slice(on_host(tensor), axis, index);
}

Tensor CudaBodyRuns::join(const std::vector<Tensor>& parts, size_t axis) const {
  const auto is_there = [&](const Tensor& part) { return world_.values.is_on_device(part); };
  if (std::any_of(parts.begin(), parts.end(), is_there) && dtype_info(parts[0].dtype()).bits >= 8)
    return world_.values.join(parts, axis);
  std::vector<Tensor> here;
  for (const Tensor& part : parts) here.push_back(on_host(part));
  return BodyRunner::join(here, axis);
}

std::vector<Tensor> CudaBodyRun::evaluate_on_host(NodeId id, std::span<const Tensor> inputs,
                                                  const SymbolValues& symbols) const {
  const Node& node = graph().node(id);
  std::vector<Tensor> here;
  for (size_t i = 0; i < inputs.size(); ++i)
    here.push_back(node.inputs[i] == kNoValue
                       ? Tensor()
                       : values_.on_host(inputs[i], graph().value(node.inputs[i]).format));
  std::vector<Tensor> results = interpret_node(graph(), node, here, symbols);
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue || graph().value(node.outputs[i]).format.is_linear()) continue;
    const TensorType type{results[i].dtype(), graph().value(node.outputs[i]).format};
    const Tensor there = values_.allocate(type, results[i].extents());
    values_.copy(place_of(there), in_format(results[i], type.format));
    results[i] = there;
  }
  return results;
}

// Few numbers that are on the host, and few that come out: computed sooner than a kernel is launched.
bool CudaBodyRun::is_for_host(const Node& node, std::span<const Tensor> inputs,
                              const SymbolValues& symbols) const {
  int64_t elements = 0;
  for (const Tensor& input : inputs) {
    if (values_.is_on_device(input)) return false;
    elements += input ? input.size() : 0;
  }
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    const Shape& shape = graph().value(output).shape;
    if (!std::all_of(shape.begin(), shape.end(), [&](const Dim& dim) {
          const std::set<std::string> names = dim.symbols();
          return std::all_of(names.begin(), names.end(),
                             [&](const std::string& name) { return symbols.contains(name); });
        }))
      return false;
    elements += element_count(upper_extents(shape, symbols));
  }
  return elements <= kMostSizeElements;
}

CudaBodyRun::Prepared CudaBodyRun::prepare(const BodyKernels::Layer& layer,
                                           const ShapeContext& context) const {
  Prepared prepared{.outputs = context.outputs, .layer = layer.kernel->prepare(context)};
  const auto between = [&](const BodyReformat& reformat, const Extents& extents) {
    if (reformat.kernel == nullptr || element_count(extents) == 0) return std::unique_ptr<PreparedLayer>();
    return reformat.kernel->prepare({.symbols = context.symbols, .inputs = {extents}, .outputs = {extents}});
  };
  for (size_t i = 0; i < context.inputs.size(); ++i)
    prepared.arrange.push_back(between(layer.arrange[i], context.inputs[i]));
  for (size_t i = 0; i < context.outputs.size(); ++i)
    prepared.restore.push_back(between(layer.restore[i], context.outputs[i]));
  return prepared;
}

const CudaBodyRun::Prepared& CudaBodyRun::prepared_for(NodeId id, const SymbolValues& symbols) {
  const BodyKernels::Layer& layer = kernels_.layer(id);
  const std::vector<int64_t> key = shape_key(layer.symbols, symbols);
  return prepared_[static_cast<size_t>(id)].get(key, [&]() -> Prepared {
    const auto extents = body_extents(graph(), id, layer.tactic.runner, key, symbols);
    if (!extents) return {};
    return prepare(layer, {.symbols = symbols, .inputs = extents->inputs, .outputs = extents->outputs});
  });
}

std::unique_ptr<BodyRuns> CudaBodyRun::make_nested(NodeId id) {
  return std::make_unique<CudaBodyRuns>(kernels_.layer(id).bodies, world_);
}

std::vector<Tensor> CudaBodyRun::evaluate(NodeId id, std::span<const Tensor> inputs,
                                          const SymbolValues& symbols) {
  const Node& node = graph().node(id);
  const BodyKernels::Layer& layer = kernels_.layer(id);
  if (!layer.bodies.empty()) return run_nested(id, inputs, symbols);
  if (reads_only_extents(node)) return interpret_node(graph(), node, inputs, symbols);
  if (only_changes_shape(node)) {
    std::vector<Tensor> operands(inputs.begin(), inputs.end());
    for (size_t i = 1; i < operands.size(); ++i) operands[i] = values_.on_host(operands[i]);
    return with_other_shape(graph(), node, operands, symbols);
  }
  if (layer.tactic.is_view) return {inputs[0]};  // in a format that puts the same bytes in the same places
  if (layer.kernel == nullptr || (layer.is_linear && is_for_host(node, inputs, symbols)))
    return evaluate_on_host(id, inputs, symbols);
  const Prepared& prepared = prepared_for(id, symbols);
  if (prepared.layer == nullptr) return evaluate_on_host(id, inputs, symbols);
  try {
    return run_kernel(id, inputs, prepared, symbols);
  } catch (Error& error) {
    error.add_context("in node '" + node.name + "' of a body");
    throw;
  }
}

std::vector<Tensor> CudaBodyRun::run_kernel(NodeId id, std::span<const Tensor> inputs,
                                            const Prepared& prepared, const SymbolValues& symbols) {
  const Node& node = graph().node(id);
  const BodyKernels::Layer& layer = kernels_.layer(id);
  // Values in the format that the kernel has, as bytes, and all that must stay until it is enqueued.
  const auto arranged = [&](const TensorType& type, const Extents& extents) {
    return values_.allocate_bytes(storage_bytes(type.dtype, extents, type.format));
  };
  std::vector<Tensor> held, results(node.outputs.size()), left(results.size());
  std::vector<const void*> from(inputs.size(), nullptr);
  std::vector<void*> to(results.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || layer.tactic.inputs[i].dtype == DType::Undefined) continue;
    from[i] = layer.constants[i].data();
    if (from[i] == nullptr) {
      held.push_back(values_.on_device(inputs[i]));
      from[i] = held.back().bytes().data();
    }
    if (prepared.arrange[i] == nullptr) continue;
    held.push_back(arranged(layer.tactic.inputs[i], inputs[i].extents()));
    void* place = place_of(held.back());
    enqueue(*prepared.arrange[i], std::span(&from[i], 1), std::span(&place, 1));
    from[i] = place;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = layer.tactic.outputs[i];
    results[i] = values_.allocate({type.dtype, graph().value(node.outputs[i]).format}, prepared.outputs[i]);
    if (prepared.restore[i] != nullptr) left[i] = arranged(type, prepared.outputs[i]);
    to[i] = place_of(left[i] ? left[i] : results[i]);
  }
  const Tensor scratch = enqueue(*prepared.layer, from, to);
  if (!layer.found.empty())
    shrink(id, *prepared.layer, {from, to, const_cast<std::byte*>(scratch.bytes().data())}, symbols, results);
  for (size_t i = 0; i < results.size(); ++i) {
    if (prepared.restore[i] == nullptr) continue;
    const void* source = left[i].bytes().data();
    void* place = place_of(results[i]);
    enqueue(*prepared.restore[i], std::span(&source, 1), std::span(&place, 1));
  }
  return results;
}

Tensor CudaBodyRun::enqueue(const PreparedLayer& layer, std::span<const void* const> from,
                            std::span<void* const> to) {
  const auto bytes = static_cast<int64_t>(layer.scratch_bytes());
  const Tensor scratch = bytes > 0 ? values_.allocate_bytes(bytes) : Tensor();
  if (values_.is_recorded()) {
    if (const Support support = layer.capturable(); !support.ok) throw_input_error(support.reason);
    if (++world_.recorded_calls > kMostRecordedCalls)
      throw_input_error(fmt::format("more than {} kernels would be recorded", kMostRecordedCalls));
  }
  layer.enqueue({from, to, const_cast<std::byte*>(scratch.bytes().data())}, values_.stream());
  return scratch;
}

void CudaBodyRun::shrink(NodeId id, const PreparedLayer& layer, const LayerArgs& args, SymbolValues symbols,
                         std::vector<Tensor>& results) const {
  if (values_.is_recorded()) throw_input_error("the host has to know a size that the GPU finds");
  const Driver& driver = *kernels_.device().driver;
  driver.require(driver.cuStreamSynchronize(values_.stream()), "waiting for a data-dependent shape");
  layer.resolve(args, symbols);
  const Node& node = graph().node(id);
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const Extents extents = upper_extents(graph().value(node.outputs[i]).shape, symbols);
    const auto bytes = static_cast<size_t>(dtype_bytes(results[i].dtype(), element_count(extents)));
    const auto whole = std::make_shared<const Tensor>(results[i]);
    results[i] = Tensor::wrap(whole->dtype(), extents, whole->bytes().first(bytes), whole);
  }
}

}  // namespace lathe::cuda
