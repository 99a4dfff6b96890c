// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/check/tactic_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/device/host_memory.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/device/onednn.h"
#include "backend/cpu/run/cpu_backend.h"
#include "backend/cpu/run/program.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "ir/symbol_extents.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

Tensor random_tensor(DType dtype, const Extents& extents, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (double& v : values) v = is_float(dtype) ? uniform(random) : static_cast<double>(random() % 2);
  return Tensor::from_doubles(dtype, extents, values);
}

Tensor with_nan(const Tensor& tensor) {
  std::vector<double> values = tensor.to_doubles();
  values[values.size() / 2] = std::numeric_limits<double>::quiet_NaN();
  return Tensor::from_doubles(tensor.dtype(), tensor.extents(), values);
}

SymbolValues values_at(const SymbolRanges& ranges, int64_t SymbolRange::*which) {
  SymbolValues values;
  for (const auto& [name, range] : ranges) values.emplace(name, range.*which);
  return values;
}

double relative_error(const Tensor& got, const Tensor& wanted) {
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(a[i])) continue;
    if (a[i] == b[i]) continue;  // equal infinities too
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  for (const double v : b) norm = std::max(norm, std::isfinite(v) ? v * v : 0.0);
  return std::isfinite(difference) ? std::sqrt(difference / std::max(norm, 1e-30))
                                   : std::numeric_limits<double>::infinity();
}

std::string tactic_text(const Tactic& tactic) {
  std::string text = tactic.name;
  for (const TensorType& type : tactic.inputs)
    if (type.dtype != DType::Undefined) text += " " + to_string(type);
  text += " ->";
  for (const TensorType& type : tactic.outputs) text += " " + to_string(type);
  return text;
}

class Checker {
 public:
  Checker(const Graph& graph, NodeId node, const TacticCheck& check)
      : graph_(graph), node_(node), check_(check), pool_(check.threads), random_(7) {
    std::optional<Isa> cap;
    if (!check.isa_cap.empty()) cap = isa_from_name(check.isa_cap);
    machine_ = make_machine(read_cpu_info(), cap, check.threads);
    cap_onednn_isa(machine_.isa());
    for (const auto& [name, range] : check.ranges) symbols_.emplace(name, range.opt);
    for (const ValueId id : layer().inputs) {
      if (id == kNoValue)
        inputs_.emplace_back();
      else if (graph.value(id).is_constant())
        inputs_.push_back(graph.value(id).constant);
      else
        inputs_.push_back(
            random_tensor(graph.value(id).dtype, evaluate(graph.value(id).shape, symbols_), random_));
      if (check.with_nan && id == layer().inputs[0]) inputs_.back() = with_nan(inputs_.back());
    }
    const EvaluateContext context{
        .inputs = inputs_, .output_count = layer().outputs.size(), .symbols = &symbols_};
    wanted_ = evaluate_node(layer(), context, graph.value(layer().outputs[0]).dtype);
  }

  TacticCheckResult run() {
    const LayerQuery query{graph_, node_, check_.ranges};
    for (const TacticFamily& family : tactic_families()) {
      if (!check_.runner.empty() && family.runner != check_.runner) continue;
      const SingleThreadedOneDnn single;
      for (const Tactic& tactic : family.list(query, machine_)) {
        if (!tactic.support.ok)
          result_.refused.push_back(tactic_text(tactic) + ": " + tactic.support.reason);
        else if (check_.with_nan && !tactic.keeps_nan)
          result_.left_out.push_back(tactic_text(tactic));
        else if (!tactic.is_view)
          run_tactic(query, family, tactic);
      }
    }
    return std::move(result_);
  }

 private:
  const Node& layer() const { return graph_.node(node_); }

  ShapeContext context_at(const SymbolValues& symbols) const {
    return {.symbols = symbols,
            .inputs = upper_extents(graph_, layer().inputs, symbols),
            .outputs = upper_extents(graph_, layer().outputs, symbols),
            .threads = check_.threads};
  }

  std::byte* buffer(const TensorType& type, const Extents& extents) {
    buffers_.emplace_back(static_cast<size_t>(storage_bytes(type.dtype, extents, type.format)) + 64);
    // Not a number in every float type: an element that nobody writes is seen.
    std::memset(buffers_.back().data(), 0xff, buffers_.back().bytes());
    return buffers_.back().begin();
  }

  void run_tactic(const LayerQuery& query, const TacticFamily& family, const Tactic& tactic) {
    const std::string name = tactic_text(tactic);
    try {
      MemoryBlobStore blobs;
      const auto kernel = family.make(query, tactic, machine_, PackContext{blobs, "check"});
      for (const auto which : {&SymbolRange::min, &SymbolRange::max}) {
        const SymbolValues symbols = values_at(check_.ranges, which);
        kernel->prepare(context_at(symbols));
      }
      const auto prepared = kernel->prepare(context_at(symbols_));
      compare(tactic, *prepared, name);
      result_.ran.push_back(name);
    } catch (const std::exception& error) {
      result_.failures.push_back(name + ": " + error.what());
    }
  }

