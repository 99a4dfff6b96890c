// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and buffers of the GPU behind the backend's interface. Small owners; all calls go to one
// device.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "backend/caller_streams.h"
#include "backend/cuda/device/gpu_kernel.h"
#include "backend/program.h"

namespace lathe::cuda {

class GpuStream final : public Stream, public NativeStream {
 public:
  explicit GpuStream(std::shared_ptr<const Device> device);
  // The caller's stream, which outlives this object.
  GpuStream(std::shared_ptr<const Device> device, CUstream callers)
      : device_(std::move(device)), handle_(callers), is_owner_(false) {}
  ~GpuStream() override;
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  void synchronize() override;
  void* native_handle() const override { return handle_; }
  CUstream handle() const { return handle_; }

 private:
  std::shared_ptr<const Device> device_;
  CUstream handle_ = nullptr;
  bool is_owner_ = true;
};

class GpuEvent final : public TimeEvent {
 public:
  // `sleeps`: waiting for it leaves the processor to others.
  explicit GpuEvent(std::shared_ptr<const Device> device, bool sleeps = false);
  ~GpuEvent() override;
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  void record(Stream& stream) override;
  void record(CUstream stream);
  void synchronize() override;
  double elapsed_ms(const TimeEvent& start) const override;
  CUevent handle() const { return handle_; }

 private:
  std::shared_ptr<const Device> device_;
  CUevent handle_ = nullptr;
};

class GpuBuffer final : public Buffer {
 public:
  GpuBuffer(const Device& device, size_t bytes)
      : memory_(device, std::max<size_t>(bytes, 1)), bytes_(bytes) {}
  void* data() override { return memory_.data(); }
  size_t bytes() const override { return bytes_; }

 private:
  DeviceMemory memory_;
  size_t bytes_ = 0;
};

// Host memory that the GPU reads and writes directly.
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(std::shared_ptr<const Device> device, size_t bytes);
  ~PinnedBuffer() override;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<const Device> device_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

inline CUstream handle_of(Stream& stream) {
  return static_cast<GpuStream&>(stream).handle();
}

}  // namespace lathe::cuda
