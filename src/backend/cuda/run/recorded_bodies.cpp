// SPDX-License-Identifier: Apache-2.0
//
// If and Loop in a CUDA graph. What the host knows while it records, a constant condition, a trip count that
// shapes say, it follows as ever, and the graph gets the kernels of each iteration. Where a value of the GPU
// decides, the body is recorded once, inside of a conditional node: what an If gives, and what a loop carries
// from one iteration to the next, then has a place of its own in memory, into which every branch and every
// iteration copies.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/run/body_kernels.h"
#include "backend/nested_layers.h"
#include "base/error.h"
#include "ops/control_flow.h"

namespace lathe::cuda {
namespace {

bool share_bytes(const Tensor& a, const Tensor& b) {
  const auto end = [](const Tensor& tensor) { return tensor.bytes().data() + tensor.bytes().size(); };
  return !a.bytes().empty() && !b.bytes().empty() && a.bytes().data() < end(b) && b.bytes().data() < end(a);
}

// What is enqueued goes to another stream for as long as this lives.
class OnStream {
 public:
  OnStream(DeviceValues& values, CUstream stream) : values_(values), outer_(values.stream()) {
    values_.use(stream, true);
  }
  ~OnStream() { values_.use(outer_, true); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  DeviceValues& values_;
  const CUstream outer_;
};

Tensor allocate_like(DeviceValues& values, const Tensor& tensor) {
  return values.allocate({tensor.dtype(), kLinear}, tensor.extents());
}

// Copies each into its place, though places may be what others are read from.
void copy_all(DeviceValues& values, std::vector<Tensor> from, const std::vector<Tensor>& places) {
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].dtype() != places[i].dtype() || from[i].extents() != places[i].extents())
      throw_input_error(fmt::format("a body gives {}, where {} was expected", to_string(from[i].extents()),
                                    to_string(places[i].extents())));
    const bool is_overwritten = std::any_of(places.begin(), places.end(), [&](const Tensor& place) {
      return &place != &places[i] && share_bytes(from[i], place);
    });
    if (!is_overwritten) continue;
    const Tensor saved = allocate_like(values, from[i]);
    values.copy(place_of(saved), from[i]);
    from[i] = saved;
  }
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].bytes().data() != places[i].bytes().data()) values.copy(place_of(places[i]), from[i]);
}

bool is_true(const Tensor& tensor) {
  return tensor.to_int64s()[0] != 0;
}

std::string why_not_recorded(const Graph& body, const SymbolValues& known) {
  const auto is_known = [&](const std::string& name) { return known.contains(name); };
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      for (const Dim& dim : body.value(output).shape) {
        const std::set<std::string> names = dim.symbols();
        if (!std::all_of(names.begin(), names.end(), is_known))
          return "the size of '" + body.value(output).name + "' is found while it runs";
      }
    }
    if (std::string reason = lathe::cuda::why_not_recorded(node.op, known); !reason.empty()) return reason;
  }
  return {};
}

}  // namespace

std::string why_not_recorded(const Op& op, const SymbolValues& known) {
  for (const Body& body : bodies_of(op))
    if (std::string reason = why_not_recorded(body.graph(), known); !reason.empty()) return reason;
  return {};
}

