// SPDX-License-Identifier: Apache-2.0
//
// Runs of the bodies of If, Loop and Scan: what repeats and what is taken is the operator's definition
// (ops/control_flow.cpp); a body's nodes run one after another, and each is prepared once for each shape that
// it meets: the keys and values of a decoder grow with every iteration. How a node runs, and where values
// lie, is the backend's business.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/packing.h"
#include "backend/tactic.h"
#include "base/error.h"
#include "ops/interpreter.h"

namespace lathe {

class BodyRuns;

// What one execution knows of a body.
class BodyRun {
 public:
  explicit BodyRun(const Graph& graph) : graph_(graph) {}
  virtual ~BodyRun() = default;

  const Graph& graph() const { return graph_; }
  std::vector<Tensor> run(std::span<const Tensor> inputs, const SymbolValues& symbols);
  // From now on the milliseconds of this body's layers, each without those inside of it, are added here, in
  // the order of nested_layers(); empty: nobody asks.
  void add_times_to(std::span<double> ms);

 protected:
  virtual std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs,
                                       const SymbolValues& symbols) = 0;
  // The runs of the bodies of a node of this body.
  virtual std::unique_ptr<BodyRuns> make_nested(NodeId id) = 0;
  // What was evaluated is done when this returns.
  virtual void wait() const {}
  // A node that has bodies.
  std::vector<Tensor> run_nested(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);

 private:
  std::vector<Tensor> evaluate_timed(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);

  const Graph& graph_;
  std::map<NodeId, std::unique_ptr<BodyRuns>> nested_;
  std::span<double> times_ms_;
  std::map<NodeId, size_t> places_;  // in times_ms_, of each layer; its nested ones are behind it
};

// The runs of an operator's bodies.
class BodyRuns : public BodyRunner {
 public:
  explicit BodyRuns(std::vector<std::unique_ptr<BodyRun>> runs) : runs_(std::move(runs)) {}
  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                          const SymbolValues& symbols) const override;
  // The results of the operator where the device follows it by itself; nothing: the host does.
  virtual std::optional<std::vector<Tensor>> follow_on_device(const Op&, std::span<const Tensor>,
                                                              const SymbolValues&) const {
    return std::nullopt;
  }
  // As BodyRun has it, for all bodies.
  void add_times_to(std::span<double> ms) const;

 private:
  std::vector<std::unique_ptr<BodyRun>> runs_;
};

// What a node was prepared for: the last shapes of a loop that alternates, and not all those of one that
// grows.
template <typename Prepared>
class KeptShapes {
 public:
  // What `prepare` gave for the key (layer_symbols.h), now or some shapes ago.
  template <typename Prepare>
  const Prepared& get(const std::vector<int64_t>& key, const Prepare& prepare) {
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first == key; });
    if (found != kept_.end()) {
      std::rotate(kept_.begin(), found, found + 1);
      return kept_.front().second;
    }
    kept_.emplace(kept_.begin(), key, prepare());
    if (kept_.size() > kMost) kept_.pop_back();
    return kept_.front().second;
  }

 private:
  static constexpr size_t kMost = 4;
  std::vector<std::pair<std::vector<int64_t>, Prepared>> kept_;  // the last one used in front
};

// `Kernels` of each body of an operator. `chosen`: the tactics of their nodes; none: as an untimed build
// takes them.
template <typename Kernels, typename Device>
std::vector<Kernels> make_body_kernels(const Op& op, std::span<const std::vector<Tactic>> chosen,
                                       const SymbolRanges& ranges, const Device& device,
                                       const PackContext& pack) {
  const std::vector<Body> bodies = bodies_of(op);
  check(chosen.empty() || chosen.size() == bodies.size(), "tactics for each body expected");
  std::vector<Kernels> kernels;
  for (size_t i = 0; i < bodies.size(); ++i) {
    const std::span<const Tactic> tactics =
        chosen.empty() ? std::span<const Tactic>() : std::span<const Tactic>(chosen[i]);
    kernels.emplace_back(bodies[i], tactics, ranges, device,
                         PackContext{pack.blobs, pack.key + "/" + std::to_string(i)});
  }
  return kernels;
}

// A `Run` of each, with what they share.
template <typename Run, typename Kernels, typename Shared>
std::vector<std::unique_ptr<BodyRun>> make_body_runs(const std::vector<Kernels>& kernels, Shared& shared) {
  std::vector<std::unique_ptr<BodyRun>> runs;
  for (const Kernels& body : kernels) runs.push_back(std::make_unique<Run>(body, shared));
  return runs;
}

}  // namespace lathe
