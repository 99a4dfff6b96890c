// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/conditional_nodes.h"

#include <string>
#include <vector>

#include "backend/cuda/device/libraries.h"
#include "lathe_device_text/conditions.h"

namespace lathe::cuda {
namespace {

// A stream that records into a graph which exists.
class GraphRecorder {
 public:
  GraphRecorder(const Driver& driver, CUgraph graph) : driver_(driver) {
    driver.require(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
    const CUresult begun = driver.cuStreamBeginCaptureToGraph(stream_, graph, nullptr, nullptr, 0,
                                                              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (begun != CUDA_SUCCESS) driver.cuStreamDestroy(stream_);
    driver.require(begun, "beginning to record the graph of a conditional node");
    records_ = true;
  }
  ~GraphRecorder() {
    CUgraph ignored = nullptr;
    if (records_) driver_.cuStreamEndCapture(stream_, &ignored);
    driver_.cuStreamDestroy(stream_);
  }
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  CUstream stream() const { return stream_; }
  void end() {
    CUgraph graph = nullptr;
    records_ = false;
    driver_.require(driver_.cuStreamEndCapture(stream_, &graph), "recording the graph of a conditional node");
  }

 private:
  const Driver& driver_;
  CUstream stream_ = nullptr;
  bool records_ = false;
};

struct Recorded {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
};

Recorded recorded_on(const Driver& driver, CUstream stream) {
  Recorded r;
  driver.require(
      driver.cuStreamGetCaptureInfo(stream, &r.status, nullptr, &r.graph, &r.last, &r.edges, &r.count),
      "asking what was recorded");
  return r;
}

}  // namespace

bool is_recorded(const Device& device, CUstream stream) {
  return recorded_on(*device.driver, stream).status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

RelaxedRecording::RelaxedRecording(const Device& device) : driver_(device.driver) {
  driver_->require(driver_->cuThreadExchangeStreamCaptureMode(&mode_), "changing how a thread records");
}

RelaxedRecording::~RelaxedRecording() {
  driver_->cuThreadExchangeStreamCaptureMode(&mode_);
}

ConditionalNodes::ConditionalNodes(const Device& device, BlobStore& blobs) : device_(device) {
  const std::string source(device_text::conditions::kSetCondition);
  const auto kernel = device.kernels->linked(device, blobs, "set_condition", source);
  if (!device.is_present())
    support_ = Support::no("the GPU is only described");
  else if (kernel.empty())
    support_ = Support::no(device.libraries->nvrtc == nullptr
                               ? "a graph with conditional nodes needs a kernel that NVRTC compiles"
                               : "a graph with conditional nodes needs libcudadevrt.a beside NVRTC");
  else
    set_condition_ = GpuKernel(device, "set_condition", kernel);
}

ConditionalNodes::Condition ConditionalNodes::make_condition(CUstream recorder) const {
  const Driver& driver = *device_.driver;
  Condition condition{.graph = recorded_on(driver, recorder).graph};
  driver.require(
      driver.cuGraphConditionalHandleCreate(&condition.handle, condition.graph, device_.context, 0, 0),
      "making a condition of a CUDA graph");
  return condition;
}

void ConditionalNodes::set(const Condition& condition, const LoopNumbers& numbers, bool is_first,
                           CUstream recorder) const {
  CUgraphConditionalHandle handle = condition.handle;
  LoopNumbers addresses = numbers;
  void* parameters[] = {&handle, &addresses.go_on, &addresses.iteration, &addresses.trips, &is_first};
  set_condition_.launch({}, parameters, recorder);
}

void ConditionalNodes::add(CUstream recorder, const Condition& condition, CUgraphConditionalNodeType type,
                           std::span<const Record> bodies) const {
  const Driver& driver = *device_.driver;
  const Recorded before = recorded_on(driver, recorder);
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  node.conditional.handle = condition.handle;
  node.conditional.type = type;
  node.conditional.size = static_cast<unsigned>(bodies.size());
  node.conditional.ctx = device_.context;
  CUgraphNode added = nullptr;
  driver.require(
      driver.cuGraphAddNode(&added, condition.graph, before.last, before.edges, before.count, &node),
      "adding a conditional node to a CUDA graph");
  driver.require(driver.cuStreamUpdateCaptureDependencies(recorder, &added, nullptr, 1,
                                                          CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                 "going on behind a conditional node");
  for (size_t i = 0; i < bodies.size(); ++i) {
    GraphRecorder inside(driver, node.conditional.phGraph_out[i]);
    bodies[i](inside.stream());
    inside.end();
  }
}

void ConditionalNodes::add_if(CUstream recorder, const void* condition, const Record& then,
                              const Record& otherwise) const {
  const Condition chosen = make_condition(recorder);
  set(chosen, {.go_on = condition}, true, recorder);
  const Record branches[] = {then, otherwise};
  add(recorder, chosen, CU_GRAPH_COND_TYPE_IF, branches);
}

void ConditionalNodes::add_loop(CUstream recorder, const LoopNumbers& numbers, const Record& body) const {
  const Condition goes_on = make_condition(recorder);
  set(goes_on, numbers, true, recorder);
  const Record iteration = [&](CUstream inside) {
    body(inside);
    set(goes_on, numbers, false, inside);
  };
  add(recorder, goes_on, CU_GRAPH_COND_TYPE_WHILE, std::span(&iteration, 1));
}

}  // namespace lathe::cuda
