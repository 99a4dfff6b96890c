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

}  // namespace lathe::cuda