  void compare(const Tactic& tactic, const PreparedLayer& prepared, const std::string& name) {
    buffers_.clear();
    const ShapeContext context = context_at(symbols_);
    std::vector<const void*> inputs(layer().inputs.size(), nullptr);
    std::vector<void*> outputs(layer().outputs.size(), nullptr);
    bool bf16 = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs_[i] || tactic.inputs.at(i).dtype == DType::Undefined) continue;
      Tensor tensor = inputs_[i];
      bf16 = bf16 || tactic.inputs[i].dtype == DType::BFloat16;
      if (tensor.dtype() != tactic.inputs[i].dtype)
        tensor = Tensor::from_doubles(tactic.inputs[i].dtype, tensor.extents(), tensor.to_doubles());
      std::byte* data = buffer(tactic.inputs[i], tensor.extents());
      from_linear(tensor, tactic.inputs[i].format, data);
      inputs[i] = data;
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (layer().outputs[i] != kNoValue) outputs[i] = buffer(tactic.outputs.at(i), context.outputs[i]);
    HostBuffer scratch(prepared.scratch_bytes());
    const int members = std::clamp(prepared.members(check_.threads), 1, check_.threads);
    const LayerArgs args{inputs, outputs, scratch.begin()};
    // Twice: state left in a prepared layer must not change the second result.
    for (int repeat = 0; repeat < 2; ++repeat)
      pool_.run(members, [&](const Worker& worker) {
        const SingleThreadedOneDnn single;
        run_pieces(prepared, args, worker);
      });
    expect_outputs(tactic, context, outputs, bf16, name);
    if (members == 1 || prepared.meets(members)) return;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != nullptr)
        std::memset(outputs[i], 0xff,
                    static_cast<size_t>(storage_bytes(tactic.outputs[i].dtype, context.outputs[i],
                                                      tactic.outputs[i].format)));
    run_alone_in_team(prepared, args, members);
    expect_outputs(tactic, context, outputs, bf16, name + " by one of the team");
  }

  void expect_outputs(const Tactic& tactic, const ShapeContext& context, const std::vector<void*>& outputs,
                      bool bf16, const std::string& name) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == nullptr) continue;
      bf16 = bf16 || tactic.outputs[i].dtype == DType::BFloat16;
      const Tensor got = to_linear(tactic.outputs[i], wanted_[i].extents(), outputs[i]);
      const double error = relative_error(got, wanted_[i]);
      const double allowed = (bf16 ? check_.bf16_tolerance : check_.tolerance) * tactic.error_factor;
      if (!(error <= allowed))
        result_.failures.push_back(
            fmt::format("{}: output {} has relative error {:.3g}, {:.3g} allowed", name, i, error, allowed));
      check_padding(tactic.outputs[i], context.outputs[i], outputs[i], name);
    }
  }

  // Readers of blocked formats rely on zeros there.
  void check_padding(const TensorType& type, const Extents& extents, const void* stored,
                     const std::string& name) {
    if (type.format.kind != Format::Kind::ChannelBlocked || extents[1] % type.format.block == 0) return;
    Extents padded = extents;
    const int64_t block = type.format.block;
    padded[1] = (extents[1] + block - 1) / block * block;
    const std::vector<double> values = to_linear(type, padded, stored).to_doubles();
    const int64_t inner = element_count(padded) / padded[0] / padded[1];
    for (size_t i = 0; i < values.size(); ++i)
      if (static_cast<int64_t>(i) / inner % padded[1] >= extents[1] && values[i] != 0) {
        result_.failures.push_back(name + ": the padding of the last channel block is not zero");
        return;
      }
  }

  const Graph& graph_;
  const NodeId node_;
  const TacticCheck check_;
  ThreadPool pool_;
  Machine machine_;
  std::mt19937 random_;
  SymbolValues symbols_;
  std::vector<Tensor> inputs_, wanted_;
  std::vector<HostBuffer> buffers_;
  TacticCheckResult result_;
};

}  // namespace

void run_alone_in_team(const PreparedLayer& layer, const LayerArgs& args, int members) {
  Worker worker{.index = members - 1, .count = members};
  for (int piece = 0; piece < members; ++piece)
    for (int i = 0; i < Worker::kPortions; ++i) {
      const bool own = piece == worker.index;
      worker.piece = piece;
      worker.portion = own ? i : Worker::kPortions - 1 - i;
      worker.follows = own && i > 0;
      layer.run(args, worker);
    }
}

TacticCheckResult check_tactics(const Graph& graph, NodeId node, const TacticCheck& check) {
  return Checker(graph, node, check).run();
}

TacticCheckResult expect_right(const Graph& graph, NodeId node, TacticCheck check) {
  TacticCheckResult all;
  for (const int threads : {1, 2, 3}) {
    check.threads = threads;
    TacticCheckResult result = check_tactics(graph, node, check);
    for (const std::string& failure : result.failures) ADD_FAILURE() << threads << " threads: " << failure;
    EXPECT_FALSE(result.ran.empty());
    std::move(result.ran.begin(), result.ran.end(), std::back_inserter(all.ran));
    std::move(result.refused.begin(), result.refused.end(), std::back_inserter(all.refused));
  }
  return all;
}

bool ran(const TacticCheckResult& result, std::string_view part) {
  return std::any_of(result.ran.begin(), result.ran.end(),
                     [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

}  // namespace lathe::cpu
