// SPDX-License-Identifier: Apache-2.0
//
// A changed step's kernels go right to the nodes of the executable. What is not of kernels alone is recorded
// by itself, 1 us a call, and its nodes' arguments are copied; only where that does not do is all recorded,
// and CUDA compares every node.
#include "backend/cuda/device/recorded_graph.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"

namespace lathe::cuda {
namespace {

OwnedGraph record_calls(const std::shared_ptr<const Driver>& driver, CUstream stream,
                        const std::function<void(CUstream)>& enqueue) {
  CUgraph graph = nullptr;
  // Thread-local: what other threads do meanwhile (allocate, load modules) is their business.
  driver->require(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "beginning to record a CUDA graph");
  try {
    enqueue(stream);
  } catch (...) {
    if (driver->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph != nullptr)
      driver->cuGraphDestroy(graph);
    throw;
  }
  driver->require(driver->cuStreamEndCapture(stream, &graph), "recording a CUDA graph");
  return {graph, [driver](CUgraph g) { driver->cuGraphDestroy(g); }};
}

std::vector<size_t> first_numbers(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

}  // namespace

RecordedGraph::RecordedGraph(const Device& device, CUstream stream,
                             const std::function<void(CUstream)>& enqueue)
    : RecordedGraph(device, record_calls(device.driver, stream, enqueue)) {}

RecordedGraph::RecordedGraph(const Device& device, const OwnedGraph& graph) : driver_(device.driver) {
  driver_->cuGraphGetNodes(graph.get(), nullptr, &nodes_);
  std::vector<CUgraphNode> all(nodes_);
  driver_->cuGraphGetNodes(graph.get(), all.data(), &nodes_);
  for (const CUgraphNode node : all) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    driver_->cuGraphNodeGetType(node, &type);
    conditional_nodes_ += type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? 1 : 0;
  }
  CUgraphExec executable = nullptr;
  driver_->require(driver_->cuGraphInstantiate(&executable, graph.get(), 0),
                   "making a CUDA graph executable");
  executable_ = {executable, [driver = driver_, context = device.context](CUgraphExec e) {
                   driver->cuCtxSetCurrent(context);
                   driver->cuGraphExecDestroy(e);
                 }};
}

void RecordedGraph::launch(CUstream stream) const {
  driver_->require(driver_->cuGraphLaunch(executable_.get(), stream), "launching a CUDA graph");
}

SteppedGraph::SteppedGraph(const Device& device, CUstream recorder, size_t steps, const Calls& calls)
    : driver_(device.driver),
      recording_(record(recorder, first_numbers(steps), calls)),
      graph_(device, recording_.graph) {
  if (graph_.conditional_nodes() > 0) throw_system_error("a graph with conditional nodes is not updated");
}

SteppedGraph::Recording SteppedGraph::record(CUstream recorder, std::span<const size_t> steps,
                                             const Calls& calls) const {
  Recording recording;
  std::vector<CUgraphNode> ends = {nullptr};  // the last node before the first step, and behind each
  recording.graph = record_calls(driver_, recorder, [&](CUstream stream) {
    for (const size_t step : steps) {
      calls.enqueue(step, stream);
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      const CUgraphNode* last = nullptr;
      const CUgraphEdgeData* edges = nullptr;
      size_t count = 0;
      driver_->require(
          driver_->cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &edges, &count),
          "asking what was recorded");
      recording.is_chain = recording.is_chain && count <= 1;
      ends.push_back(count == 0 ? nullptr : last[0]);
    }
  });
  recording.nodes.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    recording.is_chain = recording.is_chain && collect(ends[i + 1], ends[i], recording.nodes[i]);
  return recording;
}

bool SteppedGraph::collect(CUgraphNode end, CUgraphNode before, std::vector<CUgraphNode>& nodes) const {
  while (end != before) {
    nodes.push_back(end);
    std::array<CUgraphNode, 2> fronts = {};
    std::array<CUgraphEdgeData, 2> edges = {};
    size_t count = fronts.size();
    if (driver_->cuGraphNodeGetDependencies(end, fronts.data(), edges.data(), &count) != CUDA_SUCCESS ||
        count > 1)
      return false;
    if (count == 0 && before != nullptr) return false;
    end = fronts[0];
  }
  std::reverse(nodes.begin(), nodes.end());
  return true;
}

bool SteppedGraph::put_launches(size_t step, const Calls& calls) const {
  const std::vector<CUgraphNode>& nodes = recording_.nodes[step];
  size_t next = 0;
  bool fits = true;
  const bool is_all =
      calls.visit(step, [&](const GpuKernel& kernel, const LaunchShape& shape, void** parameters) {
        fits = fits && next < nodes.size() &&
               kernel.put_into(graph_.executable(), nodes[next], shape, parameters);
        ++next;
      });
  return is_all && fits && next == nodes.size();
}

bool SteppedGraph::put_recorded(std::span<const size_t> changed, const Recording& recording) const {
  if (!recording.is_chain) return false;
  for (size_t i = 0; i < changed.size(); ++i)
    if (recording_.nodes[changed[i]].size() != recording.nodes[i].size()) return false;
  for (size_t i = 0; i < changed.size(); ++i)
    for (size_t k = 0; k < recording.nodes[i].size(); ++k) {
      CUDA_KERNEL_NODE_PARAMS work{};
      if (driver_->cuGraphKernelNodeGetParams(recording.nodes[i][k], &work) != CUDA_SUCCESS ||
          driver_->cuGraphExecKernelNodeSetParams(graph_.executable(), recording_.nodes[changed[i]][k],
                                                  &work) != CUDA_SUCCESS)
        return false;  // a copy, or a kernel that differs in more
    }
  return true;
}

bool SteppedGraph::update(CUstream recorder, std::span<const size_t> changed, const Calls& calls) {
  if (recording_.is_chain) {
    std::vector<size_t> others;
    for (const size_t step : changed)
      if (!put_launches(step, calls)) others.push_back(step);
    if (others.empty() || put_recorded(others, record(recorder, others, calls))) return true;
  }
  const Recording whole = record(recorder, first_numbers(recording_.nodes.size()), calls);
  CUgraphExecUpdateResultInfo info{};
  return driver_->cuGraphExecUpdate(graph_.executable(), whole.graph.get(), &info) == CUDA_SUCCESS;
}

}  // namespace lathe::cuda
