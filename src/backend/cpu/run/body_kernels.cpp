// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/body_kernels.h"

#include <algorithm>

#include "backend/body_nodes.h"
#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/run/program.h"
#include "backend/cpu/run/reformat.h"
#include "backend/layer_symbols.h"
#include "backend/no_elements.h"
#include "base/error.h"
#include "ir/substitute.h"

namespace lathe::cpu {
namespace {

ChosenTactic choose(const LayerQuery& query, Machine machine) {
  machine.threads = std::max(machine.threads, 2);  // the same choice for any number of threads
  std::vector<Tactic> listed;
  for (const TacticFamily& family : families())
    if (may_list(family.runner, query))
      for (Tactic& tactic : family.list(query, machine)) listed.push_back(std::move(tactic));
  // oneDNN makes code for every new shape.
  return choose_for_body(query, std::move(listed),
                         [](const Tactic& tactic) { return tactic.runner.starts_with("Onednn"); });
}

}  // namespace

std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Machine& machine) {
  return lathe::without_kernel(body, ranges, [&](const LayerQuery& query) { return choose(query, machine); });
}

BodyKernels::BodyKernels(Body body, const SymbolRanges& ranges, const Machine& machine,
                         const PackContext& pack)
    : body_(std::move(body)), machine_(machine), layers_(graph().node_count()) {
  const SymbolRanges inside = ranges_inside(graph(), ranges);
  for (size_t i = 0; i < graph().order().size(); ++i) {
    const NodeId id = graph().order()[i];
    const Node& node = graph().node(id);
    Layer& layer = layers_[static_cast<size_t>(id)];
    const std::string key = pack.key + "/" + std::to_string(i) + "/" + node.name;
    layer.bodies = make_body_kernels<BodyKernels>(node.op, inside, machine, {pack.blobs, key});
    if (!wants_kernel(graph(), node)) continue;
    const LayerQuery query{graph(), id, inside};
    ChosenTactic chosen = choose(query, machine);
    if (!chosen.tactic) continue;
    layer.tactic = std::move(*chosen.tactic);
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

std::unique_ptr<BodyRunner> CpuBodyRun::make_nested(NodeId id) {
  return std::make_unique<BodyRuns>(make_body_runs<CpuBodyRun>(kernels_.layer(id).bodies, team_));
}

CpuBodyRun::Prepared CpuBodyRun::prepare(const BodyKernels::Layer& layer, const ShapeContext& context) const {
  Prepared prepared{.outputs = context.outputs, .layer = layer.kernel->prepare(context)};
  const auto between = [&](const TensorType& from, const TensorType& to, const Extents& extents) {
    return prepare_reformat(from, to, extents, kernels_.machine(), context.threads);
  };
  prepared.arrange.resize(context.inputs.size());
  prepared.restore.resize(context.outputs.size());
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorType& type = layer.tactic.inputs[i];
    if (type.dtype != DType::Undefined && !type.format.is_linear() && element_count(context.inputs[i]) > 0)
      prepared.arrange[i] = between({type.dtype, kLinear}, type, context.inputs[i]);
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorType& type = layer.tactic.outputs[i];
    if (type.dtype != DType::Undefined && !type.format.is_linear() && element_count(context.outputs[i]) > 0)
      prepared.restore[i] = between(type, {type.dtype, kLinear}, context.outputs[i]);
  }
  return prepared;
}

const CpuBodyRun::Prepared& CpuBodyRun::prepared_for(NodeId id, const SymbolValues& symbols) {
  const BodyKernels::Layer& layer = kernels_.layer(id);
  const std::vector<int64_t> key = shape_key(layer.symbols, symbols);
  return prepared_[static_cast<size_t>(id)].get(key, [&]() -> Prepared {
    const auto extents = body_extents(graph(), id, key, symbols);
    if (!extents) return {};
    const ShapeContext context{
        .symbols = symbols, .inputs = extents->inputs, .outputs = extents->outputs, .threads = team_.size()};
    return with_onednn_errors([&] { return prepare(layer, context); });
  });
}

std::vector<Tensor> CpuBodyRun::evaluate(NodeId id, std::span<const Tensor> inputs,
                                         const SymbolValues& symbols) {
  const Graph& graph = kernels_.graph();
  const Node& node = graph.node(id);
  const BodyKernels::Layer& layer = kernels_.layer(id);
  if (!layer.bodies.empty()) return run_nested(id, inputs, symbols);
  if (only_changes_shape(node)) return with_other_shape(graph, node, inputs, symbols);
  if (layer.kernel == nullptr) return interpret_node(graph, node, inputs, symbols);
  const Prepared& prepared = prepared_for(id, symbols);
  if (prepared.layer == nullptr) return interpret_node(graph, node, inputs, symbols);
  // What lies in another format: operands as the kernel wants them, and results as it leaves them.
  std::vector<Tensor> arranged, results(node.outputs.size()), left(results.size());
  const auto allocate = [](const TensorType& type, const Extents& extents) {
    return Tensor::allocate(DType::UInt8, {storage_bytes(type.dtype, extents, type.format)});
  };
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0; i < inputs.size(); ++i) {
    from.push_back(inputs[i] && inputs[i].has_bytes() ? inputs[i].bytes().data() : nullptr);
    if (prepared.arrange[i] == nullptr) continue;
    arranged.push_back(allocate(layer.tactic.inputs[i], inputs[i].extents()));
    void* place = arranged.back().mutable_bytes().data();
    run_layer(*prepared.arrange[i], std::span(&from.back(), 1), std::span(&place, 1));
    from.back() = place;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    to.push_back(nullptr);
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = layer.tactic.outputs[i];
    results[i] = Tensor::allocate(type.dtype, prepared.outputs[i]);
    if (prepared.restore[i] != nullptr) left[i] = allocate(type, prepared.outputs[i]);
    to.back() = (left[i] ? left[i] : results[i]).mutable_bytes().data();
  }
  run_layer(*prepared.layer, from, to);
  for (size_t i = 0; i < results.size(); ++i) {
    if (prepared.restore[i] == nullptr) continue;
    const void* source = left[i].bytes().data();
    void* place = results[i].mutable_bytes().data();
    run_layer(*prepared.restore[i], std::span(&source, 1), std::span(&place, 1));
  }
  return results;
}

void CpuBodyRun::run_layer(const PreparedLayer& layer, std::span<const void* const> from,
                           std::span<void* const> to) {
  const auto bytes = static_cast<int64_t>(layer.scratch_bytes());
  if (bytes > 0 && (!scratch_ || scratch_.size() < bytes)) scratch_ = Tensor::allocate(DType::UInt8, {bytes});
  team_.run(
      layer,
      {.inputs = from, .outputs = to, .scratch = bytes > 0 ? scratch_.mutable_bytes().data() : nullptr});
}

}  // namespace lathe::cpu