std::optional<std::vector<Tensor>> CudaBodyRuns::follow_on_device(const Op& op,
                                                                  std::span<const Tensor> inputs,
                                                                  const SymbolValues& symbols) const {
  if (!world_.values.is_recorded()) return std::nullopt;
  const auto is_on_host = [&](const Tensor& tensor) { return !world_.values.is_on_device(tensor); };
  // Others are an error, which the operator's evaluation tells.
  const auto is_single = [](const Tensor& tensor) { return !tensor || tensor.size() == 1; };
  if (const auto* branches = std::get_if<If>(&op)) {
    if (is_on_host(inputs[0]) || !is_single(inputs[0])) return std::nullopt;
    return record_if(*branches, inputs, symbols);
  }
  const auto* loop = std::get_if<Loop>(&op);
  if (loop == nullptr) return std::nullopt;
  const Graph& body = loop->body.graph();
  const bool has_trips = !inputs.empty() && inputs[0], has_condition = inputs.size() > 1 && inputs[1];
  for (size_t i = 0; i < std::min(inputs.size(), kLoopOwnInputs); ++i)
    if (!is_single(inputs[i])) return std::nullopt;
  if (has_condition && is_on_host(inputs[1]) && !is_true(inputs[1])) return std::nullopt;  // no iteration
  const bool is_counted = has_trips && is_on_host(inputs[0]) && (!has_condition || is_on_host(inputs[1])) &&
                          always_continues(body, true);
  const bool has_slices = body.outputs().size() > 1 + static_cast<size_t>(loop->carried);
  if (is_counted) {
    const auto layers = static_cast<int64_t>(std::max<size_t>(nested_count(op), 1));
    const int64_t trips = inputs[0].to_int64s()[0];
    if (has_slices || trips <= static_cast<int64_t>(kMostRecordedCalls) / layers) return std::nullopt;
  } else if (has_slices) {
    throw_input_error("the GPU finds how many iterations there are, and each gives a part of a result");
  }
  return record_loop(*loop, inputs, symbols);
}

std::vector<Tensor> CudaBodyRuns::record_if(const If& op, std::span<const Tensor> inputs,
                                            const SymbolValues& symbols) const {
  DeviceValues& values = world_.values;
  std::vector<Tensor> results;
  const auto branch = [&](const Body& body) {
    return [&, graph = &body.graph()](CUstream stream) {
      const OnStream here(values, stream);
      const std::vector<Tensor> given = run(*graph, inputs.subspan(1), symbols);
      for (size_t i = results.size(); i < given.size(); ++i)
        results.push_back(allocate_like(values, given[i]));
      copy_all(values, given, results);
    };
  };
  world_.conditions.add_if(values.stream(), inputs[0].bytes().data(), branch(op.then_branch),
                           branch(op.else_branch));
  return results;
}

std::vector<Tensor> CudaBodyRuns::record_loop(const Loop& op, std::span<const Tensor> inputs,
                                              const SymbolValues& symbols) const {
  DeviceValues& values = world_.values;
  const auto carried = static_cast<size_t>(op.carried);
  const Tensor true_scalar = Tensor::from_doubles(DType::Bool, {}, std::vector<double>{1});
  std::vector<Tensor> taken(inputs.begin(), inputs.end());
  taken.resize(std::max(taken.size(), kLoopOwnInputs));
  const Tensor trips = taken[0] ? values.on_device(taken[0]) : Tensor();
  // The condition, and all that is carried.
  std::vector<Tensor> kept = {values.allocate({DType::Bool, kLinear}, {})};
  values.copy(place_of(kept[0]), taken[1] ? taken[1].reshaped({}) : true_scalar);
  for (size_t i = 0; i < carried; ++i) {
    kept.push_back(allocate_like(values, taken[kLoopOwnInputs + i]));
    values.copy(place_of(kept.back()), taken[kLoopOwnInputs + i]);
  }
  taken[0] = values.allocate({DType::Int64, kLinear}, {});
  taken[1] = true_scalar;
  std::copy(kept.begin() + 1, kept.end(), taken.begin() + kLoopOwnInputs);
  world_.conditions.add_loop(
      values.stream(),
      {.go_on = kept[0].bytes().data(), .iteration = place_of(taken[0]), .trips = trips.bytes().data()},
      [&](CUstream stream) {
        const OnStream here(values, stream);
        std::vector<Tensor> given = run(op.body.graph(), taken, symbols);
        given[0] = given[0].reshaped({});
        copy_all(values, given, kept);
      });
  return {kept.begin() + 1, kept.end()};
}

}  // namespace lathe::cuda
