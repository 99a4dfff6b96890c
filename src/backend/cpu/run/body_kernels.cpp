// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/body_kernels.h"

#include <algorithm>
#include <utility>

#include "backend/body_nodes.h"
#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/run/program.h"
#include "backend/cpu/run/reformat.h"
#include "backend/layer_symbols.h"
#include "backend/offered.h"
#include "backend/reference_layer.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "ir/substitute.h"

namespace lathe::cpu {
namespace {

ChosenTactic choose(const LayerQuery& query, Machine machine) {
  machine.threads = std::max(machine.threads, 2);  // the same choice for any number of threads
  // oneDNN makes code for every new shape.
  return choose_for_body(query, list_all(families(), query, machine),
                         [](const Tactic& tactic) { return tactic.runner.starts_with("Onednn"); });
}

}  // namespace

std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Machine& machine) {
  return lathe::without_kernel(body, ranges, [&](const LayerQuery& query) { return choose(query, machine); });
}

BodyKernels::BodyKernels(Body body, std::span<const Tactic> chosen, const SymbolRanges& ranges,
                         const Machine& machine, const PackContext& pack)
    : body_(std::move(body)), machine_(machine), layers_(graph().node_count()) {
  const SymbolRanges inside = ranges_inside(graph(), ranges);
  const std::vector<NodeId>& order = graph().order();
  check(chosen.empty() || chosen.size() == order.size(), "one tactic for each node of a body expected");
  const std::vector<Graph> asked = chosen.empty() ? std::vector<Graph>() : graphs_to_ask(graph(), chosen);
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& node = graph().node(order[i]);
    Layer& layer = layers_[static_cast<size_t>(order[i])];
    const std::string key = pack.key + "/" + std::to_string(i) + "/" + node.name;
    if (!chosen.empty()) {
      check_choice(asked, order[i], inside, chosen[i], machine);
      layer.tactic = chosen[i];
    }
    layer.bodies =
        make_body_kernels<BodyKernels>(node.op, layer.tactic.bodies, inside, machine, {pack.blobs, key});
    if (!wants_kernel(graph(), node) || layer.tactic.is_view || layer.tactic.runner == kReferenceRunner)
      continue;
    const LayerQuery query{graph(), order[i], inside};
    if (chosen.empty()) {
      ChosenTactic untimed = choose(query, machine);
      if (!untimed.tactic) continue;
      layer.tactic = std::move(*untimed.tactic);
    }
    layer.kernel = make_kernel(query, layer.tactic, machine, {pack.blobs, key + "/" + layer.tactic.name});
    layer.symbols = symbols_of(graph(), node);
  }
}

// --- the team

void LayerTeam::run_piece(const Job& job, const Worker& worker) {
  const int members = std::clamp(job.layer->members(worker.count), 1, worker.count);
  if (job.layer->meets(members)) return job.layer->run(*job.args, worker);
  worker.share(members, [&](const Worker& part) {
    const bool all = members >= worker.count;
    if (!all && part.portion > 0) return;
    job.layer->run(*job.args, all ? part : Worker{part.piece, members});
  });
}

void LayerTeam::work(const Worker& worker, const std::function<void()>& lead) {
  if (worker.index == 0) {
    leader_ = &worker;
    next_ = 0;
    lead();
    jobs_[next_ % 2] = {};
    leader_ = nullptr;
    worker.barrier();
    return;
  }
  for (size_t at = 0;; ++at) {
    worker.barrier();
    const Job job = jobs_[at % 2];
    if (job.layer == nullptr) return;
    run_piece(job, worker);
  }
}

void LayerTeam::run(const PreparedLayer& layer, const LayerArgs& args) {
  if (size() == 1 || layer.members(size()) <= 1) return layer.run(args, Worker{0, 1});
  const Job job{&layer, &args};
  jobs_[next_++ % 2] = job;
  leader_->barrier();
  run_piece(job, *leader_);
}

// --- a run

namespace {

// Of an operator inside of a body: its results are values of that body, not of the layer.
class NestedRuns final : public BodyRuns {
 public:
  NestedRuns(const std::vector<BodyKernels>& kernels, BodySurroundings& around)
      : BodyRuns(make_body_runs<CpuBodyRun>(kernels, around)), around_(around) {}
  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                          const SymbolValues& symbols) const override {
    const ResultPlaces* places = std::exchange(around_.places, nullptr);
    std::vector<Tensor> results = BodyRuns::run(body, inputs, symbols);
    around_.places = places;
    return results;
  }

 private:
  BodySurroundings& around_;
};

}  // namespace

CpuBodyRun::CpuBodyRun(const BodyKernels& kernels, BodySurroundings& around)
    : BodyRun(kernels.graph()), kernels_(kernels), around_(around), prepared_(graph().node_count()) {
  for (size_t i = 0; i < graph().outputs().size(); ++i) results_.emplace(graph().outputs()[i], i);
}

std::unique_ptr<BodyRuns> CpuBodyRun::make_nested(NodeId id) {
  return std::make_unique<NestedRuns>(kernels_.layer(id).bodies, around_);
}

