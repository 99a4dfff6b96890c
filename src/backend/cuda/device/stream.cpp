// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/stream.h"

#include <utility>

#include "base/error.h"

namespace lathe::cuda {

GpuStream::GpuStream(std::shared_ptr<const Device> device) : device_(std::move(device)) {
  device_->make_current();
  device_->driver->require(device_->driver->cuStreamCreate(&handle_, CU_STREAM_NON_BLOCKING),
                           "making a stream");
}

GpuStream::~GpuStream() {
  if (!is_owner_) return;
  device_->driver->cuCtxSetCurrent(device_->context);
  device_->driver->cuStreamDestroy(handle_);
}

void GpuStream::synchronize() {
  device_->make_current();
  device_->driver->require(device_->driver->cuStreamSynchronize(handle_), "waiting for a stream");
}

GpuEvent::GpuEvent(std::shared_ptr<const Device> device, bool sleeps) : device_(std::move(device)) {
  device_->make_current();
  device_->driver->require(
      device_->driver->cuEventCreate(&handle_, sleeps ? CU_EVENT_BLOCKING_SYNC : CU_EVENT_DEFAULT),
      "making an event");
}

GpuEvent::~GpuEvent() {
  device_->driver->cuCtxSetCurrent(device_->context);
  device_->driver->cuEventDestroy(handle_);
}

void GpuEvent::record(Stream& stream) {
  record(handle_of(stream));
}

void GpuEvent::record(CUstream stream) {
  device_->make_current();
  device_->driver->require(device_->driver->cuEventRecord(handle_, stream), "recording an event");
}

void GpuEvent::synchronize() {
  device_->make_current();
  device_->driver->require(device_->driver->cuEventSynchronize(handle_), "waiting for an event");
}

double GpuEvent::elapsed_ms(const TimeEvent& start) const {
  float ms = 0;
  device_->make_current();
  device_->driver->require(
      device_->driver->cuEventElapsedTime(&ms, static_cast<const GpuEvent&>(start).handle_, handle_),
      "reading the time between two events");
  return static_cast<double>(ms);
}

PinnedBuffer::PinnedBuffer(std::shared_ptr<const Device> device, size_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  device_->make_current();
  device_->driver->require(
      device_->driver->cuMemHostAlloc(&data_, std::max<size_t>(bytes, 1), CU_MEMHOSTALLOC_PORTABLE),
      "allocating pinned host memory");
}

PinnedBuffer::~PinnedBuffer() {
  device_->driver->cuCtxSetCurrent(device_->context);
  device_->driver->cuMemFreeHost(data_);
}

namespace {

// The caller destroys the graph.
CUgraph record(const Driver& driver, CUstream stream, const std::function<void(CUstream)>& enqueue) {
  CUgraph graph = nullptr;
  // Thread-local: what other threads do meanwhile (allocate, load modules) is their business.
  driver.require(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "beginning to record a CUDA graph");
  try {
    enqueue(stream);
  } catch (...) {
    if (driver.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph != nullptr)
      driver.cuGraphDestroy(graph);
    throw;
  }
  driver.require(driver.cuStreamEndCapture(stream, &graph), "recording a CUDA graph");
  return graph;
}

}  // namespace

RecordedGraph::RecordedGraph(const Device& device, CUstream stream,
                             const std::function<void(CUstream)>& enqueue)
    : driver_(device.driver), context_(device.context) {
  const CUgraph graph = record(*driver_, stream, enqueue);
  driver_->cuGraphGetNodes(graph, nullptr, &nodes_);
  const CUresult result = driver_->cuGraphInstantiate(&graph_, graph, 0);
  driver_->cuGraphDestroy(graph);
  driver_->require(result, "making a CUDA graph executable");
}

bool RecordedGraph::update(CUstream stream, const std::function<void(CUstream)>& enqueue) {
  const CUgraph graph = record(*driver_, stream, enqueue);
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = driver_->cuGraphExecUpdate(graph_, graph, &info);
  driver_->cuGraphDestroy(graph);
  return result == CUDA_SUCCESS;
}

RecordedGraph::~RecordedGraph() {
  if (graph_ == nullptr) return;
  driver_->cuCtxSetCurrent(context_);
  driver_->cuGraphExecDestroy(graph_);
}

RecordedGraph::RecordedGraph(RecordedGraph&& other) noexcept {
  *this = std::move(other);
}

RecordedGraph& RecordedGraph::operator=(RecordedGraph&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(context_, other.context_);
  std::swap(graph_, other.graph_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

void RecordedGraph::launch(CUstream stream) const {
  driver_->require(driver_->cuGraphLaunch(graph_, stream), "launching a CUDA graph");
}

}  // namespace lathe::cuda