CpuBodyRun::Prepared CpuBodyRun::prepare(NodeId id, const ShapeContext& context) const {
  const BodyKernels::Layer& layer = kernels_.layer(id);
  const Node& node = graph().node(id);
  Prepared prepared{.outputs = context.outputs, .layer = layer.kernel->prepare(context)};
  const auto between = [&](const TensorType& from, const TensorType& to, const Extents& extents) {
    return prepare_reformat(from, to, extents, kernels_.machine(), context.threads);
  };
  const auto differs = [&](ValueId value, const TensorType& type, const Extents& extents) {
    return value != kNoValue && type.dtype != DType::Undefined && element_count(extents) > 0 &&
           type.format != graph().value(value).format;
  };
  prepared.arrange.resize(context.inputs.size());
  prepared.restore.resize(context.outputs.size());
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorType& type = layer.tactic.inputs[i];
    if (differs(node.inputs[i], type, context.inputs[i]))
      prepared.arrange[i] =
          between({type.dtype, graph().value(node.inputs[i]).format}, type, context.inputs[i]);
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorType& type = layer.tactic.outputs[i];
    if (differs(node.outputs[i], type, context.outputs[i]))
      prepared.restore[i] =
          between(type, {type.dtype, graph().value(node.outputs[i]).format}, context.outputs[i]);
  }
  return prepared;
}

const CpuBodyRun::Prepared& CpuBodyRun::prepared_for(NodeId id, const SymbolValues& symbols) {
  const BodyKernels::Layer& layer = kernels_.layer(id);
  const std::vector<int64_t> key = shape_key(layer.symbols, symbols);
  return prepared_[static_cast<size_t>(id)].get(key, [&]() -> Prepared {
    const auto extents = body_extents(graph(), id, layer.tactic.runner, key, symbols);
    if (!extents) return {};
    const ShapeContext context{.symbols = symbols,
                               .inputs = extents->inputs,
                               .outputs = extents->outputs,
                               .threads = around_.team.size()};
    return with_onednn_errors([&] { return prepare(id, context); });
  });
}

// Where the layer's result has its place and nobody asks for another format, it is written there.
Tensor CpuBodyRun::allocate_result(ValueId id, const Extents& extents) const {
  const Value& value = graph().value(id);
  const auto result = results_.find(id);
  if (around_.places != nullptr && result != results_.end() && value.format.is_linear()) {
    if (std::byte* place = around_.places->place(result->second, value.dtype, extents))
      return Tensor::wrap(value.dtype, extents,
                          {place, static_cast<size_t>(dtype_bytes(value.dtype, element_count(extents)))},
                          nullptr);
  }
  return around_.values.allocate({value.dtype, value.format}, extents);
}

// A node that has a kernel, with operands and results as the kernel has them.
std::vector<Tensor> CpuBodyRun::interpret_stored(const Node& node, std::span<const Tensor> inputs,
                                                 const SymbolValues& symbols) const {
  std::vector<Tensor> operands(inputs.begin(), inputs.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (node.inputs[i] == kNoValue || graph().value(node.inputs[i]).format.is_linear()) continue;
    const TensorType type{operands[i].dtype(), graph().value(node.inputs[i]).format};
    operands[i] = to_linear(type, inputs[i].extents(), inputs[i].bytes().data());
  }
  std::vector<Tensor> results = interpret_node(graph(), node, operands, symbols);
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue || graph().value(node.outputs[i]).format.is_linear()) continue;
    const Tensor linear = std::exchange(results[i], Tensor());
    const TensorType type{linear.dtype(), graph().value(node.outputs[i]).format};
    results[i] = around_.values.allocate(type, linear.extents());
    from_linear(linear, type.format, place_of(results[i]));
  }
  return results;
}

std::vector<Tensor> CpuBodyRun::evaluate(NodeId id, std::span<const Tensor> inputs,
                                         const SymbolValues& symbols) {
  const Node& node = graph().node(id);
  const BodyKernels::Layer& layer = kernels_.layer(id);
  if (!layer.bodies.empty()) return run_nested(id, inputs, symbols);
  if (only_changes_shape(node)) return with_other_shape(graph(), node, inputs, symbols);
  if (layer.tactic.is_view) return {inputs[0]};  // in a format that puts the same bytes in the same places
  if (layer.kernel == nullptr) return interpret_node(graph(), node, inputs, symbols);
  const Prepared& prepared = prepared_for(id, symbols);
  if (prepared.layer == nullptr) return interpret_stored(node, inputs, symbols);
  // What lies in another format: operands as the kernel wants them, and results as it leaves them.
  std::vector<Tensor> arranged, results(node.outputs.size()), left(results.size());
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(inputs[i] && inputs[i].has_bytes() ? inputs[i].bytes().data() : nullptr);
    if (prepared.arrange[i] == nullptr) continue;
    arranged.push_back(around_.values.allocate(layer.tactic.inputs[i], inputs[i].extents()));
    void* place = place_of(arranged.back());
    run_layer(*prepared.arrange[i], std::span(&from.back(), 1), std::span(&place, 1));
    from.back() = place;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    to.push_back(nullptr);
    if (node.outputs[i] == kNoValue) continue;
    results[i] = allocate_result(node.outputs[i], prepared.outputs[i]);
    if (prepared.restore[i] != nullptr)
      left[i] = around_.values.allocate(layer.tactic.outputs[i], prepared.outputs[i]);
    to.back() = place_of(left[i] ? left[i] : results[i]);
  }
  run_layer(*prepared.layer, from, to);
  for (size_t i = 0; i < results.size(); ++i) {
    if (prepared.restore[i] == nullptr) continue;
    const void* source = left[i].bytes().data();
    void* place = place_of(results[i]);
    run_layer(*prepared.restore[i], std::span(&source, 1), std::span(&place, 1));
  }
  return results;
}

void CpuBodyRun::run_layer(const PreparedLayer& layer, std::span<const void* const> from,
                           std::span<void* const> to) {
  const size_t bytes = layer.scratch_bytes();
  if (bytes > scratch_.bytes()) scratch_ = HostBuffer(bytes, "the scratch memory of a body");
  around_.team.run(layer, {from, to, scratch_.begin()});
}

}  // namespace lathe::cpu
